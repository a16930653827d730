"""Derive names, references and metadata of composites as Crossplane core 2.4.0 does.

Sources: `internal/names/names.go`, `internal/controller/apiextensions/composite/` and
`internal/render/composite/render.go` of crossplane v2.4.0; checked against the real engine by
`tests/render`.
"""

import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from function.kube import access, naming

Document = dict[str, Any]

KEY_ANNOTATION = "crossplane.io/composition-resource-name"
_CLAIM_LABELS = ("crossplane.io/claim-name", "crossplane.io/claim-namespace")

_NIL = uuid.UUID(int=0)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_RBAC_KINDS = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")


class DeriveError(Exception):
    """Core would fail the reconcile with this message."""


def uid(api_version: str, kind: str, namespace: str, name: str) -> str:
    """Return the uid that core gives to a composite without one when it renders."""
    group_version = api_version if "/" in api_version else f"/{api_version}"
    return str(uuid.uuid5(_NIL, f"{group_version}, Kind={kind}\0{namespace}\0{name}"))


def valid_name(name: str, api_version: str, kind: str) -> bool:
    """Return whether core would apply a composed resource of this name."""
    if kind in _RBAC_KINDS and api_version.startswith("rbac.authorization.k8s.io/"):
        name = name.replace(":", "")
    return len(name) <= 253 and _SUBDOMAIN.fullmatch(name) is not None


def controller(document: Mapping[str, Any]) -> Document | None:
    """Return the ownerReference that controls a document, if any."""
    owners = access.objects(document, "metadata", "ownerReferences")
    return next((owner for owner in owners if owner.get("controller")), None)


def add_metadata(composed: Document, xr: Document, key: str) -> None:
    """Set a composed resource's namespace, key, labels, controller and name, in place."""
    metadata = composed.setdefault("metadata", {})
    owner = xr["metadata"]
    labels = owner.get("labels") or {}
    prefix = labels.get(naming.COMPOSITE_LABEL, "")
    if not prefix:
        raise DeriveError(
            f"cannot render metadata for composed resource {quote(key)}: cannot find top-level"
            f" composite resource name label {quote(naming.COMPOSITE_LABEL)} in composite resource"
            " metadata"
        )
    if not metadata.get("name") and not metadata.get("generateName"):
        metadata["generateName"] = prefix + "-"
    if owner.get("namespace"):
        metadata["namespace"] = owner["namespace"]
    metadata["annotations"] = (metadata.get("annotations") or {}) | {KEY_ANNOTATION: key}
    derived = {naming.COMPOSITE_LABEL: prefix}
    if all(labels.get(name) for name in _CLAIM_LABELS):
        derived |= {name: labels[name] for name in _CLAIM_LABELS}
    metadata["labels"] = (metadata.get("labels") or {}) | derived
    _own(composed, xr, key)
    if not metadata.get("name"):
        metadata["name"] = naming.composed(metadata["generateName"], owner.get("uid", ""), key)
    api_version, kind = composed.get("apiVersion", ""), composed.get("kind", "")
    if not valid_name(metadata["name"], api_version, kind):
        raise DeriveError(
            f"cannot apply composed resource {quote(key)} because it has an invalid name"
            f" {quote(metadata['name'])}. Must be a valid RFC 1123 subdomain name."
        )


def _own(composed: Document, xr: Document, key: str) -> None:
    metadata = composed["metadata"]
    reference = {
        "apiVersion": xr["apiVersion"],
        "blockOwnerDeletion": True,
        "controller": True,
        "kind": xr["kind"],
        "name": xr["metadata"]["name"],
        "uid": xr["metadata"].get("uid", ""),
    }
    owners = list(metadata.get("ownerReferences") or ())
    other = controller(composed)
    if other is not None and other.get("uid") != reference["uid"]:
        raise DeriveError(
            f"cannot render metadata for composed resource {quote(key)}: cannot set controller"
            f" reference: {metadata.get('name', '')} is already controlled by {other.get('kind')}"
            f" {other.get('name')} (UID {other.get('uid')})"
        )
    place = next((i for i, o in enumerate(owners) if o.get("uid") == reference["uid"]), None)
    if place is None:
        owners.append(reference)
    else:
        owners[place] = reference
    metadata["ownerReferences"] = owners


def resource_refs(composed: Iterable[Document], *, namespaced: bool) -> list[Document]:
    """Return `spec.crossplane.resourceRefs` in core's order."""
    refs = []
    for document in composed:
        metadata = document.get("metadata") or {}
        ref = {
            "apiVersion": document.get("apiVersion", ""),
            "kind": document.get("kind", ""),
            "name": metadata.get("name", ""),
            "namespace": "" if namespaced else metadata.get("namespace", ""),
            "uid": metadata.get("uid", ""),
        }
        refs.append({name: value for name, value in ref.items() if value})
    fields = ("apiVersion", "kind", "name", "namespace")
    return sorted(refs, key=lambda ref: "".join(ref.get(field, "") for field in fields))


def first_and_more(names: Iterable[str], limit: int = 3) -> str:
    """Shorten a list of names as core's condition messages do."""
    ordered = sorted(names)
    if len(ordered) > limit:
        return f"{', '.join(ordered[:limit])}, and {len(ordered) - limit} more"
    if len(ordered) == limit:
        return f"{', '.join(ordered[:-1])}, and {ordered[-1]}"
    return ", ".join(ordered)


def quote(text: str) -> str:
    """Quote a text as Go's %q does, for messages."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\t", "\\t") + '"'

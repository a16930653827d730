"""Usages: who uses a tier. Marker and deletion protection in one, composed by each consumer.

Source: Crossplane 2.3 `protection.crossplane.io/v1beta1`: `of` may stand in another namespace when
`by` is set, `by` stands in the Usage's own; deleting `by` deletes the Usage.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from function import names
from function.edge.answer import Requirement
from function.edge.request import Call
from function.kube import naming

# The listing of consumers stays bounded (the XRD's own limit); `consumers` is exact.
MAX_USED_BY = 256

_KEY = "usage-tier-"


@dataclass(frozen=True, order=True)
class Share:
    """What one engine of a consumer may share: blocks of `model` under a cache `identity`.

    `model`: the string behind the model argument. `identity`: the digest, or "" when unknown.
    `wired`: false while the consumer waits to be wired.
    """

    model: str
    identity: str
    wired: bool = True


def usages_of(label: str, namespace: str, name: str, model: str | None = None) -> Requirement:
    """The Usages, in every namespace, that mark this tier (or fleet) as used.

    `model`: only those of this model string. A consumer asks for no others: whoever serves another
    model cannot get in its way, and a tier may have thousands of consumers.
    """
    labels = {label: names.reference(namespace, name)}
    if model is not None:
        labels[names.LABEL_USED_MODEL] = model_label(model)
    return Requirement(api_version=names.USAGE_API_VERSION, kind="Usage", labels=labels)


def model_label(model: str) -> str:
    """A model string as a label value."""
    return naming.digest(model, length=16)


def compose(
    composite: dict[str, Any], tier: tuple[str, str], fleet: str, shares: Iterable[Share]
) -> dict[str, dict[str, Any]]:
    """The Usages by which a consumer marks `tier` (namespace, name): one per model string, by key.

    A cluster-scoped consumer cannot be named by a namespaced Usage: its Usage stands beside the
    tier, without `by`, and names the consumer in its reason.
    """
    by_model: dict[str, set[Share]] = {}
    for share in shares:
        by_model.setdefault(share.model, set()).add(share)
    return {
        f"{_KEY}{naming.digest(*tier, model)}": _usage(composite, tier, fleet, model, sorted(found))
        for model, found in sorted(by_model.items())
    }


def _usage(
    composite: dict[str, Any], tier: tuple[str, str], fleet: str, model: str, found: list[Share]
) -> dict[str, Any]:
    metadata = composite.get("metadata", {})
    namespace, name = tier
    kind, consumer = composite.get("kind", ""), metadata.get("name", "")
    labels = {
        names.LABEL_USED_TIER: names.reference(namespace, name),
        names.LABEL_USED_MODEL: model_label(model),
        names.LABEL_USED_IDENTITY: found[0].identity or "unknown",
    }
    if fleet:
        labels[names.LABEL_USED_FLEET] = names.reference(namespace, fleet)
    rows = [[share.model, share.identity, share.wired] for share in found]
    usage: dict[str, Any] = {
        "apiVersion": names.USAGE_API_VERSION,
        "kind": "Usage",
        "metadata": {
            "labels": labels,
            "annotations": {
                names.ANNOTATION_TIER: f"{namespace}/{name}",
                names.ANNOTATION_SHARES: json.dumps(rows, separators=(",", ":")),
            },
        },
        "spec": {
            "of": {
                "apiVersion": names.API_VERSION,
                "kind": "KVOffloadTier",
                "resourceRef": {"name": name, "namespace": namespace},
            },
            "reason": f"{kind} {metadata.get('namespace', '')}/{consumer} offloads KV cache to it",
        },
    }
    if metadata.get("namespace"):
        usage["spec"]["by"] = {
            "apiVersion": composite.get("apiVersion", ""),
            "kind": kind,
            "resourceRef": {"name": consumer},
        }
    else:
        usage["metadata"]["namespace"] = namespace
        usage["spec"]["of"]["resourceRef"].pop("namespace")
    return usage


def observed(call: Call) -> dict[str, dict[str, Any]]:
    """The Usages that the consumer has composed before, as it would compose them again."""
    found = {}
    for key in call.observed_keys():
        if not key.startswith(_KEY):
            continue
        metadata = call.observed_value(key, "metadata") or {}
        kept: dict[str, Any] = {
            "labels": _ours(metadata.get("labels", {})),
            "annotations": _ours(metadata.get("annotations", {})),
        }
        if not call.composite_value("metadata", "namespace"):
            kept["namespace"] = metadata.get("namespace", "")
        found[key] = {
            "apiVersion": names.USAGE_API_VERSION,
            "kind": "Usage",
            "metadata": kept,
            "spec": call.observed_value(key, "spec"),
        }
    return found


def _ours(values: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in values.items() if key.startswith(f"{names.GROUP}/")}


def shares(usage: dict[str, Any]) -> list[Share]:
    """What the consumer behind a Usage shares; [] where the annotation cannot be read."""
    text = usage.get("metadata", {}).get("annotations", {}).get(names.ANNOTATION_SHARES, "[]")
    try:
        return [Share(str(row[0]), str(row[1]), bool(row[2])) for row in json.loads(text)]
    except (ValueError, TypeError, LookupError, RecursionError):
        return []


def user(usage: dict[str, Any]) -> dict[str, str]:
    """The consumer that a Usage speaks for, as `status.usedBy` lists it."""
    by = usage.get("spec", {}).get("by", {})
    return {
        "namespace": usage.get("metadata", {}).get("namespace", ""),
        "kind": by.get("kind", ""),
        "name": by.get("resourceRef", {}).get("name", ""),
    }


def used_by_status(usages: list[dict[str, Any]]) -> dict[str, Any]:
    """`status.usedBy` and `status.consumers`: who uses the tier, grouped by what they share."""
    entries, consumers = [], set()
    for usage in usages:
        who = {key: value for key, value in user(usage).items() if value}
        consumers.add(tuple(who.items()))
        digests = sorted({s.identity for s in shares(usage)} - {""})
        entries += [{**who, "identity": digest} for digest in digests] or [who]
    order = ("identity", "namespace", "kind", "name")
    entries.sort(key=lambda entry: [entry.get(key, "") for key in order])
    return {"usedBy": entries[:MAX_USED_BY], "consumers": str(len(consumers))}

"""Usages: who uses a tier. Marker and deletion protection in one, composed by each consumer.

Source: Crossplane 2.3 `protection.crossplane.io/v1beta1`: `of` may stand in another namespace when
`by` is set, `by` stands in the Usage's own; deleting `by` deletes the Usage.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from function.answer import Requirement
from function.composers import marks
from function.kube import names

# The listing of consumers stays bounded; `usedByCount` is exact.
MAX_USED_BY = 64


@dataclass(frozen=True, order=True)
class Share:
    """What one engine of a consumer may share: blocks of `model` under a cache `identity`.

    `model`: the string behind the model argument. `identity`: the digest, or "" when unknown.
    """

    model: str
    identity: str


def usages_of(label: str, namespace: str, name: str) -> Requirement:
    """All Usages, in every namespace, that mark this tier (or fleet) as used."""
    return Requirement(
        api_version=marks.USAGE_API_VERSION,
        kind="Usage",
        labels={label: marks.reference(namespace, name)},
    )


def compose(
    composite: dict[str, Any], tier: tuple[str, str], fleet: str, shares: Iterable[Share]
) -> tuple[str, dict[str, Any]]:
    """The Usage by which a consumer marks `tier` (namespace, name), with its resource key.

    A cluster-scoped consumer cannot be named by a namespaced Usage: its Usage stands beside the
    tier, without `by`, and names the consumer in its reason.
    """
    metadata = composite.get("metadata", {})
    namespace, name = tier
    kind, consumer = composite.get("kind", ""), metadata.get("name", "")
    labels = {marks.LABEL_USED_TIER: marks.reference(namespace, name)}
    if fleet:
        labels[marks.LABEL_USED_FLEET] = marks.reference(namespace, fleet)
    usage: dict[str, Any] = {
        "apiVersion": marks.USAGE_API_VERSION,
        "kind": "Usage",
        "metadata": {
            "labels": labels,
            "annotations": {
                marks.ANNOTATION_TIER: f"{namespace}/{name}",
                marks.ANNOTATION_SHARES: json.dumps(
                    sorted([s.model, s.identity] for s in set(shares)), separators=(",", ":")
                ),
            },
        },
        "spec": {
            "of": {
                "apiVersion": marks.TIER_API_VERSION,
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
    return f"usage-tier-{names.digest(namespace, name)}", usage


def shares(usage: dict[str, Any]) -> list[Share]:
    """What the consumer behind a Usage shares; [] where the annotation cannot be read."""
    text = usage.get("metadata", {}).get("annotations", {}).get(marks.ANNOTATION_SHARES, "[]")
    try:
        return [Share(str(model), str(identity)) for model, identity in json.loads(text)]
    except (ValueError, TypeError):
        return []


def user(usage: dict[str, Any]) -> dict[str, str]:
    """The consumer that a Usage speaks for, as `status.usedBy` lists it."""
    by = usage.get("spec", {}).get("by", {})
    return {
        "namespace": usage.get("metadata", {}).get("namespace", ""),
        "kind": by.get("kind", ""),
        "name": by.get("resourceRef", {}).get("name", ""),
    }


def used_by_entries(usages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """`status.usedBy`, grouped by what is shared: the consumers and their cache identities."""
    entries = [
        {**user(usage), "identities": sorted({s.identity or "unknown" for s in shares(usage)})}
        for usage in usages
    ]
    return sorted(entries, key=lambda e: (e["identities"], e["namespace"], e["kind"], e["name"]))

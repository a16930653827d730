"""Find tiers in files that meet on one cluster and cannot both be there.

A fleet stands on the InferenceClusters that are given; without any, on those that a label selector
may match. A tier that needs another object is planned where that object is given too.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from function import names
from function.backends.node_claims import claims
from function.composers import overrides, tier_conflicts
from function.composers.tier_plan import TierPlan
from function.kube import access
from kv_offload.render import fleet_plan
from kv_offload.render.effects import Document
from kv_offload.render.planned import planned
from kv_offload.render.tiers import key_of, wrong_identity

# Where a fleet stands while no InferenceCluster is given.
_UNKNOWN = ""


@dataclass(frozen=True, order=True)
class Conflict:
    """What two tiers cannot both have. `first`, `second`: NAMESPACE/NAME, by name order."""

    first: str
    second: str
    message: str


@dataclass(frozen=True)
class _Placed:
    name: str
    document: Document
    claims: tier_conflicts.Claims


def conflicts(documents: Sequence[Document]) -> list[Conflict]:
    """Return what the tiers among these documents cannot both have, sorted."""
    tiers = [document for document in documents if document.get("kind") == "KVOffloadTier"]
    here: dict[str, list[_Placed]] = defaultdict(list)
    for tier in tiers:
        for cluster, placed in _placed(tier, documents):
            here[cluster].append(placed)
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for cluster, placed_ in here.items():
        for one, other in combinations(sorted(placed_, key=lambda each: each.name), 2):
            if one.name == other.name or (cluster == _UNKNOWN and not _may_meet(one, other)):
                continue
            for said in tier_conflicts.between(one.claims, other.claims):
                found[one.name, other.name, said].append(cluster)
    return sorted(
        Conflict(first, second, f"{said} {_where(clusters)}.")
        for (first, second, said), clusters in found.items()
    )


def _where(clusters: Sequence[str]) -> str:
    if _UNKNOWN in clusters:
        return "would meet where both selectors match; give the InferenceClusters to be sure"
    return f"meet on {', '.join(sorted(clusters))}"


def _placed(tier: Document, documents: Sequence[Document]) -> list[tuple[str, _Placed]]:
    """Return (cluster, tier) for each cluster of a valid tier, as far as that is known."""
    place, name = key_of(tier)
    if wrong_identity(tier) or not isinstance(tier.get("spec"), dict):
        return []
    title = f"{place}/{name}"
    cluster = access.text(tier, "spec", "inferenceClusterRef", "name")
    if cluster:
        where: dict[str, fleet_plan.Labels] = {cluster: {}}
    elif any(document.get("kind") == "InferenceCluster" for document in documents):
        there = {
            access.text(each, "spec", "inferenceClusterRef", "name")
            for each in documents
            if access.texts(each, "metadata", "labels").get(names.LABEL_FLEET) == name
            and access.text(each, "metadata", "namespace") == place
        }
        selected = fleet_plan.clusters(tier, documents)
        where = {name: labels for name, labels in selected.items() if name not in there}
    else:
        where = {_UNKNOWN: {}}
    found = []
    for on, labels in where.items():
        made = planned(tier, documents, overrides.matching(tier["spec"], labels))
        if isinstance(made, TierPlan):
            found.append((on, _Placed(title, tier, (made, claims(made.parts)))))
    return found


def _may_meet(one: _Placed, other: _Placed) -> bool:
    """Return whether one cluster can match the selectors of both fleets."""
    path = ("spec", "clusterSelector", "matchLabels")
    mine, theirs = access.texts(one.document, *path), access.texts(other.document, *path)
    return access.can_both_match(mine, theirs)

"""Find what two tiers of one cluster cannot both have: ports and directories of a node, an evictor.

What a tier claims is read from the manifests that it composes (`node_claims`), whatever its
backend.

A tier does not see its neighbours, so that this is no part of its condition Accepted: it would
require every tier by label, and each change of one would call them all. What sees them anyway says
so: the step on an InferenceCluster, and `kv-offload validate`, `plan` and `doctor`.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from function.backends.node_claims import NodeClaim, claims
from function.backends.registry import Registry
from function.composers import tier_plan
from function.composers.tier_plan import TierPlan
from function.edge.structs import encode
from function.kube import access
from function.kube.access import Json

# A tier with what it claims.
Claims = tuple[TierPlan, list[NodeClaim]]


def find(tiers: Sequence[TierPlan]) -> list[str]:
    """Return what the tiers of one cluster cannot both have, each with both names and fields."""
    if len(tiers) < 2:
        return []
    ordered = [(planned, claims(planned.parts)) for planned in sorted(tiers, key=_name)]
    return [said for one, other in combinations(ordered, 2) for said in between(one, other)]


def of_documents(tiers: Sequence[Json], backends: Registry) -> list[str]:
    """Return the conflicts of the tiers of one cluster; ignore one that is being deleted.

    One that is not valid says so itself; one that needs another tier claims nothing of its own that
    is known here. Fleets are passed over: their children are tiers too.
    """
    found: list[TierPlan] = []
    stay = [each for each in tiers if not access.text(each, "metadata", "deletionTimestamp")]
    for each in stay if len(stay) > 1 else ():
        spec = access.mapping(each, "spec")
        place, name = (access.text(each, "metadata", key) for key in ("namespace", "name"))
        identity = (place, name, spec, encode(spec), backends)
        drafted = tier_plan.draft(*identity)
        if isinstance(drafted, TierPlan) and not drafted.needs and not drafted.is_fleet:
            planned = tier_plan.plan(*identity)
            found += [planned] if isinstance(planned, TierPlan) else []
    return find(found)


def between(one: Claims, other: Claims) -> list[str]:
    """Return what two tiers cannot both have on one cluster; each is given with its claims."""
    said = {
        f"{mine.kind} {min(mine.value, their.value, key=len)}: {_named(one[0], mine)} and"
        f" {_named(other[0], their)}"
        for mine in one[1]
        for their in other[1]
        if mine.meets(their)
    }
    return sorted(said)


def _named(planned: TierPlan, claim: NodeClaim) -> str:
    path = _path(planned.tier.spec.dump(), claim.said) or "spec"
    return f"{_name(planned)} ({path})"


def _name(planned: TierPlan) -> str:
    return f"{planned.tier.namespace}/{planned.tier.name}"


def _path(value: Any, sought: str, path: str = "spec") -> str:
    """Return the path of the first field that says this, or names a directory above it."""
    if isinstance(value, Mapping):
        below = [(f"{path}.{key}", each) for key, each in value.items()]
    elif isinstance(value, list):
        below = [(f"{path}[{at}]", each) for at, each in enumerate(value)]
    else:
        is_directory = isinstance(value, str) and value.startswith("/") and len(value) > 1
        above = is_directory and f"{sought}/".startswith(f"{value.rstrip('/')}/")
        return path if above or str(value) == sought else ""
    return next(filter(None, (_path(each, sought, where) for where, each in below)), "")

"""Look up what a tier needs besides itself, such as another tier's store.

A KVOffloadTier is needed as a consumer names one: the tier of that name, or the child of a fleet
tier of that name, on the same cluster. It must be ready, by the spec that it has now, and it is
marked as used.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from function.api.base import present
from function.backends.registry import Registry
from function.composers import pinned, tier_names, tier_plan, usage
from function.composers.tier_plan import InvalidTier, TierPlan
from function.contract.backend import Need
from function.edge.answer import Requirement
from function.edge.request import Call
from function.edge.structs import encode
from function.kube import access
from function.problems import Problem

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Needed:
    """What a tier needs, as far as core has looked it up.

    `documents`: by the need's name. `unresolved`: what core has not looked up yet, for people.
    `problems`: what is not there. `waiting`: sentences on what is there and not ready.
    `requirements`: all of it, asked for on every call.
    """

    documents: Mapping[str, Document] = field(default_factory=dict)
    unresolved: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    waiting: tuple[str, ...] = ()
    requirements: Mapping[str, Requirement] = field(default_factory=dict)

    @classmethod
    def of(cls, call: Call, drafted: TierPlan, backends: Registry, prefix: str = "need") -> Self:
        """Look up what a tier's draft needs.

        `prefix`: of the requirements' names, so that several tiers' needs do not collide. A fleet
        tier needs nothing: its children do, each on its cluster.
        """
        documents: dict[str, Document] = {}
        requirements: dict[str, Requirement] = {}
        unresolved, problems, waiting = [], [], []
        for need in () if drafted.is_fleet else drafted.needs:
            asked = _requirements(f"{prefix}/{need.name}", need)
            requirements |= asked
            found = [call.required(name) for name in asked]
            if None in found:
                unresolved.append(_who(need))
                continue
            candidates = [document for each in found for document in each or ()]
            document, problem = _choose(need, candidates, drafted)
            if document is None:
                problems.append(Problem(need.path, problem))
                continue
            documents[need.name] = document
            if _is_tier(need) and (why := _unready(document, backends)):
                waiting.append(_waiting(document, why))
        return cls(documents, tuple(unresolved), tuple(problems), tuple(waiting), requirements)

    def usages(self, drafted: TierPlan) -> dict[str, dict[str, Any]]:
        """Return the Usages by which the tier marks the tiers that it needs, by resource key."""
        return {
            f"usage-needed-{need.name}": usage.of_needed(
                (drafted.tier.namespace, drafted.tier.name), self.documents[need.name]
            )
            for need in drafted.needs
            if _is_tier(need) and need.name in self.documents
        }


def _is_tier(need: Need) -> bool:
    return (need.api_version, need.kind) == tier_names.TIER


def _who(need: Need) -> str:
    return f"{need.kind} {need.namespace}/{need.object_name}"


def _requirements(key: str, need: Need) -> dict[str, Requirement]:
    where = (need.namespace, need.object_name)
    if _is_tier(need):
        return tier_names.requirements(key, f"{key}/children", *where)
    return {key: Requirement(need.api_version, need.kind, name=where[1], namespace=where[0])}


def _choose(
    need: Need, found: Sequence[Document], drafted: TierPlan
) -> tuple[Document | None, str]:
    """Return the document that a need means, or why there is none."""
    if not found:
        return None, f"there is no {_who(need)}; create it, or correct the name"
    if not _is_tier(need):
        return found[0], ""
    cluster = present(drafted.tier.spec.inference_cluster_ref).name
    places = {_cluster(tier): tier for tier in found}
    here = [tier for tier in found if _cluster(tier) == cluster]
    if len(here) > 1:
        several = ", ".join(sorted(access.text(tier, "metadata", "name") for tier in here))
        return None, f"{_who(need)} means several tiers on cluster {cluster}: {several}; rename one"
    if not here:
        others = ", ".join(sorted(filter(None, places))) or "no cluster yet"
        return None, (
            f"{_who(need)} is not on cluster {cluster}, where this tier is, but on {others}: KV"
            " blocks do not cross clusters; name a tier of that cluster"
        )
    return here[0], ""


def _cluster(tier: Document) -> str:
    return access.text(tier, "spec", "inferenceClusterRef", "name")


def _unready(tier: Document, backends: Registry) -> str:
    """Return why a tier cannot be used as its spec says, "" where it can."""
    if not tier_names.is_ready(tier):
        return tier_names.unready(tier)
    spec = access.mapping(tier, "spec")
    namespace, name = (access.text(tier, "metadata", key) for key in ("namespace", "name"))
    identity = (namespace, name, spec, encode(spec), backends)
    drafted = tier_plan.draft(*identity)
    if isinstance(drafted, InvalidTier) or drafted.needs:
        return ""  # whoever needs it says what is wrong with it; what it needs is not known here
    return pinned.unjudged(tier, tier_plan.plan(*identity))


def _waiting(tier: Document, why: str) -> str:
    place = "/".join(access.text(tier, "metadata", key) for key in ("namespace", "name"))
    return f"KVOffloadTier {place}, which it needs, is not ready: {why}"

"""Plan a tier from its name and spec: validated once, built once, and remembered.

A consumer's step needs the same plan as the tier's own, so it is a module of its own.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from function import names
from function.api.backends import field_name
from function.api.base import parse
from function.backends import monitoring, observer
from function.backends.registry import Registry
from function.composers import overrides
from function.contract import namespaces
from function.contract.backend import (
    AnyBackend,
    AnyTier,
    Description,
    ModelName,
    Need,
    Part,
    Tier,
)
from function.edge.memo import Cache, size_of
from function.edge.structs import encode
from function.kube import objects
from function.kube.access import Json
from function.problems import Problem


@dataclass(frozen=True)
class TierPlan:
    """A valid tier, its backend, and what it means: parts, facts, and what else it needs.

    `objects`: the parts as Objects by their cluster's ClusterProviderConfig; built once.
    """

    tier: AnyTier
    backend: AnyBackend
    needs: tuple[Need, ...] = ()
    objects: dict[str, dict[str, Json]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_fleet(self) -> bool:
        """Return whether the tier is stamped onto clusters: its children compose the parts."""
        return self.tier.spec.cluster_selector is not None

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Return what runs on the cluster; a consumer of the tier never asks for it."""
        if self.is_fleet:
            return ()
        own = observer.observed(self.tier, self.backend, self.backend.parts(self.tier))
        return tuple(monitoring.monitored(self.tier, self.backend, own))

    @cached_property
    def description(self) -> Description:
        """Return the facts of the tier's status."""
        return Description() if self.is_fleet else self.backend.describe(self.tier)

    def wrapped(self, provider_config: str) -> dict[str, Json]:
        """Return the parts as Objects for one cluster, by key."""
        if provider_config not in self.objects:
            self.objects.clear()  # a tier is on one cluster
            self.objects[provider_config] = {
                p.key: objects.wrap(
                    p.manifest, provider_config, ready=p.ready, watch=p.watch, keep=p.keep
                )
                for p in self.parts
            }
        return self.objects[provider_config]


@dataclass(frozen=True)
class InvalidTier:
    """A tier that is not valid: all of its problems, sorted."""

    problems: tuple[Problem, ...]


# A plan with its parts and documents takes some 100 KiB.
_LIMIT = 64 * 1024 * 1024
_drafts: Cache[tuple[Hashable, ...], TierPlan | InvalidTier] = Cache(_LIMIT)
_plans: Cache[tuple[Hashable, ...], TierPlan | InvalidTier] = Cache(_LIMIT)


def _size(planned: TierPlan | InvalidTier, *documents: bytes) -> int:
    """Return the bytes of a plan and its key, with room for the parts that come later."""
    return size_of(planned, _LIMIT) + 10 * sum(map(len, documents)) + 64 * 1024


def draft(
    namespace: str, name: str, spec: Mapping[str, Any], key: bytes, backends: Registry
) -> TierPlan | InvalidTier:
    """Return a tier as far as its own document says; its `needs` are named and not looked up.

    `key`: the spec's bytes, by which the answer is remembered.
    """
    memo = (id(backends), namespace, name, key)
    drafted = _drafts.get(memo)
    if drafted is None:
        drafted = _draft(namespace, name, spec, backends)
        _drafts.put(memo, drafted, _size(drafted, key))
    return drafted


def plan(
    namespace: str,
    name: str,
    spec: Mapping[str, Any],
    key: bytes,
    backends: Registry,
    needed: Mapping[str, Mapping[str, Any]] | None = None,
    quarantined: Mapping[ModelName, int] | None = None,
) -> TierPlan | InvalidTier:
    """Return the whole plan of a tier.

    `needed`: what its draft's `needs` name, by the need's name. `quarantined`: as the tier's status
    has it; it counts for its consumers alone.
    """
    others = encode(needed) if needed else b""
    memo = (id(backends), namespace, name, key, others, tuple((quarantined or {}).items()))
    planned = _plans.get(memo)
    if planned is None:
        drafted = draft(namespace, name, spec, key, backends)
        planned = drafted
        if not isinstance(drafted, InvalidTier):
            planned = _whole(drafted, needed or {}, quarantined or {})
        _plans.put(memo, planned, _size(planned, key, others))
    return planned


def _draft(
    namespace: str, name: str, document: Mapping[str, Any], backends: Registry
) -> TierPlan | InvalidTier:
    spec, problems = parse(backends.tier_spec, document, "spec")
    if spec is None:
        return InvalidTier(tuple(sorted(problems)))
    remote_name = names.remote_name(namespace, name)
    tier = Tier(name, namespace, remote_name, spec, spec.settings)
    backend = backends[spec.backend]
    planned = TierPlan(tier, backend, backend.needs(tier))
    problems = [*_of_overrides(planned, document)]
    if name == names.AUTO:
        message = "consumers write auto to have a tier chosen: give the tier another name"
        problems.append(Problem("metadata.name", message))
    return InvalidTier(tuple(sorted(problems))) if problems else planned


def problems_with(
    planned: TierPlan, document: Mapping[str, Any], positions: Sequence[int]
) -> list[Problem]:
    """Return what is wrong with a fleet's spec where these of its overrides apply."""
    tier = planned.tier
    merged = overrides.merged(type(tier.spec), document, positions)
    spec, problems = parse(type(tier.spec), merged, "spec")
    if spec is None:
        return problems
    return [*planned.backend.problems(replace(tier, spec=spec, settings=spec.settings))]


def _of_overrides(planned: TierPlan, document: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of a fleet's spec with each of its overrides alone."""
    rows = planned.tier.spec.cluster_overrides or ()
    if rows:
        yield from overrides.misplaced(document, field_name(planned.tier.spec.backend))
    for position in range(len(rows)):
        for problem in problems_with(planned, document, (position,)):
            below = problem.path.removeprefix("spec").removeprefix(".")
            where = f"{overrides.path(position)}.{below}" if below else overrides.path(position)
            yield replace(problem, path=where)


def _whole(
    drafted: TierPlan,
    needed: Mapping[str, Mapping[str, Any]],
    quarantined: Mapping[ModelName, int],
) -> TierPlan | InvalidTier:
    tier = replace(drafted.tier, needed=needed, quarantined=quarantined)
    backend = drafted.backend
    here = namespaces.problems(tier.spec.namespace, "spec.namespace")
    problems = [*backend.problems(tier), *here, *observer.problems(tier, backend)]
    return InvalidTier(tuple(sorted(problems))) if problems else replace(drafted, tier=tier)

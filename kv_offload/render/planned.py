"""Plan a tier from its document, for the commands: as the composer does, over given objects."""

from collections.abc import Sequence

from function.backends.registry import BACKENDS
from function.composers import overrides, tier_plan
from function.composers.fleet_rollout import stamped
from function.composers.tier_plan import TierPlan
from function.edge.structs import encode
from function.problems import Problem
from kv_offload.render.effects import Document
from kv_offload.render.files import InputError
from kv_offload.render.tiers import key_of, wrong_identity

# Stands for each cluster of a fleet.
CLUSTER = "any"


def named(document: Document, file: str) -> tuple[str, str]:
    """Return namespace and name of a tier. Raise InputError where the document is no tier's."""
    if wrong := wrong_identity(document):
        raise InputError(f"{file}: {'; '.join(wrong)}")
    if not isinstance(document.get("spec") or {}, dict):
        raise InputError(f"{file}: spec must be an object")
    return key_of(document)


def planned(
    document: Document, given: Sequence[Document], positions: Sequence[int] = ()
) -> TierPlan | tier_plan.InvalidTier:
    """Return the plan of a tier; for a fleet, of its child on a cluster with these overrides."""
    namespace, name = named(document, "")
    spec = dict(document.get("spec") or {})
    identity = (namespace, name, spec, encode(spec), BACKENDS)
    drafted = tier_plan.draft(*identity)
    if isinstance(drafted, tier_plan.InvalidTier):
        return drafted
    if drafted.is_fleet:
        spec = stamped(overrides.merged(type(drafted.tier.spec), spec, positions))
        spec["inferenceClusterRef"] = {"name": CLUSTER}
        identity = (namespace, name, spec, encode(spec), BACKENDS)
        drafted = tier_plan.draft(*identity)
        if isinstance(drafted, tier_plan.InvalidTier):
            return drafted
    there, missing = {}, []
    for need in drafted.needs:
        wanted = (need.api_version, need.kind, need.namespace, need.object_name)
        found = next((d for d in given if _identity(d) == wanted), None)
        if found is None:
            what = f"{need.kind} {need.namespace}/{need.object_name}"
            missing.append(Problem(need.path, f"{what} is missing: give its file with --required"))
        else:
            there[need.name] = found
    if missing:
        return tier_plan.InvalidTier(tuple(missing))
    return tier_plan.plan(*identity, there)


def _identity(document: Document) -> tuple[str, ...]:
    metadata = document.get("metadata") or {}
    return (
        document.get("apiVersion", ""),
        document.get("kind", ""),
        metadata.get("namespace") or "",
        metadata.get("name") or "",
    )

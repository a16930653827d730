"""Validate a KVOffloadTier before it is applied."""

from dataclasses import dataclass
from typing import Any

from function.backends.registry import BACKENDS
from function.composers import tier_plan
from function.composers.tier_plan import InvalidTier
from function.edge.structs import encode
from function.kube import access
from kv_offload.render.tiers import wrong_identity

Document = dict[str, Any]


@dataclass(frozen=True)
class Verdict:
    """The verdict on one tier.

    `name`: NAMESPACE/NAME. `lines`: the problems of an invalid tier, each with the path of its
    field; the warnings of a valid one.
    """

    name: str
    valid: bool
    lines: tuple[str, ...] = ()


def validate(document: Document) -> Verdict:
    """Return what the condition Accepted would say; what the tier needs is not looked up."""
    metadata = access.mapping(document, "metadata")
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    title = f"{namespace}/{name}"
    if wrong := wrong_identity(document):
        return Verdict(title, False, wrong)
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return Verdict(title, False, ("spec: must be an object",))
    drafted = tier_plan.draft(namespace, name, spec, encode(spec), BACKENDS)
    if isinstance(drafted, InvalidTier):
        return Verdict(title, False, tuple(str(problem) for problem in sorted(drafted.problems)))
    if drafted.needs:
        needed = ", ".join(f"{n.kind} {n.namespace}/{n.object_name}" for n in drafted.needs)
        return Verdict(title, True, (f"warning: not looked up: {needed}",))
    planned = tier_plan.plan(namespace, name, spec, encode(spec), BACKENDS)
    if isinstance(planned, InvalidTier):
        return Verdict(title, False, tuple(str(problem) for problem in sorted(planned.problems)))
    warnings = planned.backend.describe(planned.tier).warnings
    return Verdict(title, True, tuple(f"warning: {text}" for text in warnings))

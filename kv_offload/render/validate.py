"""What is wrong with a KVOffloadTier, before anybody applies it."""

from dataclasses import dataclass
from typing import Any

from function.backends.registry import BACKENDS
from function.composers import tier_plan
from function.composers.tier_plan import InvalidTier
from function.edge.structs import encode

Document = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """`name`: NAMESPACE/NAME. `lines`: the problems of a tier that is not valid, each with the path
    of its field; the warnings of one that is."""

    name: str
    valid: bool
    lines: tuple[str, ...] = ()


def validate(document: Document) -> Said:
    """What the condition Accepted of a tier would say; of what it needs beside it, nothing."""
    metadata = document.get("metadata") or {}
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    title = f"{namespace}/{name}"
    if not name or not namespace:
        return Said(title, False, ("metadata: name and namespace are needed",))
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return Said(title, False, ("spec: must be an object",))
    drafted = tier_plan.draft(namespace, name, spec, encode(spec), BACKENDS)
    if isinstance(drafted, InvalidTier):
        return Said(title, False, tuple(str(problem) for problem in sorted(drafted.problems)))
    if drafted.needs:
        needed = ", ".join(f"{n.kind} {n.namespace}/{n.object_name}" for n in drafted.needs)
        return Said(title, True, (f"warning: not looked up: {needed}",))
    planned = tier_plan.plan(namespace, name, spec, encode(spec), BACKENDS)
    if isinstance(planned, InvalidTier):
        return Said(title, False, tuple(str(problem) for problem in sorted(planned.problems)))
    warnings = planned.backend.describe(planned.tier).warnings
    return Said(title, True, tuple(f"warning: {text}" for text in warnings))

"""The closed list of reasons: why a consumer is or is not wired, and what to do.

The one table behind the `KVOffloadReady` condition, the metrics' `reason` label and the
documentation page `docs/reasons.md`, which is generated from it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """`name` is the condition's reason; `meaning`, `fix` and `example` are for people."""

    name: str
    meaning: str
    fix: str
    example: str = ""


_TABLE: tuple[Reason, ...] = ()

REASONS: dict[str, Reason] = {r.name: r for r in _TABLE}

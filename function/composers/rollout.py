"""Roll out a tier's new wiring, one consumer after the other.

A wired workload keeps its wiring until its pod template changes. Under `update: Rolling` the tier
hands out turns: each consumer reports its progress in its Usage, the tier lists in its
status who may move, and a consumer that finds itself there moves. Everything is read anew on each
call, so nothing is lost by a restart; a consumer that does not come up again keeps its place, and
the roll stops there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from function import names
from function.api.tier import WiringUpdate
from function.composers.agents import needed
from function.composers.usage import Consumer, user
from function.kube import access
from function.kube.access import Json

MAX_LISTED = 256  # the status' own limit


class Progress(StrEnum):
    """How far a consumer is with a tier's wiring, in the order in which it counts for many."""

    CURRENT = "Current"
    BEHIND = "Behind"
    MOVING = "Moving"  # its pods are being replaced


@dataclass(frozen=True)
class Rollout:
    """`turns`: who may move now. All are consumers as `reference` writes them, sorted."""

    behind: tuple[str, ...] = ()
    moving: tuple[str, ...] = ()
    turns: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        return not (self.behind or self.moving)

    def status(self) -> Json:
        """Return `status.wiring` of the tier."""
        return {
            "behind": len(self.behind),
            "moving": list(self.moving[:MAX_LISTED]),
            "turns": list(self.turns),
        }


def reference(who: Consumer) -> str:
    """Return a consumer as the status lists it: kind/namespace/name, or kind/name."""
    return "/".join(part for part in (who.kind, who.namespace, who.name) if part)


def worst(found: set[Progress]) -> Progress:
    """Return the progress of a consumer with several engines: moving, else behind, else current."""
    return max(found, key=list(Progress).index, default=Progress.CURRENT)


def of(usages: list[Json], wiring: WiringUpdate, *, ready: bool) -> Rollout:
    """Derive a tier's rollout from the progress that its consumers report.

    `usages`: those that it admits. `ready`: whether it can serve a consumer that moves.
    """
    found: dict[str, set[Progress]] = {}
    for usage in usages:
        text = access.texts(usage, "metadata", "annotations").get(names.ANNOTATION_PROGRESS, "")
        if text in set(Progress):
            found.setdefault(reference(user(usage)), set()).add(Progress(text))
    state = {name: worst(progress) for name, progress in sorted(found.items())}
    behind = tuple(name for name, it in state.items() if it is Progress.BEHIND)
    moving = tuple(name for name, it in state.items() if it is Progress.MOVING)
    most = max(1, needed(wiring.max_unavailable, len(state)))
    free = max(0, min(most, MAX_LISTED) - len(moving)) if ready else 0
    return Rollout(behind, moving, behind[:free])


def is_turn(tier: Mapping[str, Any], who: Consumer) -> bool:
    """Return whether a KVOffloadTier lets the consumer move now."""
    turns = access.mapping(tier, "status", "wiring").get("turns")
    return isinstance(turns, list) and reference(who) in turns

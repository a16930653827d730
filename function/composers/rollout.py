"""Roll out a tier's new wiring, one consumer after the other.

A wired workload keeps its wiring until its pod template changes. Under `update: Rolling` the tier
hands out turns: each consumer reports its progress in its Usage, the tier composes a Usage of
itself for each that may move, and a consumer that finds the one with its name moves. Everything is
read anew on each call, so nothing is lost by a restart; a consumer that does not come up again
keeps its turn, and the roll stops there.

Rejected: turns in the tier's status. Each change of it calls every consumer on core 2.4, so that a
roll of N consumers, and each edit of one of them, cost N calls more than once.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from function import names
from function.api.tier import WiringUpdate
from function.composers import quarantine, usage
from function.composers.agents import needed
from function.composers.usage import Consumer
from function.edge.request import Call
from function.kube import access, naming
from function.kube.access import Json
from function.problems import cut

# Consumers that move at the same time. Each costs the tier a Usage, and ten events of the hundred
# after which core's circuit breaker opens.
MAX_TURNS = 10
# After which the status names who has a turn, in seconds: most are up long before, and each change
# of the status calls every consumer on core 2.4.
LATE = 1800.0
MAX_WAITS_FOR = 512
# Of `status.wiring.remaining`. Each change calls every consumer on core 2.4: few steps, far apart.
_STEPS = (2, 10, 100, 1_000, 10_000)


class Progress(StrEnum):
    """How far a consumer is with a tier's wiring, in the order in which it counts for many."""

    CURRENT = "Current"
    BEHIND = "Behind"
    MOVING = "Moving"  # its pods are being replaced


@dataclass(frozen=True)
class Rollout:
    """`turns`: who may move, or moves in its turn. All as `reference` writes them, sorted.

    `moving`: also those whose own template has changed. `blocking`: who holds the others up.
    """

    behind: tuple[str, ...] = ()
    moving: tuple[str, ...] = ()
    turns: tuple[str, ...] = ()
    blocking: tuple[str, ...] = ()

    def status(self, before: object) -> Json:
        """Return `status.wiring` of the tier. `before`: what it says now."""
        shown = access.text(before, "remaining") if isinstance(before, Mapping) else ""
        found = {"remaining": step(len({*self.behind, *self.turns}), shown)}
        if self.blocking:
            found["waitsFor"] = cut(", ".join(self.blocking), MAX_WAITS_FOR)
        return found

    def resources(
        self, tier: tuple[str, str], generation: object, quarantines: int = 0
    ) -> dict[str, Json]:
        """Return the Usages of the tier that give the turns, by resource key.

        `quarantines`: in its status, all together.
        """
        of = _edition(generation, quarantines)
        return {
            _key(who): usage.of_turn(tier, of, turn_name(tier[1], who), who) for who in self.turns
        }


def reference(who: Consumer) -> str:
    """Return a consumer as the status lists it: kind/namespace/name, or kind/name."""
    return "/".join(part for part in (who.kind, who.namespace, who.name) if part)


def worst(found: set[Progress]) -> Progress:
    """Return the progress of a consumer with several engines: moving, else behind, else current."""
    return max(found, key=list(Progress).index, default=Progress.CURRENT)


def of(
    usages: list[Json],
    wiring: WiringUpdate,
    *,
    ready: bool,
    observed: Container[str] = (),
    late: Container[str] = (),
) -> Rollout:
    """Derive a tier's rollout from the progress that its consumers report.

    `usages`: those that it admits. `ready`: whether it can serve a consumer that moves. `observed`:
    the keys of what it composes, and `late`: of turns that are held for long. A turn that was given
    stays until the consumer has moved.
    """
    found: dict[str, set[Progress]] = {}
    for each in usages:
        if usage.is_left(each):
            continue
        text = access.texts(each, "metadata", "annotations").get(names.ANNOTATION_PROGRESS, "")
        if text in set(Progress):
            found.setdefault(reference(usage.user(each)), set()).add(Progress(text))
    state = {name: worst(progress) for name, progress in sorted(found.items())}
    behind = tuple(name for name, it in state.items() if it is Progress.BEHIND)
    moving = tuple(name for name, it in state.items() if it is Progress.MOVING)
    given = {name for name in (*behind, *moving) if _key(name) in observed}
    most = min(MAX_TURNS, max(1, needed(wiring.max_unavailable, len(state))))
    free = max(0, most - len({*moving, *given})) if ready else 0
    new = [name for name in behind if name not in given][:free]
    turns = tuple(sorted({*given, *new}))
    blocking = tuple(name for name in sorted(given) if ready and _key(name) in late)
    return Rollout(behind, moving, turns, blocking)


def is_late(call: Call, key: str) -> bool:
    """Return whether an observed resource is a turn that is held for longer than a move takes.

    A move gets on only while the tier is ready.
    """
    ready = call.composite_condition("Ready")
    if not key.startswith(usage.TURN_KEY) or ready.get("status") != "True":
        return False
    given = access.moment(call.observed_value(key, "metadata", "creationTimestamp"))
    since = access.moment(ready.get("lastTransitionTime"))
    return given is not None and since is not None and call.has_passed(max(given, since) + LATE)


def is_of(turn: Mapping[str, Any], tier: Json) -> bool:
    """Return whether a turn is of a tier as it is now, and not withdrawn.

    A consumer may still see the turn for an edit before, which it has used, while another one has
    the turn for this edit.
    """
    given = access.texts(turn, "metadata", "annotations").get(names.ANNOTATION_GENERATION)
    generation = access.mapping(tier, "metadata").get("generation")
    is_now = given == _edition(generation, sum(quarantine.numbers(tier).values()))
    return is_now and not access.text(turn, "metadata", "deletionTimestamp")


def _edition(generation: object, quarantines: int) -> str:
    """Return what turns are for, as the annotation has it; protobuf knows numbers as floats."""
    text = f"{generation:.0f}" if isinstance(generation, int | float) else ""
    return f"{text}.{quarantines}" if quarantines else text


def turn_name(tier: str, who: str) -> str:
    """Return the name of the Usage that gives a consumer its turn on `tier`."""
    return naming.label(tier, "turn", unique=(tier, who), limit=63)


def _key(who: str) -> str:
    return f"{usage.TURN_KEY}{naming.digest(who)}"


def step(number: int, before: str) -> str:
    """Return a number in steps: "0", "1", "2+", "10+", "100+" ...

    It rises as the number reaches a step, and falls below four fifths of it. `before`: what it was.
    """
    if number <= 1:
        return str(number)
    reached = max(each for each in _STEPS if each <= number)
    shown = next((each for each in _STEPS if before == f"{each}+"), 0)
    return f"{shown if reached < shown <= number * 5 / 4 else reached}+"

"""Decide which clusters of a fleet take an edit now: one first, then wave after wave.

Everything is read anew from the children on each call. A child that carries the fleet's present
spec has the edit, and keeps it; the others keep the spec that they have. So a restart loses
nothing, a newer edit begins with one cluster again, and a rollback touches only what was updated.

- A wave ends when each of its clusters works with the edit. One that fails halts everything.
- Clusters that are not ready come first: an edit may be what repairs them. One that was not ready
  while it ran what the others run does not halt, and proves nothing: the first wave needs one that
  works.
- A cluster that nobody sees takes the edit last: no answer can come from there.
- Overrides that do not fit together on one cluster halt the edit before it begins.
- While nothing carries another spec, nothing is protected: a new fleet is stamped at once.

Rejected: a revision history in objects of our own. The old spec is in the children that still have
it, and in the platform team's repository.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from function.api.tier import RolloutStrategy, Wave
from function.composers.agents import needed


class State(StrEnum):
    """How far a fleet's edit is; the reason of its condition."""

    DONE = "Done"
    PROGRESSING = "Progressing"
    PAUSED = "Paused"
    HALTED = "Halted"


@dataclass(frozen=True)
class FleetCluster:
    """A cluster of the fleet and its child.

    `exists`: the child is there and stays. `updated`: it carries the fleet's present spec. `done`:
    it works with it. `failed`: waiting alone will not make it work. `lost`: what is known of it is
    old. `excused`: no edit made it unready, see `excuses`. `unproven`: its spec changed while it
    worked, and it has not worked since. `revision`: it was stamped with last.
    `busy`: it starts, or takes an edit now. `untouched`: the edit changes nothing there (it is one
    of other clusters' overrides), so that it proves nothing; what an edit before changed there must
    work all the same. `refused`: its overrides do not fit together, so that it cannot have the
    edit. `misses`: its child refuses the spec that it carries, or has not been reconciled with it.
    """

    cluster: str
    labels: Mapping[str, str]
    exists: bool = False
    updated: bool = False
    done: bool = False
    ready: bool = False
    failed: bool = False
    lost: bool = False
    excused: bool = False
    unproven: bool = False
    revision: str = ""
    busy: bool = False
    untouched: bool = False
    refused: bool = False
    misses: bool = False

    @property
    def skipped(self) -> bool:
        """Return whether it has the edit, and nobody waits for it any more."""
        return self.updated and not self.done and self.excused and (self.failed or self.lost)

    @property
    def works(self) -> bool:
        return self.ready and not self.busy and not self.failed

    @property
    def settled(self) -> bool:
        """Return whether its wave can end."""
        return self.done or self.skipped


def stable(members: Sequence[FleetCluster]) -> str:
    """Return the revision that most ready children run that do not have the edit; of all, else."""
    old = [m for m in members if m.exists and not m.updated]
    found = Counter(m.revision for m in [m for m in old if m.ready] or old)
    return max(sorted(found), key=lambda revision: found[revision], default="")


def excuses(member: FleetCluster, stable_revision: str) -> bool:
    """Return whether a child that takes the edit now is excused if it does not work with it.

    It is new, or was not ready although it ran what the others run, and has not been since. One
    that an edit before this one has broken is not, nor one that starts after an edit was set back:
    a second bad edit would break the next cluster.
    """
    runs_stable = member.revision == stable_revision and not member.unproven
    was_unready = member.excused or runs_stable
    return not member.exists or (not member.ready and was_unready)


@dataclass(frozen=True)
class Decision:
    """`turns`: who takes the edit now. `newcomers`: whether clusters without a child take it too.

    `wave`: the number of the present one, of `waves`. `waiting`: the clusters that it waits for.
    `pending`: those that work without the edit, in the order in which they take it.
    """

    state: State
    wave: int
    waves: int
    turns: frozenset[str] = frozenset()
    newcomers: bool = True
    waiting: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()


# One cluster, then all.
DEFAULT = (Wave.model_construct(match_labels={}, clusters=1),)
_ALL = Wave.model_construct(match_labels={}, clusters="100%")


def decide(members: Sequence[FleetCluster], rollout: RolloutStrategy) -> Decision:
    """Return who takes the edit now; depends on the arguments alone."""
    everyone = len(members)
    old = [m for m in members if m.exists and not m.updated]
    # What takes an edit now is waited for, and what one before this broke must work with that.
    waits = [m for m in members if m.busy or m.failed or m.lost or m.unproven]
    held = {m.cluster for m in waits if m.misses or not m.skipped}
    if old or any(m.done for m in members):  # else it works nowhere
        members = [m for m in members if not m.untouched or m.cluster in held]
    # A new cluster holds nobody up: it may wait for the edit before it gets a child.
    there = [m for m in members if m.exists] if old else members
    assigned = _assign(there, _waves(there, rollout))
    count = len(assigned)
    unsettled = [m for m in members if m.updated and not m.settled]
    refused = [m for m in members if m.refused]
    if not old:
        proven = not members or any(m.done for m in members)  # else it works nowhere
        left = refused or [m for m in members if m.misses or not (m.settled and proven)]
        halted = refused or any(
            (m.unproven and (m.failed or m.lost)) or (m.misses and m.failed) for m in left
        )
        state = State.HALTED if halted else State.PROGRESSING if left else State.DONE
        return Decision(state, count, count, waiting=_names(left))
    proven = any(m.done for m in members)
    current = next(i for i, wave in enumerate(assigned) if not _is_complete(wave, proven))
    pending = tuple(
        m.cluster for wave in assigned for m in wave if m.exists and not m.updated if m.works
    )
    decided = partial(Decision, wave=current + 1, waves=count, pending=pending)
    failed = refused or [m for m in unsettled if m.failed or m.lost]
    if failed:
        return decided(State.HALTED, newcomers=False, waiting=_names(failed))
    if rollout.paused:
        return decided(State.PAUSED, newcomers=False, waiting=_names(unsettled))
    open_ = [m for m in assigned[current] if m.exists and not m.updated and (proven or not m.lost)]
    # A bad edit breaks no cluster more than the one before has broken: these prove it first.
    running = stable(there)
    hurt = [m for m in open_ if not (proven or m.works or m.lost or excuses(m, running))]
    # One of another wave has it, and has not answered: it was broken, or is back in the fleet.
    here = {m.cluster for m in assigned[current]}
    asked = not proven and any(m.cluster not in here for m in unsettled)
    open_ = [] if asked else hurt or open_
    # Those that take an edit already come first: else two clusters would be in movement.
    open_.sort(key=lambda m: not m.busy)
    here = {m.cluster for m in open_}
    elsewhere = [m for m in old if m.busy and m.cluster not in here]
    room = max(1, needed(rollout.max_unavailable, everyone)) - len(unsettled) - len(elsewhere)
    turns = frozenset(m.cluster for m in open_[: max(0, room)])
    waiting = _names([*unsettled, *elsewhere]) or tuple(sorted(turns))
    if waiting:
        newcomers = current > 0
        return decided(State.PROGRESSING, turns=turns, newcomers=newcomers, waiting=waiting)
    return decided(State.HALTED, newcomers=False, waiting=_names(assigned[current]))


def _waves(members: Sequence[FleetCluster], rollout: RolloutStrategy) -> list[Wave]:
    """Return the waves; where the first has no cluster, one goes first.

    Else a label that no cluster has, or none that the edit touches, would leave out the canary.
    """
    waves = [*(rollout.waves or DEFAULT), _ALL]
    return waves if _assign(members, waves[:1]) else [*DEFAULT, *waves]


def _assign(members: Sequence[FleetCluster], waves: Sequence[Wave]) -> list[list[FleetCluster]]:
    """Return the clusters of each wave that has any; each cluster is in the first that takes it.

    Those that have the edit come first, then what an edit has broken, then what is not ready, and
    what nobody sees last. A wave's number counts what earlier waves have taken of the clusters that
    match. Who is skipped goes with the first wave that matches, and fills no place; so does what an
    edit has broken, with the first of all: the next bad edit would break one more cluster.
    """
    running = stable(members)
    broken = {
        m.cluster
        for m in members
        if m.failed and not (m.updated or m.busy or m.lost)
        if m.revision != running or m.unproven
    }
    free = broken | {m.cluster for m in members if m.skipped}

    def order(m: FleetCluster) -> tuple[bool, bool, bool, bool, bool, bool, str]:
        works, is_usual = m.works, m.revision == running
        return not m.done, not m.updated, m.lost, works, m.ready, is_usual, m.cluster

    found: list[list[FleetCluster]] = []
    taken: set[str] = set()
    for wave in waves:
        matching = [m for m in members if wave.match_labels.items() <= m.labels.items()]
        room = needed(wave.clusters, len(matching))
        full = taken - free
        room -= sum(1 for m in matching if m.cluster in full)
        here = {m.cluster for m in matching} | (set() if found else broken)
        mine = []
        for member in sorted((m for m in members if m.cluster in here), key=order):
            if member.cluster in taken or (room <= 0 and member.cluster not in free):
                continue
            mine.append(member)
            room -= member.cluster not in free
        if mine:
            found.append(mine)
            taken |= {m.cluster for m in mine}
    return found


def _is_complete(wave: Sequence[FleetCluster], proven: bool) -> bool:
    """Return whether a wave's clusters have the edit; `proven`: it works somewhere."""
    return proven and all(m.settled for m in wave)


def _names(members: Sequence[FleetCluster]) -> tuple[str, ...]:
    return tuple(sorted(m.cluster for m in members))

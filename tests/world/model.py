"""Explore every order of acts in a small fleet: `python -m tests.world.model --depth 12`.

Three models, each explored breadth first over all its states, with the function's own code as the
rule by which it moves: there is no copy that could differ.

- waves: three clusters, three edits; `FleetRollout` decides what each child carries.
- turns: three consumers of a Rolling tier; `rollout.of` decides who may move.
- usages: three clusters that match or not, a consumer on each; the fleet decides which child goes.

What must hold is a function here with the name of the rule. A state that breaks one is printed with
the acts that lead to it.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from function import names
from function.api.tier import WiringUpdate
from function.backends.registry import BACKENDS
from function.composers import rollout as turns
from function.composers.fleet_rollout import PREFIX, FleetRollout
from function.composers.tier_plan import TierPlan, plan
from function.composers.waves import State as Phase
from function.edge.structs import encode
from tests.unit.composers import documents as d
from tests.unit.composers.test_waves import SELECTOR, VERDICTS
from tests.world import usages_model

CLUSTERS = "abc"
TAGS = ("v1", "v2", "v3")
# How a child is: what it answers, by its word in VERDICTS.
WORDS = ("works", "starts", "fails", "unseen")
BROKEN = ("fails", "unseen")


@dataclass(frozen=True, order=True)
class Child:
    """What one cluster's child carries and says.

    `unready`: it took its tag while not ready. `unproven`: the mark of the function. `hurt`: it
    worked when it took an edit, and has not since.
    """

    tag: str
    word: str = "works"
    unready: bool = False
    unproven: bool = False
    hurt: bool = False


@dataclass(frozen=True)
class Fleet:
    """One state: what people want, what the children are, and what of the past rules ask for.

    `was`: tag and state that the last call wrote. `risked`: clusters that worked when they took the
    present tag, while it worked nowhere. `proven`: it has worked somewhere since the edit.
    """

    tag: str
    children: tuple[Child, ...]
    paused: bool = False
    was: tuple[str, str] = ("", "")
    risked: frozenset[str] = frozenset()
    proven: bool = False


def _spec(tag: str, *, paused: bool, most: int) -> dict[str, Any]:
    rollout = {"maxUnavailable": most, "paused": paused}
    made = d.tier(**SELECTOR, image={"tag": tag, "version": "0.5.6"}, rollout=rollout)
    return {k: v for k, v in made["spec"].items() if v is not None}


@lru_cache
def _planned(tag: str, *, paused: bool, most: int) -> tuple[TierPlan, dict[str, Any]]:
    spec = _spec(tag, paused=paused, most=most)
    found = plan("platform", "chat", spec, encode(spec), BACKENDS)
    assert isinstance(found, TierPlan), found
    return found, spec


@lru_cache
def _revision(tag: str) -> str:
    planned, spec = _planned(tag, paused=False, most=1)
    return FleetRollout(Asked({}, {}), planned, spec, (), {}).revision  # type: ignore[arg-type]


@lru_cache
def _document(child: Child) -> dict[str, Any]:
    _, spec = _planned(child.tag, paused=False, most=1)
    kept = {k: v for k, v in spec.items() if k not in ("clusterSelector", "rollout")}
    revision = _revision(child.tag)
    marks = {names.ANNOTATION_UNREADY: revision} if child.unready else {}
    marks |= {names.ANNOTATION_UNPROVEN: "true"} if child.unproven else {}
    metadata = {"labels": {names.LABEL_REVISION: revision}, "annotations": marks, "generation": 1}
    status = {"observedGeneration": 1, "conditions": VERDICTS[child.word]}
    return {"metadata": metadata, "spec": kept, "status": status}


class Asked:
    """What of a call the rollout reads."""

    def __init__(self, children: dict[str, Any], before: dict[str, str]) -> None:
        self._children, self._before = children, before

    def observed(self, key: str) -> Any:
        return self._children.get(key)

    def composite_value(self, *_: str) -> Any:
        return self._before

    def has_passed(self, _: float) -> bool:
        return True


@lru_cache(maxsize=1 << 20)
def called(fleet: Fleet, most: int) -> Fleet:
    """Return the state after a call of the function, and after core has applied its answer."""
    planned, spec = _planned(fleet.tag, paused=fleet.paused, most=most)
    children = dict(zip(CLUSTERS, fleet.children, strict=True))
    tag, phase = fleet.was
    before = {"revision": _revision(tag), "state": phase} if tag else {}
    shown = {PREFIX + cluster: _document(child) for cluster, child in children.items()}
    labels = {cluster: {} for cluster in CLUSTERS}
    asked: Any = Asked(shown, before)
    rolls = FleetRollout(asked, planned, spec, tuple(CLUSTERS), labels)
    tags = {_revision(tag): tag for tag in TAGS}
    proven = fleet.proven or any(m.done for m in rolls.members)
    after, risked = [], set(fleet.risked)
    for cluster, child in children.items():
        stamp = rolls.stamp(cluster)
        assert stamp is not None, f"{cluster} is dropped"
        carried = tags[stamp.revision]
        assert carried in (child.tag, fleet.tag), f"{cluster} gets {carried}"
        moves = carried != child.tag
        if moves:
            assert not fleet.paused, f"{cluster} takes an edit that is paused"
            if child.word == "works" and not proven:
                risked.add(cluster)
                hurt = [c for c in fleet.children if c.hurt and c.word in ("starts", "fails")]
                assert not hurt, "an edit puts a second cluster at risk"
        word = "starts" if moves else child.word
        hurts = child.hurt or (moves and child.word == "works")
        after.append(Child(carried, word, bool(stamp.unready), stamp.unproven, hurts))
    state = rolls.decision.state
    if state is Phase.DONE:
        assert all(c.tag == fleet.tag for c in after), "Done, and one does not have the edit"
    if any(c.tag != was.tag for c, was in zip(after, fleet.children, strict=True)):
        took = [c for c in fleet.children if c.tag == fleet.tag and not c.unready]
        assert all(c.word not in BROKEN for c in took), "one broke, and the edit went on"
    return replace(
        fleet,
        children=tuple(after),
        was=(fleet.tag, str(state)),
        risked=frozenset(risked),
        proven=proven,
    )


# What must hold ---------------------------------------------------------------------------------


def one_cluster_proves_an_edit(fleet: Fleet, most: int) -> bool:
    """An edit that works nowhere reaches one cluster that worked, whatever is done meanwhile."""
    return len(fleet.risked) <= 1


def no_more_than_may(fleet: Fleet, most: int) -> bool:
    """Clusters that start with the edit, and were not down before it."""
    moving = [c for c in fleet.children if c.tag == fleet.tag and c.word == "starts"]
    return len([c for c in moving if not c.unready]) <= max(most, 1) or fleet.was[1] == Phase.DONE


def it_ends_when_all_work(fleet: Fleet, most: int) -> bool:
    """From every state: once all that starts or fails works again, the edit reaches all."""
    here = replace(fleet, paused=False)
    for _ in range(12):
        works = tuple(replace(child, word="works", hurt=False) for child in here.children)
        after = called(replace(here, children=works), most)
        if after == here and after.was == (here.tag, str(Phase.DONE)):
            return all(child.tag == here.tag for child in here.children)
        here = after
    return False


RULES: tuple[Callable[[Fleet, int], bool], ...] = (
    one_cluster_proves_an_edit,
    no_more_than_may,
    it_ends_when_all_work,
)


def acts(fleet: Fleet, most: int) -> Iterator[tuple[str, Fleet]]:
    """Yield everything that can happen next."""
    yield "call", called(fleet, most)
    for tag in TAGS:
        if tag != fleet.tag:
            kept = replace(fleet, tag=tag, risked=frozenset(), proven=False)
            yield f"edit {tag}", kept
    yield "pause" if not fleet.paused else "resume", replace(fleet, paused=not fleet.paused)
    for index, child in enumerate(fleet.children):
        for word in WORDS:
            if word not in (child.word, "starts"):
                rest = list(fleet.children)
                rest[index] = replace(child, word=word, hurt=child.hurt and word != "works")
                yield f"{CLUSTERS[index]} {word}", replace(fleet, children=tuple(rest))


# Turns --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Consumers:
    """Three consumers of a tier: how each is (`Progress`), and who has a turn.

    `ready`: the tier can serve one that moves.
    """

    progress: tuple[str, ...] = ("Current",) * 3
    given: frozenset[str] = frozenset()
    ready: bool = True


def _usage(name: str, progress: str) -> dict[str, Any]:
    who = json.dumps({"namespace": "team-a", "kind": "ModelReplica", "name": name})
    marks = {names.ANNOTATION_PROGRESS: progress, names.ANNOTATION_CONSUMER: who}
    return {"metadata": {"namespace": "team-a", "annotations": marks}, "spec": {}}


def handed_out(state: Consumers, most: int) -> Consumers:
    """Return the state after a call of the tier."""
    usages = [_usage(f"c{n}", progress) for n, progress in enumerate(state.progress)]
    wiring = WiringUpdate.model_construct(update="Rolling", max_unavailable=most)
    found = turns.of(usages, wiring, ready=state.ready, observed=state.given)
    new = frozenset(found.resources(("home", "chat"), 0))
    assert state.ready or new <= state.given, "a turn of a tier that is not ready"
    moving = {n for n, p in enumerate(state.progress) if p == "Moving"}
    assert len(new) <= max(most, len(state.given), len(moving)), "more turns than may move"
    return replace(state, given=new)


def consumer_acts(state: Consumers, most: int) -> Iterator[tuple[str, Consumers]]:
    """Yield everything that can happen next to a tier's consumers."""
    yield "call", handed_out(state, most)
    yield "not ready" if state.ready else "ready", replace(state, ready=not state.ready)
    behind = tuple("Behind" if p == "Current" else p for p in state.progress)
    yield "edit", replace(state, progress=behind)
    for n, progress in enumerate(state.progress):
        key = _turn_of(n)
        moved = list(state.progress)
        if progress == "Behind" and key in state.given:
            moved[n] = "Moving"
            yield f"c{n} moves", replace(state, progress=tuple(moved))
        elif progress == "Moving":
            moved[n] = "Current"
            yield f"c{n} is up", replace(state, progress=tuple(moved))


@lru_cache
def _turn_of(number: int) -> str:
    wiring = WiringUpdate.model_construct(update="Rolling", max_unavailable=1)
    (key,) = turns.of([_usage(f"c{number}", "Behind")], wiring, ready=True).resources(
        ("home", "chat"), 0
    )
    return key


def no_more_move_than_may(state: Consumers, most: int) -> bool:
    """Consumers that move are as many as may."""
    return sum(1 for p in state.progress if p == "Moving") <= most


def all_move_in_the_end(state: Consumers, most: int) -> bool:
    """From every state: once the tier is ready and what moves comes up, all are current."""
    here = replace(state, ready=True)
    for _ in range(12):
        up = ["Current" if p == "Moving" else p for p in here.progress]
        here = handed_out(replace(here, progress=tuple(up)), most)
        going = [
            "Moving" if p == "Behind" and _turn_of(n) in here.given else p
            for n, p in enumerate(here.progress)
        ]
        here = replace(here, progress=tuple(going))
    return here == Consumers()


CONSUMER_RULES: tuple[Callable[[Consumers, int], bool], ...] = (
    no_more_move_than_may,
    all_move_in_the_end,
)


# Exploring ----------------------------------------------------------------------------------------


class Broken(AssertionError):
    """A state that breaks a rule, with the acts that lead to it."""


def explore(begin: Any, next_: Any, rules: Any, most: int, depth: int) -> tuple[int, int]:
    """Return (states, depth reached): all states that `depth` acts can reach are checked."""
    came: dict[Any, tuple[Any, str] | None] = {begin: None}
    frontier, reached = [begin], 0

    def path(state: Any) -> str:
        words = []
        while (step := came[state]) is not None:
            state, word = step
            words.append(word)
        return ", ".join(reversed(words))

    while frontier and reached < depth:
        reached += 1
        found = []
        for state in frontier:
            try:
                for rule in rules:
                    assert rule(state, most), rule.__name__
                after = list(next_(state, most))
            except AssertionError as broken:
                raise Broken(f"{broken}: {path(state)}, call\n{state}") from broken
            for word, new in after:
                if new not in came:
                    came[new] = state, word
                    found.append(new)
        frontier = found
    return len(came), reached


def fleet_at_rest() -> Fleet:
    """Return a fleet that runs v1 and is Done with it."""
    return Fleet("v1", (Child("v1"),) * len(CLUSTERS), was=("v1", str(Phase.DONE)), proven=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--depth", type=int, default=12)
    options = parser.parse_args()
    usages = ("usages", usages_model.Fleet(), usages_model.acts, usages_model.RULES)
    for most in (1, 2):
        for what, begin, next_, rules in (
            ("turns", Consumers(), consumer_acts, CONSUMER_RULES),
            *((usages,) if most == 1 else ()),
            ("waves", fleet_at_rest(), acts, RULES),
        ):
            began = time.monotonic()
            try:
                states, reached = explore(begin, next_, rules, most, options.depth)
            except Broken as broken:
                sys.exit(f"{what}, maxUnavailable {most}: {broken}")
            seconds = time.monotonic() - began
            figures = f"{states:,} states, depth {reached}, {seconds:.0f} s"
            print(f"{what}, maxUnavailable {most}: {figures}", flush=True)


if __name__ == "__main__":
    main()

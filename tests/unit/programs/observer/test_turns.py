"""The canary's turns: whom it asks, when it accuses, and what it costs, with modelled engines."""

import random
from dataclasses import replace
from typing import Any

import pytest

from programs.observer import turns
from programs.observer.canary import canary_prompt
from programs.observer.turns import CLEARED, LATELY, MOST_KEPT, Accused, Canary, Place
from tests.unit.programs.observer.modelled import Modelled, World, at_once, rough, usual

STEP = 15.0
EVERY = 1_800.0
GROUP = ("default", "llama")


class Run:
    """A canary in a world of modelled engines."""

    def __init__(self, world: World, every: float = EVERY) -> None:
        self.world, self.now, self.every = world, 1_000.0, every
        self.restart()

    def restart(self) -> None:
        self.canary = Canary(self.every, 1_024, "seed", self.world.ask)

    def hours(self, number: float) -> None:
        end = self.now + number * 3_600
        while self.now < end:
            self.step()

    def step(self) -> None:
        """One look, at once where nothing is to be done until then."""
        self.canary.step(self.now, self.world.targets(), {})
        self.now += STEP
        if self.canary._turn is None and self.canary.until is not None:
            self.now = max(self.now, self.canary.until)

    def until_accused(self, most: float) -> float:
        """Hours until an engine is accused, `most` without that."""
        begun = self.now
        while not self.canary.accused and self.now - begun < most * 3_600:
            self.step()
        return (self.now - begun) / 3_600


@pytest.fixture(autouse=True)
def without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_in_thread", at_once)


def run(number: int, *, noise: Any = usual, seed: int = 25, **more: Any) -> Run:
    world = World(number, seed, noise)
    for name, value in more.items():
        setattr(world, name, value)
    return Run(world)


def place(number: int) -> Place:
    return "default", f"10.0.0.{number}"


@pytest.mark.parametrize("number", [2, 3, 10])
def test_an_answer_of_the_tier_is_one_that_another_engine_computed(number: int) -> None:
    found = run(number)
    found.hours(24)
    assert found.canary.word(GROUP) == "Compared"
    assert found.canary.accused == {}
    asked = found.world.asked
    # A round asks two engines for one prompt, once each.
    assert 2 * 45 <= len(asked) <= 2 * 48
    for first, second in zip(asked[::2], asked[1::2], strict=False):
        assert first.prompt == second.prompt and first.target != second.target
    assert len({request.prompt for request in asked}) == len(asked) // 2
    assert {request.target.place for request in asked} == {place(n) for n in range(number)}


def test_a_single_engine_is_asked_again_once_it_has_forgotten() -> None:
    found = run(1)
    (engine,) = found.world.engines.values()
    engine.target = turns.Target(place(0), 8000, "vLLM", "llama", 0.0, 0.0, 50_000.0)
    found.hours(6)
    assert len(found.world.asked) == 1  # its own cache may still have the prompt
    assert found.canary.word(GROUP) == "NotCompared"
    found.world.forget(place(0))
    found.hours(1)
    assert [request.prompt for request in found.world.asked[:2]] == [
        canary_prompt("seed 1", 1_024)
    ] * 2
    assert found.canary.word(GROUP) == "Compared"


def test_a_cache_of_unknown_size_is_never_known_to_forget() -> None:
    found = run(1)
    found.hours(24)
    assert found.canary.word(GROUP) == "NotCompared"
    assert found.world.asked == []


def test_engines_that_share_nothing_compare_nothing() -> None:
    found = run(3, is_shared=False)
    found.hours(24)
    assert found.canary.word(GROUP) == "NotCompared"
    assert found.canary.accused == {}


# name: (the share of wrong prompts, hours within which the engine is accused)
FAULTS = {"all blocks": (1.0, 2.0), "half of them": (0.5, 6.0), "a fifth": (0.2, 48.0)}


@pytest.mark.parametrize("noise", [usual, rough])
@pytest.mark.parametrize("name", FAULTS)
def test_wrong_blocks_of_one_engine_are_found(name: str, noise: Any) -> None:
    share, most = FAULTS[name]
    for seed in range(5):
        found = run(3, noise=noise, seed=seed)
        found.world.engines[place(1)].wrong = share
        assert found.until_accused(most) < most
        assert [*found.canary.accused] == [place(1)]


@pytest.mark.parametrize("noise", [usual, rough])
def test_sound_engines_are_never_accused(noise: Any) -> None:
    """Two hundred days of engines, in four worlds, busy or not, telling or not."""
    rounds = 0
    for seed in range(4):
        found = run(5, noise=noise, seed=seed, traffic=5_000.0 * (seed % 2), tells=seed >= 2)
        found.hours(240)
        assert found.canary.accused == {}
        rounds += found.canary.number
    assert rounds > 1_800


def test_a_store_that_spoils_all_blocks_is_found_within_five_minutes() -> None:
    """With a round a minute, and requests that take a second each."""
    found = run(2, every=60.0)
    for engine in found.world.engines.values():
        engine.wrong = 1.0
    begun = found.now
    while not found.canary.accused:
        waits = found.canary.until if found.canary._pending is None else None
        found.now = max(found.now + turns.BEAT, waits or 0.0)
        found.canary.step(found.now, found.world.targets(), {})
    assert found.now - begun <= 300


def test_a_fault_that_stays_costs_nine_requests_a_tenth_of_the_pause_at_most() -> None:
    found = run(40)
    for engine in found.world.engines.values():
        engine.wrong = 1.0
    assert found.until_accused(6) < 1
    begun = len(found.world.asked)
    found.hours(24)
    assert len(found.world.asked) - begun <= 9 * 24 * 20


def test_blocks_that_are_no_numbers_are_found_by_who_computes_numbers() -> None:
    """And take no accusation back."""
    found = run(2)
    found.world.engines[place(0)].breaks = True
    assert found.until_accused(24) < 24
    assert [*found.canary.accused] == [place(1)]
    found.hours(48)
    assert [*found.canary.accused] == [place(1)]
    for engine in found.world.engines.values():
        engine.breaks = True
    found.canary.accused.clear()
    found.hours(48)
    assert found.canary.accused == {}
    assert found.canary.word(GROUP) == "NotCompared"


def test_each_model_of_a_spoiled_tier_is_accused() -> None:
    found = run(4)
    for number, engine in enumerate(found.world.engines.values()):
        engine.wrong = 1.0
        engine.target = replace(engine.target, model="llama" if number < 2 else "qwen")
    found.hours(48)
    assert {accused.group[1] for accused in found.canary.accused.values()} == {"llama", "qwen"}


def test_a_suspected_engine_that_is_silent_hurries_nobody() -> None:
    found = run(3)
    found.canary.scores[place(2)] = 3.0
    begun = found.now
    while found.now - begun < 6 * 3_600:
        known = {place(2): GROUP}
        found.canary.step(found.now, found.world.targets()[:2], known)
        found.now += STEP
    assert len(found.world.asked) <= 2 * 12


def test_an_engine_that_is_away_for_a_moment_is_accused_soon_after() -> None:
    found = run(2, every=60.0)
    for engine in found.world.engines.values():
        engine.wrong = 1.0
    while not any(found.canary.scores.values()):
        found.step()
    begun = found.now
    for engine in found.world.engines.values():
        engine.status = 503
    while found.now - begun < 150:
        found.step()
    for engine in found.world.engines.values():
        engine.status = 200
    assert found.until_accused(1.0) < 0.2


def test_an_engine_that_is_suspected_for_ever_hurries_for_a_while() -> None:
    """A stranger's pod may give a wrong answer now and then."""
    found = run(3)
    found.hours(0.1)
    begun = len(found.world.asked)
    while found.now < 1_000.0 + 24 * 3_600:
        found.canary.scores[place(0)] = max(found.canary.scores.get(place(0), 0.0), 1.0)
        found.step()
    assert len(found.world.asked) - begun <= 2 * (turns.DOUBTS + 24 * 20 + 1)


def test_busy_engines_are_accused_too() -> None:
    """Others' hits hide where an answer came from; what is compared is the answer."""
    found = run(2, traffic=5_000.0)
    found.world.engines[place(0)].wrong = found.world.engines[place(1)].wrong = 1.0
    assert found.until_accused(4.0) < 4.0
    assert found.canary.word(GROUP) == "NotCompared"
    found = run(2, traffic=5_000.0, tells=True)
    found.hours(4)
    assert found.canary.word(GROUP) == "Compared"


def test_an_accusation_ends_with_many_matches_of_that_engine() -> None:
    found = run(3)
    found.world.engines[place(1)].wrong = 1.0
    found.until_accused(4.0)
    found.world.engines[place(1)].wrong = 0.0
    found.world.tier.clear()
    begun, asked = found.now, len(found.world.asked)
    while found.canary.accused:
        found.step()
    assert 0.5 < (found.now - begun) / 3_600 < 3.0
    assert len(found.world.asked) - asked >= 2 * CLEARED


def test_matches_of_others_say_nothing_of_an_accused_engine() -> None:
    found = run(3)
    found.canary.accused[place(1)] = Accused(GROUP, "vLLM")
    found.canary.step(found.now, found.world.targets(), {})
    found.canary._end(found.world.engines[place(0)].target, "Match", True)
    assert found.canary.accused[place(1)].left == CLEARED
    found.canary._end(found.world.engines[place(1)].target, "Match", False)
    assert found.canary.accused[place(1)].left == CLEARED  # who knows where it came from
    found.canary._end(found.world.engines[place(1)].target, "Match", True)
    assert found.canary.accused[place(1)].left == CLEARED - 1
    found.canary._end(found.world.engines[place(1)].target, "Mismatch", True)
    assert found.canary.accused[place(1)].left == CLEARED


def test_what_an_engine_that_is_gone_left_in_the_tier_is_no_success() -> None:
    """Its accusation stands until the others had matches, and without any for a day."""
    found = run(3)
    found.canary.accused[place(1)] = Accused(GROUP, "vLLM")
    found.hours(0.1)
    del found.world.engines[place(1)]
    found.hours(0.5)
    assert place(1) in found.canary.accused
    found.hours(3)
    assert found.canary.accused == {}
    found.canary.accused[place(1)] = Accused(GROUP, "vLLM")
    found.hours(0.1)
    found.world.engines.clear()
    found.hours(20)
    assert place(1) in found.canary.accused
    found.hours(LATELY / 3_600)
    assert found.canary.accused == {}


def test_an_engine_that_is_silent_for_a_moment_stays_suspected_and_accused() -> None:
    found = run(3)
    found.canary.scores[place(1)] = 3.0
    found.canary.accused[place(1)] = Accused(GROUP, "vLLM")
    targets = [target for target in found.world.targets() if target.place != place(1)]
    found.canary.step(found.now, targets, {place(1): GROUP})
    assert found.canary.scores[place(1)] == 3.0
    found.canary._end(found.world.engines[place(0)].target, "Match", True)
    assert found.canary.accused[place(1)].left == CLEARED
    found.canary.step(found.now, targets, {})
    found.canary._end(found.world.engines[place(0)].target, "Match", True)
    assert place(1) not in found.canary.scores
    assert found.canary.accused[place(1)].left == CLEARED - 1


def test_an_address_that_another_model_took_is_not_accused() -> None:
    found = run(3)
    found.canary.accused[place(1)] = Accused(("default", "other"), "vLLM")
    found.canary.step(found.now, found.world.targets(), {})
    assert not found.canary.is_accused(place(1), GROUP)
    found.canary._end(found.world.engines[place(1)].target, "Match", True)
    assert found.canary.accused[place(1)].left == CLEARED


# HTTP status -> what is said
REFUSALS = {
    401: "KeyRequired",
    403: "KeyRequired",
    404: "NoAnswer",
    500: "NoAnswer",
    0: "NoAnswer",
    200: "NotCompared",
}


@pytest.mark.parametrize("status", REFUSALS)
def test_an_engine_that_does_not_answer_is_said_and_not_accused(status: int) -> None:
    found = run(2, is_shared=False)
    for engine in found.world.engines.values():
        engine.status = status
    found.hours(12)
    assert found.canary.word(GROUP) == REFUSALS[status]
    assert found.canary.accused == {}
    assert len(found.world.asked) <= 2 * 24


def test_answers_of_yesterday_are_no_success() -> None:
    found = run(2)
    found.hours(4)
    assert found.canary.word(GROUP) == "Compared"
    found.world.is_shared = False
    found.hours(23)
    assert found.canary.word(GROUP) == "Compared"
    found.hours(6)
    assert found.canary.word(GROUP) == "NotCompared"
    assert found.canary.word(("default", "other")) == "NotCompared"


def test_an_engine_that_demands_a_key_now_is_not_compared_any_more() -> None:
    found = run(2)
    found.hours(4)
    for engine in found.world.engines.values():
        engine.status = 401
    found.hours(1)
    assert found.canary.word(GROUP) == "KeyRequired"


def test_quick_rounds_without_an_outcome_come_to_an_end() -> None:
    found = run(2)
    found.canary.accused[place(1)] = Accused(GROUP, "vLLM")
    found.world.is_shared = False
    found.hours(24)
    assert place(1) in found.canary.accused
    assert len(found.world.asked) < 2 * (48 + turns.FRUITLESS + 1)


def test_what_is_kept_is_bounded() -> None:
    found = run(200, is_shared=False)
    for number, engine in enumerate(found.world.engines.values()):
        engine.target = turns.Target(place(number), 8000, "vLLM", "llama", 0.0, 0.0, 50_000.0)
    found.hours(150)
    assert len(found.canary.kept) == MOST_KEPT
    for number in range(200):
        for _ in range(4):
            target = found.world.engines[place(number)].target
            found.canary._end(target, "Mismatch", True)
    assert len(found.canary.accused) == MOST_KEPT


ROW = {"namespace": "default", "model": "llama", "kind": "vLLM", "state": "WrongBlocks"}
ROWS = {
    "as it was written": (ROW | {"at": "10.0.0.1"}, True),
    "of another state": (ROW | {"at": "10.0.0.1", "state": "Silent"}, False),
    "an address of a stranger": (ROW | {"at": 'x"} 1\n'}, False),
    "a model of a stranger": (ROW | {"at": "10.0.0.1", "model": 'm"} 1\n'}, False),
    "a namespace of a stranger": (ROW | {"at": "10.0.0.1", "namespace": "../x"}, False),
    "a kind of a stranger": (ROW | {"at": "10.0.0.1", "kind": "EvilLM"}, False),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_new_observer_takes_an_accusation_over(name: str) -> None:
    row, is_taken = ROWS[name]
    found = run(1)
    found.canary.restore([row], "WrongBlocks")
    assert bool(found.canary.accused) == is_taken


def test_random_worlds_raise_nothing_and_stay_bounded() -> None:
    """Engines come, go, restart, forget, refuse and lie."""
    draw = random.Random(25)
    for seed in range(4):
        found = run(draw.randrange(1, 6), seed=seed)
        for number in range(200):
            found.hours(STEP / 3_600 * draw.randrange(1, 60))
            world = found.world
            where = draw.choice([*world.engines, place(number)])
            if where not in world.engines:
                kind, model = draw.choice(("vLLM", "SGLang")), draw.choice(("llama", "qwen"))
                size = draw.choice((0.0, 9_000.0))
                world.engines[where] = Modelled(
                    turns.Target(where, 8000, kind, model, 0.0, 0.0, size)
                )
            elif draw.random() < 0.3:
                del world.engines[where]
            else:
                world.engines[where].status = draw.choice((200, 200, 200, 401, 500, 0))
                world.engines[where].wrong = draw.choice((0.0, 0.0, 1.0))
                world.forget(where)
            if not world.engines:
                world.engines[place(0)] = Modelled(
                    turns.Target(place(0), 8000, "vLLM", "llama", 0.0, 0.0, 0.0)
                )
        assert len(found.canary.accused) <= MOST_KEPT
        assert found.canary.scores.keys() <= found.canary.targets.keys()

"""An engine without its tier: one that starts first comes up with it or before it, and one whose
tier goes for a while answers on, and is in it when that is back, or when it is restarted."""

import threading
import time

import pytest

from tests.serve.author import USUAL
from tests.serve.engine import Engine, prompt
from tests.serve.fleet import LLAMA, STEADY, Fleet
from tests.serve.test_10_hits import settle

AWAY = 40.0  # seconds that the tier is away from the engine's start on
JOINS = 60.0  # seconds after which an engine that is not in its tier will not be
ANSWERS = 120.0  # seconds that a request may take while the tier is away
SEED, OTHERS = STEADY[3], STEADY[4:7]


def until_it_finds(fleet: Fleet, engine: Engine) -> float:
    """Seconds until the engine finds what it has computed: every answer is right meanwhile."""
    begun = time.monotonic()
    while time.monotonic() - begun < JOINS:
        assert engine.ask(prompt(SEED)).alike(fleet.reference(SEED))
        settle(fleet, engine)
        engine.forget()
        before = engine.external()
        said = engine.ask(prompt(SEED))
        assert said.alike(fleet.reference(SEED))
        if engine.external() - before == fleet.pair.found(said.prompt_tokens):
            return time.monotonic() - begun
        engine.forget()
    raise AssertionError(f"{engine.name} is not in its tier after {JOINS:.0f} s")


@pytest.mark.long
@pytest.mark.pairs("vllm-mooncake", "vllm-lmcache", "sglang-mooncake")
def test_engine_started_before_its_tier_joins_later(fleet: Fleet, proof) -> None:
    part = fleet.pair.parts[0]
    fleet.prepare(LLAMA)
    fleet.tier.stop(part)
    back = threading.Timer(AWAY, fleet.tier.begin, [part])
    back.start()
    early = fleet.run("early", fleet.wired({"main": USUAL}), restart=True)
    seconds = early.wait()
    back.join()
    fleet.tier.parts[part].wait_ready(120)
    joined = until_it_finds(fleet, early)
    exits = len(early.pod.containers["engine"].exit_codes)
    proof(f"started before the {part}", joins="by itself", restarts=exits, seconds=seconds)
    proof(f"started before the {part}: from the {part}'s start to a hit", seconds=joined)
    fleet.stop("early")


@pytest.mark.long
@pytest.mark.pairs("vllm-mooncake", "vllm-lmcache", "sglang-mooncake")
def test_an_engine_answers_while_its_tier_is_away(fleet: Fleet, proof) -> None:
    part = fleet.pair.parts[0]
    fleet.prepare(LLAMA)
    (engine,) = fleet.ready("first")
    assert engine.ask(prompt(SEED)).alike(fleet.reference(SEED))
    settle(fleet, engine)
    fleet.tier.stop(part)
    answers = {seed: engine.ask(prompt(seed), timeout=ANSWERS) for seed in OTHERS}
    assert all(answer.alike(fleet.reference(seed)) for seed, answer in answers.items())
    fleet.tier.begin(part)
    fleet.tier.parts[part].wait_ready(120)
    case, again = f"the {part} is away", until_it_finds(fleet, engine)
    proof(case, requests="all answered", texts="right", hits="again", seconds=again)
    slowest = max(answer.seconds for answer in answers.values())
    proof(f"{case}: the slowest request", seconds=slowest)

"""Hits: an engine takes another engine's blocks from the tier and returns the same text."""

import time

import pytest

from tests.serve.engine import Engine, prompt
from tests.serve.fleet import LLAMA, Fleet


def hit(fleet: Fleet, engine: Engine, seed: int) -> int:
    """Ask with a prompt that the tier has: the tokens that came from it. The answer is that of an
    engine without a tier which had these tokens, to the last digit of its log-probabilities."""
    before = engine.external()
    said = engine.ask(prompt(seed))
    tokens = int(engine.external() - before)
    assert tokens == said.cached == fleet.pair.found(said.prompt_tokens)
    fleet.check(said, seed, tokens)
    return tokens


def fill(fleet: Fleet, engine: Engine, seed: int) -> None:
    """Ask with a prompt that the tier does not have yet, and let its blocks arrive there."""
    before = engine.external()
    fleet.check(engine.ask(prompt(seed)), seed)
    assert engine.external() == before
    settle(fleet, engine)


def settle(fleet: Fleet, engine: Engine) -> None:
    """Wait until what the engine has computed is in the tier."""
    time.sleep(1)


def test_engine_with_an_emptied_cache_gets_hits(fleet: Fleet, proof) -> None:
    """Its own cache is emptied, and its host memory too; other processes have the blocks."""
    fleet.prepare(LLAMA)
    (engine,) = fleet.ready("first")
    fill(fleet, engine, 0)
    engine.forget()
    # Another's blocks lie then where its own did: what is not really brought back is wrong.
    engine.ask(prompt(9))
    settle(fleet, engine)
    engine.forget()
    before = engine.elsewhere()
    tokens = hit(fleet, engine, 0)
    # What the docs have people watch.
    assert engine.elsewhere() - before == tokens
    proof("an engine that forgot", tokens=tokens)


@pytest.mark.long
def test_second_engine_gets_hits_of_the_first(fleet: Fleet, proof) -> None:
    fleet.prepare(LLAMA)
    first, second = fleet.ready("first", "second")
    fill(fleet, first, 13)
    tokens = hit(fleet, second, 13)
    assert second.elsewhere() == tokens
    proof("a second engine", tokens=tokens)


@pytest.mark.long
def test_restarted_engine_gets_hits(fleet: Fleet, proof) -> None:
    (engine,) = fleet.ready("first")
    fill(fleet, engine, 1)
    fleet.site.retire(fleet.engines.pop("first").pod)
    (again,) = fleet.ready("first")
    proof("a restarted engine", tokens=hit(fleet, again, 1))

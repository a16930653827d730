"""Layouts: on a GPU vLLM lays its blocks out otherwise when it hands them over by NIXL. Engines of
two layouts share no blocks, and each finds its own. OffloadingConnector asks for a layout itself,
so where both resolved the same one they share. MooncakeStoreConnector asks for none: composition
tells engines beside NIXL apart, also where a machine has one layout."""

import re

import pytest

from tests.serve.author import HANDING_OVER
from tests.serve.engine import Engine, prompt
from tests.serve.fleet import LLAMA, STEADY, Fleet
from tests.serve.test_10_hits import fill, settle

# What our connector class logs of the facts behind its keys.
_LAYOUT = re.compile(r'"layout": "(\w+)"')


def layout(engine: Engine) -> str:
    """The layout that an engine has resolved."""
    return _LAYOUT.findall(engine.log)[-1]


@pytest.mark.long
@pytest.mark.pairs("vllm-mooncake", "vllm-native")
def test_engines_of_two_layouts_share_no_blocks(fleet: Fleet, proof) -> None:
    fleet.prepare(LLAMA)
    alone, with_nixl = fleet.start("alone"), fleet.start("beside NIXL", HANDING_OVER)
    for engine in (alone, with_nixl):
        engine.wait()
    layouts = [layout(alone), layout(with_nixl)]
    full = fleet.pair.found(len(prompt(0)))
    share = fleet.pair.name == "vllm-native" and layouts[0] == layouts[1]
    for one, two, seed in ((alone, with_nixl, STEADY[5]), (with_nixl, alone, STEADY[7])):
        fill(fleet, one, seed)
        tokens = _found(fleet, two, seed)
        assert tokens == (full if share else 0)
        settle(fleet, two)
        for engine in (one, two):
            engine.forget()
            assert _found(fleet, engine, seed) == full
    proof(f"layout {layouts[0]} alone, {layouts[1]} beside NIXL", tokens=tokens)
    fleet.stop("alone", "beside NIXL")


def _found(fleet: Fleet, engine: Engine, seed: int) -> int:
    before = engine.external()
    assert engine.ask(prompt(seed)).alike(fleet.reference(seed))
    return int(engine.external() - before)

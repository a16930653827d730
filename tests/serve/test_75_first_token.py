"""Seconds to the first token of a prompt: computed, from a tier's memory, and from its disk.

The model is a small one with random weights: what is measured is the way of the blocks, beside a
computation that is cheaper than a real model's. Figures count on a GPU only.
"""

import statistics
import time
from collections.abc import Callable, Mapping

import pytest

from tests.serve.engine import Engine, prompt
from tests.serve.fleet import Fleet
from tests.serve.test_10_hits import settle

LENGTHS = (1000, 3000, 7000)  # tokens
TIMES = 3  # prompts of each length
FIRST = 5000  # seeds from here on: no other test has left their blocks


def _memory_alone(fleet: Fleet, engine: Engine) -> None:
    """The device forgets; what lies in the engine's own memory or the tier's stays."""
    Engine.forget(engine)


def _new_agent(fleet: Fleet, engine: Engine) -> None:
    """Another agent has the node's files and an empty memory. The engine registers with it."""
    fleet.tier.replace("agent")
    time.sleep(10)
    Engine.forget(engine)


def _own_memory_too(fleet: Fleet, engine: Engine) -> None:
    engine.forget()


# Where the blocks are -> what leaves them only there.
WAYS: Mapping[str, Mapping[str, Callable[[Fleet, Engine], None]]] = {
    "vllm-mooncake": {"memory": _memory_alone},
    "vllm-lmcache": {"memory": _memory_alone},
    "vllm-lmcache-disk": {"memory": _memory_alone, "disk": _new_agent},
    "vllm-native": {"memory": _memory_alone, "disk": _own_memory_too},
}


def first_token(engine: Engine, text: str) -> float:
    """Seconds from the request to the first piece of its answer, which is read to its end."""
    begun, moments = time.monotonic(), []
    for _ in engine.stream(text, tokens=2):
        moments.append(time.monotonic() - begun)
    return moments[0]


@pytest.mark.long
@pytest.mark.pairs(*WAYS)
def test_first_token_from_each_place(fleet: Fleet, proof) -> None:
    (engine,) = fleet.ready("first")
    first_token(engine, prompt(FIRST - 1, max(LENGTHS)))  # kernels are compiled meanwhile
    texts = {
        length: [prompt(FIRST + number, length) for number in range(TIMES)] for length in LENGTHS
    }
    seconds: dict[tuple[int, str], list[float]] = {}
    for length in LENGTHS:
        engine.forget()
        for text in texts[length]:
            # The same seed begins alike at every length: no shorter prompt's blocks are there.
            seconds.setdefault((length, "cold"), []).append(first_token(engine, text[::-1]))
            settle(fleet, engine)
    for place, leave in WAYS[fleet.pair.name].items():
        for length in LENGTHS:
            leave(fleet, engine)
            before = engine.elsewhere()
            for text in texts[length]:
                seconds.setdefault((length, place), []).append(first_token(engine, text[::-1]))
            found = engine.elsewhere() - before
            assert found == TIMES * fleet.pair.found(length), (place, length)
    for (length, place), taken in sorted(seconds.items()):
        case = f"the first token of {length} tokens, {'computed' if place == 'cold' else place}"
        proof(case, seconds=statistics.median(taken))

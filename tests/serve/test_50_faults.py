"""Faults under load: every request is answered with the right text, and hits return.

One engine is asked without a pause, and forgets its own cache after each answer, so that every
request goes through the tier. In the middle of that, and of another engine's long answer, a part of
the tier goes.
"""

import threading
import time
import zlib
from collections.abc import Iterator

import pytest

from tests.conformance.mooncake import until
from tests.serve.engine import Asked, Engine, RequestLoop, prompt
from tests.serve.fleet import LLAMA, STEADY, Fleet

SEEDS = STEADY[:3]
LONG = 300  # tokens of the stream
RECOVERY = 240.0  # seconds after which a tier counts as lost; how long it took is reported
# what happens to a part -> the method of `Running` that does it
FAULTS = {"is killed": "kill", "is rolled": "replace"}


def right(fleet: Fleet, asked: Asked) -> bool:
    """Whether the answer is that of an engine without a tier, but for rounding."""
    return asked.answer is not None and asked.answer.alike(fleet.reference(asked.seed))


class Stream(threading.Thread):
    """A long answer that is read as it comes."""

    def __init__(self, engine: Engine, text: str):
        super().__init__(daemon=True)
        self.engine, self.text = engine, text
        self.pieces: list[str] = []
        self.failure = ""

    def run(self) -> None:
        try:
            for piece in self.engine.stream(self.text, tokens=LONG):
                self.pieces.append(piece)
        except OSError as problem:
            self.failure = f"{type(problem).__name__}: {problem}"


def _twice(engine: Engine, text: str) -> Iterator[list[str]]:
    """A long answer when its prompt is computed, and when the tier has it. Rounding tells them
    apart after some hundred words."""
    for _ in range(2):
        yield list(engine.stream(text, tokens=LONG))
        time.sleep(1)
        engine.forget()


@pytest.mark.long(but="vllm-lmcache-agent-is killed")
@pytest.mark.parametrize("fault", FAULTS)
def test_every_request_is_answered(fleet: Fleet, proof, part: str, fault: str) -> None:
    fleet.prepare(LLAMA)
    engine, streaming = fleet.ready("first", "second")
    full = fleet.pair.found(len(prompt(0)))
    text = prompt(zlib.crc32(f"{part} {fault}".encode()))  # no fault before has left its blocks
    computed, found = ("".join(answer) for answer in _twice(streaming, text))

    loop = RequestLoop(engine, SEEDS)
    loop.start()
    until(lambda: any(asked.external == full for asked in loop.asked), 60)
    stream = Stream(streaming, text)
    stream.start()
    until(lambda: len(stream.pieces) > 5, 60)

    assert stream.is_alive(), "it is in the middle of its answer"
    gone = time.monotonic()
    getattr(fleet.tier, FAULTS[fault])(part)
    back = time.monotonic()
    fleet.tier.parts[part].wait_ready(120)

    def hits() -> bool:
        again = [asked for asked in loop.since(back) if asked.external == full]
        return {asked.seed for asked in again} == set(SEEDS)

    try:
        until(hits, RECOVERY)
    finally:
        everything = loop.finish()
    stream.join()
    assert (stream.failure, "".join(stream.pieces)) == ("", found)
    assert [asked.failure for asked in everything if asked.failure] == []
    assert all(right(fleet, asked) for asked in everything)
    streaming.forget()
    assert "".join(streaming.stream(text, tokens=LONG)) in (computed, found)
    first = min(asked.begun for asked in loop.since(back) if asked.external == full)
    slowest = max(asked.answer.seconds for asked in loop.since(gone - 10) if asked.answer)
    case = f"the {part} {fault}"
    proof(case, requests="all answered", texts="right", hits="again", seconds=first - gone)
    proof(f"{case}: the slowest request", seconds=slowest)

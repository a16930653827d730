"""A part of the tier that hangs: SIGSTOP stops it, and its port stays open without an answer.

A request in the middle of its answer must not notice. New requests are answered without the tier,
and hits return once the part goes on: nothing that it held is lost.
"""

import http.client
import itertools
import signal
import threading
import time

import pytest

from tests.conformance.mooncake import until
from tests.serve.engine import Answer, Engine, prompt
from tests.serve.fleet import LLAMA, STEADY, Fleet
from tests.serve.test_10_hits import settle

HANGS = 40.0  # seconds, more than Mooncake's own time-out of 30
ANSWERED = 60.0  # seconds within which a request is answered while a part hangs
RETURNS = 120.0  # seconds after which hits count as lost
# Seconds between two tokens of another request. Its engine also computes the new prompts meanwhile.
GAP = 10.0
KNOWN, NEW = STEADY[:2], STEADY[2:]


class Streaming(threading.Thread):
    """Long answers to a prompt that is too short for a block; when each piece came."""

    def __init__(self, engine: Engine):
        super().__init__(daemon=True)
        self.moments: list[float] = []
        self.failure = ""
        self._engine, self._done = engine, threading.Event()

    def run(self) -> None:
        try:
            while not self._done.is_set():
                for _ in self._engine.stream("a short one", tokens=2048):
                    self.moments.append(time.monotonic())
                    if self._done.is_set():
                        return
        except (OSError, http.client.HTTPException) as problem:
            self.failure = f"{type(problem).__name__}: {problem}"

    def longest_gap(self, begun: float, ended: float) -> float:
        """Seconds between two pieces, within both moments."""
        marks = [begun, *(m for m in self.moments if begun < m < ended), ended]
        return max(later - sooner for sooner, later in itertools.pairwise(marks))

    def finish(self) -> None:
        self._done.set()
        self.join()


def _right(fleet: Fleet, seed: int, answer: Answer) -> bool:
    return answer.alike(fleet.reference(seed))


@pytest.mark.long
def test_a_part_that_hangs_freezes_no_other_request(fleet: Fleet, proof, part: str) -> None:
    fleet.prepare(LLAMA)
    (engine,) = fleet.ready("first")
    full = fleet.pair.found(len(prompt(0)))

    def hit(seed: int) -> float | None:
        """Seconds of a request that the tier has, None where it brought less."""
        engine.forget()
        before = engine.external()
        answer = engine.ask(prompt(seed))
        assert _right(fleet, seed, answer)
        found = engine.external() - before
        settle(fleet, engine)
        return answer.seconds if found == full else None

    for seed in KNOWN:
        assert _right(fleet, seed, engine.ask(prompt(seed)))
    settle(fleet, engine)
    usual = hit(KNOWN[0])
    assert usual is not None
    stream = Streaming(engine)
    stream.start()
    until(lambda: len(stream.moments) > 5, 60)

    container = fleet.tier.container(part)
    container.kill(signal.SIGSTOP)
    begun, slowest = time.monotonic(), 0.0
    for seed in (*NEW, *KNOWN) * 99:
        answer = engine.ask(prompt(seed), timeout=ANSWERED)
        assert _right(fleet, seed, answer)
        slowest = max(slowest, answer.seconds)
        if time.monotonic() - begun > HANGS:
            break
    gap = stream.longest_gap(begun, time.monotonic())
    container.kill(signal.SIGCONT)
    back = time.monotonic()
    stream.finish()
    assert stream.failure == ""
    until(lambda: hit(KNOWN[0]) is not None, RETURNS)
    found = time.monotonic() - back
    later = [hit(seed) for seed in (*KNOWN, *KNOWN)]

    case = f"the {part} hangs"
    proof(case, requests="all answered", texts="right", hits="again", seconds=found)
    proof(f"{case}: the slowest request", seconds=slowest)
    proof(f"{case}: the longest pause of another answer", seconds=gap)
    proof(f"{case}: a hit before", seconds=usual)
    proof(f"{case}: the slowest of the next hits", seconds=max(s or 999.0 for s in later))
    assert None not in later
    assert gap < GAP
    assert container.exit_codes == []

"""A part that hangs: SIGSTOP stops its processes, and its port stays open without an answer.

A request in the middle of its answer must not notice. New requests are answered without the part,
and hits return once it goes on. A store of Mooncake's comes back empty: its master drops it after
ten seconds. A part is one of the tier's own, a
peer that a request names, or the other half of a disaggregated pair; without its prefill nothing
answers a request that a router sends through both, so that waits.
"""

import http.client
import itertools
import signal
import threading
import time
import urllib.error
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.conformance.container import Container
from tests.conformance.mooncake import until
from tests.serve.engine import HAND_OVER, Answer, Engine, SGLang, prompt
from tests.serve.fleet import LLAMA, PHASES, STEADY, Fleet
from tests.serve.test_10_hits import fill, settle
from tests.serve.test_35_own_memory import ask_with_peer

HANGS = 40.0  # seconds, more than Mooncake's own time-out of 30
ANSWERED = 180.0  # seconds after which a request counts as lost; the slowest is reported
RETURNS = 120.0  # seconds after which hits count as lost
# Seconds between two tokens of another request. Its engine also computes the new prompts meanwhile.
GAP = 10.0
# Seconds of a request that names a stopped peer, and of its own computation.
NAMED = 15.0
# Seconds until SGLang's decode gives up a request whose prefill is stopped: its heartbeats.
REFUSED = 25.0
KNOWN, NEW = STEADY[:2], STEADY[2:]


class Streaming(threading.Thread):
    """Long answers to a prompt that is too short for a block; when each piece came."""

    def __init__(self, stream: Callable[[], Iterator[str]]):
        super().__init__(daemon=True)
        self.moments: list[float] = []
        self.failure = ""
        self._stream, self._done = stream, threading.Event()

    def run(self) -> None:
        try:
            while not self._done.is_set():
                for _ in self._stream():
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


@contextmanager
def streaming(stream: Callable[[], Iterator[str]]) -> Iterator[Streaming]:
    """Answer another request meanwhile: its failure fails the test."""
    made = Streaming(stream)
    made.start()
    until(lambda: len(made.moments) > 5, 60)
    try:
        yield made
    finally:
        made.finish()
    assert made.failure == ""


@contextmanager
def hanging(container: Container) -> Iterator[float]:
    """Stop every process of a container for HANGS seconds, from the moment yielded on."""
    container.signal_all(signal.SIGSTOP)
    back = threading.Timer(HANGS, container.signal_all, [signal.SIGCONT])
    back.start()
    try:
        yield time.monotonic()
        back.join()
    finally:
        back.cancel()
        container.signal_all(signal.SIGCONT)


def long_answer(engine: Engine) -> Callable[[], Iterator[str]]:
    return lambda: engine.stream("a short one", tokens=2048)


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
    container = fleet.tier.container(part)
    with streaming(long_answer(engine)) as stream:
        with hanging(container) as begun:
            slowest = 0.0
            for seed in (*NEW, *KNOWN) * 99:
                answer = engine.ask(prompt(seed), timeout=ANSWERED)
                assert _right(fleet, seed, answer)
                slowest = max(slowest, answer.seconds)
                if time.monotonic() - begun > HANGS:
                    break
            gap = stream.longest_gap(begun, time.monotonic())
        back = time.monotonic()
    until(lambda: None not in [hit(seed) for seed in KNOWN], RETURNS)
    found = time.monotonic() - back
    later = [hit(seed) for seed in (*KNOWN, *KNOWN)]

    case = f"the {part} hangs"
    proof(case, requests="all answered", texts="right", hits="again")
    proof(f"{case}: from its return to hits", seconds=found)
    proof(f"{case}: the slowest request", seconds=slowest)
    proof(f"{case}: the longest pause of another answer", seconds=gap)
    proof(f"{case}: a hit before", seconds=usual)
    proof(f"{case}: the slowest of the next hits", seconds=max(s or 999.0 for s in later))
    assert None not in later
    assert gap < GAP
    assert container.exit_codes == []


@pytest.mark.long
@pytest.mark.pairs("vllm-native-peers")
def test_a_peer_that_hangs_freezes_no_other_request(fleet: Fleet, proof) -> None:
    """A request that names it is computed after its time-outs (VLLM_P2P_HANDSHAKE_TIMEOUT_S, and
    vLLM's heartbeat of 10 s); one that names nobody does not notice."""
    fleet.prepare(LLAMA)
    peer, engine = fleet.ready("first", "second")
    for seed in STEADY[:4]:
        fill(fleet, peer, seed)
    engine.forget()
    usual, tokens = ask_with_peer(engine, peer, STEADY[0])
    assert tokens == fleet.pair.found(usual.prompt_tokens)
    named, unnamed = [], []
    with streaming(long_answer(engine)) as stream, hanging(peer.pod.containers["engine"]) as begun:
        # The last one is over before the peer goes on.
        for known, new in zip(STEADY[1:4], STEADY[4:7], strict=True):
            if time.monotonic() - begun > HANGS - NAMED:
                break
            answer, tokens = ask_with_peer(engine, peer, known)
            assert tokens == 0 and _right(fleet, known, answer)
            named.append(answer.seconds)
            answer = engine.ask(prompt(new), timeout=ANSWERED)
            assert _right(fleet, new, answer)
            unnamed.append(answer.seconds)
        time.sleep(max(HANGS - (time.monotonic() - begun), 0))
        gap = stream.longest_gap(begun, time.monotonic())
    back = time.monotonic()

    def hit() -> bool:
        engine.forget()
        answer, tokens = ask_with_peer(engine, peer, STEADY[0])
        assert _right(fleet, STEADY[0], answer)
        return tokens == fleet.pair.found(answer.prompt_tokens)

    until(hit, RETURNS)
    found = time.monotonic() - back
    case = "a peer hangs"
    proof(case, requests="all answered", texts="right", hits="again")
    proof(f"{case}: from its return to hits", seconds=found)
    proof(f"{case}: the slowest request that names it", seconds=max(named))
    proof(f"{case}: the slowest request that does not", seconds=max(unnamed))
    proof(f"{case}: the longest pause of another answer", seconds=gap)
    assert gap < GAP
    assert len(named) > 1 and max(named) < NAMED


def _halves(fleet: Fleet) -> tuple[Engine, Engine]:
    """Prefill and decode, which an earlier test may have left."""
    if not set(PHASES) <= fleet.engines.keys():
        return fleet.prefill_and_decode()
    prefill, decode = (fleet.engines[phase] for phase in PHASES)
    return prefill, decode


def _stream_past_both(
    prefill: Engine, decode: Engine, other: Engine
) -> Callable[[], Iterator[str]]:
    """Answer on the half that goes on: of SGLang one that prefill has handed over to decode."""
    if isinstance(prefill, SGLang):
        return lambda: prefill.stream_through(decode, "a short one", tokens=7000)
    return long_answer(other)


@pytest.mark.long
@pytest.mark.pairs("vllm-nixl", "sglang-nixl")
@pytest.mark.parametrize("half", PHASES)
def test_half_that_hangs_freezes_no_other_request(fleet: Fleet, proof, half: str) -> None:
    """Requests through both halves wait, and are answered with the right text once both go on. The
    other half goes on with what it has; vLLM's answers new requests alone. SGLang's decode answers
    with status 500 when its prefill has not for two heartbeats: a router may ask another pair."""
    fleet.prepare(LLAMA)
    prefill, decode = _halves(fleet)
    stopped, other = (prefill, decode) if half == "prefill" else (decode, prefill)
    usual = prefill.through(decode, prompt(STEADY[0]))
    assert _right(fleet, STEADY[0], usual)
    waiting: dict[int, Future[Answer]] = {}
    alone: list[float] = []
    refused: list[float] = []
    with ThreadPoolExecutor(4) as requests:
        stream = _stream_past_both(prefill, decode, other)
        of_sglang = isinstance(prefill, SGLang)
        handed = None
        if not of_sglang:
            # Computed by prefill already, and not yet fetched by decode.
            handed = prefill.ask(prompt(STEADY[1]), tokens=1, kv_transfer_params=HAND_OVER)
        with streaming(stream) as seen, hanging(stopped.pod.containers["engine"]) as begun:
            if handed is not None and handed.parameters is not None:
                parameters = dict(handed.parameters)
                waiting[STEADY[1]] = requests.submit(
                    decode.ask, prompt(STEADY[1]), kv_transfer_params=parameters
                )
            through = requests.submit(prefill.through, decode, prompt(STEADY[2]))
            if of_sglang and half == "prefill":
                through.add_done_callback(lambda _: refused.append(time.monotonic() - begun))
            else:
                waiting[STEADY[2]] = through
            while time.monotonic() - begun < HANGS:
                time.sleep(1)
                if not of_sglang:
                    seed = STEADY[3 + len(alone) % 3]
                    answer = other.ask(prompt(seed), timeout=ANSWERED)
                    assert _right(fleet, seed, answer)
                    alone.append(answer.seconds)
            ended = time.monotonic()
            gap = seen.longest_gap(begun, ended) if other is decode or not of_sglang else None
            early = [seed for seed, request in waiting.items() if request.done()]
        back = time.monotonic()
        answers = {seed: request.result(RETURNS) for seed, request in waiting.items()}
        answered = time.monotonic() - back
        if of_sglang and half == "prefill":
            with pytest.raises(urllib.error.HTTPError, match="500"):
                through.result(RETURNS)
    assert all(_right(fleet, seed, answer) for seed, answer in answers.items())
    again = prefill.through(decode, prompt(STEADY[6]))
    assert _right(fleet, STEADY[6], again)
    case = f"the {half} half hangs"
    if refused:
        proof(case, requests="refused in time", texts="right")
        proof(f"{case}: until a request is refused", seconds=refused[0])
        assert refused[0] < REFUSED
    else:
        proof(case, requests="all answered", texts="right", waited=len(waiting) - len(early))
        proof(f"{case}: from its return to the last answer", seconds=answered)
    proof(f"{case}: the next request through both", seconds=again.seconds)
    proof(f"{case}: a request before", seconds=usual.seconds)
    if alone:
        proof(f"{case}: the slowest request that the other answers alone", seconds=max(alone))
    if gap is not None:
        proof(f"{case}: the longest pause of another answer", seconds=gap)
        assert gap < GAP

"""KV events of a serving engine, received by a router as the tier's status describes."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.manifests import ROOT
from tests.serve.author import PORT, SERVED
from tests.serve.engine import Engine, prompt
from tests.serve.fleet import Fleet
from tests.serve.wiring import REQUIRED
from tests.tools import find

LISTEN = Path(__file__).with_name("listen.py")
BLOCK = 64  # the engines' --block-size
# vLLM's own names of a prompt's blocks, in a process that has nothing but the seed.
NAMES = """
import json, sys
from vllm.utils.hashing import sha256
from vllm.v1.core import kv_cache_utils as own
tokens, size = json.loads(sys.stdin.read()), int(sys.argv[1])
own.init_none_hash(sha256)
parent, names = None, []
for start in range(0, len(tokens) - size + 1, size):
    parent = own.hash_block_tokens(sha256, parent, tokens[start : start + size])
    names.append(own.maybe_convert_block_hash(parent))
print(json.dumps(names, default=bytes.hex))
"""
Event = dict[str, Any]


def events_status(fleet: Fleet) -> dict[str, Any]:
    """`status.events` of the tier."""
    program = Path(sys.executable).parent / "kv-offload"
    command = [program, "render", fleet.declared.path, "--required", REQUIRED, "-o", "json"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=ROOT)
    (tier,) = (d for d in json.loads(done.stdout)["items"] if d["kind"] == "KVOffloadTier")
    found: dict[str, Any] = tier["status"]["events"]
    return found


def selected(engine: Engine, selector: str) -> bool:
    """Whether a label selector of equalities finds the engine's pod."""
    rows = [row.partition("=") for row in selector.split(",")]
    return all(engine.pod.labels.get(name) == value for name, _, value in rows)


def tokens_of(engine: Engine, text: str) -> list[int]:
    said: list[int] = engine.post("/tokenize", {"model": SERVED, "prompt": text})["tokens"]
    return said


class Hearing:
    """The batches that a subscriber has heard so far, in their order."""

    def __init__(self, process: "subprocess.Popen[str]"):
        self.batches: list[dict[str, Any]] = []
        self._process = process
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.batches.append(json.loads(line))

    def events(self, kind: str, medium: str = "") -> list[Event]:
        """Those of a kind, of one medium if one is named."""
        return [
            event
            for batch in list(self.batches)
            for event in batch["events"]
            if event["type"] == kind and medium in ("", event.get("medium"))
        ]

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join()


@contextmanager
def listening(fleet: Fleet, *words: object) -> Iterator[Hearing]:
    python = fleet.site.image("vllm").python
    command = [str(word) for word in (python, LISTEN, *words)]
    heard = Hearing(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    try:
        yield heard
    finally:
        heard.end()


def await_that(good: Callable[[], bool], what: Callable[[], object]) -> None:
    """Wait until something holds; `what` says what there was instead."""
    end = time.monotonic() + 60
    while not good():
        assert time.monotonic() < end, what()
        time.sleep(0.1)


def asked_until(good: Callable[[], bool], engine: Engine) -> None:
    """Ask for new things until something holds: an engine says things as it works, and a
    subscriber hears what is said from when it is connected on."""
    for number in range(60):
        engine.ask(prompt(1000 + number, 2 * BLOCK), tokens=1)
        with suppress(AssertionError):
            end = time.monotonic() + 1
            while not good():
                assert time.monotonic() < end
                time.sleep(0.05)
            return
    raise AssertionError("nothing was heard of 60 requests")


@contextmanager
def hearing(fleet: Fleet, engine: Engine, where: dict[str, Any]) -> Iterator[Hearing]:
    """Who follows the engine as the status says, and has heard of the prompt that is asked."""
    address = f"tcp://{engine.pod.address}:{where['port']}"
    with listening(fleet, address, where["topicFilter"]) as live:
        asked_until(lambda: bool(live.batches), engine)
        engine.ask(prompt(9), tokens=1)
        yield live


def chain(stored: list[Event], tokens: list[int]) -> list[Any]:
    """The names of a prompt's blocks: those stored one behind the other, with its tokens."""
    after = {event["parent_block_hash"]: event for event in stored}
    parent, names, said = None, [], []
    firsts = [e for e in stored if e["parent_block_hash"] is None]
    event = next((e for e in firsts if e["token_ids"] == tokens[: len(e["token_ids"])]), None)
    while event is not None and len(said) < len(tokens):
        assert event["block_size"] == BLOCK
        said += event["token_ids"]
        names += event["block_hashes"]
        parent = names[-1]
        event = after.get(parent)
    # What was generated may follow in the block after the prompt's last whole one.
    assert said[: len(tokens)] == tokens[: len(said)]
    return names[: len(tokens) // BLOCK]


@pytest.mark.pairs("vllm-native-peers", "sglang-hicache-file")
def test_router_receives_the_blocks_of_an_engine(fleet: Fleet, proof) -> None:
    (engine,) = fleet.ready("first")
    where = events_status(fleet)
    assert selected(engine, where["podSelector"])
    tokens = tokens_of(engine, prompt(9))
    whole = len(tokens) // BLOCK
    with hearing(fleet, engine, where) as live:
        device, host = engine.media
        for medium in engine.media:
            asked_until(
                lambda m=medium: len(chain(live.events("BlockStored", m), tokens)) >= whole, engine
            )
        assert {batch["topic"] for batch in live.batches} == {
            f"kv@{engine.pod.address}:{PORT}@{SERVED}"
        }
        names = chain(live.events("BlockStored", device), tokens)
        assert names == chain(live.events("BlockStored", host), tokens)
        # Who missed all of it asks for it.
        replayed = f"tcp://{engine.pod.address}:{where['replayPort']}"
        with listening(fleet, "--replay", replayed) as late:
            await_that(
                lambda: chain(late.events("BlockStored", device), tokens) == names,
                lambda: len(late.batches),
            )
        # The device has room for eleven such prompts.
        for seed in range(200, 212):
            engine.ask(prompt(seed), tokens=1)
        asked_until(
            lambda: (
                set(names)
                <= {n for e in live.events("BlockRemoved", device) for n in e["block_hashes"]}
            ),
            engine,
        )
        engine.forget()
        asked_until(lambda: bool(live.events("AllBlocksCleared")), engine)
    proof("its events heard", blocks=whole)


@pytest.mark.pairs("vllm-native-simple")
def test_block_names_computed_by_a_router_equal_the_engines(fleet: Fleet, proof) -> None:
    """Routers that compute an engine's names need the block size and the seed that the status
    says."""
    (engine,) = fleet.ready("first")
    where = events_status(fleet)
    assert (where["blockTokens"], where["hashSeed"]) == (BLOCK, 7)
    tokens = tokens_of(engine, prompt(9))
    whole = len(tokens) // BLOCK
    with hearing(fleet, engine, where) as live:
        asked_until(lambda: len(chain(live.events("BlockStored", "GPU"), tokens)) >= whole, engine)
        names = chain(live.events("BlockStored", "GPU"), tokens)
    own = {}
    for seed in (where["hashSeed"], where["hashSeed"] + 1):
        done = subprocess.run(
            [str(fleet.site.image("vllm").python), "-c", NAMES, str(where["blockTokens"])],
            input=json.dumps(tokens),
            env={"PYTHONHASHSEED": str(seed), "VLLM_TARGET_DEVICE": "cpu", "HOME": "/tmp"},
            capture_output=True,
            text=True,
            check=True,
        )
        own[seed] = json.loads(done.stdout.splitlines()[-1])
    assert own.pop(where["hashSeed"]) == names
    (other,) = own.values()
    assert not set(other) & set(names)
    proof("its names computed by a router", blocks=whole)


class Router:
    """llm-d's library as a process (tests/tools/router)."""

    def __init__(self, process: "subprocess.Popen[str]"):
        self._process = process

    def held(self, tokens: list[int], blocks: int, seconds: float) -> list[list[str]]:
        """Who has each block of a prompt, as soon as so many are known, or when it is over."""
        assert self._process.stdin is not None and self._process.stdout is not None
        asked = {"model": SERVED, "tokens": tokens, "blocks": blocks, "seconds": seconds}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        said: list[list[str]] = json.loads(self._process.stdout.readline())
        return said


@contextmanager
def routing(kind: str, where: dict[str, Any], engine: Engine, size: int) -> Iterator[Router]:
    """That library with its adapter for a kind of engine, its own block size, and no seed."""
    endpoint = f"tcp://{engine.pod.address}:{where['port']}"
    command = [str(find.require("router")), kind, endpoint, where["topicFilter"], str(size), ""]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield Router(process)
    finally:
        process.kill()
        process.wait()


@pytest.mark.pairs("vllm-native-peers", "sglang-hicache-file")
def test_llm_d_library_finds_the_engine_of_a_prompt(fleet: Fleet, proof) -> None:
    """It has neither the engine's block size nor its seed: it names the tokens of the events.

    It reads SGLang's too, by its adapter for vLLM: the one for SGLang wants lists, and from 0.5.20
    on events are maps (llm-d-kv-cache 0.9.0).
    """
    (engine,) = fleet.ready("first")
    where = events_status(fleet)
    tokens = tokens_of(engine, prompt(9))
    whole = len(tokens) // BLOCK
    kinds = ("vllm", "sglang")
    with ExitStack() as both:
        router, other = (both.enter_context(routing(kind, where, engine, 16)) for kind in kinds)
        probe = [tokens_of(engine, prompt(1000 + n, 2 * BLOCK)) for n in range(60)]
        engine.forget()
        asked_until(lambda: any(router.held(one, 1, 0) for one in probe), engine)
        assert router.held(tokens, 1, 0) == []
        engine.ask(prompt(9), tokens=1)
        address = f"{engine.pod.address}:{PORT}"
        held = sorted(f"{address} {medium.lower()}" for medium in engine.media)
        asked_until(lambda: router.held(tokens, 4 * whole, 0) == [held] * 4 * whole, engine)
        assert other.held(tokens, 1, 0) == []
        engine.forget()
        asked_until(lambda: router.held(tokens, 1, 0) == [], engine)
    proof("found by llm-d's library", tokens=whole * BLOCK)

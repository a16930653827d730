"""The engine's own CPU memory: hits from it, and blocks that a peer gets from it."""

import uuid

import pytest

from tests.serve.engine import Answer, Engine, prompt
from tests.serve.fleet import LLAMA, Fleet
from tests.serve.test_10_hits import fill, hit
from tests.serve.test_20_mixups import QWEN

PEERS = 5710  # the port of the tier's level


def ask_with_peer(engine: Engine, peer: Engine, seed: int) -> tuple[Answer, int]:
    """What an engine says to a request in which a router names a peer: the answer, and how many of
    its tokens came from there."""
    source = {
        "kv_request_id": uuid.uuid4().hex,
        "remote_host": peer.pod.address,
        "remote_port": PEERS,
    }
    before = engine.external()
    said = engine.ask(prompt(seed), kv_transfer_params={"remote_kv_source": source})
    return said, int(engine.external() - before)


@pytest.mark.pairs("vllm-native-simple")
def test_blocks_evicted_from_the_device_return_from_memory(fleet: Fleet, proof) -> None:
    fleet.prepare(LLAMA)
    (engine,) = fleet.ready("first")
    fill(fleet, engine, 0)
    engine.forget()
    tokens = hit(fleet, engine, 0)
    assert engine.elsewhere() == tokens
    proof("what the device forgot", tokens=tokens)
    engine.post("/reset_prefix_cache?reset_external=true", {})
    before = engine.external()
    fleet.check(engine.ask(prompt(0)), 0)
    assert engine.external() == before
    proof("what its memory forgot too", tokens=0)


@pytest.mark.pairs("vllm-native-peers")
def test_peer_returns_its_blocks(fleet: Fleet, proof) -> None:
    fleet.prepare(LLAMA)
    first, second = fleet.ready("first", "second")
    fill(fleet, first, 0)
    said, tokens = ask_with_peer(second, first, 0)
    assert tokens == said.cached == fleet.pair.found(said.prompt_tokens)
    fleet.check(said, 0, tokens)
    assert second.elsewhere() == tokens
    proof("from a peer", tokens=tokens)
    # What the peer has not, and what nobody is named for, is computed.
    said, tokens = ask_with_peer(second, first, 10)
    assert tokens == 0
    fleet.check(said, 10)
    fill(fleet, first, 2)
    before = second.external()
    fleet.check(second.ask(prompt(2)), 2)
    assert second.external() == before


@pytest.mark.pairs("vllm-native-peers")
def test_engine_of_other_weights_is_refused_as_peer(fleet: Fleet, proof) -> None:
    """Both serve /mnt/models; the seed, which is of the identity, tells them apart. A
    request that names such a peer is computed."""
    fleet.prepare(LLAMA, QWEN)
    first = fleet.start("first")
    other = fleet.start("other", QWEN.pod)
    for engine in (first, other):
        engine.wait()
    fill(fleet, first, 3)
    said, tokens = ask_with_peer(other, first, 3)
    assert tokens == 0
    fleet.check(said, 3, variant=QWEN)
    proof("a peer of other weights", tokens=tokens, seconds=said.seconds)
    fleet.stop("other")

"""Prefill and decode: a request goes through both, and decode computes nothing of its prompt."""

import pytest

from tests.conformance.manifests import Manifest
from tests.serve.author import Pod
from tests.serve.engine import Answer, Engine, prompt
from tests.serve.fleet import LLAMA, Fleet

HAND_OVER = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}


def through(prefill: Engine, decode: Engine, text: str) -> Answer:
    """What a proxy does with a request: prefill computes the prompt, decode fetches and goes on."""
    handed = prefill.ask(text, tokens=1, kv_transfer_params=HAND_OVER).parameters
    assert handed is not None and handed["do_remote_prefill"]
    return decode.ask(text, kv_transfer_params=dict(handed))


@pytest.mark.pairs("vllm-nixl")
def test_decode_computes_nothing_of_the_prompt(fleet: Fleet, proof) -> None:
    fleet.prepare(LLAMA)
    prefill, decode = fleet.halves()
    said = through(prefill, decode, prompt(10))
    assert said.alike(fleet.reference(10))
    # Decode fetches the whole prompt; what it reports as cached is what prefill had found.
    assert (decode.external(), said.cached) == (said.prompt_tokens, 0)
    assert decode.elsewhere() == said.prompt_tokens
    again = through(prefill, decode, prompt(9))
    assert again.alike(fleet.reference(9))
    proof("from prefill to decode", tokens=said.prompt_tokens)
    # Without the handed-over place it computes by itself, and says the same.
    before = decode.external()
    assert decode.ask(prompt(3)) == fleet.reference(3)
    assert decode.external() == before


@pytest.mark.pairs("vllm-nixl")
def test_halves_of_another_dtype_are_no_pair(fleet: Fleet, proof) -> None:
    """They are refused before an engine starts: neither gets a connector."""
    pods = {"prefill": Pod(role="prefill"), "decode": Pod(role="decode", dtype="float32")}
    wired = fleet.wired(pods, policy="Optional")
    assert [connector(found) for found in wired.templates.values()] == [False, False]
    proof("halves of another dtype", tokens=0)


def connector(template: Manifest) -> bool:
    (container,) = template["spec"]["containers"]
    return "--kv-transfer-config" in container["args"]

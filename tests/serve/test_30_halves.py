"""Prefill and decode: a request goes through both, and decode computes nothing of its prompt."""

import pytest

from tests.conformance.manifests import Manifest
from tests.serve.author import Pod
from tests.serve.engine import SGLang, prompt
from tests.serve.fleet import LLAMA, Fleet


@pytest.mark.pairs("vllm-nixl")
def test_decode_computes_nothing_of_the_prompt(fleet: Fleet, proof) -> None:
    fleet.prepare(LLAMA)
    prefill, decode = fleet.prefill_and_decode()
    said = prefill.through(decode, prompt(10))
    assert said.alike(fleet.reference(10))
    # Decode fetches the whole prompt; what it reports as cached is what prefill had found.
    assert (decode.external(), said.cached) == (said.prompt_tokens, 0)
    assert decode.elsewhere() == said.prompt_tokens
    again = prefill.through(decode, prompt(9))
    assert again.alike(fleet.reference(9))
    proof("from prefill to decode", tokens=said.prompt_tokens)
    # Without the handed-over place it computes by itself, and says the same.
    before = decode.external()
    fleet.check(decode.ask(prompt(3)), 3)
    assert decode.external() == before


@pytest.mark.pairs("sglang-nixl")
def test_decode_of_sglang_computes_nothing_of_the_prompt(fleet: Fleet, proof) -> None:
    fleet.prepare(LLAMA)
    prefill, decode = fleet.prefill_and_decode()
    assert isinstance(prefill, SGLang) and isinstance(decode, SGLang)
    for seed in (10, 9):
        before = prefill.computed()
        said = prefill.through(decode, prompt(seed))
        fleet.check(said, seed)
        # Probes are computed too, a token each.
        assert prefill.computed() - before >= said.prompt_tokens
    assert decode.computed() == 0
    proof("from prefill to decode", tokens=said.prompt_tokens)


@pytest.mark.pairs("vllm-nixl", "sglang-nixl")
def test_prefill_and_decode_of_other_dtypes_are_refused(fleet: Fleet, proof) -> None:
    """They are refused before an engine starts: neither gets a connector."""
    pods = {"prefill": Pod(role="prefill"), "decode": Pod(role="decode", dtype="float32")}
    wired = fleet.wired(pods, policy="Optional")
    assert [connector(found) for found in wired.templates.values()] == [False, False]
    proof("halves of another dtype", tokens=0)


def connector(template: Manifest) -> bool:
    (container,) = template["spec"]["containers"]
    flags = {"--kv-transfer-config", "--disaggregation-transfer-backend"}
    return bool(flags & set(container["args"]))

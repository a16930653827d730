"""The user's connector with the tier's: blocks go from prefill to decode and into the tier."""

import pytest

from tests.serve.author import HANDING_OVER
from tests.serve.engine import prompt
from tests.serve.fleet import STEADY, Fleet
from tests.serve.test_10_hits import fill, hit


@pytest.mark.long
@pytest.mark.pairs("vllm-mooncake", "vllm-native")
def test_nixl_transfers_and_the_tier_stores_blocks(fleet: Fleet, proof) -> None:
    prefill, decode = (fleet.start(name, HANDING_OVER) for name in ("prefill", "decode"))
    for engine in (prefill, decode):
        engine.wait()
    said = prefill.through(decode, prompt(STEADY[4]))
    assert said.alike(fleet.reference(STEADY[4]))
    # Decode computes nothing of the prompt; what it reports as cached is what prefill found.
    assert (decode.external(), said.cached) == (said.prompt_tokens, 0)
    proof("NixlConnector beside: from prefill to decode", tokens=said.prompt_tokens)
    fill(fleet, prefill, 11)
    proof("NixlConnector beside: from the tier", tokens=hit(fleet, decode, 11))
    fleet.stop("prefill", "decode")

"""Off is untouched: the pod that runs is the author's, byte for byte, so what it does is too.

The engines that every answer is compared with run so (`fleet.References`).
"""

import pytest

from tests.conformance.manifests import Manifest
from tests.serve.author import USUAL
from tests.serve.pairs import PAIRS, Pair
from tests.serve.wiring import consume


def composed(pair: Pair, policy: str) -> tuple[Manifest, dict[str, dict[str, str]]]:
    """The pod and the files of a deployment that names the pair's tier; without a policy, none."""
    tier, engines = pair.declared, {"main": pair.write(USUAL)}
    reference = {"name": tier.document["metadata"]["name"], "policy": policy} if policy else None
    found = consume(tier, engines, reference, {}, "tiny")
    return found.templates["main"], {name: dict(data) for name, data in found.config_maps.items()}


# One tier for each way of wiring: JSON of a connector, files beside it, flags.
@pytest.mark.parametrize("name", ("vllm-native", "vllm-lmcache", "sglang-hicache-file"))
def test_off_is_the_pod_of_who_names_no_tier(name: str) -> None:
    off, none = composed(PAIRS[name], "Off"), composed(PAIRS[name], "")
    assert off == none
    assert none[1] == {}
    assert composed(PAIRS[name], "Required") != none

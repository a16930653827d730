"""Policy Off leaves the author's pod unchanged, byte for byte.

The engines that every answer is compared with run so (`fleet.References`).
"""

from dataclasses import replace

import pytest

from tests.conformance.manifests import Manifest
from tests.serve.author import USUAL
from tests.serve.fleet import Fleet
from tests.serve.pairs import PAIRS, Pair
from tests.serve.wiring import consume


def composed(pair: Pair, policy: str) -> tuple[Manifest, dict[str, dict[str, str]]]:
    """The pod and the files of a deployment that names the pair's tier; without a policy, none."""
    tier, engines = pair.declared, {"main": pair.write(replace(USUAL, role=pair.role))}
    reference = {"name": tier.document["metadata"]["name"], "policy": policy} if policy else None
    found = consume(tier, engines, reference, {}, "tiny")
    return found.templates["main"], {name: dict(data) for name, data in found.config_maps.items()}


@pytest.mark.pairs(*PAIRS)
def test_policy_off_emits_the_pod_of_the_author(fleet: Fleet, proof) -> None:
    off, none = composed(fleet.pair, "Off"), composed(fleet.pair, "")
    assert off == none
    assert none[1] == {}
    assert composed(fleet.pair, "Required") != none
    proof("policy Off", pod="as written")

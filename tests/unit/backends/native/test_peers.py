"""Peer engines as a level: their addresses, and which engines are peers."""

import json
from typing import Any

import pytest

from function.backends.native import BACKEND
from function.backends.seeds import seed_from_identity
from function.problems import Refused
from function.reasons import Reason
from tests.unit.backends.native import FEATURES, FILES, IDENTITY, PEERS, native, vllm

HOST, PORT = "VLLM_P2P_SIDE_CHANNEL_HOST", "VLLM_P2P_SIDE_CHANNEL_PORT"
SEED = "PYTHONHASHSEED"


def test_peers_connect_to_the_pod_address() -> None:
    flags = {"--data-parallel-size": "2"}
    found = BACKEND.inject(native(FILES, PEERS), vllm(flags=flags))
    assert BACKEND.allows.problem(found) == "" and found.connector is not None
    extra = found.connector["kv_connector_extra_config"]
    assert [level["type"] for level in extra["secondary_tiers"]] == ["CheckedFiles", "p2p"]
    assert extra["offload_prompt_only"] is False
    assert "podIP" in json.dumps(found.env[0]) and found.env[0]["name"] == HOST
    assert found.env[1] == {"name": PORT, "value": "5710"}
    assert [port["containerPort"] for port in found.ports] == [5710, 5711]
    assert found.ray_env == (SEED,)


def test_other_identities_are_no_peers() -> None:
    """vLLM compares the seed when engines meet, and begins each block's name with it."""
    seeds = {
        identity: BACKEND.inject(native(PEERS), vllm(identity=identity)).env_if_absent
        for identity in (IDENTITY, "ba9876543210")
    }
    assert seeds[IDENTITY] == ({"name": SEED, "value": seed_from_identity(IDENTITY)},)
    assert len({variables[0]["value"] for variables in seeds.values()}) == 2
    assert 0 <= int(seed_from_identity(IDENTITY)) < 2**32


def test_stopped_peer_is_given_up_where_vllm_can_bound_it() -> None:
    features = FEATURES | {"handshake_timeout"}
    bound = {"name": "VLLM_P2P_HANDSHAKE_TIMEOUT_S", "value": "10"}
    found = BACKEND.inject(native(PEERS), vllm(features=features))
    assert found.env_if_absent[1:] == (bound,) and BACKEND.allows.problem(found) == ""
    for level in (FILES, PEERS):
        known = FEATURES if level is PEERS else features
        assert bound not in BACKEND.inject(native(level), vllm(features=known)).env_if_absent


def test_without_peers_files_keep_their_seed() -> None:
    (variable,) = BACKEND.inject(native(FILES), vllm()).env_if_absent
    assert variable == {"name": SEED, "value": "0"}


# (spec.native.secondary[].peers, facts) -> reason, what is said
REFUSED: tuple[tuple[dict[str, Any], dict[str, Any], Reason, str], ...] = (
    ({}, {"env": {SEED: "0"}}, Reason.CONNECTOR_CONFLICT, "0 in the pod and "),
    ({}, {"identity": ""}, Reason.CACHE_IDENTITY_CONFLICT, "cache identity is unknown"),
    (
        {},
        {"version": "0.26.0", "features": frozenset({"fs", "obj"})},
        Reason.VERSION_MISMATCH,
        "type Peers needs vLLM 0.27",
    ),
    (
        {"port": 7999},
        {"flags": {"--data-parallel-size": "2"}},
        Reason.POD_CONFLICT,
        "Port 8000 is both the engine's own",
    ),
    (
        {},
        {"flags": {"--tensor-parallel-size": "16"}, "pods": 2},
        Reason.ENGINE_UNSUPPORTED,
        "spans 2 pods",
    ),
)


@pytest.mark.parametrize(("peers", "facts", "reason", "said"), REFUSED)
def test_unsupported_peers_are_refused(
    peers: dict[str, Any], facts: dict[str, Any], reason: Reason, said: str
) -> None:
    with pytest.raises(Refused) as refused:
        BACKEND.inject(native({**PEERS, "peers": peers}), vllm(**facts))
    assert refused.value.reason == reason and said in str(refused.value)


def test_two_peer_levels_are_a_problem() -> None:
    (problem,) = BACKEND.problems(native(PEERS, {**PEERS, "name": "more"}))
    assert problem.path == "spec.native.secondary[1]"

"""What NIXL injects into prefill and decode pods, and which pods it refuses."""

import json
from dataclasses import replace
from typing import Any

import pytest

from function.api.engines import SGLANG, VLLM
from function.backends.nixl import BACKEND
from function.contract import gate
from function.contract.backend import Tier
from function.contract.engine import Engine
from function.contract.injection import Injection
from function.problems import Refused
from kv_offload.docs.reasons import REASONS
from tests.unit.backends.nixl import engine, nixl

HOST, PORT = "VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_PORT"
KV = "--kv-transfer-config"


def inject(tier: Tier, one: Engine) -> Injection:
    found = BACKEND.inject(tier, one)
    assert BACKEND.allows.problem(found) == ""
    return found


def transfer(name: str, role: str = "kv_both") -> dict[str, str | None]:
    return {KV: json.dumps({"kv_connector": name, "kv_role": role})}


@pytest.mark.parametrize(
    ("phase", "role"),
    (("Prefill", "kv_producer"), ("Decode", "kv_consumer"), ("Unified", "kv_both")),
)
def test_kv_role_follows_the_phase(phase: str, role: str) -> None:
    connector = inject(nixl(), engine(phase=phase)).connector
    assert connector is not None and connector["kv_role"] == role


def test_unified_engine_gets_a_kv_both_warning() -> None:
    for phase, said in (("Prefill", False), ("Decode", False), ("Unified", True)):
        notes = gate.check(BACKEND.gate(nixl(), engine(phase=phase))).warnings
        assert any("role is kv_both" in note for note in notes) is said


# (spec.nixl.transfer, the pod's own connector) -> kv_connector
NAMES = (
    ("Pull", None, "NixlConnector"),
    ("Pull", "NixlConnector", "NixlConnector"),
    ("Pull", "NixlPullConnector", "NixlPullConnector"),
    ("Pull", "OffloadingConnector", "NixlConnector"),
    ("Push", None, "NixlPushConnector"),
    ("Push", "NixlPushConnector", "NixlPushConnector"),
)


@pytest.mark.parametrize(("way", "own", "name"), NAMES)
def test_connector_name_follows_the_transfer(way: str, own: str | None, name: str) -> None:
    flags = transfer(own) if own else {}
    connector = inject(nixl(transfer=way), engine(flags=flags)).connector
    assert connector is not None and connector["kv_connector"] == name


LEASE = "kv_lease_duration"
# (spec.nixl, the lease of the pod's own connector) -> the lease that the tier asks for
LEASES: tuple[tuple[dict[str, Any], int | None, int | None], ...] = (
    ({}, None, 300),
    ({}, 120, None),
    ({"leaseSeconds": 60}, None, 60),
    ({"leaseSeconds": 60}, 120, 60),
)


@pytest.mark.parametrize(("settings", "own", "lease"), LEASES)
def test_lease_is_the_tiers_or_the_pods_own(
    settings: dict[str, Any], own: int | None, lease: int | None
) -> None:
    config = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
    if own is not None:
        config |= {"kv_connector_extra_config": {LEASE: own}}  # type: ignore[dict-item]
    one = engine(flags={KV: json.dumps(config)}, features=frozenset({LEASE}))
    connector = inject(nixl(**settings), one).connector
    assert connector is not None
    assert connector["kv_connector_extra_config"].get(LEASE) == lease


def declared(tier: Tier, one: Engine) -> list[int]:
    return [port["containerPort"] for port in inject(tier, one).ports]


# (tier, engine) -> the container ports
PORTS: dict[str, tuple[Tier, Engine, list[int]]] = {
    "one rank": (nixl(), engine(), [5600]),
    "tensor parallelism shares one": (
        nixl(),
        engine(flags={"--tensor-parallel-size": "8"}),
        [5600],
    ),
    "each rank of data parallelism": (
        nixl(sideChannelPort=6000),
        engine(flags={"--data-parallel-size": "3"}, pods=3),
        [6000, 6001, 6002],
    ),
    "telemetry": (nixl(telemetry={"port": 9100}), engine(), [5600, 9100]),
    "the pod's own port": (nixl(), engine(env={PORT: "5557"}), []),
    "the pod's own address": (nixl(), engine(env={HOST: None}), []),
    "the pod's own connector": (nixl(), engine(flags=transfer("NixlConnector")), []),
    "SGLang's prefill": (nixl(), engine(SGLANG), [8998]),
    "SGLang's decode": (nixl(), engine(SGLANG, phase="Decode"), []),
    "the pod's own bootstrap": (
        nixl(),
        engine(SGLANG, flags={"--disaggregation-bootstrap-port": "9001"}),
        [],
    ),
}


@pytest.mark.parametrize("case", PORTS)
def test_declared_ports(case: str) -> None:
    tier, one, ports = PORTS[case]
    assert declared(tier, one) == ports


def test_variables_of_the_pod_are_not_overwritten() -> None:
    """What the address, its port and UCX's range are called in a pod may be its author's."""
    found = inject(nixl(), engine())
    assert found.env == ()
    assert [v["name"] for v in found.env_if_absent] == [HOST, PORT, "UCX_TCP_PORT_RANGE"]
    flags = inject(nixl(), engine(SGLANG, flags={"--disaggregation-bootstrap-port": "9001"})).flags
    assert "--disaggregation-bootstrap-port" not in flags


def test_sglang_host_is_the_pod_address_or_the_users() -> None:
    def names(**env: str | None) -> list[str]:
        found = inject(nixl(), engine(SGLANG, env=env))
        return [variable["name"] for variable in found.env_if_absent]

    # HOST_IP is the node's in many pods, and SGLang would listen there.
    for env in ({}, {"HOST_IP": None}):
        assert names(**env) == ["SGLANG_HOST_IP", "UCX_TCP_PORT_RANGE"]
    assert names(SGLANG_LOCAL_IP_NIC="net1") == ["UCX_TCP_PORT_RANGE"]


def test_decode_engine_may_listen_on_localhost() -> None:
    inject(nixl(), engine(SGLANG, phase="Decode", flags={"--host": "127.0.0.1"}))
    inject(nixl(), replace(engine(SGLANG, phase="Decode"), flags={}))


def test_prefill_engine_without_host_listens_on_localhost() -> None:
    """127.0.0.1 is SGLang's own default, and its bootstrap server's with it."""
    silent = replace(engine(SGLANG), flags={})
    with pytest.raises(Refused) as refused:
        inject(nixl(), silent)
    assert refused.value.reason == "ConnectorConflict"
    assert "--host is not set, which is 127.0.0.1: SGLang's bootstrap" in refused.value.message
    # Who knows what a variable holds.
    inject(nixl(), engine(SGLANG, flags={"--host": None}))


def test_older_sglang_supports_only_ucx() -> None:
    assert inject(nixl(), engine(SGLANG, version="0.5.8")).env == ()
    assert len(inject(nixl(), engine(SGLANG, version="0.5.9")).env) == 1


UNIFIED = {"phase": "Unified"}
EVENTS = {"--kv-events-config": '{"endpoint":"tcp://*:5599"}', "--data-parallel-size": "2"}
# (tier, engine, facts) -> the reason, and what the message says
REFUSED: dict[str, tuple[Tier, str, dict[str, Any], str, str]] = {
    "SGLang that is neither": (nixl(), SGLANG, UNIFIED, "OutOfScope", "--disaggregation-mode"),
    "push, and an older vLLM": (
        nixl(transfer="Push"),
        VLLM,
        {"version": "0.23.0"},
        "VersionMismatch",
        "needs vLLM 0.24 or newer; this engine is 0.23.0",
    ),
    "push, and an unknown vLLM": (
        nixl(transfer="Push"),
        VLLM,
        {"version": None},
        "VersionMismatch",
        "of an unknown version",
    ),
    "a lease": (
        nixl(leaseSeconds=60),
        VLLM,
        {"version": "0.21.0"},
        "VersionMismatch",
        "spec.nixl.leaseSeconds needs vLLM 0.22",
    ),
    "telemetry": (
        nixl(telemetry={}),
        VLLM,
        {"version": "0.31.0"},
        "VersionMismatch",
        "spec.nixl.telemetry needs vLLM 0.32",
    ),
    "libfabric, and an older SGLang": (
        nixl(backend="LIBFABRIC"),
        SGLANG,
        {"version": "0.5.8"},
        "VersionMismatch",
        "LIBFABRIC needs SGLang 0.5.9",
    ),
    **{
        f"the address {host}": (
            nixl(),
            VLLM,
            {"env": {HOST: host}},
            "ConnectorConflict",
            f"{HOST} is {host}: the engine sends this address to the other one",
        )
        for host in ("0.0.0.0", "localhost", "127.0.0.1", "::")
    },
    **{
        f"the address {host} of SGLang": (
            nixl(),
            SGLANG,
            {"env": {"SGLANG_HOST_IP": host}},
            "ConnectorConflict",
            f"SGLANG_HOST_IP is {host}: the engine sends this address to the other one",
        )
        for host in ("0.0.0.0", "localhost")
    },
    "a bootstrap server for its pod alone": (
        nixl(),
        SGLANG,
        {"flags": {"--host": "127.0.0.1"}},
        "ConnectorConflict",
        "--host 127.0.0.1: SGLang's bootstrap server listens there too",
    ),
    "the server's port": (
        nixl(sideChannelPort=8000),
        VLLM,
        {},
        "PodConflict",
        "Port 8000 is the engine's (--port) and NIXL's side channel (spec.nixl.sideChannelPort)",
    ),
    "the server's port, by its flag": (
        nixl(),
        VLLM,
        {"flags": {"--port": "5601", "--data-parallel-size": "2"}},
        "PodConflict",
        "Port 5601 is the engine's (--port)",
    ),
    "the pod's own port and its server's": (
        nixl(),
        VLLM,
        {"env": {PORT: "8000"}},
        "PodConflict",
        f"NIXL's side channel ({PORT})",
    ),
    "the events' ports": (nixl(), VLLM, {"flags": EVENTS}, "PodConflict", "Port 5600"),
    "telemetry at the side channel": (
        nixl(telemetry={"port": 5600}),
        VLLM,
        {},
        "PodConflict",
        "Port 5600 is NIXL's side channel",
    ),
    "UCX's ports": (
        nixl(),
        VLLM,
        {"flags": {"--port": "20010"}},
        "PodConflict",
        "Port 20010 is the engine's (--port) and UCX's (spec.nixl.ports)",
    ),
    "SGLang's server": (
        nixl(bootstrapPort=30000),
        SGLANG,
        {},
        "PodConflict",
        "Port 30000 is the engine's (--port) and SGLang's bootstrap server",
    ),
    "too few ports": (
        nixl(ports={"count": 64}),
        VLLM,
        {"flags": {"--tensor-parallel-size": "8"}},
        "EngineUnsupported",
        "8 ranks need 80 ports, but spec.nixl.ports.count is 64",
    ),
    "too few ports for SGLang": (
        nixl(ports={"count": 128}),
        SGLANG,
        {"flags": {"--tp-size": "8"}},
        "EngineUnsupported",
        "8 ranks need 144 ports",
    ),
    "too few of its own": (
        nixl(),
        VLLM,
        {"env": {"UCX_TCP_PORT_RANGE": "30000-30010"}, "flags": {"--tensor-parallel-size": "8"}},
        "EngineUnsupported",
        "8 ranks need 40 ports, but UCX_TCP_PORT_RANGE has 11",
    ),
    "a port of its own range": (
        nixl(),
        VLLM,
        {"env": {"UCX_TCP_PORT_RANGE": "5000-7000"}},
        "PodConflict",
        "Port 5600 is NIXL's side channel (spec.nixl.sideChannelPort) and UCX's "
        "(UCX_TCP_PORT_RANGE)",
    ),
    "sleep mode": (
        nixl(),
        VLLM,
        {"version": "0.32.0", "flags": {"--enable-sleep-mode": None}},
        "ConnectorConflict",
        "--enable-sleep-mode",
    ),
    "sleep mode with libfabric": (
        nixl(backend="LIBFABRIC"),
        VLLM,
        {"flags": {"--enable-sleep-mode": None}},
        "ConnectorConflict",
        "with UCX handles that",
    ),
    "context parallelism at decode": (
        nixl(),
        VLLM,
        {"phase": "Decode", "flags": {"--prefill-context-parallel-size": "2"}},
        "EngineUnsupported",
        "--prefill-context-parallel-size 2",
    ),
    "expandable segments": (
        nixl(),
        VLLM,
        {"env": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}},
        "ConnectorConflict",
        "PYTORCH_CUDA_ALLOC_CONF sets",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    tier, name, facts, reason, words = REFUSED[case]
    with pytest.raises(Refused) as refused:
        BACKEND.inject(tier, engine(name, **facts))
    assert refused.value.reason == reason and reason in REASONS
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("tier", "one"),
    (
        (nixl(), engine(env={HOST: "10.0.0.7"})),
        (nixl(), engine(env={HOST: None, PORT: None})),
        (nixl(), engine(flags={"--port": None})),
        (nixl(), engine(flags={"--port": "99999999999999999999"})),
        (nixl(), engine(flags={"--kv-events-config": "not JSON"})),
        (nixl(), engine(flags={"--kv-events-config": '{"endpoint":"tcp://router:5600"}'})),
        (nixl(), engine(flags={"--prefill-context-parallel-size": "2"})),
        (nixl(), engine(flags={"--enable-sleep-mode": None})),
        # A range of the pod's own is its author's, and LIBFABRIC has none.
        (nixl(ports={"count": 16}), engine(env={"UCX_TCP_PORT_RANGE": "1-9"}, flags={"--tp": "8"})),
        (
            nixl(backend="LIBFABRIC", ports={"count": 16}),
            engine(flags={"--tensor-parallel-size": "8", "--port": "20001"}),
        ),
        (nixl(bootstrapPort=30000), engine(SGLANG, phase="Decode")),
    ),
)
def test_not_refused(tier: Tier, one: Engine) -> None:
    assert inject(tier, one).backend == "NIXL"

"""What an engine pod gets, and which engines are refused."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest
from packaging.version import Version

from function.backends import keyed
from function.backends.hierarchy_rows import PLUGINS, SMALL_POOL
from function.backends.mooncake import BACKEND
from function.contract.backend import Tier
from function.contract.engine import Engine
from function.contract.gate import check
from function.contract.injection import Injection
from function.contract.packages import stated
from function.engines import ranks
from function.problems import Refused
from kv_offload.docs.reasons import REASONS
from tests.unit.backends.mooncake import FEATURES, IDENTITY, RDMA, STORE, pool, sglang, vllm

PLAIN = pool()
WIRED = {"modelplane.ai/kv-offload": "chat-3f9ab"}
DRA = {"source": "DRA", "dra": {"deviceClassName": "dranet.net"}}
MODULE = keyed.MODULE.name
HOST = "chat-3f9ab-master.kv-offload-system.svc"


def extra(tier: Tier, **facts: Any) -> dict[str, Any]:
    """SGLang's one source of configuration."""
    flags = BACKEND.inject(tier, sglang(**facts)).flags
    found: dict[str, Any] = json.loads(flags["--hicache-storage-backend-extra-config"] or "")
    return found


@pytest.mark.parametrize("phase", ["Unified", "Prefill", "Decode"])
def test_kv_role_follows_the_phase(phase: str) -> None:
    found = BACKEND.inject(PLAIN, vllm(phase=phase)).connector
    assert found == {
        "kv_connector": "MooncakeStoreConnector",
        "kv_connector_module_path": MODULE,
        "kv_role": "kv_consumer" if phase == "Decode" else "kv_both",
        "kv_connector_extra_config": {
            "cache_prefix": IDENTITY,
            "load_async": True,
            "lookup_async": True,
        },
    }


def test_lookups_are_asynchronous_where_the_version_can() -> None:
    found = BACKEND.inject(PLAIN, vllm(features=frozenset({"cache_prefix"}))).connector
    assert found is not None
    assert found["kv_connector_extra_config"] == {"cache_prefix": IDENTITY, "load_async": True}


def test_generated_tokens_are_stored_if_the_tier_says_so() -> None:
    tier = pool(generated=True)
    found = BACKEND.inject(tier, vllm(features=FEATURES | {"save_decode_cache"})).connector
    assert found is not None
    assert found["kv_connector_extra_config"]["save_decode_cache"] is True
    assert BACKEND.inject(tier, sglang()) == BACKEND.inject(PLAIN, sglang())
    with pytest.raises(Refused) as refused:
        BACKEND.inject(tier, vllm(version="0.28.0"))
    assert refused.value.reason == "VersionMismatch"
    assert "spec.mooncake.generated needs vLLM 0.29" in refused.value.message


TIMEOUTS = {
    "MC_RPC_CONNECT_TIMEOUT_MS": "1000",
    "MC_RPC_TIMEOUT_MS": "1000",
    "MC_TCP_PROGRESS_TIMEOUT_SEC": "5",
    "MC_TCP_STATUS_TIMEOUT_SEC": "5",
}


@pytest.mark.parametrize("engine", [vllm(), sglang()])
def test_engine_waits_seconds_for_master_and_stores(engine: Engine) -> None:
    found = BACKEND.inject(PLAIN, engine)
    assert {v["name"]: v["value"] for v in found.env_if_absent} == TIMEOUTS
    if engine == vllm():
        assert set(TIMEOUTS) <= set(found.ray_env)


@pytest.mark.parametrize(
    "tier",
    [
        pool(store={**STORE, "offload": {"sizeGiB": 500, "claim": {}}}),
        pool(external={"masterAddress": "m:50051"}),
        pool(store=None, external={"masterAddress": "m:50051"}),
    ],
)
@pytest.mark.parametrize("engine", [vllm(), sglang()])
def test_loads_that_may_come_from_a_disk_are_not_bounded(tier: Tier, engine: Engine) -> None:
    """`batch_get_offload_object` answers when the owner's disk has read every block."""
    found = BACKEND.inject(tier, engine).env_if_absent
    assert [variable["name"] for variable in found] == ["MC_RPC_CONNECT_TIMEOUT_MS"]


def config_file(found: Injection) -> tuple[str, str]:
    """The name and text of the client's configuration."""
    ((name, text),) = ((n, text) for n, text in found.files.items() if n.endswith(".json"))
    return name, text


def test_config_file_name_carries_a_digest() -> None:
    one, other = BACKEND.inject(PLAIN, vllm()), BACKEND.inject(pool(protocol="tcp"), vllm())
    assert one == other
    name, text = config_file(one)
    assert one.env[0] == {"name": "MOONCAKE_CONFIG_PATH", "value": f"{one.files_path}/{name}"}
    assert json.loads(text)["local_buffer_size"] == 512 * 2**20
    further, _ = config_file(BACKEND.inject(pool(engine={"bufferMiB": 64}), vllm()))
    assert further != name


def test_vllm_loads_our_class_where_keys_have_a_place() -> None:
    found = BACKEND.inject(PLAIN, vllm())
    assert set(found.files) == {f"{MODULE}.py", config_file(found)[0]}
    assert found.search_paths == {"PYTHONPATH": found.files_path}


# (flags, pods, workers of one pod)
WORKERS = (
    ({}, 1, 1),
    ({"--tensor-parallel-size": "8"}, 1, 8),
    ({"--tensor-parallel-size": "8", "--pipeline-parallel-size": "2"}, 2, 8),
    ({"--tensor-parallel-size": None}, 1, 1),
    ({"--data-parallel-size": "3"}, 2, 2),
    ({"--tensor-parallel-size": "9" * 5000}, 1, 1),
)


@pytest.mark.parametrize(("flags", "pods", "workers"), WORKERS)
def test_local_buffer_is_counted_for_each_worker(
    flags: dict[str, Any], pods: int, workers: int
) -> None:
    engine = vllm(flags=flags, pods=pods)
    assert ranks.workers(engine) == workers
    assert BACKEND.inject(PLAIN, engine).memory_bytes == workers * 512 * 2**20


def test_gang_gets_its_variables_through_ray() -> None:
    found = BACKEND.inject(PLAIN, vllm(pods=4))
    assert {"MOONCAKE_CONFIG_PATH", "MC_TCP_ENABLE_CONNECTION_POOL"} <= set(found.ray_env)


def test_sglang_injection() -> None:
    found = BACKEND.inject(PLAIN, sglang())
    assert (found.connector, found.files, found.memory_bytes) == (None, {}, 16 * 2**30)
    assert {k: v for k, v in found.flags.items() if "extra" not in k} == {
        "--enable-hierarchical-cache": None,
        "--hicache-size": "17",
        "--hicache-storage-backend": "mooncake",
        "--page-size": "64",
    }
    assert extra(PLAIN) == {
        "check_server": False,
        "device_name": "",
        "extra_backend_tag": IDENTITY,
        "global_segment_size": 0,
        "master_server_address": f"{HOST}:50051",
        "metadata_server": "P2PHANDSHAKE",
        "protocol": "tcp",
    }
    assert "--page-size" not in BACKEND.inject(PLAIN, sglang(flags={"--page-size": "32"})).flags


TENANTS = pool(tenants={"quotas": [{"namespace": "team-a", "sizeGiB": 8}], "othersSizeGiB": 4})
# (the consumer's namespace, its tenant, what its client says)
WHOSE = (("team-a", "team-a", "team-a"), ("team-b", "", "default"), ("", "", "default"))


@pytest.mark.parametrize(("namespace", "tenant", "said"), WHOSE)
def test_clients_name_their_tenant(namespace: str, tenant: str, said: str) -> None:
    assert BACKEND.tenant(TENANTS, namespace) == tenant
    assert BACKEND.tenant(PLAIN, namespace) == ""
    _, text = config_file(BACKEND.inject(TENANTS, vllm(tenant=tenant)))
    assert json.loads(text)["tenant_id"] == said
    known = {SMALL_POOL, "tenant_id"}
    found = extra(TENANTS, tenant=tenant, features=frozenset(known))
    assert found == extra(PLAIN) | ({"tenant_id": tenant} if tenant else {})


# An engine that cannot say it: (engine, its tenant, whether it is wired)
CANNOT = (
    (vllm(features=frozenset({"cache_prefix", "fixed-seed"})), "team-a", False),
    (vllm(features=frozenset({"cache_prefix", "fixed-seed"})), "", True),
    (sglang(), "team-a", False),
    (sglang(), "", True),
)


@pytest.mark.parametrize(("engine", "tenant", "wired"), CANNOT)
def test_quota_needs_an_engine_that_names_its_tenant(
    engine: Engine, tenant: str, wired: bool
) -> None:
    engine = replace(engine, tenant=tenant)
    if wired:
        assert BACKEND.inject(TENANTS, engine) == BACKEND.inject(PLAIN, engine)
        return
    with pytest.raises(Refused) as refused:
        BACKEND.inject(TENANTS, engine)
    assert refused.value.reason == "VersionMismatch"
    for words in ("Namespace team-a", "vLLM 0.28, SGLang 0.5.17", "from the quotas"):
        assert words in refused.value.message


OLD = {"version": "0.5.14", "features": frozenset[str]()}
# (the tier's engine.hostGiB, facts of the engine, --hicache-size, GiB added to the pod)
HOST_POOLS: tuple[tuple[int | None, dict[str, Any], str | None, int], ...] = (
    (None, {}, "17", 16),
    (None, {"flags": {"--tp-size": "8"}}, "17", 128),
    (None, {"flags": {"--tp-size": "16"}, "pods": 2}, "17", 128),
    (100, {}, "107", 100),
    (None, OLD, None, 0),
    (100, OLD, "107", 100),
    (100, {"flags": {"--hicache-size": "30"}}, None, 0),
    (100, {"flags": {"--hicache-ratio": "3"}}, None, 0),
    (100, {"flags": {"--hicache-host-memory-fraction": "0.3"}}, None, 0),
    # A wired pod that is wired once more.
    (100, {"flags": {"--hicache-size": "107"}}, "107", 100),
)


@pytest.mark.parametrize(("said", "engine", "size", "gib"), HOST_POOLS)
def test_the_host_pool_of_sglang_is_written_and_counted(
    said: int | None, engine: dict[str, Any], size: str | None, gib: int
) -> None:
    found = BACKEND.inject(pool(engine={"hostGiB": said} if said else {}), sglang(**engine))
    assert (found.flags.get("--hicache-size"), found.memory_bytes) == (size, gib * 2**30)


AWAITS = ["kv-offload-await-master", "kv-offload-await-store"]


def test_sglang_starts_after_the_master_and_a_ready_store() -> None:
    """SGLang ends about ten seconds after its first writes fail; init containers run once."""
    wired = BACKEND.inject(PLAIN, sglang()).waits
    addresses = [f"{HOST}:50051", "chat-3f9ab-store.kv-offload-system.svc"]
    assert wired == tuple(
        {"name": name, "addresses": [address], "seconds": 300}
        for name, address in zip(AWAITS, addresses, strict=True)
    )
    (service,) = (p.manifest for p in BACKEND.parts(PLAIN) if p.key == "service-store")
    (stores,) = (p.manifest for p in BACKEND.parts(PLAIN) if p.key.endswith("set-store"))
    assert addresses[1] == "{name}.{namespace}.svc".format(**service["metadata"])
    assert service["spec"]["clusterIP"] == "None", "its name resolves from the first pod on"
    assert "publishNotReadyAddresses" not in service["spec"]
    assert service["spec"]["selector"] == stores["spec"]["selector"]["matchLabels"]
    joined = BACKEND.inject(pool(external={"masterAddress": "m:50051"}), sglang()).waits
    assert [wait["name"] for wait in joined] == AWAITS[1:], "its stores wait for the master"


ADMITS = {"Pool": False, "Engines": True}


@pytest.mark.parametrize("access", ADMITS)
def test_only_an_admitted_engine_asks_the_admin_port(access: str) -> None:
    """Who reaches it may set the shares of others and remove all blocks."""
    of = pool({"monitoring": {}}, adminAccess=access)
    asks = ADMITS[access]
    assert extra(of).get("master_metrics_port") == (9003 if asks else None)
    assert extra(of)["check_server"] is asks
    assert [wait["name"] for wait in BACKEND.inject(of, sglang()).waits] == ([] if asks else AWAITS)
    (policy,) = (p.manifest for p in BACKEND.parts(of) if p.key == "networkpolicy-pool")
    own, engines, monitoring = policy["spec"]["ingress"]
    ports = [{port["port"] for port in rule["ports"]} for rule in (own, engines, monitoring)]
    assert [9003 in each for each in ports] == [True, asks, True]
    assert "namespaceSelector" not in own["from"][0]
    assert ports[1] == {50051, 15000, 12300} | ({9003} if asks else set())


# What SGLang can ask before it starts: the admin server on the master's own host, or nothing.
ADMIN = (
    ({"masterAddress": "m:50051"}, False),
    ({"masterAddress": "m:50051", "adminAddress": "m:9003"}, True),
    ({"masterAddress": "m:50051", "adminAddress": "other:9003"}, False),
    ({"masterAddress": "etcd://m:2379", "adminAddress": "m:9003"}, False),
)


@pytest.mark.parametrize(("external", "asks"), ADMIN)
def test_sglang_checks_a_reachable_external_store(external: dict[str, Any], asks: bool) -> None:
    assert extra(pool(external=external))["check_server"] is asks


def test_local_placement_uses_the_node_name() -> None:
    tier = pool(
        {"nodes": {"selector": {"pool": "h200"}}}, metadata="http", allocationStrategy="local_first"
    )
    node = {"valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    for engine, name in (
        (vllm(), "MOONCAKE_REQUESTER_LOCAL_HOSTNAME"),
        (sglang(), "MOONCAKE_LOCAL_HOSTNAME"),
    ):
        found = BACKEND.inject(tier, engine)
        assert {"name": name, **node} in found.env
        assert found.node_selector == {"pool": "h200"}
    assert BACKEND.inject(PLAIN, vllm()).node_selector == {}


@pytest.mark.parametrize("engine", [vllm(), sglang()], ids=["vLLM", "SGLang"])
def test_rdma_never_falls_back_silently(engine: Engine) -> None:
    found = BACKEND.inject(pool({"rdma": RDMA}, protocol="rdma", rdmaGidIndex=3), engine)
    values = {v["name"]: v.get("value") for v in found.env}
    assert (values["MC_FORCE_HCA"], values["MC_GID_INDEX"]) == ("1", "3")
    assert found.resources == {"rdma/hca": 1}
    assert found.capabilities == ("IPC_LOCK",)
    claimed = BACKEND.inject(
        pool({"rdma": DRA}, protocol="rdma", engine={"rdmaClaimTemplateName": "nic"}), engine
    )
    template = {"name": "kv-offload-rdma", "resourceClaimTemplateName": "nic"}
    assert (claimed.claims, claimed.resources) == ((template,), {})
    plain = BACKEND.inject(PLAIN, engine)
    assert (plain.capabilities, plain.claims) == ((), ())


def test_a_cluster_id_reaches_every_client() -> None:
    ha = pool(master={"replicas": 3}, etcd={"source": "Managed"})
    for engine in (vllm(), sglang()):
        values = {v["name"]: v.get("value") for v in BACKEND.inject(ha, engine).env}
        assert values["MC_STORE_CLUSTER_ID"] == "chat-3f9ab"


def _expandable(name: str) -> dict[str, Any]:
    return {"env": {name: "a:1, expandable_segments: True"}}


OLD = {"version": "0.23.0", "features": frozenset({"load_async", "standalone-store"})}

# An image under its stock name, and what somebody declares it to hold.
STOCK = "vllm/vllm-openai:v0.23.0"
DECLARED = {"mooncake": stated("declared", "0.3.13")}

# (version, flags, cache_prefix, PYTHONHASHSEED)
XXHASH = {"--prefix-caching-hash-algo": "xxhash"}
SEEDS: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    ("0.33.0", {}, IDENTITY, ""),
    ("0.29.0", {}, IDENTITY, ""),
    ("0.33.0", XXHASH, IDENTITY, "0"),
    ("0.28.0", {}, IDENTITY, "0"),
    ("0.24.0", {}, IDENTITY, "0"),
    ("0.23.0", {}, "", "SEED"),
    ("0.22.0", XXHASH, "", "SEED"),
)


@pytest.mark.parametrize(("version", "flags", "prefix", "seed"), SEEDS)
def test_prefix_or_seed_carries_the_identity(
    version: str, flags: dict[str, Any], prefix: str, seed: str
) -> None:
    """Before 0.29 vLLM's hashes of blocks begin with random bytes in each process."""
    seed = seed.replace("SEED", str(int(hashlib.sha256(IDENTITY.encode()).hexdigest()[:8], 16)))
    engine = vllm(version=version, flags=flags, image=STOCK, packages=DECLARED)
    engine = replace(engine, features=check(BACKEND.gate(PLAIN, engine)).features)
    found = BACKEND.inject(PLAIN, engine)
    assert found.connector is not None
    assert found.connector["kv_connector_extra_config"].get("cache_prefix", "") == prefix
    assert found.connector.get("kv_connector_module_path") == (MODULE if prefix else None)
    assert found.search_paths == ({"PYTHONPATH": found.files_path} if prefix else {})
    assert [v["value"] for v in found.env_if_absent if v["name"] == "PYTHONHASHSEED"] == (
        [seed] if seed else []
    )
    assert "PYTHONHASHSEED" in BACKEND.allows.env
    again = replace(engine, env={v["name"]: v["value"] for v in found.env_if_absent})
    assert BACKEND.inject(PLAIN, again) == found, "a wired pod, wired by a second step"


REFUSED: tuple[tuple[Engine, str, str], ...] = (
    (vllm(identity=""), "CacheIdentityConflict", "kv-offload-cache-identity"),
    (sglang(identity=""), "CacheIdentityConflict", "kv-offload-cache-identity"),
    (vllm(flags={"--enable-lora": None}), "CacheIdentityConflict", "--enable-lora"),
    (sglang(flags={"--lora-paths": "x"}), "CacheIdentityConflict", "--lora-paths"),
    (
        vllm(**OLD, env={"PYTHONHASHSEED": "0"}),
        "ConnectorConflict",
        "Remove the variable, or use vLLM 0.24",
    ),
    (vllm(**OLD, env={"PYTHONHASHSEED": None}), "ConnectorConflict", "PYTHONHASHSEED"),
    (vllm(**OLD, identity=""), "CacheIdentityConflict", "kv-offload-cache-identity"),
    (vllm(image="own/vllm:0.33.0-mooncake0.3.12"), "VersionMismatch", "Mooncake 0.3.12"),
    (vllm(image="own/mooncake-v0.3.14:1"), "VersionMismatch", "the tier runs 0.3.13.post1"),
    (vllm(env={"MOONCAKE_VERSION": "0.3.12"}), "VersionMismatch", "Mooncake 0.3.12"),
    (vllm(**_expandable("PYTORCH_ALLOC_CONF")), "ConnectorConflict", "PYTORCH_ALLOC_CONF"),
    (vllm(flags={"--enable-sleep-mode": None}), "ConnectorConflict", "--enable-sleep-mode"),
    (sglang(flags={"--page-size": "1"}), "ConnectorConflict", "--page-size 1"),
    (sglang(env={"MC_FORCE_TCP": "1"}), "ConnectorConflict", "MC_FORCE_TCP"),
)


@pytest.mark.parametrize(("engine", "reason", "words"), REFUSED)
def test_refused(engine: Engine, reason: str, words: str) -> None:
    with pytest.raises(Refused) as refused:
        BACKEND.inject(PLAIN, engine)
    assert refused.value.reason == reason
    assert reason in REASONS
    assert words in refused.value.message


@pytest.mark.parametrize(
    "engine",
    [
        vllm(image="own/vllm:0.33.0-mooncake0.3.13"),
        vllm(env={"PYTHONHASHSEED": "7"}),
        vllm(env={"MOONCAKE_VERSION": "0.3.13.post2"}),
        vllm(image="own/mooncake:latest@sha256:0"),
        vllm(env={"PYTORCH_ALLOC_CONF": "max_split_size_mb:64"}),
    ],
)
def test_not_refused(engine: Engine) -> None:
    assert BACKEND.inject(PLAIN, engine).backend == "Mooncake"


def test_gate_question_names_connector_and_package() -> None:
    for engine, row in ((vllm(), "MooncakeStoreConnector"), (sglang(), "HiCache/mooncake")):
        asked = BACKEND.gate(PLAIN, engine)
        assert (asked.connector, asked.engine, asked.rows) == (row, engine, BACKEND.rows)
        assert asked.package_version == Version("0.3.13.post1")
        assert [(p.package, p.fits) for p in asked.pairings] == [("mooncake", "==0.3.13.*")]
    assert BACKEND.assumes(PLAIN, "SGLang") == {"--page-size": "64"}


def test_sglangs_plugins_must_hold_ours() -> None:
    one = sglang(env={"SGLANG_PLUGINS": "tracer"}, features=frozenset({PLUGINS, SMALL_POOL}))
    with pytest.raises(Refused, match="SGLANG_PLUGINS is tracer, without kv-offload-storages"):
        BACKEND.inject(pool(), one)

"""The wiring of engine pods: a client of the pool without a segment of its own.

The cache identity is in the key (`cache_prefix`, `extra_backend_tag`), because both engines key
blocks by the last part of the model path only. In vLLM our class adds what the engine resolved
(`keyed`). vLLM before 0.24 has no `cache_prefix`; there it is the seed of block hashes (`_seed`).
Every setting is written: the default of a size is 4 GiB a worker.
"""

import hashlib
import json
from collections.abc import Callable

from function.api.base import present
from function.api.engines import SGLANG, VLLM
from function.backends import hierarchy, keyed, modules, seeds
from function.backends.hierarchy import Storage
from function.backends.hierarchy_rows import SMALL_POOL
from function.backends.mooncake import conflicts, facts, rdma
from function.backends.mooncake.facts import SEEDED, TENANT, Tier
from function.backends.rdma import CAPABILITIES, ENGINE_CLAIM, engine_device
from function.contract.engine import Engine
from function.contract.injection import Injection, Json
from function.contract.pairings import Pairing
from function.contract.recorded import Allowance
from function.engines import ranks
from function.kube import manifests as k

FILES = "/etc/kv-offload/mooncake"
PAGE_TOKENS = 64
# Flags that are added if absent, and that are part of the cache identity.
ASSUMES = {SGLANG: {hierarchy.PAGE_SIZE: str(PAGE_TOKENS)}}
# Default host pool of an SGLang rank: a buffer for pages in transfer.
_HOST_GIB = 16
_MIB = 2**20
# How long an engine waits for the master, in milliseconds, and for a byte of a store, in seconds.
# Look-ups wait in line: with Mooncake's 30,000 an engine begins two requests a minute while its
# master hangs, and a store that hangs holds each load for a minute. Older Mooncake (before 0.3.12,
# 0.3.13) ignores what it does not know.
_CONNECT_TIMEOUT = {"MC_RPC_CONNECT_TIMEOUT_MS": "1000"}
# One call of a load from a store's disk answers after the disk has read all of it: no bound holds
# there, nor in a pool of somebody's own, whose stores are unknown.
_TIMEOUTS = _CONNECT_TIMEOUT | {
    "MC_RPC_TIMEOUT_MS": "1000",
    "MC_TCP_PROGRESS_TIMEOUT_SEC": "5",
    "MC_TCP_STATUS_TIMEOUT_SEC": "5",
}
_CONNECTOR = {VLLM: "MooncakeStoreConnector", SGLANG: "HiCache/mooncake"}
ALLOWS = Allowance(
    connectors=frozenset({"MooncakeStoreConnector"}),
    modules=(keyed.PREFIX,),
    programs=keyed.DIGESTS | hierarchy.DIGESTS,
    search_paths=modules.SEARCH_PATHS,
    flags=hierarchy.FLAGS,
    env=frozenset(
        (
            "MC_FORCE_HCA",
            "MC_GID_INDEX",
            "MC_STORE_CLUSTER_ID",
            *_TIMEOUTS,
            "MC_TCP_ENABLE_CONNECTION_POOL",
            "MOONCAKE_CONFIG_PATH",
            "MOONCAKE_LOCAL_HOSTNAME",
            "MOONCAKE_REQUESTER_LOCAL_HOSTNAME",
            seeds.SEED,
        )
    ),
    mounts=(FILES,),
    capabilities=frozenset(CAPABILITIES),
    claims=frozenset({ENGINE_CLAIM}),
    waits=frozenset({facts.AWAIT, facts.AWAIT_MASTER}),
)

# A prefill engine reads and writes; a decode engine gets its blocks from prefill, and reads others
# from the pool.
_ROLES = {"Decode": "kv_consumer"}


def row(engine: Engine) -> str:
    """Return the version gate's row for an engine."""
    return _CONNECTOR.get(engine.name, "Mooncake")


def pairing(tier: Tier) -> Pairing:
    """Return the Mooncake that an engine's image must hold: the store's release line."""
    version = present(facts.image(tier).version)
    return Pairing(
        "mooncake",
        f"=={facts.line(version)}.*",
        f"the tier's store (mooncake {version})",
        "engines of another release line connect, then every write fails",
        "ran: 0.3.12 against 0.3.13",
    )


def inject(tier: Tier, engine: Engine) -> Injection:
    """Return the wiring of one engine pod. Raise Refused."""
    conflicts.TIER_CONFLICTS.check(tier, engine)
    return _ENGINES[engine.name](tier, engine)


def client_config(tier: Tier, engine: Engine) -> Json:
    """Return vLLM's client configuration; sizes per worker, in bytes."""
    spec = tier.settings
    config: Json = {
        "mode": "standalone-store",
        "master_server_address": facts.master_address(tier),
        "metadata_server": facts.metadata_server(tier),
        "global_segment_size": 0,
        "local_buffer_size": spec.engine.buffer_mib * _MIB,
        "protocol": spec.protocol,
        "device_name": rdma.device_names(tier),
        "enable_offload": spec.store is not None and spec.store.offload is not None,
    }
    if TENANT in engine.features:
        config["tenant_id"] = engine.tenant or facts.DEFAULT_TENANT
    return config


def _vllm(tier: Tier, engine: Engine) -> Injection:
    text = json.dumps(client_config(tier, engine), indent=2) + "\n"
    # The name carries a digest: a running pod never reads another file than it was started with.
    file = f"mooncake-{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
    env: list[Json] = [{"name": "MOONCAKE_CONFIG_PATH", "value": f"{FILES}/{file}"}]
    if facts.by_node_name(tier):
        env.append(k.env_field("MOONCAKE_REQUESTER_LOCAL_HOSTNAME", "spec.nodeName"))
    extra: Json = {"cache_prefix": engine.identity} if "cache_prefix" in engine.features else {}
    extra["load_async"] = True
    if facts.LOOKUP in engine.features:
        extra["lookup_async"] = True
    if tier.settings.generated:
        extra["save_decode_cache"] = True
    connector = {
        "kv_connector": "MooncakeStoreConnector",
        "kv_role": _ROLES.get(engine.phase, "kv_both"),
        "kv_connector_extra_config": extra,
    }
    module: Json = {"files": {}, "files_path": FILES}
    if "cache_prefix" in extra:
        connector, module = keyed.keyed(connector), modules.mounted(keyed.MODULE.files, FILES)
    module["files"][file] = text
    seed = _seed(engine)
    buffers = tier.settings.engine.buffer_mib * _MIB * ranks.workers(engine)
    common = _common(tier, env)
    optional = common.pop("env_if_absent")
    return Injection(
        connector=connector,
        connector_options={"kv_load_failure_policy": "recompute"},
        memory_bytes=buffers,
        env_if_absent=(*optional, *([{"name": seeds.SEED, "value": seed}] if seed else ())),
        # Ray hands variables of other prefixes to vLLM's workers only when told to.
        ray_env=tuple(variable["name"] for variable in (*common["env"], *optional)),
        **module,
        **common,
    )


def _seed(engine: Engine) -> str:
    """Return PYTHONHASHSEED for vLLM, "" if it needs none.

    A block's key ends with vLLM's own hash of it, which chains all blocks before it and begins with
    this seed. Without one vLLM before 0.29, and a hash that is not cryptographic in any version,
    begins with random bytes in every process: no other process would ever hit a block. Where the
    key has no other place for the identity, the seed is 32 bits of it, as many as Python takes: two
    identities under one model name collide once in four thousand million pairs.
    """
    if "cache_prefix" not in engine.features:
        return seeds.seed_from_identity(engine.identity)
    hash_of_blocks = engine.flag("--prefix-caching-hash-algo") or ""
    return "0" if SEEDED not in engine.features or hash_of_blocks.startswith("xxhash") else ""


def storage(tier: Tier, tag: str, tenant: str) -> Storage:
    """Return the pool as SGLang's storage: `tag` prefixes keys; `tenant` may be ""."""
    spec = tier.settings
    admin = facts.admin_address(tier)
    extra: Json = {
        "extra_backend_tag": tag,
        "master_server_address": facts.master_address(tier),
        "metadata_server": facts.metadata_server(tier),
        "global_segment_size": 0,
        "protocol": spec.protocol,
        "device_name": rdma.device_names(tier),
        # Wait for the pool: SGLang stops for good when its first write fails ten times.
        "check_server": asks_admin(tier),
    }
    if extra["check_server"] and admin is not None:
        extra["master_metrics_port"] = int(admin.rpartition(":")[2])
    if tenant:
        extra["tenant_id"] = tenant
    host = "spec.nodeName" if facts.by_node_name(tier) else "status.podIP"
    pod = _common(tier, [k.env_field("MOONCAKE_LOCAL_HOSTNAME", host)])
    return Storage("mooncake", extra, pod)


def _sglang(tier: Tier, engine: Engine) -> Injection:
    pool = storage(tier, engine.identity, engine.tenant)
    flags = hierarchy.flags(engine, pool, PAGE_TOKENS)
    gib = _host_gib(tier, engine)
    if gib:
        flags[hierarchy.SIZE] = hierarchy.format_pool_size(gib)
    if not pool.extra["check_server"]:
        pool.pod["waits"] = facts.waits(tier, min(int(tier.spec.startup_timeout_seconds), 3600))
    return Injection(
        flags=flags,
        memory_bytes=gib * hierarchy.GIB * ranks.workers(engine),
        **hierarchy.keyed(engine, pool.pod, FILES),
    )


def _host_gib(tier: Tier, engine: Engine) -> int:
    """Return the GiB of each rank's host pool, 0 to keep SGLang's default.

    From 0.5.21 on the default is most of the memory of the pod or its node.
    """
    gib = tier.settings.engine.host_gib or (_HOST_GIB if SMALL_POOL in engine.features else 0)
    own = engine.flag(hierarchy.SIZE) if engine.has(hierarchy.SIZE) else None
    if gib and own == hierarchy.format_pool_size(gib):
        return gib  # the tier's own value, in a pod that is wired again
    users = (hierarchy.SIZE, hierarchy.RATIO, hierarchy.FRACTION)
    return 0 if any(engine.has(flag) for flag in users) else gib


def asks_admin(tier: Tier) -> bool:
    """Return whether SGLang may ask the admin server, which it does on the master's own host."""
    if tier.settings.external is None and tier.settings.admin_access == "Pool":
        return False
    master, admin = facts.master_address(tier), facts.admin_address(tier)
    return admin is not None and admin.rpartition(":")[0] == master.rpartition(":")[0]


def _common(tier: Tier, env: list[Json]) -> Json:
    values = {"MC_TCP_ENABLE_CONNECTION_POOL": "1"} | rdma.env(tier)
    cluster = facts.cluster_id(tier)
    if cluster is not None:
        values["MC_STORE_CLUSTER_ID"] = cluster
    variables = (*env, *k.env(values))
    common: Json = {"backend": "Mooncake", "env": variables, "labels": tier.wired_labels}
    store = tier.settings.store
    reads_memory = tier.settings.external is None and store is not None and store.offload is None
    common["env_if_absent"] = tuple(k.env(_TIMEOUTS if reads_memory else _CONNECT_TIMEOUT))
    if facts.by_node_name(tier):
        common["node_selector"] = dict(tier.spec.nodes.selector)
    if tier.settings.protocol == rdma.RDMA:
        common |= engine_device(tier, tier.settings.engine.rdma_claim_template_name)
    return common


_ENGINES: dict[str, Callable[[Tier, Engine], Injection]] = {VLLM: _vllm, SGLANG: _sglang}

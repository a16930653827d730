"""The wiring of engine pods: vLLM's connector, memory in /dev/shm and volumes.

Only keys that every version with the connector has, or that the gate found in the version. On
shared levels the identity is a directory: vLLM's digest contains the model string, but neither
revision, quantisation nor attention backend. Our class adds what the engine resolved (`keyed`).
"""

from function.api.base import present
from function.api.native import NativeDisk, NativeLevel, NativePeers, NativeSimple
from function.backends import access_keys, keyed, modules, seeds, trust, volumes
from function.backends.native import facts
from function.backends.native.conflicts import CONFLICTS
from function.backends.native.facts import Tier
from function.contract.engine import Engine
from function.contract.injection import Injection, Json, SharedMemory
from function.contract.recorded import Allowance
from function.engines import ranks
from function.kube import manifests as k

FILES = "/etc/kv-offload/native"
DISK, _DISK = f"{facts.MOUNTS}/disk", "kv-offload-disk"
_HOST, _PORT = "VLLM_P2P_SIDE_CHANNEL_HOST", "VLLM_P2P_SIDE_CHANNEL_PORT"
# Seconds until a stopped peer is given up: vLLM's heartbeat has 10, and this 30 by default.
_HANDSHAKE = {"name": "VLLM_P2P_HANDSHAKE_TIMEOUT_S", "value": "10"}
# Container ports have names; ports of further ranks are not declared.
_PEERS, _MOST = "kv-peers", 64
# The level of files with a checksum in each, and the bucket that may hang.
CHECKED_FILES = modules.module("native", "native/checked_files.py")
BOUNDED_BUCKET = modules.module("native", "native/bounded_bucket.py")

ALLOWS = Allowance(
    connectors=frozenset({facts.CONNECTOR, facts.SIMPLE}),
    modules=(keyed.PREFIX,),
    programs=keyed.DIGESTS | modules.digests([CHECKED_FILES.text, BOUNDED_BUCKET.text]),
    search_paths=modules.SEARCH_PATHS,
    env=frozenset({seeds.SEED, _HOST, _PORT, _HANDSHAKE["name"]}),
    secrets=frozenset(access_keys.NAMES),
    mounts=(facts.MOUNTS, FILES),
    volumes=frozenset({"configMap", "emptyDir", "ephemeral", "persistentVolumeClaim"}),
    ports=frozenset(f"{_PEERS}-{rank}" for rank in range(_MOST)),
)


def inject(tier: Tier, engine: Engine) -> Injection:
    """Return the wiring of one engine pod. Raise Refused."""
    CONFLICTS.check(tier, engine)
    if tier.settings.simple is not None:
        return _simple(tier, tier.settings.simple, engine)
    levels = tier.settings.secondary
    buckets = [level.bucket for level in levels if level.bucket]
    env = [each for bucket in buckets for each in access_keys.env(bucket.credentials_secret)]
    peers, value = facts.peers(tier), facts.seed(tier, engine)
    # Ray itself copies variables with vLLM's prefix.
    copied = tuple(variable["name"] for variable in env)
    if peers:
        # The address that it binds is also the one that other engines dial.
        env += [k.env_field(_HOST, "status.podIP"), {"name": _PORT, "value": str(peers.port)}]
    seed: tuple[Json, ...] = ({"name": seeds.SEED, "value": value},) if value else ()
    bounded = peers and "handshake_timeout" in engine.features
    mounted = [(level, volume) for level in levels if (volume := _volume(tier, level))]
    connector = {
        "kv_connector": facts.CONNECTOR,
        "kv_role": "kv_both",
        "kv_connector_extra_config": _extra(tier, engine),
    }
    resolves = bool(levels) and facts.RESOLVED in engine.features
    files = keyed.MODULE.files | (CHECKED_FILES.files if any(facts.file_systems(tier)) else {})
    files |= BOUNDED_BUCKET.files if buckets else {}
    module = modules.mounted(files, FILES) if resolves else {}
    return Injection(
        backend="Native",
        connector=keyed.keyed(connector) if resolves else connector,
        connector_options={"kv_load_failure_policy": "recompute"},
        env=tuple(env),
        env_if_absent=(*seed, _HANDSHAKE) if bounded else seed,
        ray_env=(*copied, *(variable["name"] for variable in seed)),
        ports=_ports(peers, engine) if peers else (),
        volumes=tuple(volume for _, volume in mounted),
        mounts=tuple(_mount(tier, level, volume, engine) for level, volume in mounted),
        labels=tier.wired_labels,
        shm=SharedMemory(bytes=facts.pod_bytes(tier, engine)),
        **module,
    )


def _simple(tier: Tier, simple: NativeSimple, engine: Engine) -> Injection:
    """Return the wiring of the simple connector: private memory, or a disk instead."""
    extra: Json = {"lazy_offload": True} if simple.lazy else {}
    disks: tuple[Json, ...] = ()
    memory = storage = 0
    if simple.disk is None:
        extra["cpu_bytes_to_use"] = facts.simple_bytes(tier, engine)
        memory = facts.private_bytes(tier, engine)
    else:
        extra |= {
            "kv_offload_backend": "disk",
            "disk_path": f"{DISK}/blocks",
            "disk_capacity_bytes": simple.disk.size_gib_per_rank * 2**30,
        }
        disks = (_disk(simple.disk, engine),)
        storage = 0 if simple.disk.storage_class_name else _disk_gib(simple.disk, engine) * 2**30
    return Injection(
        backend="Native",
        connector={
            "kv_connector": facts.SIMPLE,
            "kv_role": "kv_both",
            "kv_connector_extra_config": extra,
        },
        connector_options={"kv_load_failure_policy": "recompute"},
        volumes=disks,
        mounts=tuple({"name": volume["name"], "mountPath": DISK} for volume in disks),
        labels=tier.wired_labels,
        memory_bytes=memory,
        storage_bytes=storage,
    )


def _disk(disk: NativeDisk, engine: Engine) -> Json:
    size = _disk_gib(disk, engine)
    if disk.storage_class_name is None:
        return {"name": _DISK, "emptyDir": {"sizeLimit": f"{size}Gi"}}
    template = {"spec": k.claim(disk.storage_class_name, size)}
    return {"name": _DISK, "ephemeral": {"volumeClaimTemplate": template}}


def _disk_gib(disk: NativeDisk, engine: Engine) -> int:
    """Return the GiB for a file per GPU of the pod, and the file system's overhead."""
    size = disk.size_gib_per_rank * ranks.workers(engine)
    return size + max(1, size // 20)


def _ports(peers: NativePeers, engine: Engine) -> tuple[Json, ...]:
    ports = range(min(engine.number("--data-parallel-size"), _MOST))
    return tuple({"name": f"{_PEERS}-{n}", "containerPort": peers.port + n} for n in ports)


def _extra(tier: Tier, engine: Engine) -> Json:
    spec = tier.settings
    extra: Json = {"cpu_bytes_to_use": facts.cpu_bytes(tier, engine)}
    if spec.eviction_policy != "LRU":
        extra["eviction_policy"] = spec.eviction_policy.lower()
    numbers = {"blocks_per_chunk": spec.blocks_per_chunk, "store_threshold": spec.store_threshold}
    extra |= {name: number for name, number in numbers.items() if number is not None}
    if tier.spec.events is not None and "self_describing_kv_events" in engine.features:
        # A router needs the tokens in events.
        extra["self_describing_kv_events"] = True
    if spec.generated or facts.peers(tier):
        # The next request of a chat needs generated tokens too.
        extra["offload_prompt_only"] = False
    if spec.secondary:
        extra["spec_name"] = facts.TIERING
        extra["secondary_tiers"] = [_level(tier, level, engine) for level in spec.secondary]
    return extra


def _level(tier: Tier, level: NativeLevel, engine: Engine) -> Json:
    files = level.file_system
    if files is not None:
        threads = {"n_read_threads": files.read_threads, "n_write_threads": files.write_threads}
        root = f"{facts.directory(tier, level)}/{engine.identity}"
        body: Json = {"type": "fs", "root_dir": root}
        body |= {name: n for name, n in threads.items() if n}
        return body | _ours(engine, "CheckedFiles", CHECKED_FILES)
    if level.peers is not None:
        return {"type": "p2p"}
    bucket = present(level.bucket)
    store: Json = {
        "bucket": bucket.bucket,
        "endpoint_override": bucket.endpoint,
        "region": bucket.region,
        "scheme": bucket.endpoint.partition(":")[0],
    }
    if bucket.ca_config_map is not None:
        store["ca_bundle"] = trust.path(facts.mount(level))
    prefix = f"{tier.remote_name}/{engine.identity}"
    body = {"type": "obj", "store_config": store, "prefix": prefix}
    return body | _ours(engine, "BoundedBucket", BOUNDED_BUCKET)


def _ours(engine: Engine, name: str, module: modules.Module) -> Json:
    """Return what makes a level one of our classes, where vLLM has what they extend."""
    known = facts.RESOLVED in engine.features
    return {"type": name, "module_path": module.name} if known else {}


def _mount(tier: Tier, level: NativeLevel, volume: Json, engine: Engine) -> Json:
    if level.file_system is not None:
        return volumes.own_mount(engine, volume["name"], facts.mount(level), tier.remote_name)
    return {"name": volume["name"], "mountPath": facts.mount(level)}


def _volume(tier: Tier, level: NativeLevel) -> Json | None:
    """Return a level's volume: its files, or the CA certificates of its bucket."""
    name = f"kv-offload-level-{level.name}"
    if level.file_system is not None:
        claim = {"claimName": facts.claim(tier, level)}
        return {"name": name, "persistentVolumeClaim": claim}
    if level.bucket is not None and level.bucket.ca_config_map is not None:
        return trust.volume(level.bucket.ca_config_map, name)
    return None

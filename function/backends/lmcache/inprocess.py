"""Mode InProcess: LMCache inside the engine, configured by a mounted file.

It is deprecated upstream, but engines over several pods need it. The file holds no secret: a Redis
password is in the environment, and the scheme is `resp`, because `redis` takes one only in the URL,
which LMCache logs. LMCache only warns about unknown keys of its YAML: every key here exists in
0.5.6 (and since 0.3).
"""

import yaml

from function.api.lmcache_inprocess import InProcessRemote
from function.backends.lmcache import facts, modules
from function.backends.lmcache.facts import Tier
from function.backends.modules import mounted
from function.backends.volumes import own_mount
from function.contract.backend import Pinned
from function.contract.engine import Engine
from function.contract.injection import Injection, Json
from function.engines import ranks
from function.kube.naming import file_name
from function.problems import Refused
from function.reasons import Reason

_DISK = "/var/cache/kv-offload"
_SHARED = "/mnt/kv-offload"


def inject(tier: Tier, engine: Engine) -> Injection:
    """Return the wiring of one vLLM pod. Raise Refused where the cache would be wrong."""
    spec = facts.in_process(tier)
    config = configuration(tier, engine)
    _refuse_overrides(engine, config)
    text = yaml.safe_dump(config, sort_keys=False)
    file = file_name("lmcache", text, "yaml")
    env: list[Json] = [{"name": "LMCACHE_CONFIG_FILE", "value": f"{modules.PATH}/{file}"}]
    volumes: list[Json] = []
    mounts: list[Json] = []
    remote = spec.remote
    if remote is not None and remote.redis is not None and remote.redis.auth_secret is not None:
        secret = remote.redis.auth_secret
        reference = {"secretKeyRef": {"name": secret.name, "key": secret.key}}
        env.append({"name": "LMCACHE_RESP_PASSWORD", "valueFrom": reference})
    if remote is not None and remote.shared_file_system is not None:
        claim = {"claimName": remote.shared_file_system.claim_name}
        volumes.append({"name": "kv-offload-shared", "persistentVolumeClaim": claim})
        mounts.append(own_mount(engine, "kv-offload-shared", _SHARED, tier.remote_name))
    disk = spec.local_disk.size_gib if spec.local_disk is not None else 0
    disk_gib = disk * ranks.workers(engine)
    if disk_gib:
        volumes.append({"name": "kv-offload-disk", "emptyDir": {"sizeLimit": f"{disk_gib}Gi"}})
        mounts.append({"name": "kv-offload-disk", "mountPath": _DISK})
    connector: Json = {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}
    mount: Json = {"files": {file: text}, "files_path": modules.PATH}
    if spec.remote is not None:
        ours = modules.module(modules.V1_CONNECTOR)
        connector["kv_connector_module_path"] = ours.name
        connector["kv_connector_extra_config"] = {modules.IDENTITY: engine.identity}
        mount = mounted({file: text} | ours.files, modules.PATH)
    return Injection(
        backend="LMCache",
        connector=connector,
        connector_options={"kv_load_failure_policy": "recompute"},
        env=tuple(env),
        env_if_absent=(
            {"name": "PYTHONHASHSEED", "value": str(spec.hash_seed)},
            {"name": "LMCACHE_TRACK_USAGE", "value": "false"},
        ),
        ray_env=("PYTHONHASHSEED",),
        **mount,
        volumes=tuple(volumes),
        mounts=tuple(mounts),
        labels=tier.wired_labels,
        memory_bytes=spec.memory_gib * ranks.workers(engine) * 2**30,
        storage_bytes=disk_gib * 2**30,
    )


def pinned(tier: Tier) -> tuple[Pinned, ...]:
    """Return the settings that engines with shared blocks must have in common."""
    spec = tier.settings
    why = "engines of before and after would not find each other's blocks"
    return (
        Pinned("spec.lmcache.mode", spec.mode, "engines that run were started for it"),
        Pinned("spec.lmcache.chunkTokens", str(spec.chunk_tokens), why),
        Pinned("spec.lmcache.inProcess.hashSeed", str(facts.in_process(tier).hash_seed), why),
    )


def configuration(tier: Tier, engine: Engine) -> Json:
    """Return LMCache's configuration of an engine; sizes per worker, in GiB."""
    spec = facts.in_process(tier)
    out: Json = {
        "chunk_size": tier.settings.chunk_tokens,
        "local_cpu": True,
        "max_local_cpu_size": float(spec.memory_gib),
        "cache_policy": spec.cache_policy,
        "save_decode_cache": tier.settings.generated,
        "pre_caching_hash_algorithm": "builtin",
    }
    if spec.local_disk is not None:
        out["local_disk"] = f"file://{_DISK}/"
        out["max_local_disk_size"] = float(spec.local_disk.size_gib)
    if spec.remote is not None:
        out["remote_url"] = _url(tier, spec.remote, engine)
        out["remote_serde"] = spec.remote.serde
    return out


def _url(tier: Tier, remote: InProcessRemote, engine: Engine) -> str:
    """Return the URL of the shared level.

    On a file system each identity has a directory, since the key holds the name only.
    """
    if remote.redis is not None:
        scheme = "resp" if remote.redis.auth_secret is not None else "redis"
        return f"{scheme}://{remote.redis.host}:{remote.redis.port}"
    return f"fs://localhost:0{_SHARED}/{tier.remote_name}/{engine.identity}"


def _refuse_overrides(engine: Engine, config: Json) -> None:
    """Refuse variables that take precedence over the tier's file."""
    for key in config:
        name = f"LMCACHE_{key.upper()}"
        if name in engine.env:
            raise Refused(
                Reason.CONNECTOR_CONFLICT,
                f"{name} in the pod would override the tier's {key}. Remove it.",
            )

    if engine.env.get("PYTHONHASHSEED") == "random":
        raise Refused(
            Reason.CONNECTOR_CONFLICT,
            "PYTHONHASHSEED is random in the pod: each process would compute other hashes, and no "
            "lookup would hit. Remove it.",
        )


def notes(tier: Tier, engine: Engine) -> tuple[str, ...]:
    """Return a note about another hash seed: engines share blocks by equal seeds."""
    seed = str(facts.in_process(tier).hash_seed)
    given = engine.env.get("PYTHONHASHSEED")
    if "PYTHONHASHSEED" not in engine.env or given == seed:
        return ()
    return (
        f"PYTHONHASHSEED is {given or 'not a plain value'} in the pod and {seed} in the tier "
        "(spec.lmcache.inProcess.hashSeed): it shares blocks only with engines of the same seed",
    )


def store(tier: Tier) -> str:
    """Return what decides the bytes of the shared level and is in none of its names."""
    remote = facts.in_process(tier).remote
    if remote is None:
        return ""
    prefix = (remote.redis.key_prefix or tier.remote_name) if remote.redis else ""
    encoded = "" if remote.serde == "naive" else remote.serde
    return " ".join((remote.type, prefix, encoded)).strip() if prefix or encoded else ""


def shares_blocks(tier: Tier) -> bool:
    """Return whether engines of the tier share blocks, and so need an identity."""
    return facts.in_process(tier).remote is not None


def spans_clusters(tier: Tier) -> bool:
    """Return whether other clusters may reach the shared level."""
    remote = facts.in_process(tier).remote
    return remote is not None and remote.redis is not None

"""The levels below the node's memory: an `--l2-adapter` and objects for each type.

Each type is one function and one row in the table. Sizes are in GiB on both sides (LMCache
multiplies `max_capacity_gb` by 2^30). `shared` tells LMCache that other servers use the same
storage. maxmemory bounds a Redis, lifecycle rules bound a bucket, the evictor bounds files.
"""

import json
from collections.abc import Callable

from function.api.base import ApiModel, present
from function.api.lmcache_l2 import L2Level
from function.backends import access_keys
from function.backends.evictor import LOCAL_PERIOD, SHARED_PERIOD, BoundedDirectory
from function.backends.lmcache import files, redis
from function.backends.lmcache.facts import Tier
from function.backends.lmcache.level import Awaited, Level, adapter
from function.contract.backend import Manifest, Part
from function.kube import manifests as k
from function.kube.access import Json


def hints(tier: Tier) -> tuple[str, ...]:
    """Return a hint for each server that an agent waits for at its start."""
    compiled = zip(tier.settings.l2, levels(tier), strict=True)
    awaited = [f"{spec.name} ({level.awaited.nodes})" for spec, level in compiled if level.awaited]
    if not awaited:
        return ()
    names = " or ".join(awaited)
    return (
        f"level {names} of spec.lmcache.l2 does not answer: see kubectl logs -c await-levels of an "
        "agent, or remove the level",
    )


def levels(tier: Tier) -> list[Level]:
    """Return the tier's levels, nearest first."""
    return [_TYPES[level.type](tier, level) for level in tier.settings.l2]


def serde(level: L2Level) -> str:
    """Return how the level's blocks are encoded, "" for unchanged ones."""
    if level.raw is None:
        return level.serde.type if level.serde is not None else ""
    found = json.loads(level.raw.json_)
    return json.dumps(found["serde"], sort_keys=True) if found.get("serde") else ""


def store(tier: Tier) -> str:
    """Return what decides a level's bytes and is in no name: Redis and S3 have no prefix."""
    found = ["separate groups"] if tier.settings.separate_object_groups else []
    for level in tier.settings.l2:
        away = _away(level)
        prefix = (getattr(away, "key_prefix", None) or tier.remote_name) if away else ""
        if prefix or serde(level):
            found.append(" ".join(filter(None, (level.type, prefix, serde(level)))))
    return ", ".join(found)


def spans_clusters(tier: Tier) -> bool:
    """Return whether other clusters may reach a level."""
    return any(map(_away, tier.settings.l2))


def _away(level: L2Level) -> ApiModel | None:
    """Return the settings of a store that the tier does not run."""
    redis_ = level.redis if level.redis is not None and level.redis.host else None
    return redis_ or level.s3 or level.valkey or level.raw


def _disk(tier: Tier, level: L2Level) -> Level:
    disk = present(level.disk)
    path = files.directory(tier, level.name)
    if disk.host_path is not None:
        volume = files.host_path(level.name, disk.host_path.path)
    else:
        storage_class = present(disk.ephemeral).storage_class_name
        volume = files.ephemeral(tier, level.name, storage_class, disk.size_gib)
    body = {
        "type": "fs_native",
        "base_path": path,
        "num_workers": disk.workers,
        "use_odirect": disk.direct_io,
        "max_capacity_gb": disk.size_gib,
        "eviction": files.EVICTION,
    }
    bounded = BoundedDirectory(path, disk.size_gib, LOCAL_PERIOD)
    return _level(level, body, volume=volume, bounded=bounded)


def _shared_file_system(tier: Tier, level: L2Level) -> Level:
    shared = present(level.shared_file_system)
    path = files.directory(tier, level.name, shared.sub_path)
    claim = shared.claim_name or f"{tier.remote_name}-{level.name}"
    body = {
        "type": "fs_native",
        "base_path": path,
        "num_workers": shared.workers,
        "max_capacity_gb": shared.size_gib,
        "shared": True,
        "eviction": files.EVICTION,
    }
    volume = {"name": files.volume_name(level.name), "persistentVolumeClaim": {"claimName": claim}}
    parts: tuple[Part, ...] = ()
    if shared.claim_name is None:
        meta = k.metadata(claim, tier.remote_namespace, tier.labels)
        spec = k.claim(shared.storage_class_name, shared.size_gib, "ReadWriteMany")
        manifest = k.persistent_volume_claim(meta, spec)
        parts = (Part(f"persistentvolumeclaim-{level.name}", manifest, keep=True),)
    bounded = BoundedDirectory(path, shared.size_gib, SHARED_PERIOD)
    return _level(level, body, volume=volume, bounded=bounded, parts=parts)


def _redis(tier: Tier, level: L2Level) -> Level:
    store = present(level.redis)
    host = store.host or redis.host(tier, level)
    body: Json = {
        "type": "resp",
        "host": host,
        "port": store.port,
        "num_workers": store.workers,
        "shared": True,
    }
    env: list[Manifest] = []
    if store.auth_secret is not None:
        if store.username is not None:
            env += k.env({"LMCACHE_RESP_USERNAME": store.username})
        secret = store.auth_secret
        env.append(k.env_secret("LMCACHE_RESP_PASSWORD", secret.name, secret.key))
    return _level(
        level,
        body,
        env=tuple(env),
        awaited=Awaited("ping", f"{host}:{store.port}"),
        parts=tuple(redis.parts(tier, level)),
    )


def _valkey(tier: Tier, level: L2Level) -> Level:
    store = present(level.valkey)
    nodes = ",".join(f"{node.host}:{node.port}" for node in store.nodes)
    body: Json = {
        "type": "valkey",
        "startup_nodes": nodes,
        "cluster_mode": store.cluster,
        "tls_enable": store.tls,
        "key_prefix": store.key_prefix or tier.remote_name,
        "num_workers": store.workers,
        "shared": True,
    }
    if store.database is not None:
        body["database_id"] = store.database
    return _level(level, body, awaited=Awaited("connect", nodes))


def _s3(tier: Tier, level: L2Level) -> Level:
    bucket = present(level.s3)
    body = {
        "type": "s3",
        "s3_endpoint": f"{bucket.bucket}.{bucket.endpoint}",
        "s3_region": bucket.region,
        "s3_prefer_http2": bucket.tls,
        "disable_tls": not bucket.tls,
        "shared": True,
    }
    return _level(level, body, env=access_keys.env(bucket.credentials_secret))


def _nixl(tier: Tier, level: L2Level) -> Level:
    store = present(level.nixl)
    path = files.directory(tier, level.name)
    body = {
        "type": "nixl_store_dynamic",
        "backend": store.plugin,
        "backend_params": {
            "file_path": path,
            "use_direct_io": str(store.direct_io).lower(),
            "max_capacity_gb": str(store.size_gib),
            "shard_dirs": str(store.shard_directories).lower(),
        },
        "eviction": files.EVICTION,
    }
    volume = files.host_path(level.name, store.host_path.path)
    bounded = BoundedDirectory(path, store.size_gib, LOCAL_PERIOD)
    return _level(level, body, volume=volume, bounded=bounded)


def _raw(tier: Tier, level: L2Level) -> Level:
    raw = present(level.raw)
    word = adapter(json.loads(raw.json_))
    if raw.host_path is None:
        return Level(word)
    volume = files.host_path(level.name, raw.host_path.path)
    mount = {"name": volume["name"], "mountPath": raw.host_path.path}
    return Level(word, volumes=(volume,), data=mount)


def _level(
    level: L2Level,
    body: Json,
    *,
    env: tuple[Manifest, ...] = (),
    volume: Manifest | None = None,
    bounded: BoundedDirectory | None = None,
    awaited: Awaited | None = None,
    parts: tuple[Part, ...] = (),
) -> Level:
    """Return the level with its volume and its serde."""
    volumes = [volume] if volume else []
    mounts: list[Manifest] = []
    if level.serde is not None:
        serde, secret = _SERDES[level.serde.type](level)
        body = {**body, "serde": {**serde, "max_workers": level.serde.workers}}
        if secret is not None:
            volumes.append(secret)
            mounts.append({"name": secret["name"], "mountPath": _key_path(level), "readOnly": True})
    return Level(
        adapter(body),
        env=env,
        volumes=tuple(volumes),
        data=files.mount(level.name) if volume else None,
        mounts=tuple(mounts),
        bounded=bounded,
        awaited=awaited,
        parts=parts,
    )


def _fp8(_: L2Level) -> tuple[Json, Manifest | None]:
    return {"type": "fp8"}, None


def _aesgcm(level: L2Level) -> tuple[Json, Manifest | None]:
    """Return the serde and its key as a file that the pod's group may read."""
    settings = present(present(level.serde).aesgcm)
    serde = {
        "type": "aesgcm",
        "key_provider": "hkdf",
        "master_key_path": f"{_key_path(level)}/key",
        "aes_bits": settings.key_bits,
    }
    secret: Manifest = {
        "secretName": settings.key_secret.name,
        "defaultMode": 0o440,
        "items": [{"key": settings.key_secret.key, "path": "key"}],
    }
    return serde, {"name": f"key-{level.name}", "secret": secret}


def _key_path(level: L2Level) -> str:
    return f"/etc/kv-offload/keys/{level.name}"


_SERDES: dict[str, Callable[[L2Level], tuple[Json, Manifest | None]]] = {
    "FP8": _fp8,
    "AESGCM": _aesgcm,
}

_TYPES: dict[str, Callable[[Tier, L2Level], Level]] = {
    "Disk": _disk,
    "SharedFileSystem": _shared_file_system,
    "Redis": _redis,
    "Valkey": _valkey,
    "S3": _s3,
    "NIXL": _nixl,
    "Raw": _raw,
}

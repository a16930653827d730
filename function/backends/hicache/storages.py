"""SGLang's storages: an engine's flags and pod fields for each of them.

Storages of files (SGLang's own, and NIXL's with POSIX) have a directory for each identity. File
names contain a page's hash, the served name and the rank, but not weights, layout or page size.
SGLang creates the directory itself.
"""

import json
from collections.abc import Callable

from function.api.base import present
from function.api.hicache_storage import HiCacheClaim
from function.backends import access_keys, trust, volumes
from function.backends.hicache import facts, mooncake_pool
from function.backends.hicache.facts import Tier
from function.backends.hierarchy import Storage
from function.contract.engine import Engine
from function.contract.injection import Json
from function.engines import ranks
from function.kube.naming import file_name

_VOLUME, _TRUST = "kv-offload-pages", "kv-offload-trust"
_NAMES = {"Mooncake": "mooncake", "NIXL": "nixl", "HF3FS": "hf3fs", "File": "file"}


def of(tier: Tier, engine: Engine) -> Storage | None:
    """Return the tier's storage for one engine with its prefetch, None without one."""
    settings = tier.settings.storage
    if settings is None:
        return None
    plugin = settings.nixl.plugin if settings.nixl is not None else ""
    found = _STORAGES[settings.type, plugin](tier, engine)
    return Storage(found.backend, {**_prefetch(tier), **found.extra}, found.pod)


def name(tier: Tier) -> str:
    """Return SGLang's name of the tier's storage, "" without one."""
    settings = tier.settings.storage
    if settings is None:
        return ""
    return settings.raw.backend if settings.raw is not None else _NAMES[settings.type]


def spans_clusters(tier: Tier) -> bool:
    """Return whether other clusters may reach the storage."""
    found = present(tier.settings.storage)
    if found.mooncake is not None:
        known = found.mooncake.external is not None or mooncake_pool.NEED in tier.needed
        return known and mooncake_pool.tier_of(tier).settings.external is not None
    return bool(found.raw or found.hf3fs or (found.nixl and found.nixl.obj))


def _prefetch(tier: Tier) -> Json:
    """Return the prefetch settings; SGLang takes tokens, and seconds as a number."""
    prefetch = present(tier.settings.storage).prefetch
    return {
        "prefetch_threshold": prefetch.threshold_tokens,
        "prefetch_timeout_base": prefetch.timeout_base_millis / 1000,
        "prefetch_timeout_per_ki_token": prefetch.timeout_per_ki_token_millis / 1000,
    }


def _file(tier: Tier, engine: Engine) -> Storage:
    """Return `file`, which SGLang bounds by the files of each rank."""
    settings = present(present(tier.settings.storage).file)
    if settings.claim is None:
        # Beyond its limit the kubelet evicts the pod: SGLang stays below it.
        root, room = facts.OWN, settings.size_gib + 1
        volume: Json = {"name": _VOLUME, "emptyDir": {"sizeLimit": f"{room}Gi"}}
    else:
        root, room, volume = facts.SHARED, 0, _claimed(settings.claim)
    return Storage(
        "file",
        {"max_size": settings.size_gib * facts.GIB // ranks.workers(engine)},
        {
            **_pod(tier, engine, "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR", root, volume),
            "storage_bytes": room * facts.GIB,
        },
    )


def _posix(tier: Tier, engine: Engine) -> Storage:
    """Return `nixl` with POSIX, bounded by the volume's use, which one rank watches."""
    settings = present(present(present(tier.settings.storage).nixl).posix)
    extra: Json = {
        "plugin": {"posix": {"active": True}},
        "use_direct_io": settings.direct_io,
        "l3_cleaner_enabled": True,
        "l3_cleaner_high_watermark": settings.high_watermark_percent,
        "l3_cleaner_low_watermark": settings.low_watermark_percent,
    }
    name, volume = "SGLANG_HICACHE_NIXL_BACKEND_STORAGE_DIR", _claimed(settings.claim)
    return Storage("nixl", extra, _pod(tier, engine, name, facts.SHARED, volume))


def _claimed(claim: HiCacheClaim) -> Json:
    """Return the volume of a claim."""
    return {"name": _VOLUME, "persistentVolumeClaim": {"claimName": claim.claim_name}}


def _pod(tier: Tier, engine: Engine, variable: str, root: str, volume: Json) -> Json:
    mount: Json = {"name": _VOLUME, "mountPath": root}
    if "emptyDir" not in volume:
        mount = volumes.own_mount(engine, _VOLUME, root, tier.remote_name)
    place = f"{facts.directory(tier, root)}/{facts.pages(tier, engine)}"
    return {"env": ({"name": variable, "value": place},), "volumes": (volume,), "mounts": (mount,)}


def _hf3fs(tier: Tier, engine: Engine) -> Storage:
    """Return `hf3fs`: one file per rank on 3FS, with a metadata server.

    The server keys a page by its tokens and rank alone: it must serve one identity. Without a
    server every pod assigns the pages of the one file itself, and overwrites the others'. SGLang
    reads a file, and stops without the server.
    """
    settings = present(present(tier.settings.storage).hf3fs)
    config = {
        "file_path_prefix": f"{facts.SHARED}/{tier.remote_name}-{facts.pages(tier, engine)}",
        "file_size": settings.file_size_gib * facts.GIB,
        "numjobs": settings.threads,
        "entries": settings.entries,
        "metadata_server_url": f"http://{metadata_server(tier)}",
    }
    text = json.dumps(config, indent=2) + "\n"
    file = file_name("hf3fs", text, "json")
    pod: Json = {
        "env": ({"name": "SGLANG_HICACHE_HF3FS_CONFIG_PATH", "value": f"{facts.FILES}/{file}"},),
        "files": {file: text},
        "files_path": facts.FILES,
        "volumes": (_claimed(settings.claim),),
        "mounts": ({"name": _VOLUME, "mountPath": facts.SHARED},),
    }
    seconds = present(tier.settings.storage).wait_seconds
    if seconds:
        pod["waits"] = (
            {"name": facts.AWAIT, "addresses": [metadata_server(tier)], "seconds": seconds},
        )
    return Storage("hf3fs", {}, pod)


def metadata_server(tier: Tier) -> str:
    """Return HOST:PORT of the metadata server."""
    settings = present(present(tier.settings.storage).hf3fs)
    return f"{settings.metadata_host}:{settings.metadata_port}"


def _objects(tier: Tier, _: Engine) -> Storage:
    """Return `nixl` with OBJ: one object per page; its keys hold no identity.

    NIXL's plugin reads AWS's usual names. Its parameters are strings; it does not accept `True`.
    """
    settings = present(present(present(tier.settings.storage).nixl).obj)
    plugin: Json = {
        "active": True,
        "bucket": settings.bucket,
        "region": settings.region,
        "scheme": settings.scheme,
        "use_virtual_addressing": "true" if settings.virtual_addressing else "false",
    }
    if settings.endpoint is not None:
        plugin["endpoint_override"] = endpoint(tier)
    pod: Json = {}
    if settings.credentials is not None:
        pod["env"] = access_keys.env(settings.credentials)
    if settings.ca_config_map is not None:
        plugin["ca_bundle"] = trust.path(facts.TRUST)
        pod["volumes"] = (trust.volume(settings.ca_config_map, _TRUST),)
        pod["mounts"] = ({"name": _TRUST, "mountPath": facts.TRUST},)
    return Storage("nixl", {"plugin": {"obj": plugin}}, pod)


def endpoint(tier: Tier) -> str:
    """Return the store's address, by default AWS's endpoint of the region."""
    settings = present(present(present(tier.settings.storage).nixl).obj)
    host = settings.endpoint or f"s3.{settings.region}.amazonaws.com"
    return f"{settings.scheme}://{host}:{settings.port}"


def configuration(tier: Tier) -> Json:
    """Return the tier's JSON object. Raise ValueError for any other text."""
    found = json.loads(present(present(tier.settings.storage).raw).extra_config)
    if not isinstance(found, dict):
        raise ValueError("must be a JSON object")
    return found


def _raw(tier: Tier, engine: Engine) -> Storage:
    """Return another storage of SGLang, with the tag if its keys have a place for it."""
    backend = present(present(tier.settings.storage).raw).backend
    extra = configuration(tier)
    if backend in facts.TAGGED:
        extra["extra_backend_tag"] = facts.pages(tier, engine)
    return Storage(backend, extra)


# By type, and by the plugin of type NIXL.
_STORAGES: dict[tuple[str, str], Callable[[Tier, Engine], Storage]] = {
    ("Mooncake", ""): mooncake_pool.storage,
    ("NIXL", "POSIX"): _posix,
    ("NIXL", "OBJ"): _objects,
    ("HF3FS", ""): _hf3fs,
    ("File", ""): _file,
    ("Raw", ""): _raw,
}

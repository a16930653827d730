"""Storages of files: SGLang's own, and NIXL's with plugin POSIX.

Each identity has a directory. File names contain a page's hash, the served name and the rank, but
not weights, layout or page size. SGLang creates the directory itself.
"""

from function.api.base import present
from function.api.hicache_storage import HiCacheClaim
from function.backends.hicache import facts
from function.backends.hicache.facts import Tier
from function.backends.hierarchy import Storage
from function.contract.engine import Engine
from function.contract.injection import Json
from function.engines import ranks

_VOLUME = "kv-offload-pages"


def file(tier: Tier, engine: Engine) -> Storage:
    """Return storage `file`, which SGLang bounds by the files of each rank."""
    settings = present(present(tier.settings.storage).file)
    if settings.claim is None:
        # Beyond its limit the kubelet evicts the pod: SGLang stays below it.
        root, room = facts.OWN, settings.size_gib + 1
        volume: Json = {"name": _VOLUME, "emptyDir": {"sizeLimit": f"{room}Gi"}}
    else:
        root, room, volume = facts.SHARED, 0, claimed(settings.claim)
    return Storage(
        "file",
        {"max_size": settings.size_gib * facts.GIB // ranks.workers(engine)},
        {
            **_pod(tier, engine, "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR", root, volume),
            "storage_bytes": room * facts.GIB,
        },
    )


def posix(tier: Tier, engine: Engine) -> Storage:
    """Return `nixl` with POSIX, bounded by the volume's use, which one rank watches."""
    settings = present(present(present(tier.settings.storage).nixl).posix)
    extra: Json = {
        "plugin": {"posix": {"active": True}},
        "use_direct_io": settings.direct_io,
        "l3_cleaner_enabled": True,
        "l3_cleaner_high_watermark": settings.high_watermark_percent,
        "l3_cleaner_low_watermark": settings.low_watermark_percent,
    }
    name, volume = "SGLANG_HICACHE_NIXL_BACKEND_STORAGE_DIR", claimed(settings.claim)
    return Storage("nixl", extra, _pod(tier, engine, name, facts.SHARED, volume))


def claimed(claim: HiCacheClaim) -> Json:
    """Return the volume of a claim."""
    return {"name": _VOLUME, "persistentVolumeClaim": {"claimName": claim.claim_name}}


def mounted(root: str) -> Json:
    """Return the mount of the volume."""
    return {"name": _VOLUME, "mountPath": root}


def _pod(tier: Tier, engine: Engine, variable: str, root: str, volume: Json) -> Json:
    place = f"{facts.directory(tier, root)}/{facts.pages(tier, engine)}"
    return {
        "env": ({"name": variable, "value": place},),
        "volumes": (volume,),
        "mounts": (mounted(root),),
    }

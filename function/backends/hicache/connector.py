"""The wiring of SGLang pods: flags of the hierarchy, and its storage.

Every size is set. The default is twice the GPU's pool in each rank, or from 0.5.21 on most of the
memory that the pod may have.
"""

from collections.abc import Mapping

from function.api.base import present
from function.backends import access_keys, hierarchy, modules
from function.backends.hicache import conflicts, facts, storages
from function.backends.hicache.facts import Tier
from function.backends.hierarchy_rows import BUFFER_ONLY, DECODE_OFFLOAD
from function.backends.mooncake import connector as mooncake
from function.contract.engine import Engine
from function.contract.injection import Injection, Json
from function.contract.recorded import Allowance
from function.engines import ranks

_LAYOUT, _IO = "--hicache-mem-layout", "--hicache-io-backend"
_WRITE, _PREFETCH = "--hicache-write-policy", "--hicache-storage-prefetch-policy"

ALLOWS = Allowance(
    flags=hierarchy.FLAGS
    | {hierarchy.RATIO, _LAYOUT, _IO, _WRITE, _PREFETCH, BUFFER_ONLY, DECODE_OFFLOAD},
    env=mooncake.ALLOWS.env
    | {
        "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR",
        "SGLANG_HICACHE_HF3FS_CONFIG_PATH",
        "SGLANG_HICACHE_NIXL_BACKEND_STORAGE_DIR",
    },
    secrets=frozenset(access_keys.NAMES),
    programs=hierarchy.DIGESTS,
    search_paths=modules.SEARCH_PATHS,
    mounts=(facts.OWN, facts.SHARED, facts.FILES, facts.TRUST),
    volumes=frozenset({"configMap", "emptyDir", "persistentVolumeClaim"}),
    capabilities=mooncake.ALLOWS.capabilities,
    claims=mooncake.ALLOWS.claims,
    waits=mooncake.ALLOWS.waits,
)


def inject(tier: Tier, engine: Engine) -> Injection:
    """Return the wiring of one engine pod. Raise Refused."""
    conflicts.CONFLICTS.check(tier, engine)
    storage = storages.of(tier, engine)
    enable = DECODE_OFFLOAD if facts.is_plain_decode(engine) else hierarchy.ENABLE
    settings = tier.settings
    flags = hierarchy.flags(engine, storage, settings.page_tokens, enable)
    flags |= {**_host(tier), _WRITE: settings.write_policy, **_pages(tier)}
    if settings.storage is not None:
        flags[_PREFETCH] = settings.storage.prefetch.policy
    pod: Json = {"labels": tier.wired_labels}
    if storage is not None:
        pod |= hierarchy.keyed(engine, storage.pod, facts.FILES)
    return Injection(
        backend="HiCache",
        flags=flags,
        memory_bytes=settings.host.memory_gib * facts.GIB * ranks.workers(engine),
        **pod,
    )


def assumes(tier: Tier) -> Mapping[str, str]:
    """Return flags of the tier that are no part of the identity."""
    return {hierarchy.PAGE_SIZE: str(tier.settings.page_tokens), **_pages(tier)}


def _pages(tier: Tier) -> dict[str, str]:
    return {_LAYOUT: tier.settings.memory_layout, _IO: tier.settings.io_backend}


def _host(tier: Tier) -> dict[str, str]:
    host = tier.settings.host
    if host.size_gib is not None:
        found = {hierarchy.SIZE: hierarchy.format_pool_size(host.size_gib)}
    else:
        found = {hierarchy.RATIO: f"{present(host.ratio).percent / 100:g}"}
    return found | ({BUFFER_ONLY: "buffer_only"} if host.buffer_only else {})

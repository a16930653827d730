"""Phases, pages and places of HiCache."""

from function.api.hicache import HiCacheSpec
from function.backends.hierarchy import PAGE_SIZE
from function.backends.hierarchy_rows import DECODE_RADIX
from function.backends.mooncake import facts as mooncake
from function.contract.backend import Tier as AnyTier
from function.contract.engine import Engine

SPEC = "spec.hicache"
GIB = 2**30

# Where volumes of the pods' own are, and those that pods share.
OWN, SHARED = "/var/cache/kv-offload", "/mnt/kv-offload"
FILES = "/etc/kv-offload/hicache"
TRUST = "/etc/kv-offload/trust"
AWAIT = mooncake.AWAIT

PREFILL, DECODE = "Prefill", "Decode"
_MODES = {"prefill": PREFILL, "decode": DECODE, "null": "Unified"}

# Storages of `raw` that put `extra_backend_tag` into their keys.
TAGGED = frozenset(("mori", "npu_memcache", "simm"))


Tier = AnyTier[HiCacheSpec]


def phase(engine: Engine) -> str:
    """Return the phase: SGLang's flag takes precedence over the pod's role."""
    return _MODES.get(engine.flag("--disaggregation-mode") or "", engine.phase)


def is_plain_decode(engine: Engine) -> bool:
    """Return whether it is a decode engine without a radix cache."""
    return phase(engine) == DECODE and not engine.has(DECODE_RADIX)


def page_tokens(tier: Tier, engine: Engine) -> str:
    """Return the engine's tokens per page."""
    return engine.flag(PAGE_SIZE) or str(tier.settings.page_tokens)


def pages(tier: Tier, engine: Engine) -> str:
    """Return what distinguishes pages of different bytes: identity, layout, size.

    The identity contains layout and page flags of the user, not those of the tier.
    """
    return f"{engine.identity}-{tier.settings.memory_layout}-{page_tokens(tier, engine)}"


def directory(tier: Tier, root: str = SHARED) -> str:
    """Return the tier's own directory on a volume, so that two tiers may share it."""
    return f"{root}/{tier.remote_name}"


def claim(tier: Tier) -> str | None:
    """Return the claim of a storage of files, if it is on one."""
    storage = tier.settings.storage
    if storage is None:
        return None
    files = storage.file or (storage.nixl.posix if storage.nixl is not None else None)
    return files.claim.claim_name if files is not None and files.claim is not None else None


def holds_one_identity(tier: Tier) -> bool:
    """Return whether the storage's keys have no place for an identity."""
    storage = tier.settings.storage
    if storage is None:
        return False
    if storage.nixl is not None:
        return storage.nixl.plugin == "OBJ"
    if storage.raw is not None:
        return storage.raw.backend not in TAGGED
    return storage.hf3fs is not None

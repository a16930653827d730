"""SGLang's storages, one module each: an engine's flags and pod fields."""

from collections.abc import Callable

from function.api.base import present
from function.backends.hicache.facts import Tier
from function.backends.hicache.storages import directory, hf3fs, mooncake, objects, raw
from function.backends.hierarchy import Storage
from function.contract.engine import Engine
from function.contract.injection import Json

_TYPES: dict[str, Callable[[Tier, Engine], Storage]] = {
    "Mooncake": mooncake.storage,
    "NIXL": lambda tier, engine: _PLUGINS[_plugin(tier)](tier, engine),
    "HF3FS": hf3fs.storage,
    "File": directory.file,
    "Raw": raw.storage,
}
_PLUGINS: dict[str, Callable[[Tier, Engine], Storage]] = {
    "POSIX": directory.posix,
    "OBJ": objects.storage,
}
_NAMES = {"Mooncake": "mooncake", "NIXL": "nixl", "HF3FS": "hf3fs", "File": "file"}


def of(tier: Tier, engine: Engine) -> Storage | None:
    """Return the tier's storage for one engine with its prefetch, None without one."""
    settings = tier.settings.storage
    if settings is None:
        return None
    found = _TYPES[settings.type](tier, engine)
    return Storage(found.backend, {**_prefetch(tier), **found.extra}, found.pod)


def name(tier: Tier) -> str:
    """Return SGLang's name of the tier's storage, "" without one."""
    settings = tier.settings.storage
    if settings is None:
        return ""
    return settings.raw.backend if settings.raw is not None else _NAMES[settings.type]


def _plugin(tier: Tier) -> str:
    return str(present(present(tier.settings.storage).nixl).plugin)


def _prefetch(tier: Tier) -> Json:
    """Return the prefetch settings; SGLang takes tokens, and seconds as a number."""
    prefetch = present(tier.settings.storage).prefetch
    return {
        "prefetch_threshold": prefetch.threshold_tokens,
        "prefetch_timeout_base": prefetch.timeout_base_millis / 1000,
        "prefetch_timeout_per_ki_token": prefetch.timeout_per_ki_token_millis / 1000,
    }

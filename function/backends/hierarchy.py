"""SGLang's hierarchical cache and the storage below it, as flags.

Mooncake tiers use it too: SGLang has no other way to a Mooncake pool.
"""

import json
from dataclasses import dataclass, field

from function.backends import modules
from function.backends.hierarchy_rows import PLUGINS
from function.contract.engine import Engine
from function.contract.injection import Json

ENABLE = "--enable-hierarchical-cache"
PAGE_SIZE = "--page-size"
STORAGE = "--hicache-storage-backend"
CONFIG = "--hicache-storage-backend-extra-config"
SIZE, RATIO, FRACTION = "--hicache-size", "--hicache-ratio", "--hicache-host-memory-fraction"
_NAME = "kv-offload-storages"
_PLUGIN = modules.module("sglang", "sglang/keyed_storages.py").plugin(_NAME)
DIGESTS = modules.digests(_PLUGIN.values())
FLAGS = frozenset((ENABLE, STORAGE, PAGE_SIZE, CONFIG, SIZE))
GIB = 2**30
_GB = 10**9


@dataclass(frozen=True)
class Storage:
    """A storage backend of SGLang for one engine.

    `backend`: the value of --hicache-storage-backend. `extra`: its configuration, which becomes an
    argument, so it must hold no credential. `pod`: other fields of the Injection.
    """

    backend: str
    extra: Json
    pod: Json = field(default_factory=dict)


def plugins_without_ours(_: object, engine: Engine) -> str | None:
    """Return the pod's list of plugins if SGLang would start without ours."""
    return modules.plugins_without(_NAME, engine) if PLUGINS in engine.features else None


def flags(
    engine: Engine, storage: Storage | None, page_tokens: int, enable: str = ENABLE
) -> dict[str, str | None]:
    """Return the flags that enable the cache with its storage. `enable`: the switch.

    The page size is set unless the user sets it: its default is one token on CUDA. The user's value
    is part of the cache identity.
    """
    words: dict[str, str | None] = {enable: None}
    if storage is not None:
        words[STORAGE] = storage.backend
        words[CONFIG] = json.dumps(storage.extra, separators=(",", ":"), sort_keys=True)
    if not engine.has(PAGE_SIZE):
        words[PAGE_SIZE] = str(page_tokens)
    return words


def keyed(engine: Engine, pod: Json, path: str) -> Json:
    """Return the pod's fields with the plugin that adds what SGLang resolved to keys of pages."""
    if PLUGINS not in engine.features:
        return pod
    return pod | modules.mounted(_PLUGIN | pod.get("files", {}), path)


def format_pool_size(gib: int) -> str:
    """Return the host pool of a rank as the value of SIZE: whole GB of 10^9 bytes.

    The rest of a GiB is SGLang's room for rounding up.
    """
    return str(gib * GIB // _GB)

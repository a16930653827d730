"""SGLang's hierarchical cache and the storage below it, as flags: what every tier of it shares.

Mooncake's tiers use it too: SGLang has no other way to a Mooncake pool.
"""

import json
from dataclasses import dataclass, field

from function.contract.engine import Engine
from function.contract.injection import Json

ENABLE = "--enable-hierarchical-cache"
PAGE_SIZE = "--page-size"
STORAGE = "--hicache-storage-backend"
CONFIG = "--hicache-storage-backend-extra-config"
SIZE, RATIO, FRACTION = "--hicache-size", "--hicache-ratio", "--hicache-host-memory-fraction"
FLAGS = frozenset((ENABLE, STORAGE, PAGE_SIZE, CONFIG, SIZE))
GIB = 2**30
_GB = 10**9


@dataclass(frozen=True)
class Storage:
    """A storage backend of SGLang's as one engine gets it.

    `backend`: the value of --hicache-storage-backend. `extra`: its configuration, which must hold
    no credential: it stands in the arguments. `pod`: what else the pod gets, as fields of an
    Injection.
    """

    backend: str
    extra: Json
    pod: Json = field(default_factory=dict)


def flags(
    engine: Engine, storage: Storage | None, page_tokens: int, enable: str = ENABLE
) -> dict[str, str | None]:
    """What turns the cache on, with its storage. `enable`: by which switch.

    The page size is written where the user does not: absent it is one token on CUDA. The user's own
    is part of the cache identity.
    """
    found: dict[str, str | None] = {enable: None}
    if storage is not None:
        found[STORAGE] = storage.backend
        found[CONFIG] = json.dumps(storage.extra, separators=(",", ":"), sort_keys=True)
    if not engine.has(PAGE_SIZE):
        found[PAGE_SIZE] = str(page_tokens)
    return found


def size(gib: int) -> str:
    """The host pool of a rank, for SIZE: SGLang takes whole GB of 10^9 bytes. What is left of a
    GiB is its room for rounding up."""
    return str(gib * GIB // _GB)

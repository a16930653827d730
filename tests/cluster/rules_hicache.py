"""One good and one bad document for every CEL rule of a HiCache tier; see rules.py.

They are those of the unit tests, each laid into a whole tier.
"""

from collections.abc import Callable, Iterator
from typing import Any

from function.api import hicache, hicache_storage
from function.api.backends import SPECS
from function.api.tier import KVOffloadTierSpec
from tests.unit.api.hicache_rules import HOST, ON_CLAIM, ROWS

Fragment = dict[str, Any]
Place = tuple[type, str, Callable[[Fragment], Fragment]]

_NOT_OF_SETTINGS = ("inferenceClusterRef", "name")


def _settings(spec: Fragment) -> Fragment:
    return {key: value for key, value in spec.items() if key not in _NOT_OF_SETTINGS}


def _hicache(settings: Fragment) -> Fragment:
    return {"backend": "HiCache", "hicache": settings}


def _storage(storage: Fragment) -> Fragment:
    return _hicache({"host": HOST, "storage": storage})


def _of(kind: str) -> Callable[[Fragment], Fragment]:
    return lambda settings: _storage({"type": kind, kind.lower(): settings})


_PLACES: dict[str, Place] = {
    "KVOffloadTierSpec": (KVOffloadTierSpec, "", _settings),
    "HiCacheSpec": (hicache.HiCacheSpec, "hicache", _hicache),
    "HiCacheHost": (hicache.HiCacheHost, "hicache.host", lambda host: _hicache({"host": host})),
    "HiCacheStorage": (hicache_storage.HiCacheStorage, "hicache.storage", _storage),
    "HiCacheMooncake": (
        hicache_storage.HiCacheMooncake,
        "hicache.storage.mooncake",
        _of("Mooncake"),
    ),
    "HiCacheMooncakeExternal": (
        hicache_storage.HiCacheMooncakeExternal,
        "hicache.storage.mooncake.external",
        lambda external: _of("Mooncake")({"external": external}),
    ),
    "HiCacheNIXL": (hicache_storage.HiCacheNIXL, "hicache.storage.nixl", _of("NIXL")),
    "HiCachePOSIX": (
        hicache_storage.HiCachePOSIX,
        "hicache.storage.nixl.posix",
        lambda posix: _of("NIXL")({"plugin": "POSIX", "posix": posix}),
    ),
    "HiCacheObjectStore": (
        hicache_storage.HiCacheObjectStore,
        "hicache.storage.nixl.obj",
        lambda obj: _of("NIXL")({"plugin": "OBJ", "obj": obj}),
    ),
    "HiCacheEvictor": (
        hicache_storage.HiCacheEvictor,
        "hicache.storage.evictor",
        lambda evictor: _storage({**ON_CLAIM, "evictor": evictor}),
    ),
}


def documents() -> Iterator[tuple[str, str, Fragment, Fragment]]:
    """Path below the spec, message, and the settings of a good and of a bad tier."""
    assert SPECS["HiCache"] is hicache.HiCacheSpec
    for name, words, good, bad in ROWS:
        if name in _PLACES:  # an inline tier has the rules of any tier
            model, path, whole = _PLACES[name]
            message = next(r.message for r in model.rules if words in r.message)  # type: ignore[attr-defined]
            yield path, message, whole(good[0]), whole(bad[0])

"""The rows of `test_rules` for `spec.hicache`."""

from typing import Any

HOST = {"sizeGiB": 8}
PLACE = {"inferenceClusterRef": {"name": "a"}, "name": "a"}
AWAY: dict[str, Any] = {"masterAddress": "m:1"}
FILES = {"type": "File", "file": {"sizeGiB": 8}}
CLAIM = {"claimName": "c"}
POSIX = {"claim": CLAIM}
OBJ = {"bucket": "kv-pages"}
ON_CLAIM = {"type": "File", "file": {"sizeGiB": 1, "claim": CLAIM}}
BOUND = {"evictor": {"sizeGiB": 10}}
NIXL = {"type": "NIXL", "nixl": {"plugin": "OBJ", "obj": OBJ}}
HF3FS = {"claim": CLAIM, "fileSizeGiB": 8, "metadataHost": "h"}
RAW = {"backend": "simm"}
POOL = {"type": "Mooncake", "mooncake": {"external": AWAY}}
RDMA_POOL = {"type": "Mooncake", "mooncake": {"external": {**AWAY, "protocol": "rdma"}}}
RDMA = {"source": "DevicePlugin", "devicePlugin": {"resourceName": "rdma/hca"}}
ID = "0123456789ab"

TIER = {**PLACE, "backend": "HiCache", "hicache": {"host": HOST}}
EVICTED = {
    **PLACE,
    "backend": "HiCache",
    "hicache": {"host": HOST, "storage": {**ON_CLAIM, **BOUND}},
}
STORED = {**PLACE, "backend": "HiCache", "hicache": {"host": HOST, "storage": RDMA_POOL}}


def _spec(**settings: Any) -> dict[str, Any]:
    return {"host": HOST, **settings}


# type -> (field, settings)
_TYPES: dict[str, tuple[str, dict[str, Any]]] = {
    "Mooncake": ("mooncake", {"external": AWAY}),
    "NIXL": ("nixl", {"plugin": "OBJ", "obj": OBJ}),
    "HF3FS": ("hf3fs", HF3FS),
    "File": ("file", {"sizeGiB": 8}),
    "Raw": ("raw", RAW),
}


def _other(kind: str) -> str:
    return "Raw" if kind != "Raw" else "File"


def _storage(kind: str) -> dict[str, Any]:
    field, settings = _TYPES[kind]
    return {"type": kind, field: settings}


ROWS: list[tuple[str, str, list[Any], list[Any]]] = [
    *(
        (
            "HiCacheStorage",
            f"{field} must be set when type is {kind}",
            [_storage(kind)],
            [{"type": kind}],
        )
        for kind, (field, _) in _TYPES.items()
    ),
    *(
        (
            "HiCacheStorage",
            f"{field} may only be set when type is {kind}",
            [_storage(kind)],
            [{**_storage(_other(kind)), field: settings}],
        )
        for kind, (field, settings) in _TYPES.items()
    ),
    (
        "HiCacheStorage",
        "identity may only be set",
        [{**NIXL, "identity": ID}, {**_storage("HF3FS"), "identity": ID}, _storage("File")],
        [
            {**FILES, "identity": ID},
            {**POOL, "identity": ID},
            {"type": "NIXL", "nixl": {"plugin": "POSIX", "posix": POSIX}, "identity": ID},
        ],
    ),
    (
        "HiCacheNIXL",
        "posix must be set when plugin is POSIX",
        [{"plugin": "POSIX", "posix": POSIX}],
        [{"plugin": "POSIX"}],
    ),
    (
        "HiCacheNIXL",
        "posix may only be set when plugin is POSIX",
        [{"plugin": "OBJ", "obj": OBJ}],
        [{"plugin": "OBJ", "obj": OBJ, "posix": POSIX}],
    ),
    (
        "HiCacheNIXL",
        "obj must be set when plugin is OBJ",
        [{"plugin": "OBJ", "obj": OBJ}],
        [{"plugin": "OBJ"}],
    ),
    (
        "HiCacheNIXL",
        "obj may only be set when plugin is OBJ",
        [{"plugin": "POSIX", "posix": POSIX}],
        [{"plugin": "POSIX", "posix": POSIX, "obj": OBJ}],
    ),
    (
        "HiCacheStorage",
        "evictor may only be set for files on a claim",
        [
            ON_CLAIM,
            {**ON_CLAIM, **BOUND},
            {"type": "NIXL", "nixl": {"plugin": "POSIX", "posix": POSIX}, **BOUND},
        ],
        [{"type": "File", "file": {"sizeGiB": 1}, **BOUND}, {**NIXL, **BOUND}],
    ),
    (
        "HiCacheEvictor",
        "lowPercent must not be larger",
        [{"sizeGiB": 1}, {"sizeGiB": 1, "lowPercent": 95}],
        [{"sizeGiB": 1, "lowPercent": 96}],
    ),
    (
        "HiCacheObjectStore",
        "caConfigMap needs scheme https",
        [OBJ, {**OBJ, "caConfigMap": {"name": "ca"}}, {**OBJ, "scheme": "http"}],
        [{**OBJ, "caConfigMap": {"name": "ca"}, "scheme": "http"}],
    ),
    (
        "HiCachePOSIX",
        "lowWatermarkPercent must be less",
        [POSIX, {**POSIX, "highWatermarkPercent": 90, "lowWatermarkPercent": 89}],
        [{**POSIX, "highWatermarkPercent": 70}, {**POSIX, "lowWatermarkPercent": 80}],
    ),
    (
        "HiCacheMooncake",
        "exactly one of storageTierRef and external",
        [{"storageTierRef": {"name": "p"}}, {"external": AWAY}],
        [{}, {"storageTierRef": {"name": "p"}, "external": AWAY}],
    ),
    (
        "HiCacheMooncakeExternal",
        "masterAddress may list several",
        [AWAY, {"masterAddress": "etcd://a:1;b:1"}],
        [{"masterAddress": "a:1;b:1"}],
    ),
    (
        "HiCacheHost",
        "exactly one of sizeGiB and ratio",
        [HOST, {"ratio": {"percent": 200, "memoryGiB": 8}}],
        [{}, {**HOST, "ratio": {"percent": 200, "memoryGiB": 8}}],
    ),
    (
        "HiCacheSpec",
        "memoryLayout must be layer_first or page_first with ioBackend kernel",
        [
            _spec(),
            _spec(memoryLayout="layer_first"),
            _spec(memoryLayout="layer_first", ioBackend="direct"),
            _spec(memoryLayout="page_first_direct", ioBackend="direct"),
        ],
        [_spec(memoryLayout="page_first_direct"), _spec(ioBackend="direct")],
    ),
    (
        "HiCacheSpec",
        "memoryLayout layer_first may not be set with",
        [_spec(storage=POOL), _spec(storage=FILES, memoryLayout="layer_first")],
        [_spec(storage=POOL, memoryLayout="layer_first")],
    ),
    (
        "HiCacheSpec",
        "storage must be set when host.bufferOnly",
        [_spec(), {"host": {**HOST, "bufferOnly": True}, "storage": POOL}],
        [{"host": {**HOST, "bufferOnly": True}}],
    ),
    (
        "HiCacheSpec",
        "writePolicy write_back may not be set with host.bufferOnly",
        [_spec(writePolicy="write_back"), {"host": {**HOST, "bufferOnly": True}, "storage": POOL}],
        [
            {
                "host": {**HOST, "bufferOnly": True},
                "storage": POOL,
                "writePolicy": "write_back",
            }
        ],
    ),
    (
        "HiCacheSpec",
        "decode Offload needs storage",
        [_spec(), _spec(decode="Offload", storage=POOL)],
        [
            _spec(decode="Offload"),
            {"host": {**HOST, "bufferOnly": True}, "storage": POOL, "decode": "Offload"},
        ],
    ),
    *(
        row
        for model in ("KVOffloadTierSpec", "InlineTier")
        for row in (
            (
                model,
                "hicache must be set when backend",
                [{**TIER}],
                [{**PLACE, "backend": "HiCache"}],
            ),
            (
                model,
                "hicache may only be set when backend",
                [{**TIER}],
                [
                    {
                        **PLACE,
                        "backend": "LMCache",
                        "lmcache": {"l1": HOST},
                        "hicache": {"host": HOST},
                    }
                ],
            ),
            (
                model,
                "payload may not be set: only hicache.storage.mooncake",
                [{**TIER}],
                [{**TIER, "payload": {"repository": "team/payload", "tag": "v1"}}],
            ),
            (
                model,
                "gpuVisibility may not be set: HiCache",
                [{**TIER}],
                [{**TIER, "gpuVisibility": {"source": "CDI"}}],
            ),
            (
                model,
                "nodes may not be set: without hicache.storage.evictor",
                [{**TIER}, {**TIER, "nodes": {}}, {**EVICTED, "nodes": {"selector": {"a": "b"}}}],
                [{**TIER, "nodes": {"selector": {"a": "b"}}}],
            ),
            (
                model,
                "monitoring may not be set: without hicache.storage.evictor",
                [{**TIER}, {**EVICTED, "monitoring": {}}],
                [{**TIER, "monitoring": {}}],
            ),
            (
                model,
                "rdma may not be set: only hicache.storage.mooncake.external",
                [{**TIER, "rdma": {"source": "None"}}, {**STORED, "rdma": RDMA}],
                [
                    {**TIER, "rdma": RDMA},
                    {**TIER, "hicache": {"host": HOST, "storage": POOL}, "rdma": RDMA},
                    {**TIER, "hicache": {"host": HOST, "storage": FILES}, "rdma": RDMA},
                ],
            ),
        )
    ),
]

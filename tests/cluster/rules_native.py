"""One good and one bad document for every CEL rule of a Native tier; see rules.py."""

from collections.abc import Iterator
from typing import Any

Fragment = dict[str, Any]
Row = tuple[str, str, Fragment, Fragment]

_FILES: Fragment = {"sizeGiB": 1, "claim": {"name": "kv"}}
_BUCKET: Fragment = {"bucket": "kv", "endpoint": "https://s3.example.org", "region": "eu"}
_RDMA: Fragment = {"rdma": {"source": "DevicePlugin", "devicePlugin": {"resourceName": "rdma/hca"}}}
_PATHS = {
    "spec": "",
    "cpu": "native.cpu",
    "native": "native",
    "level": "native.secondary[]",
    "claim": "native.secondary[].fileSystem.claim",
    "bucket": "native.secondary[].bucket",
    "evictor": "native.evictor",
}


def _spec(where: str, fragment: Fragment) -> Fragment:
    """A Native tier's settings with a fragment laid over the valid object at `where`."""
    native: Fragment = {"cpu": {"sizeGiB": 8}}
    if where == "spec":
        settings = {"backend": "Native", "native": native} | fragment
        return {key: value for key, value in settings.items() if value is not None}
    if where == "native":
        native = fragment
    elif where == "level":
        native["secondary"] = [{"name": "a"} | fragment]
    elif where == "claim":
        files = {"sizeGiB": 1, "claim": fragment}
        native["secondary"] = [{"name": "a", "type": "FileSystem", "fileSystem": files}]
    elif where == "bucket":
        native["secondary"] = [{"name": "a", "type": "Bucket", "bucket": _BUCKET | fragment}]
    else:
        native[where] = fragment
    return {"backend": "Native", "native": native}


_TYPES: dict[str, tuple[str, Fragment]] = {
    "FileSystem": ("fileSystem", _FILES),
    "Bucket": ("bucket", _BUCKET),
    "Peers": ("peers", {}),
}

ROWS: list[Row] = [
    ("spec", "native must be set when backend is Native", {}, {"native": None}),
    (
        "spec",
        "native may only be set when backend is Native",
        {},
        {"backend": "LMCache", "lmcache": {"l1": {"sizeGiB": 1}}},
    ),
    ("spec", "rdma may not be set: Native does not use RDMA", {}, _RDMA),
    (
        "spec",
        "payload may not be set: Native uses no package of the engine's image",
        {},
        {"payload": {"repository": "team/payload", "tag": "v1"}},
    ),
    (
        "spec",
        "gpuVisibility may not be set: Native has no agents that use a GPU",
        {},
        {"gpuVisibility": {"source": "CDI"}},
    ),
    (
        "native",
        "cpu must be set unless simple.disk is set, and only then",
        {"simple": {"disk": {"sizeGiBPerRank": 1}}},
        {"simple": {}},
    ),
    (
        "native",
        "simple allows no secondary, no blocksPerChunk, no generated and only evictionPolicy LRU",
        {"cpu": {"sizeGiB": 8}, "simple": {}},
        {"cpu": {"sizeGiB": 8}, "simple": {}, "blocksPerChunk": 16},
    ),
    (
        "native",
        "storeThreshold may not be set with secondary or simple, which vLLM refuses or ignores",
        {"cpu": {"sizeGiB": 8}, "storeThreshold": 2},
        {"cpu": {"sizeGiB": 8}, "storeThreshold": 2, "simple": {}},
    ),
    (
        "cpu",
        "exactly one of sizeGiB and sizeGiBPerRank must be set",
        {"sizeGiBPerRank": 8},
        {"overheadPercent": 5},
    ),
    (
        "claim",
        "exactly one of name and storageClassName must be set",
        {"storageClassName": "rwx"},
        {"namespace": "default"},
    ),
    *(
        row
        for kind, (field, body) in _TYPES.items()
        for other, (other_field, other_body) in list(_TYPES.items())[:2]
        if kind != other
        for row in (
            (
                "level",
                f"{field} must be set when type is {kind}",
                {"type": kind, field: body},
                {"type": kind},
            ),
            (
                "level",
                f"{field} may only be set when type is {kind}",
                {"type": kind, field: body},
                {"type": other, other_field: other_body, field: body},
            ),
        )
    ),
    (
        "bucket",
        "caConfigMap needs an endpoint with https",
        {"caConfigMap": {"name": "ca"}},
        {"caConfigMap": {"name": "ca"}, "endpoint": "http://s3.example.org"},
    ),
    (
        "evictor",
        "lowPercent must not be larger than highPercent",
        {"lowPercent": 50},
        {"lowPercent": 96},
    ),
]


def documents() -> Iterator[tuple[str, str, Fragment, Fragment]]:
    """Path below the spec, message, and the settings of a good and of a bad tier."""
    for where, message, good, bad in ROWS:
        yield _PATHS[where], message, _spec(where, good), _spec(where, bad)

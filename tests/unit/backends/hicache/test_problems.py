"""What is wrong with a tier: by its schema, and by what only the backend knows."""

from typing import Any

import pytest

from function.backends.hicache import BACKEND
from tests.unit.backends import tiers
from tests.unit.backends.hicache import HOST, IDENTITY, RDMA, cache, pool, read, stored, tier

_HICACHE, _STORAGE = "spec.hicache", "spec.hicache.storage"
AWAY = {"masterAddress": "m:50051"}


def _stored(type_: str, **settings: Any) -> dict[str, Any]:
    return {"host": HOST, "storage": {"type": type_, type_.lower(): settings}}


# (spec.hicache, paths of the problems)
SCHEMA: tuple[tuple[dict[str, Any], list[str]], ...] = (
    ({}, [f"{_HICACHE}.host"]),
    ({"host": {}}, [f"{_HICACHE}.host"]),
    ({"host": {"sizeGiB": "100Gi"}}, [f"{_HICACHE}.host.sizeGiB"]),
    ({"host": {"sizeGiB": -5}}, [f"{_HICACHE}.host.sizeGiB"]),
    ({"host": {"sizeGiB": 1.5}}, [f"{_HICACHE}.host.sizeGiB"]),
    ({"host": {"ratio": {"percent": 200}}}, [f"{_HICACHE}.host.ratio.memoryGiB"]),
    (
        {"host": {"ratio": {"percent": 90, "memoryGiB": 9}}},
        [f"{_HICACHE}.host.ratio.percent"],
    ),
    ({"host": HOST, "pageTokens": 1}, [f"{_HICACHE}.pageTokens"]),
    ({"host": HOST, "ioBackend": "kernel_ascend"}, [f"{_HICACHE}.ioBackend"]),
    ({"host": HOST, "ioBackend": "direct"}, [f"{_HICACHE}.memoryLayout"]),
    ({"host": HOST, "writePolicy": "writeThrough"}, [f"{_HICACHE}.writePolicy"]),
    ({"host": {**HOST, "bufferOnly": True}}, [_HICACHE]),
    ({"host": HOST, "decode": "Offload"}, [f"{_HICACHE}.decode"]),
    ({"host": HOST, "storage": {"type": "file"}}, [f"{_STORAGE}.type"]),
    (_stored("File"), [f"{_STORAGE}.file.sizeGiB"]),
    (_stored("Mooncake"), [f"{_STORAGE}.mooncake"]),
    (
        _stored("Mooncake", storageTierRef={"name": "Pool"}),
        [f"{_STORAGE}.mooncake.storageTierRef.name"],
    ),
    (_stored("NIXL", plugin="GDS"), [f"{_STORAGE}.nixl.plugin"]),
    (_stored("NIXL", plugin="OBJ", obj={"bucket": "B"}), [f"{_STORAGE}.nixl.obj.bucket"]),
    (_stored("Raw", backend="sim"), [f"{_STORAGE}.raw.backend"]),
    (
        {**_stored("Raw", backend="simm"), "hostMemory": 3},
        [f"{_HICACHE}.hostMemory"],
    ),
    (
        {"host": HOST, "storage": {**_stored("HF3FS")["storage"], "identity": "x"}},
        [
            f"{_STORAGE}.hf3fs.claim",
            f"{_STORAGE}.hf3fs.fileSizeGiB",
            f"{_STORAGE}.hf3fs.metadataHost",
            f"{_STORAGE}.identity",
        ],
    ),
)


@pytest.mark.parametrize(("settings", "paths"), SCHEMA)
def test_schema_problem_names_the_path(settings: dict[str, Any], paths: list[str]) -> None:
    found, problems = read({"hicache": settings})
    assert found is None
    assert [problem.path for problem in problems] == paths


_RAW = f"{_STORAGE}.raw.extraConfig"
_EXTERNAL = f"{_STORAGE}.mooncake.external"
_REF = f"{_STORAGE}.mooncake.storageTierRef.name"


def _raw(text: str, backend: str = "eic") -> dict[str, Any]:
    return _stored("Raw", backend=backend, extraConfig=text)


# (spec.hicache, spec beside it, [(path, words of the message)])
OWN: tuple[tuple[dict[str, Any], dict[str, Any], list[tuple[str, str]]], ...] = (
    ({"host": HOST}, {}, []),
    (_raw("{}"), {}, []),
    (_raw("{,"), {}, [(_RAW, "must be a JSON object")]),
    (_raw("[]"), {}, [(_RAW, "must be a JSON object")]),
    (_raw("[" * 8000), {}, [(_RAW, "must be a JSON object")]),
    (
        _raw('{"secret_key":"x","prefetch_threshold":1,"extra_backend_tag":"t","port":1}'),
        {},
        [
            (f"{_RAW}.extra_backend_tag", "the cache identity"),
            (f"{_RAW}.prefetch_threshold", "prefetch.thresholdTokens"),
            (f"{_RAW}.secret_key", "from a Secret"),
        ],
    ),
    (
        _raw('{"backend_name":"b","module_path":1}', "dynamic"),
        {},
        [(_RAW, "must have the string class_name"), (_RAW, "must have the string module_path")],
    ),
    (_raw('{"backend_name":"b","module_path":"m","class_name":"C"}', "dynamic"), {}, []),
    (
        _stored("Mooncake", external={**AWAY, "protocol": "rdma"}),
        {},
        [(f"{_EXTERNAL}.protocol", "spec.rdma.source is None")],
    ),
    (_stored("Mooncake", external={**AWAY, "protocol": "rdma"}), {"rdma": RDMA}, []),
    (
        _stored("Mooncake", external={**AWAY, "rdmaClaimTemplateName": "nic"}),
        {},
        [(f"{_EXTERNAL}.rdmaClaimTemplateName", "source DRA")],
    ),
)


@pytest.mark.parametrize(("settings", "spec", "wanted"), OWN)
def test_backend_problem_names_the_path(
    settings: dict[str, Any], spec: dict[str, Any], wanted: Any
) -> None:
    problems = BACKEND.problems(tiers.tier("HiCache", {"hicache": settings, **spec}))
    assert [problem.path for problem in problems] == [path for path, _ in wanted]
    for problem, (_, words) in zip(problems, wanted, strict=True):
        assert words in problem.message


REF = {"hicache": _stored("Mooncake", storageTierRef={"name": "pool"})}
NEEDED: tuple[tuple[dict[str, Any], str], ...] = (
    (pool(), ""),
    (pool(backend="LMCache", lmcache={"l1": {"sizeGiB": 8}}), "has backend LMCache: name a tier"),
    ({"metadata": {"name": "pool"}}, "has backend none"),
    (pool(mooncake={"store": {"sizeGiB": 0}}), "is not valid: see its condition Accepted"),
    (pool(mooncake=[]), "is not valid"),
)


@pytest.mark.parametrize(("needed", "words"), NEEDED)
def test_referenced_tier_must_hold_a_pool(needed: dict[str, Any], words: str) -> None:
    of = tier(REF, needed)
    (need,) = BACKEND.needs(of)
    assert (need.object_name, need.namespace, need.path) == ("pool", "modelplane-system", _REF)
    problems = BACKEND.problems(of)
    assert [problem.path for problem in problems] == [_REF] * bool(words)
    assert words in "".join(problem.message for problem in problems)


def test_fleet_tier_is_valid_before_lookups() -> None:
    assert BACKEND.problems(tiers.tier("HiCache", REF)) == []
    assert BACKEND.needs(cache()) == BACKEND.needs(stored("File", sizeGiB=8)) == ()


# (tier, words of a warning, "" for none)
KNOWN = (
    (cache(), ""),
    (stored("File", sizeGiB=8), ""),
    (stored("File", sizeGiB=8, claim={"claimName": "c"}), "not their sum"),
    (stored("NIXL", plugin="OBJ", obj={"bucket": "kv-pages"}), "identity is not set"),
    (
        stored("NIXL", {"identity": IDENTITY}, plugin="OBJ", obj={"bucket": "kv-pages"}),
        "a lifecycle rule",
    ),
    (stored("Raw", backend="mori"), "is not tested"),
    (stored("NIXL", plugin="POSIX", posix={"claim": {"claimName": "c"}}), "whatever fills it"),
    (stored("NIXL", plugin="POSIX", posix={"claim": {"claimName": "c"}}), "delete their"),
    (stored("File", sizeGiB=8, claim={"claimName": "c"}), "delete their"),
)


@pytest.mark.parametrize(("of", "words"), KNOWN)
def test_warnings_of_describe(of: Any, words: str) -> None:
    said = " ".join(BACKEND.describe(of).warnings)
    assert (words in said) if words else said == ""
    assert BACKEND.describe(of).pod_security == "restricted"
    assert BACKEND.parts(of) == []


# (tier, whether its pages outlive the engines' pods)
LIVES = (
    (cache(), False),
    (stored("File", sizeGiB=8), False),
    (stored("File", sizeGiB=8, claim={"claimName": "c"}), True),
    (stored("Mooncake", storageTierRef={"name": "pool"}), True),
    (stored("Raw", backend="eic"), True),
)


@pytest.mark.parametrize(("of", "outlives"), LIVES)
def test_describe_reports_storage_that_outlives_pods(of: Any, outlives: bool) -> None:
    assert BACKEND.describe(of).outlives_pods is outlives


def test_store_of_one_identity_pins_its_identity() -> None:
    nothing = {
        "spec.hicache.storage.mooncake.storageTierRef": "none",
        "spec.hicache.storage.identity": "none",
    }
    for of in (stored("File", sizeGiB=8), stored("Raw", backend="eic")):
        rows = BACKEND.pinned(of)
        assert {row.path: row.value for row in rows if row.value == row.unset} == nothing
    rows = BACKEND.pinned(stored("Raw", {"identity": IDENTITY}, backend="eic"))
    assert {row.path: row.value for row in rows if row.always} == {
        "spec.hicache.memoryLayout": "page_first",
        "spec.hicache.pageTokens": "64",
        "spec.hicache.storage.identity": IDENTITY,
    }

"""What is wrong with a tier: by its schema, and by what only the backend knows."""

from typing import Any

import pytest

from function.backends.lmcache import BACKEND
from tests.unit.backends.lmcache import read

L1: dict[str, Any] = {"sizeGiB": 16}


def _level(type_: str, field: str, body: dict[str, Any], name: str = "x", **more: Any) -> Any:
    return {"name": name, "type": type_, field: body, **more}


def _disk(path: str, name: str = "x") -> Any:
    return _level("Disk", "disk", {"sizeGiB": 1, "hostPath": {"path": path}}, name)


def _redis(name: str = "x", **more: Any) -> Any:
    return _level("Redis", "redis", {"host": "r", **more}, name)


def _raw(text: str) -> Any:
    return _level("Raw", "raw", {"json": text})


def _s3(name: str, secret: str) -> Any:
    body = {"bucket": "kv", "endpoint": "s3", "region": "eu", "credentialsSecret": {"name": secret}}
    return _level("S3", "s3", body, name)


OWN = {"image": {"repository": "example/own", "tag": "v0.5.6"}}
AUTH = {"authSecret": {"name": "a", "key": "k"}}

# (spec.lmcache beside l1, spec beside lmcache, paths of the problems)
SCHEMA = (
    ({"l1": {"sizeGiB": 0}}, {}, ["spec.lmcache.l1.sizeGiB"]),
    ({"l1": {"sizeGiB": 99999}}, {}, ["spec.lmcache.l1.sizeGiB"]),
    ({"l1": {"sizeGiB": 1.5}}, {}, ["spec.lmcache.l1.sizeGiB"]),
    ({"l1": {"sizeGiB": 16, "initialSizeGiB": 17}}, {}, ["spec.lmcache.l1.initialSizeGiB"]),
    (
        {"l1": {"sizeGiB": 16, "initialSizeGiB": 1, "hugepages": True}},
        {},
        ["spec.lmcache.l1.initialSizeGiB"],
    ),
    ({"l1": {"sizeGiB": 16, "evictionPercent": 500}}, {}, ["spec.lmcache.l1.evictionPercent"]),
    ({"l1": None}, {}, ["spec.lmcache"]),
    ({"chunkTokens": 250}, {}, ["spec.lmcache.chunkTokens"]),
    ({"chunkTokens": 0}, {}, ["spec.lmcache.chunkTokens"]),
    ({"gpuWorkers": 0}, {}, ["spec.lmcache.gpuWorkers"]),
    (
        {"registration": {"reapSeconds": 600, "graceSeconds": 60}},
        {},
        ["spec.lmcache.registration.graceSeconds"],
    ),
    ({"registration": {"reapSeconds": 0}}, {}, ["spec.lmcache.registration.reapSeconds"]),
    ({"mode": "InProcess"}, {}, ["spec.lmcache", "spec.lmcache.l1"]),
    ({"inProcess": {}}, {}, ["spec.lmcache.inProcess"]),
    (
        {"l2": [_level("Disk", "redis", {"host": "r"})]},
        {},
        ["spec.lmcache.l2[0]", "spec.lmcache.l2[0].redis"],
    ),
    (
        {"l2": [_level("Disk", "disk", {"hostPath": {"path": "/x"}})]},
        {},
        ["spec.lmcache.l2[0].disk.sizeGiB"],
    ),
    ({"l2": [_level("Disk", "disk", {"sizeGiB": 1})]}, {}, ["spec.lmcache.l2[0].disk"]),
    (
        {"l2": [_redis(authSecret={"name": "a"})]},
        {},
        ["spec.lmcache.l2[0].redis.authSecret.key"],
    ),
    ({"l2": [_redis(username="u")]}, {}, ["spec.lmcache.l2[0].redis.username"]),
    ({"l2": [_redis(managed={"sizeGiB": 1})]}, {}, ["spec.lmcache.l2[0].redis"]),
    ({"l2": [_redis(), _redis()]}, {}, ["spec.lmcache.l2[1]"]),
    (
        {"l2": [_redis(tls=True), _disk("relative", "y")]},
        {},
        ["spec.lmcache.l2[0].redis.tls", "spec.lmcache.l2[1].disk.hostPath.path"],
    ),
)


@pytest.mark.parametrize(("lmcache", "rest", "paths"), SCHEMA)
def test_the_schema_refuses(lmcache: Any, rest: Any, paths: list[str]) -> None:
    body = {key: value for key, value in ({"l1": L1} | lmcache).items() if value is not None}
    found, problems = read({"lmcache": body} | rest)
    assert found is None
    assert [p.path for p in problems] == paths, [str(p) for p in problems]


# (spec.lmcache beside l1, spec beside lmcache, whole problems as users read them)
BACKEND_FINDS = (
    (
        {},
        {"image": {"tag": "latest"}},
        [
            "spec.image.version: must be set: the LMCache version in lmcache/standalone:latest "
            "is unknown, and the agents' arguments depend on it (e.g. 0.5.6)"
        ],
    ),
    ({}, {"image": {"tag": "latest", "version": "0.5.6"}}, []),
    ({}, {"image": {"tag": "v0.5.6-cu129"}}, []),
    ({}, {"image": {"digest": "sha256:" + "0" * 64, "version": "0.5.6"}}, []),
    (
        {"ipc": "SharedMemory"},
        {"image": {"tag": "v0.4.7"}},
        ["spec.image: LMCache 0.4.7 is too old: use 0.5.4 or newer"],
    ),
    (
        {"l1": {"sizeGiB": 1, "hugepages": True, "evictionPolicy": "ARC"}},
        {"image": {"tag": "v0.5.4"}},
        [
            "spec.lmcache.ipc: Isolated needs LMCache 0.5.5 or newer: spec.image has 0.5.4",
            "spec.lmcache.l1.evictionPolicy: ARC needs LMCache 0.5.6 or newer: spec.image has "
            "0.5.4",
            "spec.lmcache.l1.hugepages: this setting needs LMCache 0.5.6 or newer: spec.image "
            "has 0.5.4",
        ],
    ),
    (
        {"registration": {"sessionSeconds": 900}},
        {"image": {"tag": "v0.5.5"}},
        [
            "spec.lmcache.registration.sessionSeconds: this setting needs LMCache 0.5.6 or "
            "newer: spec.image has 0.5.5"
        ],
    ),
    ({}, {"image": {"tag": "v0.5.5"}}, []),
    (
        {"l2": [_level("Valkey", "valkey", {"nodes": [{"host": "v"}]})]},
        {},
        [
            "spec.lmcache.l2[0].type: Valkey needs an image with valkey-glide-sync. "
            "lmcache/standalone has none: set spec.image to an image with it"
        ],
    ),
    ({"l2": [_level("Valkey", "valkey", {"nodes": [{"host": "v"}]})]}, OWN, []),
    (
        {
            "l2": [
                _level(
                    "Valkey",
                    "valkey",
                    {"nodes": [{"host": "v"}], "passwordSecret": {"name": "v", "key": "p"}},
                )
            ]
        },
        OWN,
        [
            "spec.lmcache.l2[0].valkey.passwordSecret: LMCache takes a Valkey's password as an "
            "argument only, visible to all who may read pods (CredentialInArgv). Use type Redis "
            "with authSecret for a single Valkey, or a Valkey without a password behind a "
            "NetworkPolicy"
        ],
    ),
    (
        {"l2": [_redis("a", **AUTH), _redis("b")]},
        {},
        [
            "spec.lmcache.l2[1].redis.authSecret: must equal that of spec.lmcache.l2[0]: an "
            "agent has one password for all Redis levels"
        ],
    ),
    ({"l2": [_redis("a", **AUTH), _redis("b", **AUTH)]}, {}, []),
    (
        {"l2": [_s3("a", "one"), _s3("b", "two")]},
        OWN,
        [
            "spec.lmcache.l2[1].s3.credentialsSecret: must equal that of spec.lmcache.l2[0]: an "
            "agent has one access key for all buckets"
        ],
    ),
    (
        {"l2": [_disk("/var/lib/kubelet/kv", "a"), _disk("/", "b"), _disk("/mnt/../etc", "c")]},
        {},
        [
            "spec.lmcache.l2[0].disk.hostPath.path: /var/lib/kubelet/kv belongs to the node: "
            "choose a directory of the tier's own",
            "spec.lmcache.l2[1].disk.hostPath.path: / belongs to the node: choose a directory of "
            "the tier's own",
            "spec.lmcache.l2[2].disk.hostPath.path: must not contain ..",
        ],
    ),
    (
        {"l2": [_disk("/mnt/kv", "a"), _disk("/mnt//kv/", "b")]},
        {},
        [
            "spec.lmcache.l2[1].disk.hostPath.path: is the same as "
            "spec.lmcache.l2[0].disk.hostPath.path: give each level its own"
        ],
    ),
    (
        {"l2": [_raw("{")]},
        {},
        [
            "spec.lmcache.l2[0].raw.json: is not JSON: Expecting property name enclosed in double "
            "quotes: line 1 column 2 (char 1)"
        ],
    ),
    (
        {"l2": [_raw("[1]")]},
        {},
        ['spec.lmcache.l2[0].raw.json: must be an object such as {"type":"fs"}, is a list'],
    ),
    (
        {"l2": [_raw('{"kind":"fs"}')]},
        {},
        ['spec.lmcache.l2[0].raw.json: must have a "type", the name of an adapter of LMCache'],
    ),
    (
        {"l2": [_raw('{"type":"resp","host":"r","port":1,"password":"hunter2"}')]},
        {},
        [
            "spec.lmcache.l2[0].raw.json: password would be in an argument, visible to all who "
            "may read pods (CredentialInArgv). Use a typed level, which takes it from a Secret"
        ],
    ),
    ({"l2": [_raw('{"type":"fs","serde":{"type":"aesgcm","master_key_path":"/k"}}')]}, {}, []),
    (
        {"l2": [_raw('{"type":"mooncake_store"}')]},
        {},
        [
            "spec.lmcache.l2[0].type: Raw needs an image with a build of LMCache with Mooncake. "
            "lmcache/standalone has none: set spec.image to an image with it"
        ],
    ),
)


@pytest.mark.parametrize(("lmcache", "rest", "wanted"), BACKEND_FINDS)
def test_the_backend_finds(lmcache: Any, rest: Any, wanted: list[str]) -> None:
    found, problems = read({"lmcache": {"l1": L1} | lmcache} | rest)
    assert found is not None, [str(p) for p in problems]
    assert [str(p) for p in BACKEND.problems(found)] == wanted


def test_problems_contain_no_secret() -> None:
    found, _ = read({"lmcache": {"l1": L1, "l2": [_raw('{"type":"x","a":[{"TOKEN":"hunter2"}]}')]}})
    assert found is not None
    assert "TOKEN" in (text := " ".join(str(p) for p in BACKEND.problems(found)))
    assert "hunter2" not in text


# (spec.lmcache beside l1, spec beside lmcache, level of Pod Security)
SECURITY = (
    ({}, {}, "baseline"),
    ({"runAsUser": 1000}, {}, "restricted"),
    ({"runAsUser": 1000, "ipc": "SharedMemory"}, {}, "privileged"),
    ({"runAsUser": 1000, "l2": [_disk("/mnt/kv")]}, {}, "privileged"),
    (
        {"runAsUser": 1000, "l2": [_level("Disk", "disk", {"sizeGiB": 1, "ephemeral": {}})]},
        {},
        "restricted",
    ),
)


@pytest.mark.parametrize(("lmcache", "rest", "level"), SECURITY)
def test_pod_security(lmcache: Any, rest: Any, level: str) -> None:
    found, _ = read({"lmcache": {"l1": L1} | lmcache} | rest)
    assert found is not None
    assert BACKEND.describe(found).pod_security == level

"""What is wrong with a tier: by its schema, and by what only the backend knows."""

from typing import Any

import pytest

from function.backends.mooncake import BACKEND
from tests.unit.backends.mooncake import RDMA, STORE, pool, read

ETCD = {"source": "Managed"}
DISK = {"sizeGiB": 10, "hostPath": {"path": "/mnt/kv"}}
AWAY = {"masterAddress": "m:50051"}
_MOONCAKE, _STORE = "spec.mooncake", "spec.mooncake.store"


_TENANTS = "spec.mooncake.tenants"
_TEAM_A = {"namespace": "team-a", "sizeGiB": 1}


def _quotas(shares: dict[str, int]) -> dict[str, Any]:
    quotas = [{"namespace": name, "sizeGiB": gib} for name, gib in shares.items()]
    return {"othersSizeGiB": 1, "quotas": quotas}


def _store(**fields: Any) -> dict[str, Any]:
    return {"store": STORE | fields}


# (spec.mooncake, paths of the problems)
SCHEMA: tuple[tuple[dict[str, Any], list[str]], ...] = (
    # Sizes that Mooncake would misread.
    (_store(sizeGiB="200Gi"), [f"{_STORE}.sizeGiB"]),
    (_store(sizeGiB="200gb"), [f"{_STORE}.sizeGiB"]),
    (_store(sizeGiB=1.5), [f"{_STORE}.sizeGiB"]),
    (_store(sizeGiB=0), [f"{_STORE}.sizeGiB"]),
    (_store(sizeGiB=99999), [f"{_STORE}.sizeGiB"]),
    (_store(hugepages="2MB"), [f"{_STORE}.hugepages"]),
    (_store(offload={"sizeGiB": "2Ti", "claim": {}}), [f"{_STORE}.offload.sizeGiB"]),
    (_store(offload={"claim": {}}), [f"{_STORE}.offload.sizeGiB"]),
    ({"store": STORE, "engine": {"bufferMiB": 0}}, [f"{_MOONCAKE}.engine.bufferMiB"]),
    # A segment larger than its pod, or than a node.
    (_store(memoryGiB=200), [f"{_STORE}.memoryGiB"]),
    (_store(nodeMemoryGiB=200), [f"{_STORE}.sizeGiB"]),
    (_store(nodeMemoryGiB=256, memoryGiB=300), [f"{_STORE}.memoryGiB"]),
    # HA without etcd.
    ({"store": STORE, "master": {"replicas": 3}}, [_MOONCAKE]),
    ({"store": STORE, "master": {"oplog": True}}, [_MOONCAKE]),
    ({"store": STORE, "etcd": ETCD}, [f"{_MOONCAKE}.etcd"]),
    # Tenants: of a pool of ours, in memory alone.
    ({"store": STORE, "tenants": {}}, [f"{_TENANTS}.othersSizeGiB"]),
    ({"store": STORE, "tenants": {"othersSizeGiB": "1Gi"}}, [f"{_TENANTS}.othersSizeGiB"]),
    ({"store": STORE, "tenants": _quotas({"default": 1})}, [f"{_TENANTS}.quotas"]),
    ({"store": STORE, "tenants": _quotas({"Team": 1})}, [f"{_TENANTS}.quotas[0].namespace"]),
    ({"store": STORE, "tenants": _quotas({"team-a": 0})}, [f"{_TENANTS}.quotas[0].sizeGiB"]),
    (
        {"store": STORE, "tenants": {"othersSizeGiB": 1, "quotas": [_TEAM_A, _TEAM_A]}},
        [f"{_TENANTS}.quotas[1]"],
    ),
    ({"external": AWAY, "tenants": _quotas({})}, [_TENANTS]),
    (_store(offload=DISK) | {"tenants": _quotas({})}, [_TENANTS]),
    (
        {"store": STORE, "tenants": _quotas({}), "master": {"oplog": True}, "etcd": ETCD},
        [_TENANTS],
    ),
    # Unknown words.
    ({"store": STORE, "allocationStrategy": "nearest"}, [f"{_MOONCAKE}.allocationStrategy"]),
    ({"store": STORE, "protocol": "RDMA"}, [f"{_MOONCAKE}.protocol"]),
    ({"store": STORE, "metadata": "redis"}, [f"{_MOONCAKE}.metadata"]),
    ({"store": STORE, "master": {"rootFsDir": "/x"}}, [f"{_MOONCAKE}.master.rootFsDir"]),
    ({"external": {"masterAddress": "host"}}, [f"{_MOONCAKE}.external.masterAddress"]),
    ({"external": {**AWAY, "adminAddress": "http://m:1"}}, [f"{_MOONCAKE}.external.adminAddress"]),
    ({}, [_MOONCAKE]),
    (
        {"store": STORE, "allocationStrategy": "local_first"},
        [f"{_MOONCAKE}.allocationStrategy"],
    ),
    (
        {"store": STORE, "metadata": "http", "master": {"replicas": 3}, "etcd": ETCD},
        [f"{_MOONCAKE}.metadata"],
    ),
)


@pytest.mark.parametrize(("settings", "paths"), SCHEMA)
def test_schema_problem_names_the_path(settings: dict[str, Any], paths: list[str]) -> None:
    found, problems = read({"mooncake": settings})
    assert found is None
    assert [problem.path for problem in problems] == paths


def _flags(**flags: str) -> dict[str, Any]:
    return {"master": {"flags": flags}}


# (spec.mooncake beside the store, spec beside mooncake, [(path, words of the message)])
BACKENDS_OWN: tuple[tuple[dict[str, Any], dict[str, Any], list[tuple[str, str]]], ...] = (
    ({"protocol": "rdma"}, {}, [(f"{_MOONCAKE}.protocol", "spec.rdma.source is None")]),
    ({"protocol": "rdma"}, {"rdma": RDMA}, []),
    (
        {"protocol": "rdma", "engine": {"rdmaClaimTemplateName": "nic"}},
        {"rdma": RDMA},
        [(f"{_MOONCAKE}.engine.rdmaClaimTemplateName", "source DRA")],
    ),
    ({"rdmaGidIndex": 3}, {}, [(f"{_MOONCAKE}.rdmaGidIndex", "protocol rdma")]),
    ({}, {"image": {"tag": "latest"}}, [("spec.image.version", "must be set")]),
    ({}, {"image": {"tag": "latest", "version": "0.3.13"}}, []),
    ({}, {"image": {"tag": "v0.3.12"}}, [("spec.image", "too old")]),
    (
        _store(drain={"maxSeconds": 10}),
        {},
        [(f"{_STORE}.drain.maxSeconds", "leaseSeconds (10)")],
    ),
    (_store(drain={"maxSeconds": 0}), {}, []),
    (
        _store(offload={"sizeGiB": 1, "hostPath": {"path": "/etc/kv"}}),
        {},
        [(f"{_STORE}.offload.hostPath.path", "belongs to the node")],
    ),
    (
        _store(offload={"sizeGiB": 1, "hostPath": {"path": "/mnt/../etc"}}),
        {},
        [(f"{_STORE}.offload.hostPath.path", "..")],
    ),
    (
        _store(form="StatefulSet", replicas=2, offload=DISK),
        {},
        [(f"{_STORE}.offload.hostPath.path", "share it")],
    ),
    (
        _store(offload=DISK) | _flags(root_fs_dir="/x"),
        {},
        [(f"{_MOONCAKE}.master.flags[root_fs_dir]", "store.offload")],
    ),
    (_flags(root_fs_dir="/x"), {}, []),
    (_flags(offload_on_evict="true", max_retry_attempts="5"), {}, []),
    (
        _flags(enable_snapshot="true"),
        {},
        [(f"{_MOONCAKE}.master.flags[enable_snapshot]", "does not work in 0.3.13")],
    ),
    (
        _flags(rpc_port="1", enable_ha="true"),
        {},
        [
            (f"{_MOONCAKE}.master.flags[enable_ha]", "master.replicas"),
            (f"{_MOONCAKE}.master.flags[rpc_port]", "ports.rpc"),
        ],
    ),
    (
        _flags(nonsense="1", max_retry_attempts="many", memory_allocator="malloc"),
        {},
        [
            (f"{_MOONCAKE}.master.flags[max_retry_attempts]", "a whole number"),
            (f"{_MOONCAKE}.master.flags[memory_allocator]", "one of offset, cachelib"),
            (f"{_MOONCAKE}.master.flags[nonsense]", "stops the master"),
        ],
    ),
    (
        _flags(enable_multi_tenants="true", tenant_quota_connector_uri="/x"),
        {},
        [
            (f"{_MOONCAKE}.master.flags[enable_multi_tenants]", "is set from tenants"),
            (f"{_MOONCAKE}.master.flags[tenant_quota_connector_uri]", "is set from tenants"),
        ],
    ),
    # A pool of two stores; on each node nobody knows how large it is.
    (
        _store(form="StatefulSet", replicas=2) | {"tenants": _quotas({"team-a": 400})},
        {},
        [(_TENANTS, "promises 401 GiB (quotas and othersSizeGiB) of a pool of 400")],
    ),
    (_store(form="StatefulSet", replicas=2) | {"tenants": _quotas({"team-a": 399})}, {}, []),
    ({"tenants": _quotas({"team-a": 16777216})}, {}, []),
    (
        {"tenants": _quotas({f"{'n' * 40}-{number}": 1 for number in range(32)})},
        {},
        [(f"{_TENANTS}.quotas", "at most 512 characters in total")],
    ),
    (
        {"protocol": "rdma"},
        {
            "rdma": {
                "source": "DevicePlugin",
                "devicePlugin": {"resourceName": "vpc.amazonaws.com/efa"},
            }
        },
        [("spec.rdma.devicePlugin.resourceName", "use protocol tcp")],
    ),
)


@pytest.mark.parametrize(("settings", "spec", "wanted"), BACKENDS_OWN)
def test_backend_problem_names_the_path(
    settings: dict[str, Any], spec: dict[str, Any], wanted: Any
) -> None:
    problems = BACKEND.problems(pool(spec, **settings))
    assert [problem.path for problem in problems] == [path for path, _ in wanted]
    for problem, (_, words) in zip(problems, wanted, strict=True):
        assert words in problem.message


# (spec.mooncake beside the store, spec beside mooncake, Pod Security level)
LEVELS = (
    ({}, {}, "restricted"),
    (_store(hugepages="1Gi"), {}, "restricted"),
    (_store(offload={"sizeGiB": 1, "claim": {}}), {}, "restricted"),
    (_store(offload=DISK), {}, "privileged"),
    ({"protocol": "rdma"}, {"rdma": RDMA}, "privileged"),
)


@pytest.mark.parametrize(("settings", "spec", "level"), LEVELS)
def test_pod_security(settings: dict[str, Any], spec: dict[str, Any], level: str) -> None:
    assert BACKEND.describe(pool(spec, **settings)).pod_security == level


@pytest.mark.parametrize(
    ("settings", "spec", "words"),
    [
        ({"master": {"replicas": 3}, "etcd": ETCD}, {}, "lost when the leading master"),
        ({"master": {"oplog": True}, "etcd": ETCD}, {}, "never trimmed"),
        ({}, {"upgradePolicy": {"type": "Recreate"}}, "are lost"),
        ({}, {"image": {"tag": "0.4.0"}}, "is newer than"),
        ({"external": AWAY}, {}, "do not drain"),
        (
            _store(form="StatefulSet", replicas=2) | {"tenants": _quotas({"team-a": 360})},
            {},
            "shares of 361 GiB in total exceed the 360 GiB",
        ),
        ({"tenants": _quotas({"team-a": 1})}, {}, "does not admit team-a: their quotas apply"),
    ],
)
def test_warnings_of_describe(settings: dict[str, Any], spec: dict[str, Any], words: str) -> None:
    assert words in " ".join(BACKEND.describe(pool(spec, **settings)).warnings)

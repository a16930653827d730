"""One good and one bad document for every CEL rule of a Mooncake tier; see rules.py."""

from collections.abc import Iterator
from typing import Any

from tests.cluster.rules import TOLERATIONS

Fragment = dict[str, Any]
Row = tuple[str, str, Fragment, Fragment]

_STORE: Fragment = {"sizeGiB": 64}
_HTTP: Fragment = {"metadata": "http"}
_ETCD: Fragment = {"source": "Managed"}
_SHARES: Fragment = {"othersSizeGiB": 1}
_ELSEWHERE: Fragment = {"store": None, "external": {"masterAddress": "m:50051"}}
_EXTERNAL_ETCD: Fragment = {"endpoints": [{"host": "e"}]}
_RDMA: Fragment = {"rdma": {"source": "DevicePlugin", "devicePlugin": {"resourceName": "rdma/hca"}}}
_COVERS = "must not cover rpc, admin or metadata, nor 8088, 2379 and 2380: a NetworkPolicy opens"
_PATHS = {
    "spec": "",
    "mooncake": "mooncake",
    "store": "mooncake.store",
    "offload": "mooncake.store.offload",
    "flags": "mooncake.master.flags",
    "placement": "mooncake.controlPlaneNodes.selector",
    "toleration": "mooncake.controlPlaneNodes.tolerations[]",
    "etcd": "mooncake.etcd",
    "managed": "mooncake.etcd.managed",
    "external": "mooncake.external",
    "ports": "mooncake.ports",
    "tenants": "mooncake.tenants",
}


def _spec(where: str, fragment: Fragment) -> Fragment:
    """A Mooncake tier's settings with a fragment laid over the valid object at `where`."""
    mooncake: Fragment = {"store": _STORE}
    if where == "spec":
        return {"backend": "Mooncake", "gpuVisibility": None, "mooncake": mooncake} | fragment
    if where == "mooncake":
        mooncake |= fragment
    elif where == "store":
        mooncake["store"] = _STORE | fragment
    elif where == "offload":
        mooncake["store"] = _STORE | {"offload": {"sizeGiB": 100} | fragment}
    elif where == "flags":
        mooncake["master"] = {"flags": fragment}
    elif where == "placement":
        mooncake["controlPlaneNodes"] = {"selector": fragment}
    elif where == "toleration":
        mooncake["controlPlaneNodes"] = {"tolerations": [fragment]}
    elif where == "etcd":
        mooncake |= {"metadata": "etcd", "etcd": fragment}
    elif where == "managed":
        mooncake |= {"metadata": "etcd", "etcd": _ETCD | {"managed": fragment}}
    elif where == "external":
        mooncake |= {"store": None, "external": fragment}
    else:
        mooncake[where] = fragment
    return {"backend": "Mooncake", "mooncake": mooncake}


ROWS: list[Row] = [
    ("spec", "mooncake must be set when backend is Mooncake", {}, {"mooncake": None}),
    (
        "spec",
        "mooncake may only be set when backend is Mooncake",
        {},
        {"backend": "LMCache", "lmcache": {"l1": {"sizeGiB": 1}}},
    ),
    (
        "spec",
        "lmcache may only be set when backend is LMCache",
        {},
        {"lmcache": {"l1": {"sizeGiB": 1}}},
    ),
    (
        "spec",
        "gpuVisibility may not be set: Mooncake's processes use no GPU",
        {},
        {"gpuVisibility": {"source": "CDI"}},
    ),
    (
        "spec",
        "rdma may not be set: mooncake.protocol is tcp",
        {"mooncake": {"store": _STORE, "protocol": "rdma"}} | _RDMA,
        {"mooncake": {"store": _STORE, "protocol": "tcp"}} | _RDMA,
    ),
    ("mooncake", "store must be set unless external is set", _ELSEWHERE, {"store": None}),
    (
        "mooncake",
        "controlPlaneNodes may not be set with external: the tier then runs no master",
        _ELSEWHERE,
        _ELSEWHERE | {"controlPlaneNodes": {"selector": {"pool": "cpu"}}},
    ),
    (
        "placement",
        "keys must have at most 317 characters",
        {"a": "b"},
        {"a" * 320: "b"},
    ),
    (
        "placement",
        "each key must be a qualified name ([domain/]name)",
        {"a": "b"},
        {"no/pe/": "b"},
    ),
    *TOLERATIONS,
    (
        "mooncake",
        "master may not be set with external: the tier then runs no master",
        _ELSEWHERE,
        _ELSEWHERE | {"master": {}},
    ),
    (
        "mooncake",
        "etcd may not be set with external: name the existing etcd in external",
        _ELSEWHERE,
        _ELSEWHERE | {"etcd": _ETCD},
    ),
    (
        "mooncake",
        "tenants may not be set with external: the tier cannot set quotas of an existing master",
        {"tenants": _SHARES},
        _ELSEWHERE | {"tenants": _SHARES},
    ),
    (
        "mooncake",
        "tenants may not be set with store.offload: Mooncake bounds memory only, and one "
        "namespace could fill the disk",
        {"tenants": _SHARES},
        {"tenants": _SHARES, "store": _STORE | {"offload": {"sizeGiB": 1, "claim": {}}}},
    ),
    (
        "mooncake",
        "tenants may not be set with master.oplog: recovery of a new leader is untested with "
        "tenants",
        {"tenants": _SHARES, "master": {"replicas": 3}, "etcd": _ETCD},
        {"tenants": _SHARES, "master": {"oplog": True}, "etcd": _ETCD},
    ),
    (
        "tenants",
        "quotas may not name the namespace default, Mooncake's name of clients without a tenant: "
        "set othersSizeGiB",
        _SHARES | {"quotas": [{"namespace": "team-a", "sizeGiB": 1}]},
        _SHARES | {"quotas": [{"namespace": "default", "sizeGiB": 1}]},
    ),
    (
        "mooncake",
        "etcd must be set when master.replicas is more than 1 or master.oplog is true",
        {"master": {"replicas": 3}, "etcd": _ETCD},
        {"master": {"replicas": 3}},
    ),
    (
        "mooncake",
        "etcd must be set when metadata is etcd",
        {"metadata": "etcd", "etcd": _ETCD},
        {"metadata": "etcd"},
    ),
    (
        "mooncake",
        "etcd may only be set with several masters, master.oplog or metadata etcd",
        {"master": {"oplog": True}, "etcd": _ETCD},
        {"etcd": _ETCD},
    ),
    (
        "mooncake",
        "metadata http needs a single master without oplog: use p2p or etcd",
        _HTTP,
        _HTTP | {"master": {"replicas": 3}, "etcd": _ETCD},
    ),
    (
        "mooncake",
        "external must have a metadataServer when metadata is http or etcd, and none with p2p",
        _ELSEWHERE,
        _ELSEWHERE | _HTTP,
    ),
    (
        "mooncake",
        "allocationStrategy local_first needs metadata http: only there a client has its node's "
        "name",
        _HTTP | {"allocationStrategy": "local_first"},
        {"allocationStrategy": "local_first"},
    ),
    (
        "mooncake",
        "allocationStrategy ssd_free_ratio_first needs store.offload",
        {
            "allocationStrategy": "ssd_free_ratio_first",
            "store": _STORE | {"offload": {"sizeGiB": 1, "claim": {}}},
        },
        {"allocationStrategy": "ssd_free_ratio_first"},
    ),
    (
        "store",
        "replicas must be set when form is StatefulSet, and only then",
        {"form": "StatefulSet", "replicas": 2},
        {"replicas": 2},
    ),
    (
        "store",
        "memoryGiB must hold sizeGiB (unless hugepages do) and 1 more, 3 more with offload",
        {"memoryGiB": 65},
        {"memoryGiB": 64},
    ),
    (
        "store",
        "sizeGiB and 2 more, 4 more with offload, must fit into nodeMemoryGiB",
        {"nodeMemoryGiB": 66},
        {"nodeMemoryGiB": 65},
    ),
    (
        "store",
        "memoryGiB and hugepages of sizeGiB must fit into nodeMemoryGiB",
        {"memoryGiB": 100, "nodeMemoryGiB": 100},
        {"memoryGiB": 101, "nodeMemoryGiB": 100},
    ),
    (
        "offload",
        "exactly one of hostPath and claim must be set",
        {"hostPath": {"path": "/mnt/kv"}},
        {},
    ),
    (
        "flags",
        "each key must be a flag of mooncake_master without dashes in front",
        {"enable_something": "true"},
        {"--enable": "true"},
    ),
    (
        "etcd",
        "managed may only be set when source is Managed",
        {"source": "Managed", "managed": {}},
        {"source": "External", "external": _EXTERNAL_ETCD, "managed": {}},
    ),
    (
        "etcd",
        "external must be set when source is External",
        {"source": "External", "external": _EXTERNAL_ETCD},
        {"source": "External"},
    ),
    (
        "etcd",
        "external may only be set when source is External",
        {"source": "Managed"},
        {"source": "Managed", "external": _EXTERNAL_ETCD},
    ),
    (
        "managed",
        "quotaGiB must be less than storageGiB",
        {"quotaGiB": 4, "storageGiB": 5},
        {"quotaGiB": 4, "storageGiB": 4},
    ),
    (
        "external",
        "masterAddress may list several addresses only as etcd://HOST:PORT;HOST:PORT",
        {"masterAddress": "m:50051"},
        {"masterAddress": "a:50051;b:50051"},
    ),
    (
        "ports",
        "rpc, admin and metadata must differ",
        {"rpc": 1024, "admin": 1025, "metadata": 1026},
        {"rpc": 1024, "admin": 1024},
    ),
    (
        "ports",
        "transferLast must be at least transferFirst + 7",
        {"transferFirst": 15000, "transferLast": 15007},
        {"transferFirst": 15000, "transferLast": 15006},
    ),
    (
        "ports",
        "segmentLast must be at least segmentFirst + 7",
        {"segmentFirst": 12300, "segmentLast": 12307},
        {"segmentFirst": 12300, "segmentLast": 12306},
    ),
    (
        "ports",
        "transferFirst to transferLast and segmentFirst to segmentLast must not overlap",
        {"transferFirst": 15000, "segmentFirst": 15032, "segmentLast": 15063},
        {"transferFirst": 15000, "segmentFirst": 15031, "segmentLast": 15063},
    ),
    (
        "ports",
        f"transferFirst to transferLast {_COVERS} the range to engines",
        {"rpc": 14999},
        {"rpc": 15000},
    ),
    (
        "ports",
        f"segmentFirst to segmentLast {_COVERS} the range to engines",
        {"segmentFirst": 2381, "segmentLast": 2400},
        {"segmentFirst": 2380, "segmentLast": 2400},
    ),
    (
        "ports",
        "health must not be within transferFirst and transferLast",
        {"health": 14999},
        {"health": 15000},
    ),
    (
        "ports",
        "health must not be within segmentFirst and segmentLast",
        {"health": 12332},
        {"health": 12331},
    ),
]


def documents() -> Iterator[tuple[str, str, Fragment, Fragment]]:
    """Path below the spec, message, and the settings of a good and of a bad tier."""
    for where, message, good, bad in ROWS:
        pair = (_pruned(_spec(where, fragment)) for fragment in (good, bad))
        yield _PATHS[where], message, *pair


def _pruned(fragment: Fragment) -> Fragment:
    """Without the fields that a row takes away by None."""
    return {
        key: _pruned(value) if isinstance(value, dict) else value
        for key, value in fragment.items()
        if value is not None
    }

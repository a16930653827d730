"""The rows of `test_rules` for `spec.mooncake`."""

from typing import Any

STORE = {"sizeGiB": 8}
DISK = {"sizeGiB": 1, "claim": {}}
ETCD = {"source": "Managed"}
AWAY = {"masterAddress": "m:1"}
SHARES = {"othersSizeGiB": 1}

ROWS: list[tuple[str, str, list[Any], list[Any]]] = [
    ("MooncakeSpec", "store must be set", [{"store": STORE}, {"external": AWAY}], [{}]),
    (
        "MooncakeSpec",
        "master may not",
        [{"store": STORE, "master": {}}, {"external": AWAY}],
        [{"external": AWAY, "master": {}}],
    ),
    (
        "MooncakeSpec",
        "etcd may not",
        [{"store": STORE, "metadata": "etcd", "etcd": ETCD}],
        [{"external": {**AWAY, "metadataServer": "etcd://e:1"}, "metadata": "etcd", "etcd": ETCD}],
    ),
    (
        "MooncakeSpec",
        "etcd must be set when master",
        [
            {"store": STORE, "master": {"replicas": 1}},
            {"store": STORE, "master": {"replicas": 3}, "etcd": ETCD},
            {"store": STORE, "master": {"oplog": True}, "etcd": ETCD},
        ],
        [{"store": STORE, "master": {"replicas": 2}}, {"store": STORE, "master": {"oplog": True}}],
    ),
    (
        "MooncakeSpec",
        "etcd must be set when metadata",
        [
            {"store": STORE, "metadata": "etcd", "etcd": ETCD},
            {"external": {**AWAY, "metadataServer": "etcd://e:1"}, "metadata": "etcd"},
        ],
        [{"store": STORE, "metadata": "etcd"}],
    ),
    (
        "MooncakeSpec",
        "etcd may only",
        [{"store": STORE, "metadata": "etcd", "etcd": ETCD}],
        [{"store": STORE, "etcd": ETCD}, {"store": STORE, "master": {}, "etcd": ETCD}],
    ),
    (
        "MooncakeSpec",
        "metadata http needs",
        [{"store": STORE, "metadata": "http"}],
        [{"store": STORE, "metadata": "http", "master": {"replicas": 3}, "etcd": ETCD}],
    ),
    (
        "MooncakeSpec",
        "external must have",
        [{"external": AWAY}, {"external": {**AWAY, "metadataServer": "x"}, "metadata": "http"}],
        [
            {"external": AWAY, "metadata": "http"},
            {"external": {**AWAY, "metadataServer": "http://m:1/metadata"}},
        ],
    ),
    (
        "MooncakeSpec",
        "local_first needs",
        [{"store": STORE, "allocationStrategy": "local_first", "metadata": "http"}],
        [{"store": STORE, "allocationStrategy": "local_first"}],
    ),
    (
        "MooncakeSpec",
        "ssd_free_ratio_first needs",
        [{"store": {**STORE, "offload": DISK}, "allocationStrategy": "ssd_free_ratio_first"}],
        [
            {"store": STORE, "allocationStrategy": "ssd_free_ratio_first"},
            {"external": AWAY, "allocationStrategy": "ssd_free_ratio_first"},
        ],
    ),
    (
        "MooncakeStore",
        "replicas must be set",
        [STORE, {**STORE, "form": "StatefulSet", "replicas": 1}],
        [{**STORE, "form": "StatefulSet"}, {**STORE, "replicas": 3}],
    ),
    (
        "MooncakeStore",
        "memoryGiB must hold",
        [
            {**STORE, "memoryGiB": 9},
            {**STORE, "memoryGiB": 1, "hugepages": "2Mi"},
            {**STORE, "memoryGiB": 11, "offload": DISK},
        ],
        [
            {**STORE, "memoryGiB": 8},
            {**STORE, "memoryGiB": 10, "offload": DISK},
            {**STORE, "memoryGiB": 2, "offload": DISK, "hugepages": "1Gi"},
        ],
    ),
    (
        "MooncakeStore",
        "sizeGiB and 2 more",
        [{**STORE, "nodeMemoryGiB": 10}, {**STORE, "nodeMemoryGiB": 12, "offload": DISK}],
        [{**STORE, "nodeMemoryGiB": 9}, {**STORE, "nodeMemoryGiB": 11, "offload": DISK}],
    ),
    (
        "MooncakeStore",
        "memoryGiB and hugepages",
        [
            {**STORE, "nodeMemoryGiB": 20, "memoryGiB": 20},
            {**STORE, "nodeMemoryGiB": 20, "memoryGiB": 12, "hugepages": "2Mi"},
        ],
        [
            {**STORE, "nodeMemoryGiB": 20, "memoryGiB": 21},
            {**STORE, "nodeMemoryGiB": 20, "memoryGiB": 13, "hugepages": "2Mi"},
        ],
    ),
    (
        "MooncakeOffload",
        "exactly one of hostPath",
        [{"hostPath": {}}, {"claim": {}}],
        [{}, {"hostPath": {}, "claim": {}}],
    ),
    (
        "MooncakeManagedEtcd",
        "quotaGiB must be less",
        [{}, {"quotaGiB": 8, "storageGiB": 9}],
        [{"quotaGiB": 8, "storageGiB": 8}, {"storageGiB": 4}],
    ),
    (
        "MooncakeExternal",
        "masterAddress may list",
        [AWAY, {"masterAddress": "etcd://a:1;b:2"}],
        [{"masterAddress": "a:1;b:2"}],
    ),
    (
        "MooncakePorts",
        "rpc, admin and metadata",
        [{}, {"rpc": 1}],
        [{"rpc": 9003}, {"admin": 8080}, {"metadata": 50051}, {"rpc": 9003, "metadata": 9003}],
    ),
    ("MooncakePorts", "transferLast must", [{"transferLast": 15007}], [{"transferLast": 15006}]),
    ("MooncakePorts", "segmentLast must", [{"segmentLast": 12307}], [{"segmentLast": 12306}]),
    (
        "MooncakePorts",
        "must not overlap",
        [{}, {"segmentFirst": 15032, "segmentLast": 15050}],
        [{"segmentFirst": 15031, "segmentLast": 15050}, {"segmentLast": 15000}],
    ),
    (
        "MooncakePorts",
        "health must not be within transferFirst",
        [{"health": 15032}, {"health": 14999}],
        [{"health": 15000}, {"health": 15031}],
    ),
    (
        "MooncakePorts",
        "health must not be within segmentFirst",
        [{"health": 12332}, {"health": 12299}],
        [{"health": 12300}, {"health": 12331}],
    ),
    (
        "MooncakeSpec",
        "tenants may not be set with external",
        [{"external": AWAY}, {"store": STORE, "tenants": SHARES}],
        [{"external": AWAY, "tenants": SHARES}],
    ),
    (
        "MooncakeSpec",
        "tenants may not be set with store.offload",
        [{"store": STORE, "tenants": SHARES}],
        [{"store": {**STORE, "offload": DISK}, "tenants": SHARES}],
    ),
    (
        "MooncakeSpec",
        "tenants may not be set with master.oplog",
        [{"store": STORE, "tenants": SHARES, "master": {"replicas": 3}, "etcd": ETCD}],
        [{"store": STORE, "tenants": SHARES, "master": {"oplog": True}, "etcd": ETCD}],
    ),
    (
        "MooncakeTenants",
        "quotas may not name the namespace default",
        [SHARES, {**SHARES, "quotas": [{"namespace": "defaults", "sizeGiB": 1}]}],
        [{**SHARES, "quotas": [{"namespace": "default", "sizeGiB": 1}]}],
    ),
]

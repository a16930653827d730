"""One good and one bad document for every CEL rule of a tier, LMCache's included.

A row is (where, message, good, bad): `where` names the object that carries the rule, `good` and
`bad` are laid over a valid object there (None removes a field). The judge asserts that the rows
and the rules of the generated XRDs are the same set.
"""

from collections.abc import Iterator
from typing import Any

from tests.cluster.documents import FIRST

Fragment = dict[str, Any]
Row = tuple[str, str, Fragment, Fragment]

_BASE: Fragment = {
    "backend": "LMCache",
    "gpuVisibility": {"source": "CDI"},
    "lmcache": {"mode": "NodeServer", "l1": {"sizeGiB": 64}},
}
_PATHS = {
    "spec": "",
    "inProcess": "",
    "allowedNamespaces": "allowedNamespaces",
    "selector": "nodes.selector",
    "toleration": "nodes.tolerations[]",
    "observer selector": "observe.nodes.selector",
    "observer toleration": "observe.nodes.tolerations[]",
    "payload": "payload",
    "gpu": "gpuVisibility",
    "rdma": "rdma",
    "annotations": "rdma.podAnnotations",
    "image": "image",
    "events": "events",
    "monitoring": "monitoring",
    "monitored": "monitoring.namespaceLabels",
    "monitor": "monitoring.podMonitorLabels",
    "lmcache": "lmcache",
    "l1": "lmcache.l1",
    "l2": "lmcache.l2[]",
    "disk": "lmcache.l2[].disk",
    "files": "lmcache.l2[].sharedFileSystem",
    "redis": "lmcache.l2[].redis",
    "valkey": "lmcache.l2[].valkey",
    "serde": "lmcache.l2[].serde",
    "evictor": "lmcache.evictor",
    "registration": "lmcache.registration",
    "remote": "lmcache.inProcess.remote",
}
_MOONCAKE_RDMA: Fragment = {"protocol": "rdma", "store": {"sizeGiB": 64}}
_IN_PROCESS_TIER: Fragment = {
    "backend": "LMCache",
    "lmcache": {"mode": "InProcess", "inProcess": {}},
}
_L2_TYPE = {"disk": "Disk", "files": "SharedFileSystem", "redis": "Redis", "valkey": "Valkey"}
_SECRET = {"name": "s", "key": "k"}
_DISK = {"sizeGiB": 1, "hostPath": {"path": "/mnt/kv"}}
_VALKEY = {"nodes": [{"host": "v"}]}
# A valid settings object for each type of level.
L2: dict[str, tuple[str, Fragment]] = {
    "Disk": ("disk", _DISK),
    "SharedFileSystem": ("sharedFileSystem", {"sizeGiB": 1, "claimName": "kv"}),
    "Redis": ("redis", {"host": "r"}),
    "Valkey": ("valkey", _VALKEY),
    "S3": ("s3", {"bucket": "kv", "endpoint": "s3.example.org", "region": "r"}),
    "NIXL": ("nixl", _DISK),
    "Raw": ("raw", {"json": "{}"}),
}
_LONG = {"a" * 320: "b"}
_ODD = {"no/pe/": "b"}
_KEY_LENGTH = "keys must have at most 317 characters"
_KEY_NAME = "each key must be a qualified name ([domain/]name)"


# The rules of a toleration, wherever a tier has one; Mooncake's has a second place.
TOLERATIONS: list[Row] = [
    (
        "toleration",
        "key must be set when operator is Equal",
        {"operator": "Equal", "key": "a", "value": "b"},
        {"operator": "Equal", "value": "b"},
    ),
    (
        "toleration",
        "value may only be set when operator is Equal",
        {"operator": "Exists", "key": "a"},
        {"operator": "Exists", "key": "a", "value": "b"},
    ),
    (
        "toleration",
        "tolerationSeconds may only be set when effect is NoExecute",
        {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1},
        {"operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 1},
    ),
]


def _spec(where: str, fragment: Fragment) -> Fragment:
    """A tier's settings with a fragment laid over the valid object at `where`."""
    lmcache = dict(_BASE["lmcache"])
    if where == "spec":
        return _over(_BASE, fragment)
    if where == "selector":
        return _BASE | {"nodes": {"selector": fragment}}
    if where == "toleration":
        return _BASE | {"nodes": {"tolerations": [fragment]}}
    if where == "observer selector":
        return _BASE | {"observe": {"nodes": {"selector": fragment}}}
    if where == "observer toleration":
        return _BASE | {"observe": {"nodes": {"tolerations": [fragment]}}}
    if where == "monitoring":
        return _BASE | {"monitoring": fragment}
    if where in ("monitored", "monitor"):
        field = {"monitored": "namespaceLabels", "monitor": "podMonitorLabels"}[where]
        base = {"namespaceLabels": {"a": "b"}}
        return _BASE | {"monitoring": base | {field: fragment}}
    if where in ("allowedNamespaces", "events", "image", "payload"):
        return _BASE | {where: fragment}
    if where == "annotations":
        device = {"source": "DevicePlugin", "devicePlugin": {"resourceName": "rdma/hca"}}
        return _spec("rdma", device | {"podAnnotations": fragment})
    if where == "rdma":  # LMCache uses none
        return {"backend": "Mooncake", "mooncake": _MOONCAKE_RDMA, "rdma": fragment}
    if where == "gpu":
        return _BASE | {"gpuVisibility": fragment}
    if where == "inProcess":
        return _IN_PROCESS_TIER | fragment
    if where == "remote":
        lmcache = {"mode": "InProcess", "inProcess": {"remote": fragment}}
        return {"backend": "LMCache", "lmcache": lmcache}
    if where == "lmcache":
        lmcache = _over(lmcache, fragment)
        agents = _BASE if lmcache["mode"] == "NodeServer" else {"backend": "LMCache"}
        return agents | {"lmcache": lmcache}
    if where == "l1":
        lmcache["l1"] = {"sizeGiB": 64} | fragment
    elif where == "l2":
        lmcache["l2"] = [{"name": "a"} | fragment]
    elif where == "serde":
        lmcache["l2"] = [{"name": "a", "type": "Disk", "disk": _DISK, "serde": fragment}]
    elif where in _L2_TYPE:
        kind = _L2_TYPE[where]
        lmcache["l2"] = [{"name": "a", "type": kind, L2[kind][0]: fragment}]
    else:
        lmcache[where] = fragment
    return _BASE | {"lmcache": lmcache}


def _over(base: Fragment, fragment: Fragment) -> Fragment:
    return {k: v for k, v in (base | fragment).items() if v is not None}


def union(where: str, tag: str, members: dict[str, tuple[str, Fragment]], *optional: str) -> list:
    """The rows of a discriminated union: the object that the tag names, and no other."""
    rows: list[Row] = []
    for value, (field, settings) in members.items():
        good = {tag: value, field: settings}
        if value not in optional:
            message = f"{field} must be set when {tag} is {value}"
            rows.append((where, message, good, {tag: value}))
        other, (other_field, other_settings) = next(m for m in members.items() if m[0] != value)
        bad = {tag: other, field: settings} | ({other_field: other_settings} if other_field else {})
        rows.append((where, f"{field} may only be set when {tag} is {value}", good, bad))
    return rows


_GPU = {
    "RuntimeClass": ("runtimeClass", {"name": "nvidia"}),
    "CDI": ("cdi", {}),
    "DRAAdminAccess": ("draAdminAccess", {}),
}
_RDMA = {
    "DevicePlugin": ("devicePlugin", {"resourceName": "rdma/hca"}),
    "DRA": ("dra", {"deviceClassName": "rdma"}),
}
_REMOTE = {
    "Redis": ("redis", {"host": "r"}),
    "SharedFileSystem": ("sharedFileSystem", {"claimName": "c"}),
}
_SERDE = {"AESGCM": ("aesgcm", {"keySecret": _SECRET}), "FP8": ("", {})}
_IN_PROCESS = {"mode": "InProcess", "l1": None, "inProcess": {}}

ROWS: list[Row] = [
    (
        "spec",
        "lmcache must be set when backend is LMCache",
        {},
        {"lmcache": None},
    ),
    (
        "spec",
        "namespace must not be default or kube-node-lease or kube-public or kube-system",
        {"namespace": "kv-offload-system"},
        {"namespace": "kube-system"},
    ),
    (
        "spec",
        "rdma may not be set: LMCache does not use RDMA",
        {"rdma": {"source": "None"}},
        {"rdma": {"source": "DevicePlugin", "devicePlugin": {"resourceName": "rdma/hca"}}},
    ),
    *(
        ("inProcess", f"{field} may not be set: mode InProcess has no agents", {}, {field: value})
        for field, value in (
            ("gpuVisibility", {"source": "CDI"}),
            ("nodes", {"selector": {"a": "b"}}),
        )
    ),
    (
        "inProcess",
        "monitoring may not be set: mode InProcess has no agents, unless enginePorts are set",
        {"monitoring": {"podMonitor": True, "enginePorts": [8000]}},
        {"monitoring": {"namespaceLabels": {"a": "b"}}},
    ),
    (
        "payload",
        "exactly one of tag and digest must be set",
        {"repository": "team/payload", "tag": "v1"},
        {"repository": "team/payload"},
    ),
    (
        "events",
        "replayPort must differ from port",
        {"replayPort": 5558},
        {"replayPort": 5557},
    ),
    (
        "monitoring",
        "namespaceLabels must have at least one label: otherwise every pod of the cluster could "
        "read the agents' environment at a port without authentication",
        {"namespaceLabels": {"a": "b"}},
        {"namespaceLabels": {}},
    ),
    (
        "allowedNamespaces",
        "names must list at least one namespace when from is Names, and be empty otherwise",
        {"from": "Names", "names": ["a"]},
        {"from": "All", "names": ["a"]},
    ),
    *(
        row
        for where in ("selector", "observer selector", "monitored", "monitor", "annotations")
        for row in ((where, _KEY_LENGTH, {"a": "b"}, _LONG), (where, _KEY_NAME, {"a": "b"}, _ODD))
    ),
    *TOLERATIONS,
    *(("observer toleration", *row[1:]) for row in TOLERATIONS),
    *union("gpu", "source", _GPU, "CDI", "DRAAdminAccess"),
    *union("rdma", "source", _RDMA),
    (
        "rdma",
        "devices may only be set when source is DevicePlugin or DRA",
        {"source": "None"},
        {"source": "None", "devices": ["mlx5_0"]},
    ),
    (
        "rdma",
        "podAnnotations may only be set when source is DevicePlugin or DRA",
        {
            "source": "DevicePlugin",
            "devicePlugin": {"resourceName": "rdma/hca"},
            "podAnnotations": {"k8s.v1.cni.cncf.io/networks": "roce"},
        },
        {"source": "None", "podAnnotations": {"k8s.v1.cni.cncf.io/networks": "roce"}},
    ),
    (
        "monitoring",
        "enginePorts may only be set with podMonitor",
        {"podMonitor": True, "enginePorts": [8000]},
        {"podMonitor": False, "enginePorts": [8000]},
    ),
    (
        "image",
        "version must be set when digest is set: a digest does not show the version",
        {"digest": "sha256:" + "0" * 64, "version": "0.5.6"},
        {"digest": "sha256:" + "0" * 64},
    ),
    (
        "lmcache",
        "l1 must be set when mode is NodeServer",
        {},
        {"l1": None},
    ),
    (
        "lmcache",
        "l1 may only be set when mode is NodeServer; InProcess has inProcess.memoryGiB",
        _IN_PROCESS,
        _IN_PROCESS | {"l1": {"sizeGiB": 1}},
    ),
    (
        "lmcache",
        "l2 may only be set when mode is NodeServer; InProcess has inProcess.remote",
        _IN_PROCESS,
        _IN_PROCESS | {"l2": [{"name": "a", "type": "Disk", "disk": _DISK}]},
    ),
    (
        "lmcache",
        "inProcess must be set when mode is InProcess",
        _IN_PROCESS,
        {"mode": "InProcess", "l1": None},
    ),
    (
        "lmcache",
        "inProcess may only be set when mode is InProcess",
        {},
        {"inProcess": {}},
    ),
    (
        "l1",
        "initialSizeGiB must not be larger than sizeGiB",
        {"initialSizeGiB": 8},
        {"initialSizeGiB": 65},
    ),
    (
        "l1",
        "initialSizeGiB may not be set with hugepages: they are allocated at start",
        {"hugepages": True},
        {"hugepages": True, "initialSizeGiB": 8},
    ),
    *union("l2", "type", L2),
    (
        "l2",
        "serde may not be set with type Raw: write it into raw.json",
        {"type": "Disk", "disk": _DISK, "serde": {"type": "FP8"}},
        {"type": "Raw", "raw": {"json": "{}"}, "serde": {"type": "FP8"}},
    ),
    (
        "disk",
        "exactly one of hostPath and ephemeral must be set",
        {"sizeGiB": 1, "ephemeral": {}},
        {"sizeGiB": 1},
    ),
    (
        "files",
        "exactly one of claimName and storageClassName must be set",
        {"sizeGiB": 1, "storageClassName": "rwx"},
        {"sizeGiB": 1},
    ),
    (
        "redis",
        "exactly one of host and managed must be set",
        {"managed": {"sizeGiB": 1}},
        {},
    ),
    (
        "redis",
        "authSecret must be set when username is set",
        {"host": "r", "username": "u", "authSecret": _SECRET},
        {"host": "r", "username": "u"},
    ),
    (
        "redis",
        "keyPrefix may only be set with host: a managed Redis serves this tier only",
        {"host": "r", "keyPrefix": "chat"},
        {"managed": {"sizeGiB": 1}, "keyPrefix": "chat"},
    ),
    (
        "redis",
        "username may only be set with host: a managed Redis has the default user only",
        {"host": "r", "username": "u", "authSecret": _SECRET},
        {"managed": {"sizeGiB": 1}, "username": "u", "authSecret": _SECRET},
    ),
    (
        "valkey",
        "database may only be set when cluster is false",
        _VALKEY | {"database": 1},
        _VALKEY | {"database": 1, "cluster": True},
    ),
    *(row for row in union("serde", "type", _SERDE) if row[1].startswith("aesgcm")),
    (
        "evictor",
        "lowPercent must not be larger than highPercent",
        {"lowPercent": 50},
        {"lowPercent": 96},
    ),
    (
        "registration",
        "graceSeconds must be at least reapSeconds",
        {"reapSeconds": 60, "graceSeconds": 60},
        {"reapSeconds": 60, "graceSeconds": 59},
    ),
    *union("remote", "type", _REMOTE),
    (
        "remote",
        "serde must be naive when redis.authSecret is set: with a password LMCache stores whole "
        "chunks only",
        {"type": "Redis", "redis": {"host": "r"}, "serde": "cachegen"},
        {"type": "Redis", "redis": {"host": "r", "authSecret": _SECRET}, "serde": "cachegen"},
    ),
]

# Rules over the old and the new document, which the judge exercises by an update.
TRANSITIONS = {
    "namespace": "namespace cannot be changed: the old namespace would keep its objects",
    "inferenceClusterRef": "inferenceClusterRef cannot be changed: the old cluster would keep its "
    "objects. Create a second tier and move the consumers",
    "clusterSelector": "clusterSelector cannot be taken away: every cluster would lose its tier at "
    "once. Create a second tier, move the consumers, and delete this one",
}
# Rules that no document of a user breaks: bounds of a status that only the function writes, a union
# of which there is one member yet, and key lengths that the pattern of the key bounds too.
NOT_OF_USERS = {
    "keys must have at most 63 characters",
    "keys must have at most 253 characters",
    "existing may only be set when source is Existing",
}


VALID = _BASE


def documents() -> Iterator[tuple[str, str, Fragment, Fragment]]:
    """Path below the spec, message, and the settings of a good and of a bad tier."""
    for where, message, good, bad in ROWS:
        yield _PATHS[where], message, _spec(where, good), _spec(where, bad)


def tier_spec(settings: Fragment) -> Fragment:
    """A tier's whole spec: its settings, on the rig's first cluster."""
    return {"inferenceClusterRef": {"name": FIRST}} | settings

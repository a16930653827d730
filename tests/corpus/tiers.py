"""Tiers of the corpus: fixed injections, and what each does to a pod, written down by hand.

The corpus is about wiring, so its tiers do not follow the backends: what a backend injects is
pinned elsewhere.
"""

from copy import deepcopy
from typing import Any

from function.contract.injection import Injection, SharedMemory

Json = dict[str, Any]

RECOMPUTE = {"kv_load_failure_policy": "recompute"}
LABELS = {"modelplane.ai/kv-offload": "chat-00000"}

INJECTIONS = {
    "native": Injection(
        backend="Native",
        connector={
            "kv_connector": "OffloadingConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {"cpu_bytes_to_use": 8589934592},
        },
        connector_options=RECOMPUTE,
        labels=LABELS,
        shm=SharedMemory(bytes=8589934592),
    ),
    "mooncake": Injection(
        backend="Mooncake",
        connector={
            "kv_connector": "MooncakeStoreConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {"load_async": True},
        },
        connector_options=RECOMPUTE,
        env=({"name": "MOONCAKE_CONFIG_PATH", "value": "/etc/kv-offload/mooncake.json"},),
        env_if_absent=({"name": "PYTHONHASHSEED", "value": "0"},),
        files={"mooncake.json": "{}"},
        files_path="/etc/kv-offload",
        labels=LABELS,
        capabilities=("IPC_LOCK",),
        resources={"rdma/hca": 1},
    ),
    "lmcache": Injection(
        backend="LMCache",
        connector={
            "kv_connector": "LMCacheMPConnector",
            "kv_connector_module_path": "lmcache.integration.vllm.lmcache_mp_connector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {
                "lmcache.mp.host": "tcp://agent",
                "lmcache.mp.isolated_ipc": True,
            },
        },
        connector_options=RECOMPUTE,
        labels=LABELS,
        node_selector={"gpu": "h200"},
        shm=SharedMemory(),
    ),
    "hicache": Injection(
        backend="HiCache",
        flags={"--enable-hierarchical-cache": None, "--hicache-size": "40", "--page-size": "64"},
        labels=LABELS,
        memory_bytes=42949672960,
    ),
}


def connector(tier: str) -> Json:
    """The tier's connector alone, as `--kv-transfer-config` carries it."""
    return {**(INJECTIONS[tier].connector or {}), **RECOMPUTE}


def wired(tier: str, template: Json, index: int) -> Json:
    """The template as it must come out, its container's command and args aside."""
    out = deepcopy(template)
    spec, container = out["spec"], out["spec"]["containers"][index]
    out.setdefault("metadata", {}).setdefault("labels", {}).update(LABELS)
    spec["enableServiceLinks"] = False
    _STEPS[tier](out, spec, container)
    return out


def _shm(spec: Json, container: Json) -> None:
    mounts = container.get("volumeMounts", [])
    if any(m["mountPath"] == "/dev/shm" for m in mounts) or spec.get("hostIPC"):
        return
    container["volumeMounts"] = [*mounts, {"name": "kv-offload-shm", "mountPath": "/dev/shm"}]
    volume = {"name": "kv-offload-shm", "emptyDir": {"medium": "Memory"}}
    spec["volumes"] = [*spec.get("volumes", []), volume]


def _native(template: Json, spec: Json, container: Json) -> None:
    _shm(spec, container)


def _lmcache(template: Json, spec: Json, container: Json) -> None:
    _shm(spec, container)
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    for term in required.setdefault("nodeSelectorTerms", [{}]):
        term.setdefault("matchExpressions", []).append(
            {"key": "gpu", "operator": "In", "values": ["h200"]}
        )


def _mooncake(template: Json, spec: Json, container: Json) -> None:
    env = container.setdefault("env", [])
    names = {e["name"] for e in env}
    for variable in (*INJECTIONS["mooncake"].env, *INJECTIONS["mooncake"].env_if_absent):
        if variable["name"] not in names:
            env.append(dict(variable))
    container.setdefault("volumeMounts", []).append(
        {"name": "kv-offload-files", "mountPath": "/etc/kv-offload", "readOnly": True}
    )
    spec.setdefault("volumes", []).append(
        {"name": "kv-offload-files", "configMap": {"name": "chat-files"}}
    )
    resources = container.setdefault("resources", {})
    for kind in ("requests", "limits"):
        resources.setdefault(kind, {})["rdma/hca"] = "1"
    capabilities = container.setdefault("securityContext", {}).setdefault("capabilities", {})
    capabilities.setdefault("add", []).append("IPC_LOCK")


def _hicache(template: Json, spec: Json, container: Json) -> None:
    """Memory is raised only where it is set; those cases say so by `memory`."""


_STEPS = {"native": _native, "lmcache": _lmcache, "mooncake": _mooncake, "hicache": _hicache}

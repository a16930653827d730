"""The printed tree of a wired replica, of a refusal and of deleted resources."""

import io
from typing import Any

from rich.console import Console

from function import names
from function.contract.injection import Injection, SharedMemory
from function.pods import record
from kv_offload.render import tree
from kv_offload.render.reconcile import Rendered

XR = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelReplica",
    "metadata": {"name": "qwen-0", "namespace": "team-a"},
}
TIME = "2024-01-01T00:00:00Z"


def _condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": TIME,
    }


def _object(key: str, manifest: dict[str, Any], **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
        "kind": "Object",
        "metadata": {
            "name": f"qwen-0-{key}",
            "annotations": {"crossplane.io/composition-resource-name": key, **annotations},
        },
        "spec": {
            "forProvider": {"manifest": manifest},
            "providerConfigRef": {"kind": "ClusterProviderConfig", "name": "gke"},
        },
    }


INJECTION = Injection(
    backend="LMCache",
    connector={"kv_connector": "LMCacheMPConnector"},
    flags={"--page-size": "64", "--enable-x": None},
    env=(
        {"name": "A", "value": "1"},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ),
    mounts=({"name": "v", "mountPath": "/v"},),
    volumes=({"name": "v"},),
    files={"lmcache.yaml": "x"},
    files_path="/etc/lmcache",
    labels={"modelplane.ai/kv-offload": "kv-chat"},
    node_selector={"gpu": "h200"},
    resources={"rdma/hca": 1},
    shm=SharedMemory(host=True),
)
RECORD = record.Record(
    state=record.WIRED,
    tier="modelplane-system/chat",
    backend="LMCache",
    engines={"": {"engine": "vLLM", "version": "0.33.0"}},
    templates={"spec.template": record.TemplateRecord(INJECTION, "engine", "files")},
)
CONTAINER = {"name": "engine", "image": "vllm", "resources": {"requests": {"cpu": "4"}}}
DEPLOYMENT = {
    "kind": "Deployment",
    "metadata": {"name": "qwen-0", "namespace": "default"},
    "spec": {"template": {"spec": {"containers": [CONTAINER]}}},
}
USAGE = {
    "apiVersion": "protection.crossplane.io/v1beta1",
    "kind": "Usage",
    "metadata": {
        "name": "qwen-0-usage",
        "namespace": "team-a",
        "annotations": {"crossplane.io/composition-resource-name": "usage"},
    },
}


def test_tree_of_a_wired_replica() -> None:
    conditions = [
        _condition("Responsive", "True", "WatchCircuitClosed"),
        _condition("KVOffloadReady", "True", "Wired", "main: wired."),
        _condition("Synced", "True", "ReconcileSuccess"),
        _condition("Ready", "False", "Creating"),
    ]
    service = {"kind": "Service", "metadata": {"name": "qwen-0", "namespace": "default"}}
    rendered = Rendered(
        xr=XR | {"status": {"conditions": conditions, "phase": "Running", "n": 3.0, "none": []}},
        composed=[
            _object("deployment", DEPLOYMENT, **{names.ANNOTATION_RECORD: RECORD.text}),
            _object("service", service),
            USAGE,
        ],
        deleted=[{"kind": "ConfigMap", "metadata": {"name": "old"}}],
        ready={"deployment": False, "service": True, "usage": False},
        existing=frozenset({"deployment", "service"}),
    )
    assert (
        tree.plain(tree.build(XR, rendered))
        == """\
ModelReplica team-a/qwen-0  ✘ not ready
├── ✔ KVOffloadReady  Wired: main: wired.
├── n: 3
├── phase: Running
├── cluster gke
│   ├── … Deployment default/qwen-0  [deployment]
│   │   ├── engine: vllm, cpu 4
│   │   └── wired to tier modelplane-system/chat (LMCache)
│   │       ├── engine: engine=vLLM, version=0.33.0
│   │       └── pods at spec.template
│   │           ├── connector: LMCacheMPConnector
│   │           ├── flags: --enable-x, --page-size 64
│   │           ├── env: A=1, B
│   │           ├── volumes: v
│   │           ├── mounts: v at /v
│   │           ├── files: /etc/lmcache/lmcache.yaml
│   │           ├── labels: modelplane.ai/kv-offload=kv-chat
│   │           ├── nodes: gpu=h200
│   │           ├── devices: rdma/hca=1
│   │           └── /dev/shm: the node's own
│   └── ✔ Service default/qwen-0  [service]
├── control plane
│   └── + Usage team-a/qwen-0-usage  [usage]
└── removed
    └── ConfigMap old
"""
    )


def test_tree_of_a_refusal() -> None:
    conditions = [
        _condition("Accepted", "False", "Invalid", "spec.x: must be set"),
        _condition("AgentsReady", "Unknown", "Invalid"),
    ]
    rendered = Rendered(xr=XR | {"status": {"conditions": conditions}}, fatal="no")
    assert (
        tree.plain(tree.build(XR, rendered))
        == """\
ModelReplica team-a/qwen-0  ? not ready
├── ✘ Accepted  Invalid: spec.x: must be set
├── ? AgentsReady  Invalid
└── fatal: nothing is changed, what runs is kept
"""
    )


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_only_on_terminals(monkeypatch: Any) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    drawn = tree.build(XR, Rendered(xr=XR))
    terminal, pipe = _Terminal(), io.StringIO()
    tree.write(drawn, terminal)
    tree.write(drawn, pipe)
    assert "\x1b[" in terminal.getvalue()
    assert "\x1b[" not in pipe.getvalue()
    assert Console(file=pipe).color_system is None

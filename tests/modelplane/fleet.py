"""What of the control plane Modelplane's and our functions look up, and what our rows ask of it."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kv_offload.render import files

Document = dict[str, Any]

TIER = "modelplane.ai/kv-offload-tier"
POLICY = "modelplane.ai/kv-offload-policy"
_TIERS = files.load(Path(__file__).parent / "tiers.yaml")
TIERS: Mapping[str, Document] = {tier["metadata"]["name"]: tier for tier in _TIERS}
_CLUSTER = "gpu"
_READY = {"type": "Ready", "status": "True", "reason": "Available"}
# A pool that every deployment fits: {driver: what one device of it holds}.
_DEVICES = {"gpu.nvidia.com": "288Gi", "gpu.example.com": "288Gi", "dra.net": ""}


def cluster(deployment: Document, spec: Mapping[str, str]) -> Document:
    """An InferenceCluster that the deployment's selectors choose, and its pool of GPUs."""
    selector = deployment["spec"]["template"]["spec"].get("clusterSelector") or {}
    existing = {"source": "Existing", "existing": {"secretRef": {"name": "kubeconfig"}}}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": _CLUSTER, "labels": selector.get("matchLabels") or {}},
        "spec": {"cluster": existing, **spec},
        "status": {
            "conditions": [{**_READY, "lastTransitionTime": "2024-01-01T00:00:00Z"}],
            "gateway": {"address": "192.0.2.1"},
            "providerConfigRef": {"name": _CLUSTER},
            "gpuPools": [
                {"name": "gpus", "nodes": 64, "devices": [_device(d) for d in sorted(_DEVICES)]}
            ],
        },
    }


def _device(driver: str) -> Document:
    device: Document = {
        "name": driver.partition(".")[0] + "-" + driver.split(".")[1],
        "claim": "DRA",
        "driver": driver,
        "deviceClassName": driver,
        "count": 32,
    }
    memory = _DEVICES[driver]
    return device | ({"capacity": {"memory": {"value": memory}}} if memory else {})


def cache(deployment: Document) -> list[Document]:
    """The ModelCache that a deployment names, staged everywhere."""
    ref = deployment["spec"]["template"]["spec"].get("modelCacheRef")
    if not ref:
        return []
    source = {"source": "HuggingFace", "huggingFace": {"repo": "org/model", "sizeGiB": 20}}
    return [
        {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "ModelCache",
            "metadata": {
                "name": ref["name"],
                "namespace": deployment["metadata"].get("namespace", "default"),
            },
            "spec": source,
        }
    ]


def ready(tier: str) -> Document:
    """A tier as its consumers find it."""
    status = {"providerConfigRef": {"name": _CLUSTER}, "conditions": [_READY]}
    return {**copy.deepcopy(TIERS[tier]), "status": status}


def requesting(deployment: Document, annotations: Mapping[str, str]) -> Document:
    """The deployment with the annotations on every member's pod template."""
    out = copy.deepcopy(deployment)
    for engine in out["spec"]["template"]["spec"]["engines"]:
        for member in engine["members"]:
            metadata = member["template"].setdefault("metadata", {})
            metadata["annotations"] = (metadata.get("annotations") or {}) | annotations
    return out

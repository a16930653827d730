"""A workload cluster as Modelplane makes them: pools of tainted nodes, GPUs by DRA, a gateway's
kinds. And what its people declare: classes, clusters, fleet tiers, deployments.
"""

from typing import Any

from tests.cluster.documents import API, TOLERATED, tier
from tests.cluster.rig import fleet
from tests.cluster.rig.apiserver import Cluster
from tests.cluster.rig.kube import Manifest
from tests.cluster.rig.nodes import cpu_node, gpu_node
from tests.cluster.rig.up import Rig
from tests.modelplane.fleet import TIER, requesting
from tests.modelplane.shapes import VLLM

SGLANG = "lmcache/sglang:v0.5.6"

POOL = "gpus"
TEAM = "ml-team"
DRIVER = "gpu.nvidia.com"
DRA = "resource.k8s.io/v1"
# Kinds of the gateway that a replica's route and pool have; nothing here serves traffic.
_GATEWAY = (
    ("gateway.networking.k8s.io", "HTTPRoute", "httproutes"),
    ("inference.networking.k8s.io", "InferencePool", "inferencepools"),
)
# Modelplane counts a node per replica.
_NODES_COUNTED = 16


def furnish(rig: Rig, target: Cluster) -> None:
    """Nodes, devices and kinds of a workload cluster."""
    names = [f"{target.name}-{POOL}-{n}" for n in range(2)]
    nodes = [gpu_node(name, {"modelplane.ai/pool": POOL}) for name in names]
    rig.apply_nodes(target, [*nodes, cpu_node(f"{target.name}-cpu-0")])
    expression = f"device.driver == '{DRIVER}'"
    target.api.apply(
        {
            "apiVersion": DRA,
            "kind": "DeviceClass",
            "metadata": {"name": DRIVER},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        }
    )
    for name in names:
        target.api.apply(_slice(name))
    for group, kind, plural in _GATEWAY:
        target.api.apply(_kind(group, kind, plural))


def _slice(node: str) -> Manifest:
    """Eight GPUs of a node, as their DRA driver publishes them."""
    devices = [{"name": f"gpu-{n}", "capacity": {"memory": {"value": "141Gi"}}} for n in range(8)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": DRA,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-gpu"},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices},
    }


def _kind(group: str, kind: str, plural: str) -> Manifest:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


CLASS: Manifest = {
    "apiVersion": API,
    "kind": "InferenceClass",
    "metadata": {"name": "h200"},
    "spec": {
        "description": "8x NVIDIA H200",
        "devices": [
            {
                "name": "gpu",
                "claim": "DRA",
                "driver": DRIVER,
                "deviceClassName": DRIVER,
                "count": 8,
                "capacity": {"memory": {"value": "141Gi"}},
            }
        ],
    },
}


def inference_cluster(target: Cluster, taints: list[Manifest] | None = None) -> list[Manifest]:
    """An InferenceCluster of that class, and its kubeconfig's Secret."""
    secret, document = fleet.inference_cluster(target)
    pool = {"name": POOL, "className": "h200", "nodeCount": _NODES_COUNTED}
    document["spec"] |= {"nodePools": [pool]} | ({"taints": taints} if taints else {})
    return [secret, document]


def fleet_tier(name: str, **spec: Any) -> Manifest:
    """example/modelplane/tier.yaml, on every cluster of the class."""
    document = tier(
        name,
        allowedNamespaces={"from": "Names", "names": [TEAM]},
        nodes={"selector": {"modelplane.ai/pool": POOL}, "tolerations": [TOLERATED]},
        gpuVisibility={"source": "DRAAdminAccess"},
        clusterSelector={"matchLabels": {"accelerator": "h200"}},
        **spec,
    )
    del document["spec"]["inferenceClusterRef"]
    return document


CHAT = fleet_tier("chat")
# SGLang's client of LMCache has no place for the identity in its keys.
SHARED = fleet_tier("shared", lmcache={"ipc": "SharedMemory", "l1": {"sizeGiB": 200}})
TIERS = (CHAT, SHARED)


def talk(replicas: int = 2, *more: str, image: str = VLLM) -> Manifest:
    """vLLM on the tier chat."""
    return deployment("talk", "chat", replicas, *more, image=image)


def code(replicas: int = 2, *more: str) -> Manifest:
    """SGLang on the tier shared."""
    return deployment("code", "shared", replicas, *more, image=SGLANG)


def deployment(name: str, tier_name: str, replicas: int, *more: str, image: str) -> Manifest:
    """A ModelDeployment of one engine per replica that names a tier."""
    container: Manifest = {"name": "engine", "image": image}
    model = f"some/{name}"
    if "sglang" in container["image"]:
        container |= {"command": ["sglang", "serve"], "args": [f"--model-path={model}", *more]}
    else:
        container["args"] = [f"--model={model}", *more]
    memory = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("20Gi")) >= 0'
    gpu = {"name": "gpu", "count": 1, "selectors": [{"cel": memory}]}
    member = {
        "role": "Standalone",
        "nodeSelector": {"devices": [gpu]},
        "template": {"spec": {"containers": [container]}},
    }
    document = {
        "apiVersion": API,
        "kind": "ModelDeployment",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {
            "replicas": replicas,
            "template": {"spec": {"engines": [{"name": "main", "members": [member]}]}},
        },
    }
    return requesting(document, {TIER: tier_name})

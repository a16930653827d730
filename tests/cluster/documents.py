"""The documents that the groups apply: tiers, deployments, replicas. Small, so that a test can say
what matters and nothing else.
"""

import copy
from typing import Any

from tests.cluster.rig.fleet import SYSTEM
from tests.cluster.rig.kube import Manifest

API = "modelplane.ai/v1alpha1"
OBJECT = "kubernetes.m.crossplane.io/v1alpha1"
USAGE = "protection.crossplane.io/v1beta1"
PLATFORM = "platform.example.org/v1alpha1"
TIER, POLICY = "modelplane.ai/kv-offload-tier", "modelplane.ai/kv-offload-policy"
FIRST, SECOND = "gke-h200", "eks-h200"
GPU_NODES = {"nvidia.com/gpu.present": "true"}
TOLERATED = {"key": "nvidia.com/gpu", "operator": "Exists"}
# The engine of a ModelReplica, below its spec.
CONTAINER = "engines.0.members.0.template.spec.containers.0"
AGENTS_NAMESPACE = "kv-offload-system"


def tier(name: str, cluster: str = FIRST, **spec: Any) -> Manifest:
    """An LMCache tier of 64 GiB on a cluster's GPU nodes, open to all namespaces."""
    return {
        "apiVersion": API,
        "kind": "KVOffloadTier",
        "metadata": {"name": name, "namespace": SYSTEM},
        "spec": {
            "inferenceClusterRef": {"name": cluster},
            "allowedNamespaces": {"from": "All"},
            "backend": "LMCache",
            "nodes": {"selector": GPU_NODES, "tolerations": [TOLERATED]},
            "gpuVisibility": {"source": "RuntimeClass", "runtimeClass": {"name": "nvidia"}},
            "lmcache": {"mode": "NodeServer", "l1": {"sizeGiB": 64}},
        }
        | spec,
    }


def in_process_tier(name: str, cluster: str = FIRST) -> Manifest:
    """An LMCache tier without agents, for engines that span pods."""
    lmcache = {"mode": "InProcess", "inProcess": {"memoryGiB": 8}}
    document = tier(name, cluster, lmcache=lmcache)
    del document["spec"]["gpuVisibility"], document["spec"]["nodes"]
    return document


def pod(model: str = "Qwen/Qwen3-32B", image: str = "vllm/vllm-openai:v0.32.0") -> Manifest:
    return {
        "spec": {
            "containers": [
                {
                    "name": "engine",
                    "image": image,
                    "args": [f"--model={model}", "--port=8000"],
                    "resources": {"limits": {"nvidia.com/gpu": "1"}},
                }
            ],
            "tolerations": [copy.deepcopy(TOLERATED)],
        }
    }


def deployment(
    name: str, tier_name: str, cluster: str = FIRST, policy: str = "Required", **template: Any
) -> Manifest:
    """A ModelDeployment of one vLLM engine that names a tier."""
    return {
        "apiVersion": API,
        "kind": "ModelDeployment",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {
            "replicas": 1,
            "template": {
                "spec": {
                    "inferenceClusterRef": {"name": cluster},
                    "kvOffloadTierRef": {
                        "name": tier_name,
                        "namespace": SYSTEM,
                        "policy": policy,
                    },
                    "engines": [
                        {
                            "name": "main",
                            "members": [{"role": "Standalone", "template": pod(**template)}],
                        }
                    ],
                }
            },
        },
    }


def gang(name: str, tier_name: str, cluster: str = FIRST) -> Manifest:
    """A ModelDeployment of one engine over two pods: a LeaderWorkerSet."""
    document = deployment(name, tier_name, cluster)
    engine = document["spec"]["template"]["spec"]["engines"][0]
    image = "vllm/vllm-openai:v0.25.1"  # the newest line that LMCache in process serves
    engine["members"] = [
        {"role": "Leader", "template": pod(image=image)},
        {"role": "Worker", "worker": {"nodes": 1}, "template": worker_pod(image)},
    ]
    return document


def worker_pod(image: str) -> Manifest:
    """A pod that joins its leader and starts no engine of its own."""
    template = pod(image=image)
    container = template["spec"]["containers"][0]
    container["command"] = ["ray", "start", "--block", "--address=$(LWS_LEADER_ADDRESS):6379"]
    del container["args"]
    return template


def replica(name: str, annotations: dict[str, str], cluster: str = FIRST) -> Manifest:
    """A ModelReplica of the published shape; the tier is named on the pod template."""
    template = pod()
    template["metadata"] = {"annotations": annotations, "labels": {"team": "search"}}
    del template["spec"]["tolerations"]
    del template["spec"]["containers"][0]["resources"]
    return {
        "apiVersion": API,
        "kind": "ModelReplica",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {
            "clusterName": cluster,
            "engines": [
                {"name": "main", "members": [{"role": "Standalone", "template": template}]}
            ],
        },
    }


def requesting(
    name: str, tier_name: str, cluster: str = FIRST, policy: str = "Required", namespace: str = ""
) -> Manifest:
    """A ModelReplica of a model of its own that names a tier."""
    document = replica(name, {TIER: tier_name, POLICY: policy}, cluster)
    document["metadata"]["namespace"] = namespace or "team-a"
    template = document["spec"]["engines"][0]["members"][0]["template"]
    template["spec"]["containers"][0]["args"][0] = f"--model=some/{name}"
    return document


def sglang(document: Manifest, path: str, model: str) -> Manifest:
    """The same with SGLang."""
    values = {
        "image": "lmcache/sglang:v0.5.6",
        "command": ["sglang", "serve"],
        "args.0": f"--model-path={model}",
    }
    for field, value in values.items():
        document = changed(document, f"{path}.{CONTAINER}.{field}", value)
    return document


def cluster_replica(name: str, tier_name: str, cluster: str = FIRST) -> Manifest:
    """The same as a cluster-scoped composite, with its Objects in team-b."""
    document = requesting(name, tier_name, cluster)
    document |= {"apiVersion": PLATFORM, "kind": "ClusterReplica", "metadata": {"name": name}}
    document["spec"]["objectNamespace"] = "team-b"
    return document


def replica_group(name: str, tier_name: str, replicas: int, **where: str) -> Manifest:
    """A parent of so many ModelReplicas, all of one template."""
    template = requesting(name, tier_name, **where)
    return {
        "apiVersion": PLATFORM,
        "kind": "ReplicaGroup",
        "metadata": template["metadata"],
        "spec": {"replicas": replicas, "template": template["spec"]},
    }


def changed(document: Manifest, path: str, value: Any) -> Manifest:
    """A copy of a document with one field set; `path` is dotted, a number is an index."""
    result = copy.deepcopy(document)
    *parents, last = path.split(".")
    at: Any = result
    for step in parents:
        at = at[int(step)] if step.isdigit() else at.setdefault(step, {})
    at[int(last) if last.isdigit() else last] = value
    return result

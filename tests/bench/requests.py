"""The requests of the benchmark: a tier and a consumer in steady state (observed = desired).

`build(0)` is always the same request; `build(i)` for another i is the same case under another name,
so that nothing of it can have been remembered.
"""

import functools
import hashlib
from collections.abc import Callable
from typing import Any

from crossplane.function import resource
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from function.fn import FunctionRunner

Document = dict[str, Any]

_READY = {"type": "Ready", "status": "True", "reason": "Available"}


def _cluster() -> Document:
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": "gpu"},
        "status": {"providerConfigRef": {"name": "gpu"}},
    }


def _tier(name: str) -> Document:
    """A tier with everything on: ten Objects."""
    redis = {
        "name": "warm",
        "type": "Redis",
        "redis": {"managed": {"sizeGiB": 64, "persistence": {"storageClassName": "fast"}}},
    }
    files = {
        "name": "deep",
        "type": "SharedFileSystem",
        "sharedFileSystem": {"storageClassName": "rwx", "sizeGiB": 4096},
    }
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "KVOffloadTier",
        "metadata": {"name": name, "namespace": "modelplane-system", "uid": f"uid-{name}"},
        "spec": {
            "inferenceClusterRef": {"name": "gpu"},
            "allowedNamespaces": {"from": "All"},
            "backend": "LMCache",
            "monitoring": {"podMonitor": True},
            "lmcache": {"l1": {"sizeGiB": 200}, "l2": [redis, files]},
        },
    }


def _replica(name: str) -> Document:
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {"name": name, "namespace": "team-a", "uid": f"uid-{name}"},
        "spec": {"clusterName": "gpu", "engines": []},
    }


def _engine(name: str, tier: str) -> Document:
    """What an earlier step desires: a Deployment in an Object, as Modelplane's does."""
    container = {
        "name": "engine",
        "image": "vllm/vllm-openai:v0.32.0",
        "args": ["Qwen/Qwen3-32B", "--tensor-parallel-size=2", "--max-model-len=32768"],
        "ports": [{"containerPort": 8000}],
        "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 10},
        "resources": {"limits": {"nvidia.com/gpu": 2}},
    }
    template = {
        "metadata": {
            "labels": {"app": name},
            "annotations": {"modelplane.ai/kv-offload-tier": tier},
        },
        "spec": {
            "containers": [container],
            "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
        },
    }
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    }
    return {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
        "kind": "Object",
        "metadata": {"namespace": "team-a"},
        "spec": {
            "forProvider": {"manifest": manifest},
            "providerConfigRef": {"kind": "ClusterProviderConfig", "name": "gpu"},
        },
    }


@functools.cache
def _plain_tier(name: str) -> Document:
    tier = _tier(name)
    del tier["spec"]["monitoring"]
    tier["spec"]["lmcache"] = {"l1": {"sizeGiB": 200}}
    tier["status"] = {"providerConfigRef": {"name": "gpu"}, "conditions": [_READY]}
    return tier


def tier(i: int) -> fnv1.RunFunctionRequest:
    """A ten-Object LMCache tier, everything observed and ready."""
    request = fnv1.RunFunctionRequest()
    request.observed.composite.resource.CopyFrom(resource.dict_to_struct(_tier(f"chat-{i}")))
    _require(request, "cluster", _cluster())
    return _settled(request)


def consumer(i: int) -> fnv1.RunFunctionRequest:
    """A ModelReplica with one engine, wired and observed."""
    return _settled(new_consumer(i))


def new_consumer(i: int, tier: str = "shared") -> fnv1.RunFunctionRequest:
    """A ModelReplica with one engine, of which nothing is observed yet."""
    request = fnv1.RunFunctionRequest()
    request.observed.composite.resource.CopyFrom(resource.dict_to_struct(_replica(f"qwen-{i}")))
    engine = resource.dict_to_struct(_engine(f"qwen-{i}", tier))
    request.desired.resources["model-serving-main"].resource.CopyFrom(engine)
    _require(request, f"tier/modelplane-system/{tier}", _plain_tier(tier))
    _require(request, f"here/modelplane-system/{tier}/gpu")
    return request


def workloads(i: int) -> fnv1.RunFunctionRequest:
    """A composite with a hundred engines, wired and observed."""
    request = new_consumer(i)
    del request.desired.resources["model-serving-main"]
    for number in range(100):
        engine = resource.dict_to_struct(_engine(f"qwen-{i}-{number}", "shared"))
        request.desired.resources[f"model-serving-{number}"].resource.CopyFrom(engine)
    return _settled(request)


def fleet(i: int, size: int = 100) -> fnv1.RunFunctionRequest:
    """A fleet tier with its children, observed and ready."""
    request = fnv1.RunFunctionRequest()
    tier = _tier(f"fleet-{i}")
    del tier["spec"]["inferenceClusterRef"]
    tier["spec"]["clusterSelector"] = {"matchLabels": {"gpu": "h200"}}
    request.observed.composite.resource.CopyFrom(resource.dict_to_struct(tier))
    clusters = [_cluster() for _ in range(size)]
    for number, cluster in enumerate(clusters):
        cluster["metadata"] = {"name": f"gpu-{number}", "uid": f"uid-{number}"}
        cluster["status"] = {"providerConfigRef": {"name": f"gpu-{number}"}}
    _require(request, "clusters", *clusters)
    return _settled(request)


def _require(request: fnv1.RunFunctionRequest, name: str, *documents: Document) -> None:
    items = request.required_resources[name].items
    for document in documents:
        items.add().resource.CopyFrom(resource.dict_to_struct(document))
    if not documents:
        request.required_resources[name].SetInParent()


def answer(request: fnv1.RunFunctionRequest) -> fnv1.RunFunctionResponse:
    """What the function answers; an error if it says anything against it."""
    response = FunctionRunner().run(request)
    if response.results:
        raise RuntimeError(response.results[0].message)
    return response


def _settled(request: fnv1.RunFunctionRequest) -> fnv1.RunFunctionRequest:
    """The request as it comes once everything that it composes is there and ready."""
    response = answer(request)
    for key, desired in response.desired.resources.items():
        observed = resource.struct_to_dict(desired.resource)
        metadata = observed.setdefault("metadata", {})
        metadata |= {"name": f"composed-{key}", "uid": f"uid-{key}", "resourceVersion": "999"}
        manifest = observed.get("spec", {}).get("forProvider", {}).get("manifest", {})
        observed["status"] = {"conditions": [_READY], "atProvider": {"manifest": manifest}}
        request.observed.resources[key].resource.CopyFrom(resource.dict_to_struct(observed))
    # As core tags it: by a digest of what it asks.
    request.meta.tag = hashlib.sha256(request.SerializeToString(deterministic=True)).hexdigest()
    return request


CASES: dict[str, Callable[[int], fnv1.RunFunctionRequest]] = {
    "LMCache tier of ten Objects": tier,
    "consumer": consumer,
    "100 wired workloads": workloads,
    "fleet of 100 children": fleet,
}

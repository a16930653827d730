"""Engines on Ray: pods without a GPU hold no ranks, and Serve starts each engine in one pod."""

from typing import Any

import pytest
import yaml

from tests.unit.composers import documents as d
from tests.unit.composers.calls import call

KEY = "engine"
GIB = 2**30
TIER = d.ready_tier(backend="Native", lmcache=None, native={"cpu": {"sizeGiBPerRank": 4}})


def pod(command: list[str], gpus: int) -> dict[str, Any]:
    resources: dict[str, Any] = {"memory": "16Gi"}
    if gpus:
        resources["nvidia.com/gpu"] = gpus
    container = {
        "name": "ray",
        "image": d.IMAGE,
        "resources": {"limits": resources},
        **({"command": command} if command else {}),
    }
    metadata = {"annotations": {"modelplane.ai/kv-offload-tier": "chat"}}
    return {"metadata": metadata, "spec": {"containers": [container]}}


def ray(head: dict[str, Any], *workers: tuple[int, dict[str, Any]]) -> dict[str, Any]:
    groups = [
        {"groupName": f"g{n}", "replicas": replicas, "template": template}
        for n, (replicas, template) in enumerate(workers)
    ]
    return {"headGroupSpec": {"template": head}, "workerGroupSpecs": groups}


def cluster(tensor: int, head: int, *workers: tuple[int, int]) -> dict[str, Any]:
    """A RayCluster whose head starts the engine; (replicas, GPUs) of each worker group."""
    start = ["vllm", "serve", d.MODEL, f"--tensor-parallel-size={tensor}"]
    idle = ["ray", "start", "--block"]
    spec = ray(pod(start, head), *((n, pod(idle, gpus)) for n, gpus in workers))
    return {"kind": "RayCluster", "spec": spec}


def service(tensor: int, head: int, *workers: tuple[int, int]) -> dict[str, Any]:
    entry = {
        "model_loading_config": {"model_id": "chat", "model_source": d.MODEL},
        "engine_kwargs": {"tensor_parallel_size": tensor},
    }
    serve = {"applications": [{"name": "llm", "args": {"llm_configs": [entry]}}]}
    spec = {
        "serveConfigV2": yaml.safe_dump(serve),
        "rayClusterConfig": ray(pod([], head), *((n, pod([], gpus)) for n, gpus in workers)),
    }
    return {"kind": "RayService", "spec": spec}


def wire(workload: dict[str, Any], tier: dict[str, Any] = TIER) -> Any:
    document = d.engine()
    document["spec"]["forProvider"]["manifest"] = {
        "apiVersion": "ray.io/v1",
        "metadata": {"name": "chat", "namespace": "default"},
        **workload,
    }
    return call(d.replica(), desired={KEY: document}, required=d.requirements(tier))


def memory(got: Any) -> list[str]:
    spec = got.desired[KEY]["spec"]["forProvider"]["manifest"]["spec"]
    spec = spec.get("rayClusterConfig", spec)
    templates = [spec["headGroupSpec"]["template"]]
    templates += [group["template"] for group in spec["workerGroupSpecs"]]
    return [t["spec"]["containers"][0]["resources"]["limits"]["memory"] for t in templates]


def raised(ranks: int, engines: int = 1) -> str:
    """16Gi and the regions of this many engines, each as docs/native.md adds them up."""
    region = -(-ranks * 4 * 1024 * 105 // 100)
    return f"{16 * 1024 + engines * (region + 160 + 240 * ranks)}Mi"


# name: (workload, memory of the head and of each worker group)
WIRED = {
    "a head without GPUs holds no ranks": (cluster(8, 0, (1, 8)), ["16Gi", raised(8)]),
    "a head with GPUs does": (cluster(8, 8), [raised(8)]),
    "Serve: an engine a worker": (service(8, 0, (4, 8)), ["16Gi", raised(8)]),
    "Serve: four engines in a worker": (service(2, 0, (4, 8)), ["16Gi", raised(2, 4)]),
    "Serve: workers of two sizes": (
        service(1, 0, (1, 2), (1, 1)),
        ["16Gi", raised(1, 2), raised(1)],
    ),
}


@pytest.mark.parametrize("name", WIRED)
def test_memory_is_raised_where_ranks_are(name: str) -> None:
    workload, expected = WIRED[name]
    got = wire(workload)
    assert got.conditions["KVOffloadReady"] == ("True", "Wired"), got.messages
    assert memory(got) == expected


def test_ports_of_two_engines_in_a_pod_are_refused() -> None:
    levels = [{"name": "peers", "type": "Peers", "peers": {"port": 7100}}]
    native = {"cpu": {"sizeGiBPerRank": 4}, "secondary": levels}
    peers = d.ready_tier(backend="Native", lmcache=None, native=native)
    got = wire(service(2, 0, (1, 4)), peers)
    assert got.conditions["KVOffloadReady"] == ("False", "PodConflict")
    assert "Ray Serve may start 2 engines in one of its pods" in got.messages["KVOffloadReady"]

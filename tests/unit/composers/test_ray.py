"""Engines on Ray, whose head often has no GPU: what it is given, and what cannot be wired."""

from typing import Any

import pytest
import yaml

from tests.unit.composers import documents as d
from tests.unit.composers.calls import call

KEY = "engine"
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


def raised(ranks: int, region: int = 0) -> str:
    """16Gi and what docs/native.md adds up: `ranks` in the pod, a region for all of `region`."""
    size = -(-(region or ranks) * 4 * 1024 * 105 // 100)
    return f"{16 * 1024 + size + 160 + 240 * ranks}Mi"


def told(workload: dict[str, Any], gpus: str) -> dict[str, Any]:
    """The cluster, whose head starts Ray with `--num-gpus`, and asks for no device."""
    workload["spec"]["headGroupSpec"]["rayStartParams"] = {"num-gpus": gpus}
    return workload


def copies(workload: dict[str, Any], **deployment: Any) -> dict[str, Any]:
    """The service, with how many engines Ray Serve starts."""
    serve = yaml.safe_load(workload["spec"]["serveConfigV2"])
    serve["applications"][0]["args"]["llm_configs"][0]["deployment_config"] = deployment
    workload["spec"]["serveConfigV2"] = yaml.safe_dump(serve)
    return workload


def ranked(workload: dict[str, Any], ranks: int) -> dict[str, Any]:
    """The cluster with ranks of data parallelism, which Ray places where GPUs are."""
    container = workload["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    container["command"] += [f"--data-parallel-size={ranks}", "--data-parallel-backend=ray"]
    return workload


# name: (workload, memory of the head and of each worker group)
WIRED = {
    "a head without a GPU": (cluster(8, 0, (1, 8)), ["16Gi", raised(8)]),
    "a head that Ray is told has GPUs": (told(cluster(8, 0, (1, 4)), "4"), [raised(4, 8)] * 2),
    "a head that Ray is told has none": (
        told(cluster(8, 0, (1, 8)), "0"),
        ["16Gi", raised(8)],
    ),
    "a head with GPUs": (cluster(8, 8), [raised(8)]),
    "no GPU is asked for anywhere": (cluster(2, 0, (1, 0)), [raised(1, 2), raised(1, 2)]),
    "Serve": (service(8, 0, (1, 8)), ["16Gi", raised(8)]),
    "Serve, one replica": (copies(service(1, 0, (1, 4)), num_replicas=1), ["16Gi", raised(1)]),
    "Serve, four in a pod": (copies(service(1, 0, (1, 4)), num_replicas=4), ["16Gi", raised(4)]),
    "Serve, one in each of four": (
        copies(service(1, 0, (4, 1)), num_replicas=4),
        ["16Gi", raised(1)],
    ),
    "Serve, two that fit": (copies(service(2, 0, (1, 4)), num_replicas=4), ["16Gi", raised(4)]),
    "Serve, as many as fit": (service(2, 0, (1, 8)), ["16Gi", raised(8)]),
    "Serve that scales": (
        copies(service(1, 4), autoscaling_config={"max_replicas": 3}),
        [raised(3)],
    ),
    "Serve on parts of GPUs": (
        copies(service(1, 0, (1, 1)), num_replicas=2, placement_group_bundles=[{"GPU": 0.5}]),
        ["16Gi", raised(2)],
    ),
    "data parallelism in one pod": (ranked(cluster(1, 0, (1, 4)), 4), ["16Gi", raised(4)]),
}


@pytest.mark.parametrize("name", WIRED)
def test_memory_is_not_raised_where_no_rank_can_be(name: str) -> None:
    workload, expected = WIRED[name]
    got = wire(workload)
    assert got.conditions["KVOffloadReady"] == ("True", "Wired"), got.messages
    assert memory(got) == expected


BUCKET = {
    "bucket": "kv",
    "endpoint": "https://s3.example.org",
    "region": "eu",
    "credentialsSecret": {"name": "s3"},
}
LEVEL = {"name": "b", "type": "Bucket", "bucket": BUCKET}
BELOW = d.ready_tier(
    backend="Native", lmcache=None, native={"cpu": {"sizeGiBPerRank": 4}, "secondary": [LEVEL]}
)
# Pods without a GPU count as pods of the engine: the scheduler runs in the head, and looks there.
REFUSED = {
    "ranks elsewhere than the scheduler": (cluster(8, 0, (1, 8)), BELOW),
    "one rank, elsewhere": (cluster(1, 0, (1, 1)), BELOW),
    "one rank of Serve": (service(1, 0, (4, 1)), BELOW),
    "a node's agent": (cluster(1, 0, (1, 1)), d.ready_tier()),
}


@pytest.mark.parametrize("name", REFUSED)
def test_engine_over_several_pods_is_refused(name: str) -> None:
    workload, tier = REFUSED[name]
    got = wire(workload, tier)
    assert got.conditions["KVOffloadReady"] == ("False", "EngineUnsupported"), got.messages


def test_a_size_for_the_pod_is_shared_by_its_engines() -> None:
    tier = d.ready_tier(backend="Native", lmcache=None, native={"cpu": {"sizeGiB": 16}})
    got = wire(copies(service(1, 0, (1, 4)), num_replicas=4), tier)
    assert memory(got) == ["16Gi", raised(4)]
    serve = got.desired[KEY]["spec"]["forProvider"]["manifest"]["spec"]["serveConfigV2"]
    assert f"cpu_bytes_to_use: {4 * 2**30}" in serve


def test_several_models_of_one_cluster_are_refused() -> None:
    workload = service(1, 0, (1, 4))
    serve = yaml.safe_load(workload["spec"]["serveConfigV2"])
    serve["applications"][0]["args"]["llm_configs"] *= 2
    workload["spec"]["serveConfigV2"] = yaml.safe_dump(serve)
    got = wire(workload)
    assert got.conditions["KVOffloadReady"] == ("False", "EngineUnsupported"), got.messages
    assert "it is one of 2 models in one Ray cluster" in str(got.messages)


PEERS = d.ready_tier(
    backend="Native",
    lmcache=None,
    native={
        "cpu": {"sizeGiBPerRank": 4},
        "secondary": [{"name": "p", "type": "Peers", "peers": {"port": 7777}}],
    },
)


@pytest.mark.parametrize("deployment", [{}, {"num_replicas": 4}, {"num_replicas": "auto"}])
def test_engines_of_one_pod_that_would_share_a_port_are_refused(deployment: Any) -> None:
    got = wire(copies(service(1, 4), **deployment), PEERS)
    assert got.conditions["KVOffloadReady"] == ("False", "EngineUnsupported"), got.messages
    assert "each would listen at port 7777" in str(got.messages)
    for alone in (copies(service(4, 4), **deployment), copies(service(1, 4), num_replicas=1)):
        assert "would listen" not in str(wire(alone, PEERS).messages)


def test_an_unknown_number_of_engines_is_noted() -> None:
    got = wire(service(1, 0, (1, 0)))
    assert "how many engines Ray Serve starts in one pod is not known" in str(got.messages)
    for known in (service(1, 0, (1, 4)), copies(service(1, 0, (1, 0)), num_replicas=1)):
        assert "how many engines" not in str(wire(known).messages)

"""What is said of the image of a Ray pod: known facts, and images that can run it."""

import re
from typing import Any

import pytest

from function.contract.engine import IMAGE_AT_MOST, IMAGE_DERIVED, Engine
from function.contract.stock_images.holding import holding
from function.problems import Refused
from tests.corpus import judged

Json = dict[str, Any]

SERVE = """
applications:
- name: llms
  import_path: ray.serve.llm:build_openai_app
  args:
    llm_configs:
    - model_loading_config: {model_id: qwen, model_source: Qwen/Qwen2.5-7B-Instruct}
      engine_kwargs: {max_model_len: 1024}
"""


def service(image: str) -> Json:
    """A RayService of one head with a GPU."""
    container = {"name": "ray-head", "image": image}
    container |= {"resources": {"limits": {"nvidia.com/gpu": "1", "memory": "32Gi"}}}
    head = {"rayStartParams": {}, "template": {"spec": {"containers": [container]}}}
    spec = {"serveConfigV2": SERVE, "rayClusterConfig": {"headGroupSpec": head}}
    metadata = {"name": "ray"}
    return {"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": metadata, "spec": spec}


def refusal(manifest: Json, tier: str) -> str:
    with pytest.raises(Refused) as caught:
        judged.wired(manifest, judged.planned(tier))
    return str(caught.value)


@pytest.mark.parametrize(
    ("image", "newest"),
    [
        ("rayproject/ray-llm:2.49.0-py311-cu128", "0.10.2"),
        ("rayproject/ray-llm:2.44.1-py311-cu124", "0.10.2"),
        ("ghcr.io/llm-d/llm-d-cuda:v0.5.1", "0.19.1"),
    ],
)
@pytest.mark.parametrize("tier", ["Native", "Mooncake"])
def test_a_bound_of_a_version_is_told_as_a_bound(image: str, newest: str, tier: str) -> None:
    message = refusal(service(image), tier)
    assert f"this engine is {newest} or older (by the image's release" in message
    assert f"is {newest} (" not in message


@pytest.mark.parametrize(
    ("source", "text"), [(IMAGE_AT_MOST, "0.10.2 or older"), (IMAGE_DERIVED, "0.10.2")]
)
def test_a_conflict_names_a_bound_as_a_bound(source: str, text: str) -> None:
    assert Engine("vLLM", "0.10.2", version_source=source).version_text == text


def test_releases_with_a_supported_version_are_named() -> None:
    message = refusal(service("rayproject/ray-llm:2.55.0-py311-cu128"), "Native")
    found = re.search(r"use one of these versions \((\S+):(\S+) to (\S+)\)", message)
    assert found, message
    for tag in found.groups()[1:]:
        assert judged.wired(service(f"{found[1]}:{tag}"), judged.planned("Native"))
    assert found[1] == "rayproject/ray-llm"


OWN = "registry.example.org/ml/ray-mine:1"
IMAGES = [
    "rayproject/ray-llm:2.60.0-py312-cu130",
    "rayproject/ray-llm:2.55.0-py311-cu128",
    "rayproject/ray-llm:2.44.1-py311-cu124",
    "rayproject/ray-llm:latest",
    "anyscale/ray-llm:2.60.0-py312-cu130",
    OWN,
    "corp/vllm-openai:v0.27.0",
]
DECLARE = re.compile(
    r"annotate modelplane\.ai/kv-offload-engine-version and -packages, "
    r'e\.g\. "([\d.]+)" and "([^"]+)"'
)


@pytest.mark.parametrize("image", IMAGES)
@pytest.mark.parametrize("tier", ["NodeServer", "InProcess", "Mooncake"])
def test_no_image_without_ray_is_advised(image: str, tier: str) -> None:
    message = refusal(service(image), tier)
    assert "No public image with Ray is known to hold it" in message
    assert "Use an image that holds it" not in message
    assert "pin the image's tag" not in message
    # An advisory of this mode names versions of its own.
    assert message.count("engine-version") == 1 or tier == "InProcess"
    declare = DECLARE.search(message)
    assert declare, message
    manifest = service(OWN)
    head = manifest["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]
    said = dict(zip(("engine-version", "packages"), declare.groups(), strict=True))
    head["metadata"] = {
        "annotations": {f"modelplane.ai/kv-offload-{name}": value for name, value in said.items()}
    }
    assert judged.wired(manifest, judged.planned(tier))


def test_one_rank_beside_another_pod_is_refused_for_a_node_agent() -> None:
    manifest = service(OWN)
    cluster = manifest["spec"]["rayClusterConfig"]
    said = {"engine-version": "0.32.0", "packages": "lmcache=0.5.6"}
    cluster["headGroupSpec"]["template"]["metadata"] = {
        "annotations": {f"modelplane.ai/kv-offload-{name}": value for name, value in said.items()}
    }
    assert judged.wired(manifest, judged.planned("NodeServer"))
    worker = {"groupName": "gpu", "replicas": 1, **cluster["headGroupSpec"]}
    message = refusal(
        {
            **manifest,
            "spec": {
                **manifest["spec"],
                "rayClusterConfig": {**cluster, "workerGroupSpecs": [worker]},
            },
        },
        "NodeServer",
    )
    assert "Ray chooses the pods of its scheduler and of its ranks, even of a single one" in message
    assert "on Ray a cluster of one pod (the head, without worker groups)" in message


def test_an_image_to_add_a_package_to_has_a_served_version() -> None:
    known = refusal(service("rayproject/ray-llm:2.60.0-py312-cu130"), "NodeServer")
    assert "Add lmcache to this one, or Ray to one that holds it (vllm/vllm-openai:v" in known
    older = refusal(service("rayproject/ray-llm:2.55.0-py311-cu128"), "NodeServer")
    assert "Add lmcache to rayproject/ray-llm:2.56.0-py312-cu130 to 2.60.0-py312-cu130" in older


def test_no_version_is_advised_that_is_refused() -> None:
    message = refusal(service("rayproject/ray-llm:2.60.0-py312-cu130"), "InProcess")
    assert "Add lmcache to rayproject/ray-llm:2.56.0-py312-cu130 to 2.57.0-py312-cu130" in message
    assert DECLARE.search(message)[1] == "0.25.0"


def test_images_with_ray_are_named_where_they_hold_a_package() -> None:
    with_ray = holding("vLLM", "nixl", ">=1.3,<2", needs_ray=True)
    assert with_ray == ("rayproject/ray-llm:2.57.0-py312-cu130 to 2.60.0-py312-cu130",)
    assert not any("ray" in image for image in holding("vLLM", "nixl", ">=1.3,<2"))


def test_an_executor_of_ray_needs_ray_as_well() -> None:
    script = "ray start --head; vllm serve org/model --distributed-executor-backend ray"
    container = {
        "name": "llm",
        "image": "vllm/vllm-openai:v0.27.0",
        "command": ["sh", "-c", script],
    }
    container |= {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "chat"}}
    message = refusal({**pod, "spec": {"containers": [container]}}, "NodeServer")
    assert "No public image with Ray is known to hold it" in message

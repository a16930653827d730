"""What is said of the image of a Ray pod: known facts, and images that can run it."""

from typing import Any

import pytest

from function.contract.engine import IMAGE_AT_MOST, IMAGE_DERIVED, Engine
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

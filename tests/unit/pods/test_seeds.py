"""A tier's own spec.events.hashSeed refuses no pod that the tier takes without it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from function.backends.registry import BACKENDS
from function.composers import tier_plan
from function.composers.tier_plan import InvalidTier, TierPlan
from function.edge.structs import encode
from function.problems import Refused
from kv_offload.docs.variants import variants
from tests.corpus import judged

IMAGES = {
    "vLLM": ("vllm/vllm-openai:v0.{}.0", ["vllm", "serve", "org/model"], (22, 25, 29, 32)),
    "SGLang": (
        "lmsysorg/sglang:v0.5.{}",
        ["python3", "-m", "sglang.launch_server", "--model-path", "org/model"],
        (20, 21),
    ),
}
PODS = [
    (image.format(number), command)
    for image, command, numbers in IMAGES.values()
    for number in numbers
]
PACKAGES = "mooncake=0.3.13.post1"


def pod(image: str, command: list[str]) -> dict[str, Any]:
    container = {"name": "engine", "image": image, "command": command}
    container |= {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    metadata = {"name": "chat", "annotations": {"modelplane.ai/kv-offload-packages": PACKAGES}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container]},
    }


def planned(spec: dict[str, Any]) -> TierPlan:
    spec = {"inferenceClusterRef": {"name": "any"}, **spec}
    found = tier_plan.plan("platform", "t", spec, encode(spec), BACKENDS)
    assert isinstance(found, TierPlan), found
    return found


def seed(manifest: dict[str, Any]) -> str:
    (container,) = manifest["spec"]["containers"]
    values = [e["value"] for e in container["env"] if e["name"] == "PYTHONHASHSEED"]
    assert len(values) == 1
    return str(values[0])


TIERS = Path(__file__).parents[2] / "serve" / "tiers"


@pytest.mark.parametrize("name", ["native", "native-bucket"])
def test_engines_that_share_files_get_the_seed_of_events(name: str) -> None:
    spec = yaml.safe_load((TIERS / f"{name}.yaml").read_text())["spec"]
    image, command = "vllm/vllm-openai:v0.33.0", ["vllm", "serve", "org/model"]
    for asked, got in (({"hashSeed": 42}, "42"), ({}, "0")):
        found = judged.wired(pod(image, command), planned({**spec, "events": asked}))
        assert found is not None
        assert seed(found.manifest) == got


def test_a_tier_of_peers_with_a_seed_is_not_valid() -> None:
    spec = yaml.safe_load((TIERS / "native-peers.yaml").read_text())["spec"]
    spec["events"] = {"hashSeed": 42}
    found = tier_plan.plan("platform", "t", spec, encode(spec), BACKENDS)
    assert isinstance(found, InvalidTier)
    assert [problem.path for problem in found.problems] == ["spec.events.hashSeed"]


@pytest.mark.parametrize("backend", list(BACKENDS.specs))
def test_hash_seed_of_events_refuses_no_pod(backend: str) -> None:
    for variant in variants(BACKENDS[backend]):
        plain = planned(variant.spec)
        seeded = planned({**variant.spec, "events": {"hashSeed": 42}})
        for image, command in PODS:
            try:
                judged.wired(pod(image, command), plain)
            except Refused:
                continue
            try:
                found = judged.wired(pod(image, command), seeded)
            except Refused as refused:
                # Its keys have no other place for the identity than the seed.
                assert "v0.22" in image and backend == "Mooncake", (image, str(refused))
                assert "spec.events.hashSeed is 42 and the tier's backend sets" in str(refused)
                continue
            assert found is not None
            assert seed(found.manifest) == "42"

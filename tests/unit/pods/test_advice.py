"""The advice of a refusal, followed literally, leads to a wired pod."""

import pytest

from function.problems import Refused
from tests.corpus import judged

IMAGE = f"registry.example.org/ml/inference@sha256:{'a' * 64}"
PREFIX = "modelplane.ai/kv-offload-"
DECLARED = {"engine": "vLLM", "engine-version": "0.33.0", "packages": "lmcache=0.5.6"}


def pod(annotations):
    container = {"name": "llm", "image": IMAGE, "args": ["--model", "org/model"]}
    container |= {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    metadata = {"name": "chat", "annotations": {PREFIX + k: v for k, v in annotations.items()}}
    spec = {"containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_an_image_by_digest_is_wired_in_one_round():
    plan = judged.planned("NodeServer")
    with pytest.raises(Refused) as caught:
        judged.wired(pod({}), plan)
    message = str(caught.value)
    assert f"{PREFIX}engine" in message
    assert all(f"-{key}" in message for key in DECLARED)
    assert judged.wired(pod(DECLARED), plan)

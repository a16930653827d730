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


SCRIPT = 'ARGS=(--model "$MODEL")\nvllm serve "${ARGS[@]}"'
SECRET = {"name": "MODEL", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}


def scripted(image, script, *env):
    container = {"name": "llm", "image": image, "command": ["bash", "-c", script], "env": [*env]}
    container |= {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "chat"}, "spec": spec}


@pytest.mark.parametrize("tier", ["NodeServer", "Mooncake"])
def test_image_identity_and_script_are_told_in_one_round(tier):
    plan = judged.planned(tier)
    with pytest.raises(Refused) as caught:
        judged.wired(scripted("vllm/vllm-openai:v0.27.0", SCRIPT, SECRET), plan)
    message = str(caught.value)
    assert message.startswith("3 things: (1) Image vllm/vllm-openai:v0.27.0 holds ")
    assert "(2) The cache identity is unknown" in message
    assert '(3) what "${ARGS[@]}" holds is not known' in message
    # Words to add by hand would carry an identity that is not known yet.
    assert "by hand" not in message
    # Each is done as it says: an image, the model in args, the variable in the script.
    assert "v0.33.0" in message and "$KV_OFFLOAD_ARGS" in message
    mended = "vllm serve org/model $KV_OFFLOAD_ARGS"
    assert judged.wired(scripted("vllm/vllm-openai:v0.33.0", mended), plan)


@pytest.mark.parametrize("tier", ["NodeServer", "Mooncake"])
def test_an_image_and_a_hidden_flag_are_told_in_one_round(tier):
    plan = judged.planned(tier)
    hidden = {"name": "EXTRA", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    with pytest.raises(Refused) as caught:
        judged.wired(scripted("vllm/vllm-openai:v0.27.0", "vllm serve o/m $EXTRA", hidden), plan)
    message = str(caught.value)
    assert "holds" in message and "$EXTRA" in message
    mended = "vllm serve o/m --max-model-len 8192"
    assert judged.wired(scripted("vllm/vllm-openai:v0.33.0", mended), plan)


def test_an_unknown_version_and_an_unknown_model_are_told_in_one_round():
    manifest = scripted("vllm/vllm-openai:latest", 'vllm serve "$MODEL"', SECRET)
    with pytest.raises(Refused) as caught:
        judged.wired(manifest, judged.planned("Mooncake"))
    message = str(caught.value)
    assert "this engine's version is not known" in message
    assert "Unknown mooncake version" in message
    assert "The cache identity is unknown" in message

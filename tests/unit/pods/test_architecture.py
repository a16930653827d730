"""arm64, a Gaudi behind an NVIDIA resource, and accelerators that a backend serves nowhere."""

import pytest

from tests.corpus import judged

GPU = {"nvidia.com/gpu": "1"}


def pod(image, limits=GPU, env=(), packages="", **spec):
    container = {"name": "engine", "image": image, "args": ["--model", "org/model"]}
    container |= {"resources": {"limits": limits}, "env": list(env)}
    annotations = {"modelplane.ai/kv-offload-packages": packages} if packages else {}
    metadata = {"name": "chat", "annotations": annotations}
    spec = {"containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def verdict(tier, manifest):
    return judged.verdict(manifest, judged.planned(tier))


ARM64 = [
    {"nodeSelector": {"kubernetes.io/arch": "arm64"}},
    {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-GB200"}},
    {"nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-gb200"}},
]


@pytest.mark.parametrize("spec", ARM64)
def test_an_older_image_on_arm64_holds_no_lmcache(spec):
    image = "vllm/vllm-openai:v0.27.0"
    reason, message = verdict("NodeServer", pod(image, **spec))
    assert reason == "VersionMismatch"
    assert f"Image {image} holds no lmcache (arm64 by node label " in message
    assert "lmcache has no wheel for it before 0.5.4" in message
    # Neither a tier of that release nor a payload is offered: both replace what is there.
    assert "spec.payload" not in message and "spec.lmcache.ipc" not in message
    assert "holds lmcache 0.5.3" in verdict("NodeServer", pod(image))[1]


def test_a_tag_for_arm64_counts_too():
    message = verdict("NodeServer", pod("vllm/vllm-openai:v0.27.0-aarch64"))[1]
    assert "holds no lmcache (arm64 by image tag v0.27.0-aarch64" in message


@pytest.mark.parametrize("spec", ARM64)
def test_a_newer_image_on_arm64_is_wired(spec):
    assert verdict("NodeServer", pod("vllm/vllm-openai:v0.32.0", **spec))[0] == judged.WIRED


def test_a_declaration_wins_over_the_architecture():
    manifest = pod("vllm/vllm-openai:v0.27.0", packages="lmcache=0.5.6", **ARM64[0])
    assert verdict("NodeServer", manifest)[0] == judged.WIRED


GAUDI = [
    pod("vault.habana.ai/gaudi-docker/1.20/vllm:0.27.0"),
    pod("vllm/vllm-openai:v0.32.0", runtimeClassName="habana"),
    pod("vllm/vllm-openai:v0.32.0", env=[{"name": "HABANA_VISIBLE_DEVICES", "value": "all"}]),
]


@pytest.mark.parametrize("manifest", GAUDI)
@pytest.mark.parametrize("tier", ["Native", "NodeServer", "Mooncake"])
def test_a_gaudi_is_seen_behind_the_resource_of_another_template(tier, manifest):
    reason, message = verdict(tier, manifest)
    assert reason == "OutOfScope", message
    assert "a Gaudi" in message


@pytest.mark.parametrize("resource", ["aws.amazon.com/neuron", "google.com/tpu"])
@pytest.mark.parametrize("tier", ["Native", "NodeServer", "Mooncake", "HiCache"])
def test_an_unserved_accelerator_is_said_before_the_engine_is_asked_for(tier, resource):
    reason, message = verdict(tier, pod("registry.example.org/ml/inference:7", {resource: "1"}))
    assert reason == "OutOfScope", message
    assert "annotate" not in message


def test_an_unknown_engine_on_a_served_accelerator_is_asked_for():
    reason, message = verdict("Native", pod("registry.example.org/ml/inference:7"))
    assert (reason, "annotate" in message) == ("EngineUnknown", True)

"""InferenceServices of KServe that Knative runs: what its operator must allow."""

from typing import Any

import pytest

from tests.corpus import judged

MODE = "serving.kserve.io/deploymentMode"


def note(mode: str, tier: str, api: str = "serving.kserve.io/v1beta1", **spec: Any) -> str:
    container = {
        "name": "kserve-container",
        "image": "vllm/vllm-openai:v0.30.0",
        "command": ["vllm", "serve", "org/m"],
        "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "48Gi"}},
    }
    manifest = {
        "apiVersion": api,
        "kind": "InferenceService",
        "metadata": {"name": "m", "annotations": {MODE: mode} if mode else {}},
        "spec": {"predictor": {"containers": [container], **spec}},
    }
    found = judged.wired(manifest, judged.planned(tier))
    assert found is not None
    return found.summary.partition("Knative takes")[2] if "Knative" in found.summary else ""


@pytest.mark.parametrize("mode", ["Serverless", "Knative", ""])
def test_a_feature_that_the_wiring_needs_is_named(mode: str) -> None:
    said = note(mode, "NodeServer")
    assert "only with kubernetes.podspec-affinity enabled in ConfigMap config-features" in said


@pytest.mark.parametrize("mode", ["RawDeployment", "Standard", "ModelMesh"])
def test_other_modes_need_none(mode: str) -> None:
    assert note(mode, "NodeServer") == ""


def test_what_is_allowed_by_default_is_not_named() -> None:
    assert note("Serverless", "Native") == ""


def test_a_field_that_the_pod_has_already_is_not_named() -> None:
    terms = [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    assert note("Serverless", "NodeServer", affinity={"nodeAffinity": required}) == ""

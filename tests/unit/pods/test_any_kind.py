"""A kind that is not known: the message holds the row of `paths` that wires it."""

import difflib
import re

import pytest
import yaml

from function import names
from function.api.input import Input
from function.pods import wire
from function.pods.ignored_annotations import ignored_annotations, on_pod_templates
from function.pods.offload_request import find, ignored_annotations_in
from tests.corpus import judged

TIER = "modelplane.ai/kv-offload-tier"


def template(annotations=None):
    container = {"name": "engine", "image": judged.NEWEST["vLLM"][1], "args": ["--model", "o/m"]}
    container |= {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    asked = {TIER: "platform/native"} if annotations is None else annotations
    return {"metadata": {"annotations": asked}, "spec": {"containers": [container]}}


ROLLOUT = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Rollout",
    "metadata": {"name": "chat"},
    "spec": {"replicas": 1, "template": template()},
}
ROLES = {
    "apiVersion": "example.org/v1",
    "kind": "Service2",
    "metadata": {"name": "chat"},
    "spec": {"roles": [{"name": "router"}, {"name": "engine", "podTemplate": template()}]},
}
SET = {
    "apiVersion": "apps.kruise.io/v1beta1",
    "kind": "AdvancedStatefulSet",
    "metadata": {"name": "chat"},
    "spec": {"template": template()},
}


def advice(manifest):
    (ignored,) = ignored_annotations_in("engine", manifest, Input(), None)
    return str(ignored)


@pytest.mark.parametrize("manifest", [ROLLOUT, ROLES, SET], ids=lambda each: each["kind"])
def test_the_row_of_the_message_wires_it(manifest):
    message = advice(manifest)
    row = re.search(r"add to the step's input: (paths: \[.*\])$", message)
    assert row, message
    step_input = Input.model_validate(yaml.safe_load(row[1]))
    request = find("engine", manifest, None, step_input, "")
    assert request is not None and request.refused is None
    plan = judged.planned("Native")
    assert wire.wire(request, plan.tier, plan.backend, "files").engines


def test_a_place_without_pods_is_offered_no_row():
    manifest = {**ROLLOUT, "spec": {"model": "o/m", "metadata": {"annotations": {TIER: "a/b"}}}}
    message = advice(manifest)
    assert "paths: [" not in message
    assert "KubeAI's Model" in message


def test_a_value_in_place_that_is_no_string_is_told_to_quote() -> None:
    manifest = {"metadata": {"annotations": {names.ANNOTATION_POLICY: False}}}
    (ignored,) = ignored_annotations(manifest, (), on_pod_templates())
    assert "its value is not a string; write it in quotes" in str(ignored)


def test_few_of_thousands_of_unknown_keys_are_compared(monkeypatch) -> None:
    compared: list[str] = []
    matches = difflib.get_close_matches
    monkeypatch.setattr(
        difflib,
        "get_close_matches",
        lambda word, *a, **k: compared.append(word) or matches(word, *a, **k),
    )
    keys = {f"{names.GROUP}/kv-offload-{n:05}-{'x' * 40}": "" for n in range(4000)}
    template = {"metadata": {"annotations": keys}, "spec": {"containers": [{"name": "engine"}]}}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": template}}
    found = ignored_annotations_in("engine", deployment, Input(), None)
    assert (len(compared), len(found)) == (16, 64)
    assert "known are" in found[-1].advice

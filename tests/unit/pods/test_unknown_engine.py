"""Pods of an unknown engine: what any engine would be refused for is told in the same round."""

import copy
from typing import Any

import pytest

from function import names
from function.problems import Refused
from function.reasons import Reason
from tests.corpus import judged

Json = dict[str, Any]

DECLARED = {"engine": "vLLM", "engine-version": "0.33.0"}
DECLARED |= {"packages": "lmcache=0.5.6,mooncake=0.3.13"}
ELSEWHERE = {"nodeSelector": {"nvidia.com/gpu.present": "false"}}
LABELLED = {"labels": {names.LABEL_WIRED: "other"}}
CONFLICT = Reason.POD_CONFLICT


def pod(spec: Json, metadata: Json, **container: Any) -> Json:
    """A Pod of an image that nobody knows."""
    one = {"name": "llm", "image": f"registry.example.org/ml/x@sha256:{'a' * 64}", **container}
    one.setdefault("args", ["--model", "org/model"])
    one |= {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "chat", **metadata},
        "spec": {"containers": [one], **spec},
    }


def refused(manifest: Json, tier: str) -> Refused:
    with pytest.raises(Refused) as caught:
        judged.wired(manifest, judged.planned(tier))
    return caught.value


def declared(manifest: Json) -> Json:
    manifest = copy.deepcopy(manifest)
    said = {f"modelplane.ai/kv-offload-{name}": value for name, value in DECLARED.items()}
    manifest["metadata"]["annotations"] = said
    return manifest


@pytest.mark.parametrize(
    ("tier", "spec", "metadata", "reason"),
    [
        ("NodeServer", ELSEWHERE, {}, Reason.NODE_MISMATCH),
        ("NodeServer", {}, LABELLED, CONFLICT),
        ("Native", {}, LABELLED, CONFLICT),
        ("Mooncake", {}, LABELLED, CONFLICT),
    ],
)
def test_what_any_engine_is_refused_for_is_told_with_it(
    tier: str, spec: Json, metadata: Json, reason: Reason
) -> None:
    manifest = pod(spec, metadata)
    found = refused(manifest, tier)
    assert [part.reason for part in found.parts] == [Reason.ENGINE_UNKNOWN, reason]
    # It is what is said as soon as the engine is known, to the letter.
    (then,) = refused(declared(manifest), tier).parts
    assert str(found.parts[1]) == str(then)


@pytest.mark.parametrize("tier", ["Native", "NodeServer", "InProcess", "Mooncake", "HiCache"])
def test_a_pod_without_another_problem_is_told_of_its_engine_alone(tier: str) -> None:
    found = refused(pod({}, {}), tier)
    assert [part.reason for part in found.parts] == [Reason.ENGINE_UNKNOWN]


def test_sizes_are_not_guessed() -> None:
    """How much memory an engine keeps in /dev/shm follows from flags that cannot be read."""
    shm = {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}
    mounts = [{"name": "dshm", "mountPath": "/dev/shm"}]
    manifest = pod({"volumes": [shm]}, {}, volumeMounts=mounts)
    found = refused(manifest, "Native")
    assert [part.reason for part in found.parts] == [Reason.ENGINE_UNKNOWN]


def test_a_command_that_starts_no_engine_is_told_alone() -> None:
    manifest = pod(ELSEWHERE, {}, command=["ray", "start", "--block"], args=[])
    found = refused(manifest, "Mooncake")
    assert len(found.parts) == 1

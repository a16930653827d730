"""Notes about taints that engines tolerate and their agents do not."""

import copy
from typing import Any

import pytest

from function.api.placement import Nodes, Toleration
from function.contract import platforms
from function.pods import tolerated
from tests.unit.composers import documents as d
from tests.unit.composers.calls import call

USUAL = platforms.tolerations(Nodes())
SPOT = {"key": "example.org/spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
GPU = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
ALL = {"operator": "Exists"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
CASES: dict[str, tuple[list[Any], list[dict[str, Any]] | None, str]] = {
    "nothing tolerated": ([], None, ""),
    "the usual taint of GPU nodes": ([GPU], None, ""),
    "the same by value": ([GPU | {"operator": "Equal", "value": "present"}], None, ""),
    "the same, and the tier tolerates nothing": ([GPU], [], "nvidia.com/gpu:NoSchedule"),
    "a taint of the platform": ([SPOT], None, "example.org/spot=true:NoSchedule"),
    "of every effect": (
        [{"key": "spot", "operator": "Exists"}],
        [{"key": "spot", "operator": "Exists", "effect": "NoExecute"}],
        "spot:NoSchedule",
    ),
    "its default operator is Equal": ([{"key": "a", "value": "b"}], None, "a=b"),
    "the agents tolerate it too": ([SPOT], [SPOT], ""),
    "another value of it": (
        [SPOT],
        [SPOT | {"value": "false"}],
        "example.org/spot=true:NoSchedule",
    ),
    "any value, and the agents one": (
        [{"key": "sku", "operator": "Exists"}],
        [{"key": "sku", "value": "gpu"}],
        "sku",
    ),
    "another effect": (
        [SPOT],
        [SPOT | {"effect": "NoExecute"}],
        "example.org/spot=true:NoSchedule",
    ),
    "every taint": ([ALL], None, "every taint"),
    "every taint, and so do the agents": ([ALL, SPOT], [ALL], ""),
    "what keeps nothing away": ([SPOT | {"effect": "PreferNoSchedule"}], None, ""),
    "Kubernetes' own": ([NOT_READY], None, ""),
    "nonsense": (["x", {"key": 1}, {"effect": "x"}, {}], [ALL], ""),
}


@pytest.mark.parametrize("name", CASES)
def test_note_names_the_missing_toleration(name: str) -> None:
    own, agents, said = CASES[name]
    there = USUAL if agents is None else tuple(Toleration.model_validate(t) for t in agents)
    found = tolerated.notes([{"tolerations": own}], there)
    assert found == () if not said else f"tolerate {said}, and" in found[0], found


def test_notes_are_deduplicated_and_bounded() -> None:
    own = [{"key": f"key-{n}", "operator": "Exists"} for n in range(9)]
    pods = [{"tolerations": own}, {"tolerations": copy.deepcopy(own)}]
    (found,) = tolerated.notes(pods, USUAL)
    assert "key-0, key-1, key-2, key-3, key-4 and 4 more, and" in found


@pytest.mark.parametrize("mode", ["NodeServer", "InProcess"])
def test_wired_condition_has_the_note_when_agents_are_needed(mode: str) -> None:
    image = "vllm/vllm-openai:v0.25.1" if mode == "InProcess" else d.IMAGE
    document = d.engine(image=image)
    d.wired_pod(document)["spec"]["tolerations"] = [SPOT]
    tier = d.ready_tier()
    if mode == "InProcess":
        tier["spec"]["lmcache"] = {"mode": "InProcess", "inProcess": {"memoryGiB": 8}}
    required = d.requirements(tier)
    got = call(d.replica(), desired={"model-serving-main": document}, required=required)
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    message = got.messages["KVOffloadReady"]
    assert ("Note: the pods tolerate example.org/spot=true" in message) == (mode == "NodeServer")

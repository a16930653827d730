"""Nonsense in one document is that document's condition: no fatal, and no other's loss."""

from copy import deepcopy
from typing import Any

import pytest

from function.kube import access, objects
from function.workloads import roles
from tests.unit.composers import documents as d
from tests.unit.composers.calls import Outcome, call, observe

Json = dict[str, Any]
ODD = ("text", 7, True, ["a"], {"a": {"b": [1]}}, 1e300)
REQUIRED = d.requirements(d.ready_tier())


def engine(number: int) -> Json:
    return d.engine(args=[d.MODEL, "--seed", str(number)])


@pytest.mark.parametrize("odd", [odd for odd in ODD if not isinstance(odd, dict)])
@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_odd_metadata_of_an_object_holds_only_its_workload_back(field: str, odd: Any) -> None:
    bad = engine(1)
    bad["metadata"] = {field: odd}
    got = call(d.replica(), desired={"bad": bad, "other": engine(2)}, required=REQUIRED)
    assert got.fatals == []
    assert got.conditions == {"KVOffloadReady": ("False", "PodConflict")}
    assert (
        f"bad: Held back. metadata.{field}: This is not an object."
        in got.messages["KVOffloadReady"]
    )


def test_odd_metadata_of_a_running_object_keeps_its_record() -> None:
    first = call(d.replica(), desired={"bad": engine(1), "other": engine(2)}, required=REQUIRED)
    assert first.conditions == {"KVOffloadReady": ("True", "Wired")}
    bad = engine(1)
    bad["metadata"] = {"annotations": "text"}
    desired = {"bad": bad, "other": engine(2)}
    got = call(d.replica(), desired=desired, observed=observe(first), required=REQUIRED)
    assert [got.desired[key] for key in desired] == [first.desired[key] for key in desired]
    assert got.conditions == {"KVOffloadReady": ("False", "PodConflict")}


def test_odd_metadata_does_not_stop_unwiring() -> None:
    first = call(d.replica(), desired={"bad": engine(1)}, required=REQUIRED)
    bad = d.engine({}, args=[d.MODEL, "--seed", "1"])
    bad["metadata"] = {"labels": ["text"]}
    got = call(d.replica(), desired={"bad": bad}, observed=observe(first), required=REQUIRED)
    assert got.desired["bad"] == bad


def _wired() -> Outcome:
    return call(d.replica(), desired={"engine": engine(1)}, required=REQUIRED)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    "path",
    [
        ("metadata",),
        ("metadata", "labels"),
        ("metadata", "annotations"),
        ("metadata", "name"),
        ("spec",),
        ("spec", "by"),
        ("spec", "by", "resourceRef"),
        ("spec", "by", "resourceRef", "name"),
    ],
)
def test_odd_observed_usages_change_no_engine(path: tuple[str, ...], odd: Any) -> None:
    first = _wired()
    observed = observe(first)
    usage = next(key for key in observed if key.startswith("usage-tier-"))
    observed[usage] = deepcopy(observed[usage])
    _put(observed[usage], path, odd)
    observed["usage-tier-none"] = observed[usage]
    for required in (REQUIRED, d.requirements()):
        got = call(d.replica(), desired={"engine": engine(1)}, observed=observed, required=required)
        assert got.fatals == []
        assert got.desired["engine"] == first.desired["engine"]
        assert "KVOffloadReady" in got.conditions


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("path", [("metadata",), ("metadata", "name"), ("metadata", "namespace")])
def test_odd_composites_are_answered(path: tuple[str, ...], odd: Any) -> None:
    composite = d.replica()
    _put(composite, path, odd)
    got = call(composite, desired={"engine": engine(1)}, required=REQUIRED)
    assert got.fatals == []
    assert "KVOffloadReady" in got.conditions


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    "path", [("metadata", "name"), ("status", "providerConfigRef", "name"), ("metadata",)]
)
def test_odd_clusters_stop_no_fleet(path: tuple[str, ...], odd: Any) -> None:
    fleet = d.tier(inferenceClusterRef=None, clusterSelector={"matchLabels": {"fleet": "prod"}})
    bad = d.cluster("bad")
    _put(bad, path, odd)
    required = {"clusters": [d.cluster("good"), bad], "usages": []}
    got = call(fleet, required=required)
    assert got.fatals == []
    assert "tier-good" in got.desired
    single = call(d.tier(), required={"cluster": [bad], "usages": []})
    assert single.fatals == []


def _put(document: Json, path: tuple[str, ...], value: Any) -> None:
    for step in path[:-1]:
        document = document.setdefault(step, {})
    document[path[-1]] = value


def test_typed_documents_lack_what_has_another_type() -> None:
    document = {
        "kind": 5,
        "metadata": {"name": "a", "labels": {"x": "y", "z": 1}, "annotations": "text", "other": 3},
        "spec": {"any": [1], "by": []},
        "status": {"conditions": ["text", {"type": "Ready", "status": True}]},
    }
    assert access.typed(document) == {
        "metadata": {"name": "a", "labels": {"x": "y"}, "other": 3},
        "spec": {"any": [1]},
        "status": {"conditions": [{"type": "Ready"}]},
    }


def test_well_typed_documents_are_not_copied() -> None:
    tier = d.ready_tier()
    assert access.typed(tier) is tier
    assert access.typed(["x"], access.FOREIGN, "status", "conditions", 0) is None
    assert access.typed("x", access.FOREIGN, "metadata", "annotations", "key") == "x"
    assert access.typed(["x"], access.FOREIGN, "spec", "unknown") == ["x"]


# Keys of ours that an earlier step uses -------------------------------------------------------

THEIRS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs"}}


def test_a_taken_usage_key_keeps_the_other_resource_and_says_so() -> None:
    first = _wired()
    key = next(key for key in first.desired if key.startswith("usage-tier-"))
    got = call(d.replica(), desired={"engine": engine(1), key: THEIRS}, required=REQUIRED)
    assert got.desired[key] == THEIRS
    assert got.desired["engine"] == first.desired["engine"]
    assert f"another resource under {key}: that is kept" in got.messages["KVOffloadReady"]


def test_an_engine_is_held_back_while_the_key_of_its_files_is_taken() -> None:
    key = "configmap-kv-offload"
    ours = objects.unwrap(_wired().desired[key]) or {}
    theirs = {**ours, "data": {"a": "b"}}  # of the name that is ours
    got = call(d.replica(), desired={"engine": engine(1), key: theirs}, required=REQUIRED)
    assert got.desired == {key: theirs}
    assert got.conditions == {"KVOffloadReady": ("False", "PodConflict")}
    assert "Give it another name" in got.messages["KVOffloadReady"]


@pytest.mark.parametrize("key", ["configmap-kv-offload", "configmap-kv-offload-mine"])
def test_files_have_a_key_of_their_own_beside_one_that_is_like_theirs(key: str) -> None:
    desired, seen = {"engine": engine(1), key: THEIRS}, {}
    keys = set()
    for _ in range(4):
        got = call(d.replica(), desired=desired, observed=seen, required=REQUIRED)
        assert got.desired[key] == THEIRS
        assert got.conditions == {"KVOffloadReady": ("True", "Wired")}
        keys |= {it for it in got.desired if it.startswith("configmap-kv-offload")} - {key}
        seen = observe(got)
    assert len(keys) == 1


def test_our_own_resource_of_an_earlier_step_is_no_other() -> None:
    first = _wired()
    again = call(d.replica(), desired={**first.desired, "engine": engine(1)}, required=REQUIRED)
    assert again.desired == first.desired
    assert "another resource" not in again.messages["KVOffloadReady"]


def test_a_taken_key_of_a_tier_keeps_the_other_resource_and_says_so() -> None:
    required: Json = {"cluster": [d.cluster()], "usages": []}
    key = sorted(call(d.tier(), required=required).desired)[0]
    got = call(d.tier(), desired={key: THEIRS}, required=required)
    assert got.desired[key] == THEIRS
    assert f"another resource under {key}: that is kept" in got.messages["Accepted"]


# Look-ups that are not resolved ---------------------------------------------------------------


def test_an_edited_engine_stays_wired_while_its_tier_is_looked_up() -> None:
    first = _wired()
    got = call(d.replica(), desired={"engine": engine(2)}, observed=observe(first), required={})
    assert got.desired["engine"] == first.desired["engine"]
    assert got.conditions == {"KVOffloadReady": ("Unknown", "TierUnresolved")}


# Credentials ----------------------------------------------------------------------------------


def test_credentials_of_a_models_url_are_in_no_condition_record_or_usage() -> None:
    document = d.engine(args=["https://someone:hunter22@host/model"])
    pod = d.wired_pod(document)["spec"]["containers"][0]
    pod["image"] = "someone:hunter22@registry.io/vllm/vllm-openai:v0.32.0"
    for tier in (d.ready_tier(), d.unready_tier()):
        got = call(d.replica(), desired={"engine": document}, required=d.requirements(tier))
        said = [str(got.conditions), str(got.messages), str(got.warnings), str(got.fatals)]
        for key, made in got.desired.items():
            said.append(str(made["metadata"]) if key == "engine" else str(made))
        assert not [text for text in said if "hunter22" in text]


# Numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--block-size", "9" * 5000], ["--port", "9" * 5000]])
def test_numbers_of_5000_digits_are_no_bug(words: list[str]) -> None:
    got = call(d.replica(), desired={"engine": d.engine(args=[d.MODEL, *words])}, required=REQUIRED)
    assert got.fatals == []
    assert got.conditions["KVOffloadReady"][1] in ("Wired", "ConnectorConflict")
    assert "9" * 100 not in got.messages["KVOffloadReady"]


def test_added_quantities_of_5000_digits_are_no_bug() -> None:
    added = {"modelplane.ai/kv-offload-added": f"memory={'9' * 5000}"}
    document = d.engine({"modelplane.ai/kv-offload-tier": "chat", **added})
    inside = d.ready_tier(lmcache={"mode": "InProcess", "inProcess": {"memoryGiB": 4}})
    for tier in (d.ready_tier(), inside):
        got = call(d.replica(), desired={"engine": document}, required=d.requirements(tier))
        assert got.conditions["KVOffloadReady"][1] != "InternalError"


@pytest.mark.parametrize("size", [float("inf"), float("nan"), 1e300, True, 2.5, "2"])
def test_odd_sizes_of_gangs_count_as_one(size: Any) -> None:
    assert roles.count(size) == 1
    assert roles.count(3.0) == 3

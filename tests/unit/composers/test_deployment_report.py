"""A ModelDeployment composed by Modelplane reports its replicas."""

from copy import deepcopy
from typing import Any

import pytest

from tests.unit.composers import documents as d
from tests.unit.composers.calls import Outcome, call

Document = dict[str, Any]

DEPLOYMENT = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "ModelDeployment",
    "metadata": {"name": "qwen", "namespace": "team-a", "uid": "uid-qwen"},
    "spec": {"replicas": 2},
}
WIRED = ("True", "Wired", "workload-main: Wired to LMCache tier modelplane-system/chat.")
DEFERRED = ("False", "TierNotReady", "workload-main: Held back.")
NO_STEP = "It names a tier and has no condition KVOffloadReady yet."


def replica(name: str, tier: str = "chat") -> Document:
    annotations = {"modelplane.ai/kv-offload-tier": tier} if tier else {}
    template = {"metadata": {"annotations": annotations}, "spec": {"containers": []}}
    members = [{"role": "Standalone", "template": template}]
    return d.replica(name, engines=[{"name": "main", "members": members}])


def with_condition(document: Document, said: tuple[Any, ...] | None) -> Document:
    """The replica as it is observed."""
    ready = [{"type": "Ready", "status": "False", "reason": "Creating"}]
    if said is not None:
        keys = ("status", "reason", "message")
        ready.append({"type": "KVOffloadReady", **dict(zip(keys, said, strict=True))})
    return {**document, "status": {"conditions": ready}}


def report(
    said: dict[str, tuple[Any, ...] | None], tier: str = "chat", composite: Document = DEPLOYMENT
) -> Outcome:
    desired = {f"replica-{name}": replica(name, tier) for name in said}
    observed = {key: with_condition(document, said[key[8:]]) for key, document in desired.items()}
    got = call(composite, desired=desired, observed=observed)
    assert got.desired == desired
    assert (got.status, got.requirements, got.composite_ready) == ({}, {}, "UNSPECIFIED")
    assert not got.fatals and not got.warnings
    return got


# name: (what each replica says, the deployment's condition and message)
TABLE: dict[str, tuple[dict[str, tuple[Any, ...] | None], tuple[str, str, str]]] = {
    "all wired": (
        {"a": WIRED, "b": WIRED},
        ("True", "Wired", f"2 of 2 replicas are wired. a, b: {WIRED[2]}"),
    ),
    "one is held back": (
        {"a": WIRED, "b": DEFERRED},
        ("False", "TierNotReady", f"1 of 2 replicas are wired. b: {DEFERRED[2]} a: {WIRED[2]}"),
    ),
    "one says nothing": (
        {"a": WIRED, "b": None},
        ("Unknown", "NotReported", f"1 of 2 replicas are wired. b: {NO_STEP} a: {WIRED[2]}"),
    ),
    "none says anything: the step does not run there": (
        {"a": None, "b": None},
        ("Unknown", "NotReported", f"0 of 2 replicas are wired. a, b: {NO_STEP}"),
    ),
    "what is known to be wrong comes before what is not known": (
        {"a": None, "b": DEFERRED},
        ("False", "TierNotReady", f"0 of 2 replicas are wired. b: {DEFERRED[2]} a: {NO_STEP}"),
    ),
    "a reason that is none of ours": (
        {"a": ("True", "Fine", "all is well")},
        ("Unknown", "NotReported", "0 of 1 replicas are wired. a: all is well"),
    ),
    "a condition that is none": (
        {"a": (7, ["Wired"], {})},
        ("Unknown", "NotReported", "0 of 1 replicas are wired. a: "),
    ),
    "many": (
        {f"r{n}": ("False", "TierNotReady", f"For reason {n % 7}.") for n in range(42)},
        (
            "False",
            "TierNotReady",
            "0 of 42 replicas are wired. "
            "r0, r14, r21, r28, r35 and 1 more: For reason 0. "
            "r1, r15, r22, r29, r36 and 1 more: For reason 1. "
            "r10, r17, r24, r3, r31 and 1 more: For reason 3. "
            "r11, r18, r25, r32, r39 and 1 more: For reason 4. "
            "r12, r19, r26, r33, r40 and 1 more: For reason 5. And 2 more.",
        ),
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_deployment_condition_sums_up_its_replicas(name: str) -> None:
    said, want = TABLE[name]
    got = report(said)
    assert (*got.conditions["KVOffloadReady"], got.messages["KVOffloadReady"]) == want
    assert got.conditions.keys() == {"KVOffloadReady"}
    assert got.ttl == 300


def test_deployment_without_request_gets_no_condition() -> None:
    got = report({"a": None}, tier="")
    assert (got.conditions, got.ttl) == ({}, 3600)


def test_stale_condition_becomes_not_requested() -> None:
    stale = {"type": "KVOffloadReady", "status": "True", "reason": "Wired"}
    composite = {**DEPLOYMENT, "status": {"conditions": [stale]}}
    got = report({"a": ("False", "NotRequested", "x")}, tier="", composite=composite)
    assert got.conditions == {"KVOffloadReady": ("False", "NotRequested")}


def test_missing_replica_is_named_by_its_key() -> None:
    got = call(DEPLOYMENT, desired={"replica-a": replica("a")})
    assert got.conditions == {"KVOffloadReady": ("Unknown", "NotReported")}
    assert "replica-a: It names a tier and has no condition" in got.messages["KVOffloadReady"]


PAUSED = {"type": "Synced", "status": "False", "reason": "ReconcilePaused"}
FAILS = {**PAUSED, "reason": "ReconcileError", "message": "cannot run step kv-offload: unavailable"}
# the replica's Synced, the generation of its other conditions -> what is said, "" for what it says
OLD: dict[str, tuple[Document, int | None, str]] = {
    "reconciled": ({"status": "True", "observedGeneration": 2}, 2, ""),
    "reconciled, by an older core": ({"status": "True", "observedGeneration": 2}, None, ""),
    "edited": ({"status": "True", "observedGeneration": 1}, None, "newest edit is not reconciled"),
    "told before the edit": ({"status": "True", "observedGeneration": 2}, 1, "newest edit"),
    "it cannot be reconciled": (FAILS, 2, "Crossplane cannot reconcile it: cannot run step"),
    "it is paused": (PAUSED, 2, "Crossplane cannot reconcile it: ReconcilePaused"),
}


@pytest.mark.parametrize("name", OLD)
def test_what_a_replica_said_before_is_not_reported(name: str) -> None:
    synced, generation, want = OLD[name]
    old = with_condition(replica("a"), WIRED)
    old["metadata"] = {**old["metadata"], "generation": 2}
    hits = {"type": "KVOffloadServing", "status": "True", "reason": "Hitting", "message": "hits"}
    said = [*old["status"]["conditions"], hits]
    if generation is not None:
        said = [{**each, "observedGeneration": generation} for each in said]
    old["status"]["conditions"] = [*said, {"type": "Synced", "reason": "R", **synced}]
    got = call(DEPLOYMENT, desired={"replica-a": replica("a")}, observed={"replica-a": old})
    unknown = {
        "KVOffloadReady": ("Unknown", "NotReported"),
        "KVOffloadServing": ("Unknown", "NotObserved"),
    }
    true = {"KVOffloadReady": ("True", "Wired"), "KVOffloadServing": ("True", "Hitting")}
    assert got.conditions == (unknown if want else true)
    assert all(want in message for message in got.messages.values())
    wrong = {"KVOffloadReady": "NotApplied", "KVOffloadServing": "WrongBlocks"}
    said = [{**it, "status": "False", "reason": wrong.get(it["type"], "R")} for it in said]
    old["status"]["conditions"] = [*said, {"type": "Synced", "reason": "R", **synced}]
    got = call(DEPLOYMENT, desired={"replica-a": replica("a")}, observed={"replica-a": old})
    assert {status for status, _ in got.conditions.values()} == {"False"}
    assert all(want in message for message in got.messages.values()), "and why it may be old"
    # A replica that has not read its first request is no trouble yet.
    said = [{**it, "reason": "NotRequested"} for it in said if it["type"] == "KVOffloadReady"]
    old["status"]["conditions"] = [*said, {"type": "Synced", "reason": "R", **synced}]
    got = call(DEPLOYMENT, desired={"replica-a": replica("a")}, observed={"replica-a": old})
    asked = ("Unknown", "NotReported") if want else ("False", "NotRequested")
    assert got.conditions == {"KVOffloadReady": asked}


# what the replicas say of serving -> what the deployment says
SERVING = {
    "all have hits": ([("True", "Hitting"), ("True", "Hitting")], ("True", "Hitting")),
    "one is silent": ([("True", "Hitting"), ("False", "Silent")], ("False", "Silent")),
    "one is not known": ([("True", "Hitting"), ("Unknown", "Starting")], ("Unknown", "Starting")),
    "words that are none of ours": ([("True", "Fine")], ("Unknown", "NotObserved")),
}


@pytest.mark.parametrize("name", SERVING)
def test_deployment_says_whether_its_replicas_serve(name: str) -> None:
    said, want = SERVING[name]
    observed = {f"replica-{n}": replica(f"r{n}") for n in range(len(said))}
    for found, (status, reason) in zip(observed.values(), said, strict=True):
        wired = {"type": "KVOffloadReady", "status": "True", "reason": "Wired"}
        serves = {"type": "KVOffloadServing", "status": status, "reason": reason}
        found["status"] = {"conditions": [wired, serves]}
    got = call(DEPLOYMENT, desired=observed, observed=observed)
    assert got.conditions == {"KVOffloadReady": ("True", "Wired"), "KVOffloadServing": want}


def test_workloads_of_a_deployment_are_wired() -> None:
    """Somebody composes ModelDeployments without replicas, or with something beside them."""
    engine = d.engine()
    for more in ({}, {"replica-a": replica("a", "")}):
        desired = {"main": engine, **deepcopy(more)}
        got = call(DEPLOYMENT, desired=desired, required=d.requirements(d.ready_tier()))
        assert got.conditions["KVOffloadReady"] == ("True", "Wired")
        assert got.desired["main"] != engine

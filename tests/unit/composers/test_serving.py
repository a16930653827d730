"""Serving of a tier and KVOffloadServing of its consumers, from what the observer wrote."""

import json
import random
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from function.backends.registry import BACKENDS
from function.composers import serving
from kv_offload.crds.status import KVOffloadTierStatus
from programs.observer.judge import BAD, WRONG_BLOCKS, Memory
from programs.observer.pages import Page
from programs.observer.report import Engine, report, text
from programs.observer.turns import CANARY_WORDS
from tests.unit.backends import goldens
from tests.unit.composers import documents as d
from tests.unit.composers import test_other_kinds
from tests.unit.composers.calls import READY, call, observe

KEY = "model-serving-main"
OBSERVE: dict[str, Any] = {"observe": {}}
NEW_YEAR = 1767225600.0  # 2026-01-01T00:00:00Z
REQUIRED = {"cluster": [d.cluster()], "usages": []}
NOT_YET = {"type": "Serving", "status": "True", "reason": "Hitting"}


def engines(state: str, cause: str = "", model: str = d.MODEL, number: int = 1) -> list[Engine]:
    memory = Memory(state=state, cause=cause)
    return [Engine("default", f"10.0.0.{i}", "vLLM", model, memory) for i in range(number)]


def wrong(number: int = 1, model: str = d.MODEL) -> list[Engine]:
    return engines("WrongBlocks", model=model, number=number)


def with_word(word: str, state: str = "Hitting", model: str = d.MODEL) -> list[Engine]:
    """An engine of which the canary says that."""
    return [replace(one, canary=word) for one in engines(state, model=model)]


def document(*found: Engine, **shares: str) -> str:
    return text(report(found, {}, shares))


def seen(written: str | None, *, ready: int | None = 1, **spec: Any) -> dict[str, Any]:
    """What is observed of a tier whose observer wrote this."""
    first = call(d.tier(**OBSERVE | spec), required=REQUIRED)
    found = deepcopy(observe(first))
    if written is not None:
        manifest = {"data": {"state": written}}
        found["configmap-serving"]["status"]["atProvider"] = {"manifest": manifest}
    manifest = {} if ready is None else {"status": {"readyReplicas": ready}}
    found["deployment-observer"]["status"]["atProvider"] = {"manifest": manifest}
    return found


HITS = document(*engines("Hitting"), hits="25", used="50")

# name: (what the observer wrote, its ready replicas) -> the condition
WRITTEN: dict[str, tuple[str | None, int | None, tuple[str, str]]] = {
    "hits": (HITS, 1, ("True", "Hitting")),
    "stores": (document(*engines("Storing")), 1, ("Unknown", "Storing")),
    "no traffic": (document(*engines("Idle")), 1, ("Unknown", "Idle")),
    "no engine": (document(), 1, ("Unknown", "Idle")),
    "silent": (document(*engines("Silent", "NoLookups")), 1, ("False", "Silent")),
    "few of many are silent": (
        document(*engines("Silent", "NoLookups"), *engines("Hitting", model="m", number=20)),
        1,
        ("True", "Hitting"),
    ),
    "wrong blocks of one engine of many": (
        document(
            *wrong(), *engines("Failing", model="b", number=3), *engines("Hitting", number=50)
        ),
        1,
        ("False", "WrongBlocks"),
    ),
    "a canary without a key": (document(*with_word("KeyRequired")), 1, ("True", "Hitting")),
    "nothing written": (None, 1, ("Unknown", "Starting")),
    "nothing written by an observer that starts": (None, None, ("Unknown", "Starting")),
    "hits, by an observer that is gone": (HITS, None, ("Unknown", "ObserverNotReady")),
    "hits, by an observer that is not ready": (HITS, 0, ("Unknown", "ObserverNotReady")),
    "nonsense": ("{", 1, ("Unknown", "Starting")),
    "another format": (HITS.replace('"format":1', '"format":2'), 1, ("Unknown", "Starting")),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_the_document_decides_the_condition(name: str) -> None:
    written, ready, condition = WRITTEN[name]
    got = call(d.tier(**OBSERVE), required=REQUIRED, observed=seen(written, ready=ready))
    assert got.conditions["Serving"] == condition
    assert ("serving" in got.status) == (serving.parse(written) is not None and ready == 1)


# (cluster of the observer's Objects, generation of theirs that is applied, what Serving was)
ANEW = {
    "of the old cluster": ("gpu-1", 1, "Hitting", ("Unknown", "NotObserved")),
    "not applied": ("gpu-2", 1, "NotObserved", ("Unknown", "NotObserved")),
    "applied": ("gpu-2", 2, "NotObserved", ("True", "Hitting")),
    "an edit of it is not applied": ("gpu-2", 1, "Hitting", ("True", "Hitting")),
}


@pytest.mark.parametrize("name", ANEW)
def test_the_document_of_a_cluster_that_is_gone_says_nothing(name: str) -> None:
    """All else may run on the new cluster before the observer does."""
    config, applied, reason, condition = ANEW[name]
    found = seen(HITS)
    for key, part in found.items():
        mine = key.startswith("namespace") or "agent" in key
        part["spec"]["providerConfigRef"]["name"] = "gpu-2" if mine else config
        part["metadata"]["generation"] = 2
        synced = {"type": "Synced", "status": "True", "observedGeneration": 2 if mine else applied}
        part["status"]["conditions"].append(synced)
    status = "True" if reason == "Hitting" else "Unknown"
    tier = d.tier(**OBSERVE)
    tier["status"] = {"conditions": [{"type": "Serving", "status": status, "reason": reason}]}
    known = {**REQUIRED, "cluster": [d.cluster(provider_config="gpu-2")]}
    got = call(tier, required=known, observed=found)
    assert got.conditions["Serving"] == condition
    assert got.conditions["AgentsReady"][1] != "WaitingForCluster"
    assert ("serving" in got.status) == (condition[0] == "True")


_LATER = [(30, "Hitting"), (90, "ObserverNotReady"), (-3_600, "ObserverNotReady")]


@pytest.mark.parametrize(("seconds", "reason"), _LATER)
def test_a_pod_that_is_replaced_changes_nothing(seconds: int, reason: str) -> None:
    found = seen(HITS, ready=0)
    manifest = found["deployment-observer"]["status"]["atProvider"]["manifest"]
    at = "2026-01-01T00:00:00Z"
    entry = {"type": "Available", "status": "False", "lastTransitionTime": at}
    manifest["status"]["conditions"] = [entry]
    now = NEW_YEAR + seconds
    got = call(d.tier(**OBSERVE), required=REQUIRED, observed=found, now=now)
    assert got.conditions["Serving"][1] == reason
    assert got.ttl == 10


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("2026-01-01T00:00:00Z", "The observer is not ready since 2026-01-01T00:00:00Z. See"),
        ("9999-12-31T23:59:59-23:59", "The observer is not ready. See"),
        ("0001-01-01", "The observer is not ready. See"),
        ("9" * 5_000, "The observer is not ready. See"),
        ({"a": 1}, "The observer is not ready. See"),
    ],
)
def test_an_observer_that_is_gone_is_unknown_since_then(at: Any, said: str) -> None:
    found = seen(HITS, ready=0)
    manifest = found["deployment-observer"]["status"]["atProvider"]["manifest"]
    entry = {"type": "Available", "status": "False", "lastTransitionTime": at}
    manifest["status"]["conditions"] = [entry]
    got = call(d.tier(**OBSERVE), required=REQUIRED, observed=found, now=NEW_YEAR + 3_600)
    assert got.conditions["Serving"] == ("Unknown", "ObserverNotReady")
    assert got.messages["Serving"].startswith(said)


def test_the_status_has_steps_and_no_times() -> None:
    got = call(d.tier(**OBSERVE), required=REQUIRED, observed=seen(HITS))
    row = {"namespace": "default", "name": d.MODEL, "state": "Hitting"}
    assert got.status["serving"] == {
        "state": "Hitting", "engines": "1", "hits": "25%+", "used": "50%+", "models": [row]
    }  # fmt: skip


def test_a_fault_is_told_with_the_engine_the_counter_and_what_to_do() -> None:
    written = document(*engines("Silent", "NoLookups", number=3))
    got = call(d.tier(**OBSERVE), required=REQUIRED, observed=seen(written))
    said = got.messages["Serving"]
    for part in (
        d.MODEL,
        "10.0.0.0",
        "2+ vLLM engines",
        "vllm:external_prefix_cache_queries_total",
    ):
        assert part in said
    assert "Compare its arguments" in said


@pytest.mark.parametrize("word", CANARY_WORDS)
def test_what_the_canary_does_is_in_the_status(word: str) -> None:
    got = call(d.tier(**OBSERVE), required=REQUIRED, observed=seen(document(*with_word(word))))
    assert [row["canary"] for row in got.status["serving"]["models"]] == [word]
    KVOffloadTierStatus.model_validate(got.status)
    assert ("canary" in got.messages["Serving"]) == (word in ("KeyRequired", "NoAnswer"))


def test_a_canary_that_gets_no_answers_is_told() -> None:
    written = document(*with_word("KeyRequired"), *with_word("NoAnswer", model="other"))
    got = call(d.tier(**OBSERVE), required=REQUIRED, observed=seen(written))
    assert got.conditions["Serving"] == ("True", "Hitting")
    said = got.messages["Serving"]
    assert f"nothing of model {d.MODEL} in namespace default, and of 1 more" in said
    assert "Remove spec.observe.canary" in said


@pytest.mark.parametrize("state", BAD)
def test_every_state_of_the_observer_has_its_words(state: str) -> None:
    causes = {cause for said, cause in serving._SAID if said == state}
    assert causes
    for cause in causes:
        got = serving.parse(document(*engines(state, cause)))
        assert got is not None and got.state == state
        assert str(got.models[0]).endswith(".")


def test_an_observer_keeps_no_tier_from_being_ready() -> None:
    found = seen(HITS, ready=0)
    found["role-observer"]["status"]["conditions"] = [
        {"type": "Synced", "status": "False", "reason": "ReconcileError", "message": "forbidden"}
    ]
    found["daemonset-agent"]["status"]["atProvider"] = {
        "manifest": {"status": {"desiredNumberScheduled": 1, "numberReady": 1}}
    }
    got = call(d.tier(**OBSERVE), required=REQUIRED, observed=found)
    assert got.composite_ready == "TRUE"
    assert got.conditions["ControlPlaneReady"][0] == "True"
    assert got.conditions["Serving"] == ("Unknown", "NotApplied")
    assert "forbidden" in got.messages["Serving"]


def test_a_cluster_that_is_not_seen_says_nothing() -> None:
    found = seen(HITS)
    manifest = found["configmap-serving"]["status"]["atProvider"]["manifest"]
    manifest |= {"kind": "ConfigMap"}
    found["configmap-serving"]["status"]["conditions"] = [
        {"type": "Synced", "status": "False", "message": "observe failed: no route to host"}
    ]
    got = call(d.tier(**OBSERVE), required=REQUIRED, observed=found)
    assert got.conditions["Serving"] == ("Unknown", "NotObserved")


def test_a_tier_without_an_observer_has_no_condition() -> None:
    assert "Serving" not in call(d.tier(), required=REQUIRED).conditions


# How a tier comes to be judged no more: (its document, what is required)
ENDS = {
    "the observer was taken away": (d.tier(), REQUIRED),
    "the spec is not valid": (d.tier(backend="Nope"), REQUIRED),
    "the cluster is not looked up": (d.tier(**OBSERVE), {}),
}


@pytest.mark.parametrize("name", ENDS)
def test_no_success_of_before_is_left_standing(name: str) -> None:
    tier, required = ENDS[name]
    tier["status"] = {"conditions": [NOT_YET]}
    got = call(tier, required=required)
    assert got.conditions["Serving"][0] == "Unknown"


HOSTILE = (
    *("null", "[]", "1", '"x"', "[" * 100_000, "{}", '{"format":1}'),
    HITS.replace('"Hitting"', "{}"),
    HITS.replace('"25"', '"26"'),
    HITS.replace(d.MODEL, "a b"),
    HITS.replace(d.MODEL, "m" * 129),
    HITS.replace('"default"', '"../x"'),
    HITS.replace('"models":[', '"models":[3,'),
    HITS.replace('"engines":"1"', '"engines":1'),
    document(*engines("Silent", "NoLookups")).replace("NoLookups", "Other"),
    document(*engines("Silent", "NoLookups")).replace("10.0.0.0", "rm -rf"),
    document(*engines("Silent", "NoLookups")).replace("vLLM", "EvilLM"),
    document(*with_word("Compared")).replace("Compared", "Praised"),
    document(*with_word("Compared")).replace('"Compared"', "[]"),
    HITS + " " * 40_000,
    HITS.replace('"state":"Hitting","used"', '"state":"Silent","used"'),
    json.dumps({**json.loads(HITS), "models": json.loads(HITS)["models"] * 33}),
)


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_what_the_observer_would_not_write_is_no_document(number: int) -> None:
    assert serving.parse(HOSTILE[number]) is None
    assert serving.parse(HITS) is not None


def test_random_changes_of_a_document_raise_nothing() -> None:
    draw = random.Random(25)
    written = document(*engines("NeverRead", "HitsStopped"), hits="10")
    for _ in range(3_000):
        cut = list(written)
        for _ in range(draw.randrange(1, 6)):
            cut[draw.randrange(len(cut))] = draw.choice('{}[]",:0e-\\x ')
        found = serving.parse("".join(cut))
        assert found is None or (found.state in serving._STATES and len(found.models) <= 32)


FLEET = {"inferenceClusterRef": None, "clusterSelector": {"matchLabels": {"fleet": "prod"}}}


def fleet_with(*statuses: str, bad: tuple[str, ...] = (), synced: str = "True") -> tuple[str, str]:
    """Serving of a fleet whose children say so. `bad`: the reasons of those that are False."""
    clusters = [d.cluster(f"c{i}") for i in range(len(statuses))]
    required = {"clusters": clusters, "usages": []}
    tier = d.tier(**OBSERVE | FLEET)
    observed = observe(call(tier, required=required))
    reasons = iter(bad)
    for i, status in enumerate(statuses):
        reason = {"True": "Hitting"}.get(status, "Idle")
        reason = next(reasons, "Silent") if status == "False" else reason
        entry = {"type": "Serving", "status": status, "reason": reason}
        observed[f"tier-c{i}"]["status"]["conditions"] += [
            entry,
            {"type": "Synced", "status": synced},
        ]
    return call(tier, required=required, observed=observed).conditions["Serving"]


def test_a_fleet_serves_where_none_of_its_clusters_does_not() -> None:
    assert fleet_with("True", "Unknown") == ("True", "Hitting")
    assert fleet_with("True", "False") == ("False", "Silent")
    assert fleet_with("Unknown", "Unknown") == ("Unknown", "NotObserved")
    wrong_last = fleet_with("False", "False", bad=("Silent", "WrongBlocks"))
    assert wrong_last == ("False", "WrongBlocks")
    assert fleet_with("True", synced="False") == ("Unknown", "NotObserved")
    assert fleet_with("False", synced="False") == ("False", "Silent")


def test_whatever_an_engine_is_called_the_document_is_read_and_the_status_valid() -> None:
    for name in ("", "模型", "a b", "m" * 300, 'x"y', "org/model:v1"):
        page = Page(f'vllm:prompt_tokens_total{{model_name="{name}"}} 5000\n')
        memory = Memory(state="Unreachable")
        written = text(
            report([Engine("default", "fd00::1", page.kind, page.model, memory)], {}, {})
        )
        got = call(d.tier(**OBSERVE), required=REQUIRED, observed=seen(written))
        assert got.conditions["Serving"] == ("False", "Unreachable")
        KVOffloadTierStatus.model_validate(got.status)


# Consumers --------------------------------------------------------------------------------------


def tier_with(written: str | None, **more: Any) -> dict[str, Any]:
    """A ready tier whose status says what the observer wrote."""
    got = call(d.tier(**OBSERVE), required=REQUIRED, observed=seen(written))
    found = d.ready_tier(**OBSERVE)
    status, reason = got.conditions["Serving"]
    entry = {"type": "Serving", "status": status, "reason": reason, "message": "as said"}
    found["status"] = {**found["status"], **got.status, "providerConfigRef": {"name": "gpu"}}
    found["status"]["conditions"] = [*d.ready_tier()["status"]["conditions"], entry]
    return found | more


def consumer_of(
    tier: dict[str, Any], *, runs: bool | None = True, **engine: Any
) -> dict[str, tuple[str, str]]:
    """Return the conditions of a consumer. `runs`: whether its engines are ready; None: no pods."""
    asked = {"desired": {KEY: d.engine(**engine)}, "required": d.requirements(tier)}
    there = {} if runs is None else observe(call(d.replica(), **asked), ready=runs)
    return call(d.replica(), **asked, observed=there).conditions


# name: (what the observer wrote, the engine's arguments) -> KVOffloadServing
CONSUMERS: dict[str, tuple[str | None, list[str], tuple[str, str]]] = {
    "its model hits": (HITS, [d.MODEL], ("True", "Hitting")),
    "its model is silent": (
        document(*engines("Silent", "NoLookups"), *engines("Hitting", model="other", number=20)),
        [d.MODEL],
        ("False", "Silent"),
    ),
    "its engines read wrong blocks": (
        document(*wrong(), *engines("Silent", "NoLookups", model="other", number=20)),
        [d.MODEL],
        ("False", "WrongBlocks"),
    ),
    "another's engines read wrong blocks": (
        document(*engines("Hitting"), *wrong(model="other")),
        [d.MODEL],
        ("True", "Hitting"),
    ),
    "another's model is silent": (
        document(*engines("Hitting"), *engines("Silent", "NoLookups", model="other")),
        [d.MODEL],
        ("True", "Hitting"),
    ),
    "it serves under another name": (
        document(*engines("Hitting", model="chat")),
        [d.MODEL, "--served-model-name", "chat"],
        ("True", "Hitting"),
    ),
    "nobody has seen its model": (
        document(*engines("Hitting", model="other")),
        [d.MODEL],
        ("Unknown", "NotObserved"),
    ),
    "it stores": (document(*engines("Storing")), [d.MODEL], ("Unknown", "Storing")),
    "nothing is written": (None, [d.MODEL], ("Unknown", "Starting")),
}


@pytest.mark.parametrize("name", CONSUMERS)
def test_a_consumer_is_told_of_its_own_models(name: str) -> None:
    written, args, condition = CONSUMERS[name]
    got = consumer_of(tier_with(written), args=args)
    assert got["KVOffloadReady"] == ("True", "Wired")
    assert got["KVOffloadServing"] == condition


def test_hits_of_another_consumer_of_the_model_are_none_of_its_own() -> None:
    bad = tier_with(document(*engines("Failing")))
    for runs in (None, False):
        assert consumer_of(tier_with(HITS), runs=runs)["KVOffloadServing"] == (
            "Unknown",
            "Starting",
        )
        assert consumer_of(bad, runs=runs)["KVOffloadServing"] == ("False", "Failing")


# What the observer wrote of another engine of the same consumer -> KVOffloadServing
BESIDE_ONE_THAT_HITS = {
    "": ("Unknown", "NotObserved"),
    "Storing": ("Unknown", "Storing"),
    "Idle": ("Unknown", "Idle"),
    "Failing": ("False", "Failing"),
    "Hitting": ("True", "Hitting"),
}


@pytest.mark.parametrize("state", BESIDE_ONE_THAT_HITS)
def test_the_engine_that_is_worst_off_speaks_for_its_consumer(state: str) -> None:
    other = engines(state, model="Qwen/Qwen3-8B") if state else []
    second = d.engine(args=["Qwen/Qwen3-8B"])
    second["spec"]["forProvider"]["manifest"]["metadata"]["name"] = "second"
    required = d.requirements(tier_with(document(*engines("Hitting"), *other)))
    asked = {"desired": {"a": d.engine(), "b": second}, "required": required}
    there = observe(call(d.replica(), **asked))
    got = call(d.replica(), **asked, observed=there).conditions
    assert got["KVOffloadServing"] == BESIDE_ONE_THAT_HITS[state]


def test_hits_are_no_hits_of_a_wiring_that_the_cluster_does_not_have() -> None:
    asked = {"desired": {KEY: d.engine()}, "required": d.requirements(tier_with(HITS))}
    there = observe(call(d.replica(), **asked))
    bare = deepcopy(d.engine()["spec"]["forProvider"]["manifest"])
    counts = {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1}
    there[KEY]["status"]["atProvider"]["manifest"] = {**bare, "status": counts}
    there[KEY]["metadata"] |= {"generation": 1, "managedFields": [{"time": "2026-01-01T00:00:00Z"}]}
    written = {"type": "Synced", "status": "True", "reason": "ReconcileSuccess"}
    there[KEY]["status"]["conditions"].append({**written, "observedGeneration": 1})
    got = call(d.replica(), **asked, observed=there, now=1e12).conditions
    assert got["KVOffloadReady"] == ("False", "NotApplied")
    assert got["KVOffloadServing"] == ("Unknown", "Starting")


def test_hits_are_no_hits_of_an_engine_without_pods() -> None:
    asked = {"desired": {KEY: d.engine()}, "required": d.requirements(tier_with(HITS))}
    there = observe(call(d.replica(), **asked))
    manifest = there[KEY]["status"]["atProvider"]["manifest"]
    for status, said in (
        ({"readyReplicas": 1}, ("True", "Hitting")),
        ({}, ("Unknown", "Starting")),
        # The new pods crash: those of before, which may be unwired, run on.
        ({"replicas": 2, "updatedReplicas": 1, "readyReplicas": 1}, ("Unknown", "Starting")),
        ({"replicas": 2, "updatedReplicas": 1, "readyReplicas": 2}, ("True", "Hitting")),
        ({"replicas": 2, "updatedReplicas": 2, "readyReplicas": 1}, ("True", "Hitting")),
    ):
        manifest["status"] = status
        got = call(d.replica(), **asked, observed=there).conditions
        assert got["KVOffloadServing"] == said


# What a bare engine of a kind that counts no pods shows of itself -> KVOffloadServing
BARE: dict[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "nothing": ({}, ("True", "Hitting")),
    "ready": ({"status": {"conditions": [READY]}}, ("True", "Hitting")),
    "not ready": (
        {"status": {"conditions": [{**READY, "status": "False"}]}},
        ("Unknown", "Starting"),
    ),
    "that it is being deleted": (
        {
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"conditions": [READY]},
        },
        ("Unknown", "Starting"),
    ),
}


@pytest.mark.parametrize("name", BARE)
def test_hits_are_no_hits_of_a_bare_engine_that_is_not_ready(name: str) -> None:
    shows, said = BARE[name]
    document = test_other_kinds.engine("RayService", bare=True)
    tier = tier_with(HITS)
    first = test_other_kinds.run(document, {}, tier)
    key, there = test_other_kinds.KEY, observe(first)
    metadata = there[key]["metadata"] | shows.get("metadata", {})
    there[key] = {**there[key], "metadata": metadata, "status": shows.get("status", {})}
    got = test_other_kinds.run(document, there, tier).conditions
    assert (got["KVOffloadReady"], got["KVOffloadServing"]) == (("True", "Wired"), said)


@pytest.mark.parametrize("reason", ["ReconcileError", "ReconcilePaused"])
def test_hits_of_a_tier_that_core_does_not_reconcile_are_old(reason: str) -> None:
    for written, said in (
        (HITS, ("Unknown", "NotObserved")),
        (document(*engines("Storing")), ("Unknown", "NotObserved")),
        (document(*wrong()), ("False", "WrongBlocks")),
    ):
        tier = tier_with(written)
        asked = {"desired": {KEY: d.engine()}, "required": d.requirements(tier)}
        there = observe(call(d.replica(), **asked))
        synced = {"type": "Synced", "status": "False", "reason": reason}
        synced["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        tier["status"]["conditions"].append(synced)
        soon = call(d.replica(), **asked, observed=there, now=NEW_YEAR + 200)
        assert "does not reconcile" not in soon.messages["KVOffloadReady"]
        got = call(d.replica(), **asked, observed=there, now=NEW_YEAR + 301)
        assert got.conditions["KVOffloadReady"] == ("True", "Wired")
        assert got.conditions["KVOffloadServing"] == said
        assert (
            f"does not reconcile KVOffloadTier modelplane-system/chat ({reason})"
            in (got.messages["KVOffloadReady"])
        )


@pytest.mark.parametrize("reason", sorted(serving.REASONS))
def test_rows_of_a_tier_whose_observer_says_nothing_are_old(reason: str) -> None:
    tier = tier_with(HITS)
    tier["status"]["conditions"][-1] |= {"status": "Unknown", "reason": reason}
    status, said = consumer_of(tier)["KVOffloadServing"]
    if reason in ("NotObserved", "Starting", "ObserverNotReady", "NotApplied"):
        assert (status, said) == ("Unknown", reason)
    else:
        assert (status, said) == ("True", "Hitting")


def test_a_recorded_engine_is_told_of_its_own_namespace() -> None:
    elsewhere = Engine("team-b", "10.0.0.1", "vLLM", d.MODEL, Memory(state="Hitting"))
    tier = tier_with(document(elsewhere))
    asked: dict[str, Any] = {"desired": {KEY: d.engine()}, "required": d.requirements(tier)}
    there = observe(call(d.replica(), **asked))
    refused = d.refused_tier(**OBSERVE)
    refused["status"] |= {"serving": tier["status"]["serving"]}
    refused["status"]["conditions"].append(tier["status"]["conditions"][-1])
    asked["required"] = d.requirements(refused)
    got = call(d.replica(), **asked, observed=there).conditions
    assert got["KVOffloadServing"] == ("Unknown", "NotObserved")


def test_a_consumer_of_a_tier_without_observer_has_no_condition() -> None:
    assert "KVOffloadServing" not in consumer_of(d.ready_tier())


def test_a_consumer_that_is_wired_no_more_keeps_no_success() -> None:
    replica = d.replica()
    entry = {"type": "KVOffloadServing", "status": "True", "reason": "Hitting"}
    replica["status"] = {"conditions": [entry]}
    for annotations in ({}, {"modelplane.ai/kv-offload-tier": "chat"}):
        got = call(replica, desired={KEY: d.engine(annotations)}, required=d.requirements())
        assert got.conditions["KVOffloadServing"] == ("Unknown", "NotObserved")


def test_the_observer_changes_nothing_in_pods() -> None:
    plain, watched = (
        call(d.replica(), desired={KEY: d.engine()}, required=d.requirements(tier))
        for tier in (d.ready_tier(), tier_with(HITS))
    )
    assert plain.desired[KEY] == watched.desired[KEY]


# Composition ------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", goldens.every(), ids=lambda of: of.backend.name)
def test_every_backend_composes_an_observer(of: goldens.Goldens) -> None:
    for name in of.cases:
        tier = of.of(name)
        spec = {
            **tier.spec.dump(),
            "inferenceClusterRef": {"name": "gpu"},
            "observe": {},
        }
        plain = {key: value for key, value in spec.items() if key != "observe"}
        required = {**REQUIRED, **{f"needs/{n}": [doc] for n, doc in tier.needed.items()}}
        with_it = call({**d.tier(), "spec": spec}, required=required)
        without = call({**d.tier(), "spec": plain}, required=required)
        if not without.desired:
            continue
        added = with_it.desired.keys() - without.desired.keys()
        ports = BACKENDS[of.backend.name].metrics_ports(tier)
        own = {
            *("configmap-serving", "deployment-observer", "service-engines-default"),
            *("serviceaccount-observer", "role-observer", "rolebinding-observer"),
            *(["service-observed-parts"] if ports else []),
        }
        assert added - {"namespace"} == own
        changed = {key for key, made in without.desired.items() if with_it.desired[key] != made}
        policies = {key for key in changed if key.startswith("networkpolicy-")}
        assert bool(policies) == bool(ports)
        # The alert on an observer that is down.
        assert all(key.startswith("prometheusrule") for key in changed - policies)


def test_the_config_map_has_no_data_of_ours() -> None:
    made = call(d.tier(**OBSERVE), required=REQUIRED).desired["configmap-serving"]
    assert "data" not in made["spec"]["forProvider"]["manifest"]


def test_the_observer_may_write_one_config_map() -> None:
    made = call(d.tier(**OBSERVE), required=REQUIRED).desired
    role = made["role-observer"]["spec"]["forProvider"]["manifest"]
    name = made["configmap-serving"]["spec"]["forProvider"]["manifest"]["metadata"]["name"]
    assert role["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [name],
            "verbs": ["get", "patch"],
        }
    ]


def observer_of(**observe: Any) -> dict[str, Any]:
    """The configuration of a tier's observer."""
    made = call(d.tier(observe=observe), required=REQUIRED).desired["deployment-observer"]
    pod = made["spec"]["forProvider"]["manifest"]["spec"]["template"]["spec"]
    found: dict[str, Any] = json.loads(pod["containers"][0]["args"][0])
    return found


def test_a_canary_is_off_unless_asked_for() -> None:
    assert "canary" not in observer_of()
    assert observer_of(canary={})["canary"] == {"every": 1800, "tokens": 1024}
    own = {"everySeconds": 60, "promptTokens": 4096}
    assert observer_of(canary=own)["canary"] == {"every": 60, "tokens": 4096}


def test_words_of_the_canary_are_those_of_its_program() -> None:
    assert {"", *CANARY_WORDS} == serving.CANARY_WORDS
    assert serving.WRONG_BLOCKS == WRONG_BLOCKS


def test_a_backend_that_keeps_nothing_has_no_canary() -> None:
    spec = {"backend": "NIXL", "nixl": {}, "lmcache": None, "observe": {"canary": {}}}
    got = call(d.tier(**spec), required=REQUIRED)
    assert got.conditions["Accepted"][0] == "False"
    assert "spec.observe.canary: NIXL keeps no blocks" in got.messages["Accepted"]


MONITORED = {"monitoring": {"podMonitor": True, "alerts": True}}


def test_prometheus_reads_an_observer_with_a_canary() -> None:
    plain = call(d.tier(**OBSERVE, **MONITORED), required=REQUIRED).desired
    made = call(d.tier(observe={"canary": {}}, **MONITORED), required=REQUIRED).desired
    assert made.keys() - plain.keys() == {"podmonitor-observer"}
    spec = made["podmonitor-observer"]["spec"]["forProvider"]["manifest"]["spec"]
    assert [each["port"] for each in spec["podMetricsEndpoints"]] == ["probes"]
    labels = made["deployment-observer"]["spec"]["forProvider"]["manifest"]["spec"]["template"]
    assert spec["selector"]["matchLabels"].items() <= labels["metadata"]["labels"].items()

    def alerts(desired: dict[str, Any]) -> set[str]:
        rules = desired["prometheusrule"]["spec"]["forProvider"]["manifest"]["spec"]["groups"]
        return {rule.get("alert", "") for rule in rules[0]["rules"]}

    assert alerts(made) - alerts(plain) == {"KVOffloadWrongBlocks"}


def test_policies_that_hold_the_observer_let_prometheus_in() -> None:
    """Mooncake's is of all pods of the tier; an LMCache agent's is of agents alone."""
    for settings, is_admitted in (
        ({"backend": "Mooncake", "lmcache": None, "mooncake": {"store": {"sizeGiB": 8}}}, True),
        ({}, False),
    ):
        tier = d.tier(observe={"canary": {}}, **MONITORED, **settings)
        made = call(tier, required=REQUIRED).desired
        policies = [
            one["spec"]["forProvider"]["manifest"]["spec"]
            for key, one in made.items()
            if key.startswith("networkpolicy-")
        ]
        ports = {
            port["port"] for spec in policies for rule in spec["ingress"] for port in rule["ports"]
        }
        assert (8082 in ports) == is_admitted


def test_namespaces_of_engines_must_be_admitted() -> None:
    for namespace in ("kube-system", "elsewhere"):
        got = call(d.tier(observe={"namespaces": [namespace]}), required=REQUIRED)
        assert got.conditions["Accepted"][0] == "False"
        assert "spec.observe.namespaces[0]" in got.messages["Accepted"]

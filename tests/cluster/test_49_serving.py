"""Serving comes and goes with what the observer writes, and costs nothing while nothing changes."""

import time
from collections.abc import Iterator

import pytest

from tests.cluster.documents import AGENTS_NAMESPACE, FIRST, SYSTEM, deployment, tier
from tests.cluster.expect import Fleet
from tests.cluster.groups import Summary
from tests.cluster.observed import MODEL, write
from tests.cluster.steady import everything, until_settled, written

WATCHED = tier("watched", observe={})
QWEN = deployment("watched", "watched")
STEADY_SECONDS = 120
# Of the observer's seven Objects, with those of the tier.
MAX_TOKENS = 400


@pytest.fixture(scope="module", autouse=True)
def running(world: Fleet, summary: Summary) -> Iterator[None]:
    calls, tokens = world.calls(), world.tokens()
    with world.applied(WATCHED, QWEN):
        world.until_ready(WATCHED, limit=60)
        spent = world.calls() - calls, world.tokens() - tokens
        summary.note(f"tier with an observer: Ready after {spent[0]} calls, {spent[1]} tokens")
        assert spent[1] <= MAX_TOKENS
        world.until_ready(QWEN, limit=60)
        yield


def test_nothing_is_known_before_the_observer_has_written(world: Fleet) -> None:
    world.until_condition(WATCHED, "Serving", ("Unknown", "Starting"))
    world.until_condition(QWEN, "KVOffloadServing", ("Unknown", "Starting"), touching=True)


def test_hits_are_seen_on_the_tier_and_on_its_consumer(world: Fleet) -> None:
    began = time.monotonic()
    write(world, WATCHED, "Hitting", hits="25", used="50")
    world.until_condition(WATCHED, "Serving", ("True", "Hitting"))
    assert time.monotonic() - began < 10
    assert world.get(WATCHED)["status"]["serving"]["hits"] == "25%+"
    world.until_condition(QWEN, "KVOffloadServing", ("True", "Hitting"), touching=True)
    assert {"HITS", "USED"} <= world.api.columns(WATCHED["apiVersion"], WATCHED["kind"])


def test_a_provider_that_reconciles_leaves_what_the_observer_wrote(world: Fleet) -> None:
    (found,) = (
        o
        for o in world.objects(WATCHED)
        if o["spec"]["forProvider"]["manifest"]["kind"] == "ConfigMap"
    )
    world.touch(found)
    time.sleep(5)
    world.until_condition(WATCHED, "Serving", ("True", "Hitting"))


def test_two_steady_minutes_write_nothing(world: Fleet) -> None:
    until_settled(world)
    before = everything(world)
    time.sleep(STEADY_SECONDS)
    assert written(before, everything(world)) == {}


def test_a_silent_engine_is_named_where_people_look(world: Fleet) -> None:
    write(world, WATCHED, "Silent", "NoLookups", hits="0")
    world.until_condition(WATCHED, "Serving", ("False", "Silent"))
    assert "10.1.2.3" in world.message(WATCHED, "Serving")
    world.until_condition(QWEN, "KVOffloadServing", ("False", "Silent"), touching=True)
    assert MODEL in world.message(QWEN, "KVOffloadServing")
    assert world.condition(WATCHED, "Ready")[0] == world.condition(QWEN, "Ready")[0] == "True"


def test_another_models_fault_is_not_the_consumers(world: Fleet) -> None:
    write(world, WATCHED, "Silent", "NoLookups", model="other")
    world.until_condition(WATCHED, "Serving", ("False", "Silent"))
    wanted = ("Unknown", "NotObserved")
    world.until_condition(QWEN, "KVOffloadServing", wanted, touching=True)


def test_an_observer_that_is_gone_says_nothing(world: Fleet) -> None:
    write(world, WATCHED, "Hitting")
    world.until_condition(WATCHED, "Serving", ("True", "Hitting"))
    api = world.rig.workload(FIRST).api
    cordoned = api.list("v1", "Node")
    for node in cordoned:
        api.patch(node, {"spec": {"unschedulable": True}})
    try:
        for pod in world.pods(FIRST, AGENTS_NAMESPACE, "app.kubernetes.io/component=observer"):
            api.delete(pod, at_once=True)
        time.sleep(20)
        assert world.condition(WATCHED, "Serving") == ("True", "Hitting")  # a pod may be replaced
        world.until_condition(WATCHED, "Serving", ("Unknown", "ObserverNotReady"), limit=90)
    finally:
        for node in cordoned:
            api.patch(node, {"spec": {"unschedulable": None}})
    world.until_condition(WATCHED, "Serving", ("True", "Hitting"), limit=60)


def test_the_observer_is_taken_away_without_a_trace(world: Fleet) -> None:
    plain = {**WATCHED, "spec": {k: v for k, v in WATCHED["spec"].items() if k != "observe"}}
    world.api.apply(plain)
    world.until_condition(WATCHED, "Serving", ("Unknown", "NotObserved"))
    api = world.rig.workload(FIRST).api

    def gone() -> bool:
        kinds = ("Deployment", "Service", "ConfigMap")
        left = [name for name in world.remote(FIRST) if "kv-watched-" in name]
        roles = api.list("rbac.authorization.k8s.io/v1", "Role", AGENTS_NAMESPACE)
        return not [n for n in left if n.startswith(kinds) and "observer" in n] and not roles

    world.rig.until(gone, "nothing of the observer is left", 60)
    assert SYSTEM  # the tier itself stays
    world.until_ready(WATCHED)

"""A tier becomes Ready for the right reason, on the right nodes of the right cluster."""

import time
from collections.abc import Iterator

import pytest

from tests.cluster.documents import AGENTS_NAMESPACE, FIRST, SECOND, changed, in_process_tier, tier
from tests.cluster.expect import Fleet, identities
from tests.cluster.groups import Summary
from tests.cluster.rig.nodes import gpu_node

# Calls of the function, and circuit breaker tokens, from apply to Ready. A ceiling, not a target.
MAX_CALLS = 40
MAX_TOKENS = 200
CHAT = tier("chat")


@pytest.fixture(scope="module")
def chat(world: Fleet, summary: Summary) -> Iterator[dict]:
    began, calls, tokens = time.monotonic(), world.calls(), world.tokens()
    with world.applied(CHAT):
        ready = world.until_ready(CHAT)
        seconds = time.monotonic() - began
        spent = world.calls() - calls, world.tokens() - tokens
        summary.note(
            f"LMCache NodeServer: Ready after {seconds:.1f} s, {spent[0]} calls, {spent[1]} tokens"
        )
        assert spent[0] <= MAX_CALLS
        assert spent[1] <= MAX_TOKENS
        yield ready


def test_conditions_of_a_ready_tier(world: Fleet, chat: dict):
    assert world.condition(CHAT, "Accepted") == ("True", "Valid")
    assert world.condition(CHAT, "ClusterResolved") == ("True", "Resolved")
    assert world.condition(CHAT, "ControlPlaneReady") == ("True", "NoneNeeded")
    assert world.condition(CHAT, "AgentsReady") == ("True", "Ready")
    assert world.condition(CHAT, "Ready") == ("True", "Available")
    assert world.condition(CHAT, "Synced")[0] == "True"


def test_the_status_counts_agents_and_capacity(world: Fleet, chat: dict):
    status = world.get(CHAT)["status"]
    assert status["agents"] == {"desired": 3, "ready": 3, "summary": "3/3"}
    assert status["capacityGiB"] == 3 * 64
    assert status["cluster"] == FIRST


def test_agents_run_on_the_gpu_nodes_and_on_no_other(world: Fleet, chat: dict):
    nodes = sorted(pod["spec"]["nodeName"] for pod in world.agents(FIRST, CHAT))
    assert nodes == [f"{FIRST}-gpu-{n}" for n in range(3)]


def test_other_cluster_has_no_object_of_the_tier(world: Fleet, chat: dict):
    assert world.agents(SECOND) == []
    assert world.remote(SECOND) == {}


def test_tier_composes_few_objects(world: Fleet, chat: dict):
    assert len(world.objects(CHAT)) <= 8
    watched = [o for o in world.objects(CHAT) if o["spec"].get("watch")]
    assert 1 <= len(watched) <= 3


def test_new_node_gets_an_agent_and_is_counted(world: Fleet, chat: dict):
    rig = world.rig
    rig.apply_nodes(rig.workload(FIRST), [gpu_node(f"{FIRST}-gpu-late")])
    rig.until(lambda: len(world.agents(FIRST, CHAT)) == 4, "an agent is on the new node")
    rig.until(
        lambda: world.get(CHAT)["status"]["agents"]["summary"] == "4/4",
        "the tier counts it",
        45,
        explain=lambda: world.explain(CHAT),
    )
    world.lose_node(FIRST, gpu_node(f"{FIRST}-gpu-late"))
    rig.until(lambda: world.get(CHAT)["status"]["agents"]["summary"] == "3/3", "and its end", 45)


def test_tier_that_fits_no_node_is_not_ready(world: Fleet):
    large = changed(tier("large"), "spec.lmcache.l1.sizeGiB", 2000)
    with world.applied(large):
        world.until_condition(large, "AgentsReady", ("False", "Starting"))
        world.rig.until(
            lambda: "0 of 3 agents" in world.message(large, "AgentsReady"),
            "it counts the agents",
            explain=lambda: world.explain(large),
        )
        assert world.condition(large, "Ready")[0] == "False"


def test_second_cluster_gets_its_own_tier(world: Fleet, chat: dict):
    other = tier("chat-eks", SECOND)
    with world.applied(other):
        world.until_ready(other)
        nodes = sorted(pod["spec"]["nodeName"] for pod in world.agents(SECOND))
        assert nodes == [f"{SECOND}-gpu-{n}" for n in range(3)]
        assert len(world.agents(FIRST, CHAT)) == 3
    world.until_empty(SECOND)


def test_a_tier_of_a_cluster_that_does_not_exist_waits_for_it(world: Fleet):
    lost = tier("lost", "nowhere")
    with world.applied(lost):
        world.until_condition(lost, "ClusterResolved", ("False", "ClusterNotFound"))
        assert "spec.inferenceClusterRef.name" in world.message(lost, "ClusterResolved")
        assert world.objects(lost) == []


def test_fleet_tier_has_a_child_on_every_matching_cluster(world: Fleet):
    everywhere = tier("everywhere")
    del everywhere["spec"]["inferenceClusterRef"]
    everywhere["spec"]["clusterSelector"] = {"matchLabels": {"accelerator": "h200"}}
    with world.applied(everywhere):
        world.until_ready(everywhere, limit=60)
        for cluster in (FIRST, SECOND):
            assert any(name.startswith("DaemonSet") for name in world.remote(cluster))
    world.until_empty(SECOND)


def test_an_in_process_tier_has_no_agents_and_is_ready_at_once(world: Fleet):
    inside = in_process_tier("inside")
    with world.applied(inside):
        world.until_ready(inside)
        assert world.condition(inside, "AgentsReady") == ("True", "NoneNeeded")


def test_function_check_becomes_a_condition_until_fixed(world: Fleet, summary: Summary):
    """An image without a version: the schema cannot know, the function refuses in one reconcile."""
    good = tier("mended")
    bad = changed(good, "spec.image", {"tag": "latest"})
    with world.applied(bad):
        world.until_condition(bad, "Accepted", ("False", "Invalid"))
        assert "spec.image" in world.message(bad, "Accepted")
        assert world.objects(bad) == []
        calls = world.calls()
        time.sleep(5)
        assert world.calls() - calls <= 3
        world.api.apply(good)
        world.until_ready(good)
        assert world.condition(good, "Accepted") == ("True", "Valid")


def test_invalid_edit_removes_no_running_object(world: Fleet, chat: dict):
    before = identities(world.agents(FIRST, CHAT))
    world.api.apply(changed(CHAT, "spec.image", {"tag": "latest"}))
    world.until_condition(CHAT, "Accepted", ("False", "Invalid"))
    assert identities(world.agents(FIRST, CHAT)) == before
    # Core leaves it as it was: whoever reads the refused spec must not go by it alone.
    assert world.condition(CHAT, "Ready")[0] == "True"
    world.api.apply(CHAT)
    world.until_condition(CHAT, "Accepted", ("True", "Valid"))
    world.until_ready(CHAT)
    assert identities(world.agents(FIRST, CHAT)) == before


def test_agent_namespace_outlives_the_tiers(world: Fleet):
    namespace = world.rig.workload(FIRST).api.get("v1", "Namespace", AGENTS_NAMESPACE)
    assert namespace["status"]["phase"] == "Active"

"""Nodes on which no agent runs: the tier says what keeps agents away, and holds consumers back."""

import time
from collections.abc import Iterator

import pytest

from tests.cluster.documents import FIRST, GPU_NODES, changed, deployment, tier
from tests.cluster.expect import Fleet
from tests.cluster.rig.kube import Manifest

# The rig's GPU nodes are tainted nvidia.com/gpu, and carry no label `pool`.
TAINTED = changed(tier("tainted"), "spec.nodes", {"selector": GPU_NODES, "tolerations": []})
UNLABELLED = changed(tier("unlabelled"), "spec.nodes.selector", {"pool": "h200"})
NO_CLASS = changed(tier("no-class"), "spec.gpuVisibility.runtimeClass.name", "absent")
TIERS = (TAINTED, UNLABELLED, NO_CLASS)
CONSUMERS = {
    t["metadata"]["name"]: deployment(f"on-{t['metadata']['name']}", t["metadata"]["name"])
    for t in TIERS
}
NODES = [f"{FIRST}-gpu-{n}" for n in range(3)]


@pytest.fixture(scope="module", autouse=True)
def there(world: Fleet) -> Iterator[None]:
    with world.applied(*TIERS, *CONSUMERS.values()):
        yield
        for document in CONSUMERS.values():  # at once; `applied` waits for each
            world.api.delete(document)


def consumer(of: Manifest) -> Manifest:
    return CONSUMERS[of["metadata"]["name"]]


def is_held_back(world: Fleet, of: Manifest) -> None:
    """Required: neither the tier nor its consumer is Ready, and no engine pod is made."""
    document = consumer(of)
    world.until_condition(document, "KVOffloadReady", ("False", "TierNotReady"))
    assert world.condition(of, "Ready")[0] == "False"
    assert world.condition(document, "Ready")[0] == "False"
    name = document["metadata"]["name"]
    assert [
        key for key in world.remote(FIRST) if key.startswith(f"Deployment default/{name}")
    ] == []
    assert world.agents(FIRST, of) == []


def is_mended(world: Fleet, of: Manifest) -> None:
    world.until_ready(of, limit=60)
    world.until_ready(consumer(of), limit=60)
    assert world.condition(consumer(of), "KVOffloadReady") == ("True", "Wired")
    assert len(world.agents(FIRST, of)) == 3


def label_nodes(world: Fleet, value: str | None) -> None:
    for name in NODES:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        world.rig.workload(FIRST).api.patch(node, {"metadata": {"labels": {"pool": value}}})


def test_untolerated_taint_keeps_the_tier_unready(world: Fleet):
    world.until_condition(TAINTED, "AgentsReady", ("False", "NoMatchingNodes"))
    message = world.message(TAINTED, "AgentsReady")
    assert "nvidia.com/gpu.present=true" in message
    assert "spec.nodes.tolerations (none)" in message
    is_held_back(world, TAINTED)
    world.api.apply(tier("tainted"))
    is_mended(world, TAINTED)


def test_selector_without_nodes_keeps_the_tier_unready(world: Fleet):
    world.until_condition(UNLABELLED, "AgentsReady", ("False", "NoMatchingNodes"))
    assert "pool=h200" in world.message(UNLABELLED, "AgentsReady")
    is_held_back(world, UNLABELLED)
    label_nodes(world, "h200")
    is_mended(world, UNLABELLED)


def test_pods_refused_by_the_api_server_keep_the_tier_unready(world: Fleet):
    """The cluster has no RuntimeClass of that name: no pod is ever made, which only an event of the
    cluster says; the tier counts, and when its time is over names the usual causes.
    """
    world.until_condition(NO_CLASS, "AgentsReady", ("False", "Starting"))
    world.rig.until(
        lambda: "0 of 3 agents" in world.message(NO_CLASS, "AgentsReady"),
        "it counts the agents",
        explain=lambda: world.explain(NO_CLASS),
    )
    said = [e["message"] for e in world.rig.workload(FIRST).api.list("v1", "Event")]
    assert any('RuntimeClass "absent" not found' in message for message in said)
    is_held_back(world, NO_CLASS)
    put_the_clock_forward(world)
    world.until_condition(NO_CLASS, "AgentsReady", ("False", "StartTimedOut"))
    assert "RuntimeClass" in world.message(NO_CLASS, "AgentsReady")
    calls = world.calls()
    while world.calls() < calls + 2:  # it stays so, though core counts its time anew
        world.touch(NO_CLASS)
        time.sleep(1)
    assert world.condition(NO_CLASS, "AgentsReady") == ("False", "StartTimedOut")
    world.api.apply(tier("no-class"))
    is_mended(world, NO_CLASS)


def put_the_clock_forward(world: Fleet) -> None:
    """As if the tier had been starting for a day."""
    conditions = [
        {**each, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for each in world.get(NO_CLASS)["status"]["conditions"]
    ]
    world.api.patch(NO_CLASS, {"status": {"conditions": conditions}}, "status")
    world.touch(NO_CLASS)


def test_tier_is_unready_when_nodes_no_longer_match(world: Fleet):
    """Their label goes, and so do the agents: the tier is not Ready, and what runs stays wired."""
    document = consumer(UNLABELLED)
    pods = engines(world, document)
    label_nodes(world, None)
    world.until_condition(UNLABELLED, "AgentsReady", ("False", "NoMatchingNodes"))
    world.until_condition(document, "KVOffloadReady", ("False", "TierNotReady"), touching=True)
    assert pods and pods <= engines(world, document)


def engines(world: Fleet, of: Manifest) -> set[str]:
    """The UIDs of a consumer's pods."""
    stem = f"{of['metadata']['name']}-"
    found = (p["metadata"] for p in world.pods(FIRST, "default"))
    return {p["uid"] for p in found if p["name"].startswith(stem)}

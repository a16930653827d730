"""A deployment is held back until its tier is Ready, then created wired, and stays wired."""

import json
import time
from collections.abc import Iterator

import pytest

from tests.cluster.documents import (
    AGENTS_NAMESPACE,
    FIRST,
    SECOND,
    USAGE,
    changed,
    deployment,
    gang,
    in_process_tier,
    tier,
)
from tests.cluster.expect import Fleet, engine, flag, identities
from tests.cluster.groups import Summary
from tests.cluster.rig.fleet import SYSTEM
from tests.cluster.rig.kube import Refused, is_true

# A name of its own: what another group's tier left on the cluster goes up to 30 s later.
CHAT = tier("talk")
QWEN = deployment("qwen", "talk")
REMOTE_QWEN = "Deployment default/"


def remote_deployment(world: Fleet, name: str, cluster: str = FIRST) -> dict:
    """The remote Deployment of a ModelDeployment, or {}."""
    return next(
        (m for key, m in world.remote(cluster).items() if key.startswith(f"{REMOTE_QWEN}{name}-")),
        {},
    )


def engine_pods(world: Fleet, name: str, cluster: str = FIRST) -> list[dict]:
    pods = world.pods(cluster, "default")
    return [p for p in pods if p["metadata"]["name"].startswith(f"{name}-")]


@pytest.fixture(scope="module")
def held_then_wired(world: Fleet, summary: Summary) -> Iterator[dict]:
    """The deployment is applied before its tier exists; the story is told in order."""
    story: dict = {}
    world.api.apply(QWEN)
    try:
        world.until_condition(QWEN, "KVOffloadReady", ("False", "TierNotFound"))
        story["held"] = world.get(QWEN), world.keys(QWEN), remote_deployment(world, "qwen")
        with world.applied(CHAT):
            world.until_ready(CHAT)
            ready_at = time.monotonic()
            world.until_condition(QWEN, "KVOffloadReady", ("True", "Wired"))
            story["woke_after"] = time.monotonic() - ready_at
            world.until_ready(QWEN)
            summary.note(f"held back, woke {story['woke_after']:.1f} s after its tier was Ready")
            yield story
            world.remove(QWEN)
    finally:
        world.remove(QWEN)


def test_deployment_without_its_tier_creates_nothing(held_then_wired: dict):
    composite, keys, remote = held_then_wired["held"]
    assert remote == {}
    assert not any(key.startswith("deployment") for key in keys)
    assert not is_true(composite, "Ready")
    assert "talk" in str(composite["status"]["conditions"])


def test_deployment_starts_within_15_seconds_of_its_tier(held_then_wired: dict):
    assert held_then_wired["woke_after"] <= 15


def test_pods_of_the_deployment_are_wired(world: Fleet, held_then_wired: dict):
    container = engine(remote_deployment(world, "qwen"))
    assert container["args"][:2] == ["--model=Qwen/Qwen3-32B", "--port=8000"]
    config = json.loads(flag(container, "--kv-transfer-config"))
    assert config["kv_connector"] == "LMCacheMPConnector"
    assert config["kv_load_failure_policy"] == "recompute"
    host = config["kv_connector_extra_config"]["lmcache.mp.host"]
    service, namespace = host.removeprefix("tcp://").split(".")[:2]
    assert f"Service {namespace}/{service}" in world.remote(FIRST)
    assert namespace == AGENTS_NAMESPACE


def test_pods_run_on_agent_nodes_and_match_network_policies(world: Fleet, held_then_wired: dict):
    pods = engine_pods(world, "qwen")
    assert pods
    agents = {pod["spec"]["nodeName"] for pod in world.agents(FIRST)}
    policies = [m for k, m in world.remote(FIRST).items() if k.startswith("NetworkPolicy")]
    selected = [
        peer["podSelector"]["matchLabels"]
        for policy in policies
        for rule in policy["spec"]["ingress"]
        for peer in rule["from"]
        if "podSelector" in peer
    ]
    assert selected
    for pod in pods:
        assert pod["spec"]["nodeName"] in agents
        labels = pod["metadata"]["labels"].items()
        assert any(wanted.items() <= labels for wanted in selected)


def test_tier_in_use_says_so_and_cannot_be_deleted(world: Fleet, held_then_wired: dict):
    rig = world.rig
    rig.until(
        lambda: world.get(CHAT)["status"].get("consumers") == "1+",
        "the tier is in use",
        45,
        explain=lambda: f"{world.get(CHAT)['status']} {world.api.list(USAGE, 'Usage')}",
    )
    metadata = CHAT["metadata"]
    label = f"modelplane.ai/kv-offload-used-tier={metadata['namespace']}.{metadata['name']}"
    (usage,) = world.api.list(USAGE, "Usage", labels=label)
    assert "/qwen offloads" in usage["spec"]["reason"]
    with pytest.raises(Refused, match="in-use by"):
        world.api.delete(CHAT)


def test_tier_edit_rolls_agents_one_by_one_and_no_engine(world: Fleet, held_then_wired: dict):
    rig = world.rig
    before = {p["metadata"]["uid"] for p in world.agents(FIRST)}
    engines = identities(engine_pods(world, "qwen"))
    fewest = []

    def rolled() -> bool:
        agents = world.agents(FIRST)
        fewest.append(sum(is_true(p, "Ready") for p in agents))
        now = {p["metadata"]["uid"] for p in agents if is_true(p, "Ready")}
        return len(now) == 3 and not now & before

    world.api.apply(changed(CHAT, "spec.lmcache.cpuWorkers", 5))
    rig.until(rolled, "every agent is new", 60, every=0.02, explain=lambda: world.explain(CHAT))
    assert min(fewest) >= 2
    world.until_ready(CHAT)
    assert identities(engine_pods(world, "qwen")) == engines
    world.api.apply(CHAT)
    world.until_ready(CHAT)


def test_policy_off_creates_the_deployment_unwired(world: Fleet, held_then_wired: dict):
    plain = deployment("plain", "talk", policy="Off", model="other/model")
    with world.applied(plain):
        world.until_ready(plain)
        assert world.condition(plain, "KVOffloadReady") == ("False", "TurnedOff")
        assert flag(engine(remote_deployment(world, "plain")), "--kv-transfer-config") == ""


def test_deployment_turned_off_releases_its_tier_and_runs_on(world: Fleet, held_then_wired: dict):
    """Core keeps a composed Usage that is deleted until what its `by` names is gone."""
    leaves = deployment("leaves", "talk", model="some/leaves")

    def holding() -> list[str]:
        usages = world.api.list(USAGE, "Usage", "team-a")
        return [u["metadata"]["name"] for u in usages if "leaves" in u["spec"]["reason"]]

    with world.applied(leaves):
        world.until_condition(leaves, "KVOffloadReady", ("True", "Wired"), limit=60)
        world.until_ready(leaves)
        world.rig.until(lambda: len(holding()) == 1, "it holds its tier")
        uid = remote_deployment(world, "leaves")["metadata"]["uid"]
        world.api.apply(deployment("leaves", "talk", policy="Off", model="some/leaves"))
        world.until_condition(leaves, "KVOffloadReady", ("False", "TurnedOff"))
        world.rig.until(lambda: not holding(), "it holds nothing", 60)
        assert remote_deployment(world, "leaves")["metadata"]["uid"] == uid


def test_optional_deployment_starts_without_a_tier(world: Fleet):
    hasty = deployment("hasty", "not-there", policy="Optional", model="some/model")
    with world.applied(hasty):
        world.until_ready(hasty)
        assert world.condition(hasty, "KVOffloadReady")[0] == "False"
        assert flag(engine(remote_deployment(world, "hasty")), "--kv-transfer-config") == ""


def test_tier_of_another_cluster_is_not_used(world: Fleet, held_then_wired: dict):
    abroad = deployment("abroad", "talk", cluster=SECOND, model="some/model")
    with world.applied(abroad):
        world.until_condition(abroad, "KVOffloadReady", ("False", "ClusterMismatch"))
        assert FIRST in world.message(abroad, "KVOffloadReady")
        assert remote_deployment(world, "abroad", SECOND) == {}


def test_a_namespace_that_is_not_allowed_is_held_back(world: Fleet):
    closed = changed(tier("closed"), "spec.allowedNamespaces", {"from": "Names", "names": ["b"]})
    outsider = deployment("outsider", "closed", model="some/model")
    with world.applied(closed, outsider):
        world.until_condition(outsider, "KVOffloadReady", ("False", "NamespaceNotAllowed"))
        assert remote_deployment(world, "outsider") == {}


def test_user_args_that_conflict_are_refused_and_named(world: Fleet, held_then_wired: dict):
    path = "spec.template.spec.engines.0.members.0.template.spec.containers.0.args"
    own = changed(deployment("own", "talk"), path, ["--model=m", "--kv-offloading-size=64"])
    with world.applied(own):
        world.until_condition(own, "KVOffloadReady", ("False", "ConnectorConflict"))
        assert "--kv-offloading-size" in world.message(own, "KVOffloadReady")
        assert remote_deployment(world, "own") == {}


def test_a_gang_is_refused_by_node_agents_and_wired_in_process(world: Fleet):
    """A LeaderWorkerSet with its real controller."""
    inside = in_process_tier("inside")
    group = gang("gang", "inside")
    with world.applied(inside, group):
        world.until_ready(group)
        world.until_condition(group, "KVOffloadReady", ("True", "Wired"))
        pods = engine_pods(world, "gang")
        assert len(pods) == 2
        leader = next(p for p in pods if flag(engine(p), "--kv-transfer-config"))
        config = json.loads(flag(engine(leader), "--kv-transfer-config"))
        assert config["kv_connector"] == "LMCacheConnectorV1"
        names = [{e["name"] for e in engine(p)["env"]} for p in pods]
        assert all("PYTHONHASHSEED" in each for each in names)


def test_deletion_empties_the_workload_cluster(world: Fleet, held_then_wired: dict):
    world.remove(QWEN)
    world.remove(CHAT)
    for cluster in (FIRST, SECOND):
        world.until_empty(cluster)
        assert world.remote(cluster) == {}
    assert world.api.list(USAGE, "Usage", SYSTEM) == []

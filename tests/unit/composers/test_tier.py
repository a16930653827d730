"""A tier on one cluster, on a fleet, declared inline, and what is wrong with one."""

from typing import Any

import pytest

from tests.unit.composers import documents as d
from tests.unit.composers.calls import READY, call, observe

CLUSTER_CONDITIONS = ("Accepted", "ClusterResolved", "ControlPlaneReady", "AgentsReady")


def required(**more: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return {"cluster": [d.cluster()], "usages": [], **more}


def agents(seen: dict[str, Any], desired: int, ready: int) -> dict[str, Any]:
    """The observed resources with the DaemonSet's status as the cluster reports it."""
    counts = {"desiredNumberScheduled": desired, "numberReady": ready}
    status = "True" if desired == ready else "False"
    seen["daemonset-agent"]["status"] = {
        "conditions": [{**READY, "status": status}],
        "atProvider": {"manifest": {"status": counts}},
    }
    return seen


# name: (required, conditions, is anything composed?)
CLUSTERS = {
    "unresolved": ({}, ("Unknown", "Resolving"), False),
    "absent": (required(cluster=[]), ("False", "ClusterNotFound"), False),
    "without a ProviderConfig": (
        required(cluster=[d.cluster(provider_config=None)]),
        ("False", "WaitingForProviderConfig"),
        False,
    ),
    "there": (required(), ("True", "Resolved"), True),
}


@pytest.mark.parametrize("name", CLUSTERS)
def test_the_cluster_of_a_new_tier(name: str) -> None:
    given, condition, composed = CLUSTERS[name]
    got = call(d.tier(), required=given)
    assert tuple(got.conditions) == CLUSTER_CONDITIONS
    assert got.conditions["ClusterResolved"] == condition
    assert got.conditions["Accepted"] == ("True", "Valid")
    assert bool(got.desired) == composed
    assert (got.composite_ready, got.ttl, got.fatals) == ("FALSE", 10, [])


@pytest.mark.parametrize("name", ["unresolved", "absent", "without a ProviderConfig"])
def test_what_runs_is_kept_when_the_cluster_cannot_be_read(name: str) -> None:
    first = call(d.tier(), required=required())
    got = call(d.tier(), required=CLUSTERS[name][0], observed=observe(first))
    assert got.desired == first.desired
    assert got.conditions["ClusterResolved"] == CLUSTERS[name][1]


# (nodes desired, ready) -> (AgentsReady, composite's flag, ttl, status.agents, capacity)
ROLLOUTS = {
    (0, 0): (("True", "NoMatchingNodes"), "TRUE", 300, "0/0", 0),
    (3, 1): (("False", "Starting"), "FALSE", 10, "1/3", 200),
    (3, 3): (("True", "Ready"), "TRUE", 300, "3/3", 600),
}


@pytest.mark.parametrize("nodes", ROLLOUTS, ids=str)
def test_agents(nodes: tuple[int, int]) -> None:
    condition, flag, ttl, summary, capacity = ROLLOUTS[nodes]
    first = call(d.tier(), required=required())
    got = call(d.tier(), required=required(), observed=agents(observe(first), *nodes))
    assert got.conditions["AgentsReady"] == condition
    assert got.conditions["ControlPlaneReady"] == ("True", "NoneNeeded")
    assert (got.composite_ready, got.ttl) == (flag, ttl)
    assert got.status["agents"]["summary"] == summary
    assert got.status["capacityGiB"] == capacity
    assert got.desired == first.desired


def test_few_objects_and_few_watches() -> None:
    got = call(d.tier(), required=required())
    assert len(got.desired) <= 5
    assert [k for k, v in got.desired.items() if v["spec"].get("watch")] == ["daemonset-agent"]
    kept = [
        k
        for k, v in got.desired.items()
        if "Delete" not in v["spec"].get("managementPolicies", ["Delete"])
    ]
    assert kept == ["namespace"]


INVALID = {
    "unknown backend": ({"backend": "Nope"}, "spec.backend"),
    "no cluster": ({"inferenceClusterRef": None}, "inferenceClusterRef and clusterSelector"),
    "both": ({"clusterSelector": {"matchLabels": {}}}, "inferenceClusterRef and clusterSelector"),
    "its object missing": ({"lmcache": None}, "lmcache must be set when backend is LMCache"),
    "absurd size": ({"lmcache": {"l1": {"sizeGiB": 0}}}, "spec.lmcache.l1.sizeGiB"),
    "misspelt": ({"lmcache": {"l1": {"sizeGib": 1}}}, "sizeGiB"),
    "odd chunk": (
        {"lmcache": {"l1": {"sizeGiB": 1}, "chunkTokens": 100}},
        "spec.lmcache.chunkTokens",
    ),
}


@pytest.mark.parametrize("name", INVALID)
@pytest.mark.parametrize("runs", [False, True], ids=["new", "running"])
def test_an_invalid_tier_composes_nothing_and_removes_nothing(name: str, runs: bool) -> None:
    spec, said = INVALID[name]
    observed = observe(call(d.tier(), required=required())) if runs else {}
    got = call(d.tier(**spec), required=required(), observed=observed)
    assert got.conditions["Accepted"] == ("False", "Invalid")
    assert said in got.messages["Accepted"]
    # A fatal makes core keep what runs; without anything to keep the condition is enough.
    assert (bool(got.fatals), got.desired, got.composite_ready) == (runs, {}, "FALSE")


def test_all_problems_are_said_at_once() -> None:
    spec = {"lmcache": {"l1": {"sizeGiB": -1}, "chunkTokens": 7}, "startupTimeoutSeconds": 1}
    message = call(d.tier(**spec), required=required()).messages["Accepted"]
    for path in ("spec.lmcache.l1.sizeGiB", "spec.lmcache.chunkTokens", "startupTimeoutSeconds"):
        assert path in message


def test_used_by_lists_consumers_grouped_by_identity() -> None:
    def usage(name: str, identity: str) -> dict[str, Any]:
        shares = f'[["/mnt/models","{identity}",true]]'
        return {
            "kind": "Usage",
            "metadata": {
                "namespace": "team-a",
                "annotations": {"modelplane.ai/kv-offload-shares": shares},
            },
            "spec": {"by": {"kind": "ModelReplica", "resourceRef": {"name": name}}},
        }

    usages = [usage("b", "bbb"), usage("c", "aaa"), usage("a", "bbb")]
    got = call(d.tier(), required=required(usages=usages))
    who = [(u["identity"], u["name"]) for u in got.status["usedBy"]]
    assert who == [("aaa", "c"), ("bbb", "a"), ("bbb", "b")]
    assert got.status["consumers"] == "3"


FLEET = {"inferenceClusterRef": None, "clusterSelector": {"matchLabels": {"fleet": "prod"}}}


def test_a_fleet_stamps_one_child_per_cluster() -> None:
    clusters = [d.cluster("us"), d.cluster("eu")]
    got = call(d.tier(**FLEET), required={"clusters": clusters, "usages": []})
    assert sorted(got.desired) == ["tier-eu", "tier-us"]
    child = got.desired["tier-eu"]
    assert child["spec"] == d.tier(inferenceClusterRef={"name": "eu"})["spec"]
    assert child["metadata"]["labels"] == {"modelplane.ai/kv-offload-fleet": "chat"}
    assert got.requirements["clusters"]["labels"] == {"fleet": "prod"}
    assert (got.composite_ready, got.ttl) == ("FALSE", 10)
    again = call(
        d.tier(**FLEET),
        required={"clusters": clusters, "usages": []},
        observed=observe(got),
    )
    assert (again.composite_ready, again.ttl) == ("TRUE", 300)
    assert again.status["cluster"] == "2/2 clusters"


def fleet_usage(child: str) -> dict[str, Any]:
    value = f"modelplane-system/{child}"
    return {"metadata": {"annotations": {"modelplane.ai/kv-offload-used-tier": value}}}


# What is left of a fleet whose clusters "eu" and "us" are there, when "us" no longer matches.
SHRINKING = {
    "nobody uses it": ([], ["tier-eu"]),
    "in use": ([fleet_usage("composed-tier-us")], ["tier-eu", "tier-us"]),
    "unresolved": (None, ["tier-eu", "tier-us"]),
}


@pytest.mark.parametrize("name", SHRINKING)
def test_a_child_in_use_stays(name: str) -> None:
    usages, left = SHRINKING[name]
    both = {"clusters": [d.cluster("us"), d.cluster("eu")], "usages": []}
    observed = observe(call(d.tier(**FLEET), required=both))
    given = {} if usages is None else {"clusters": [d.cluster("eu")], "usages": usages}
    got = call(d.tier(**FLEET), required=given, observed=observed)
    assert sorted(got.desired) == left


def inference_cluster(**spec: Any) -> dict[str, Any]:
    existing = {"source": "Existing", "existing": {"secretRef": {"name": "kubeconfig-gpu"}}}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": "gpu"},
        "spec": {"cluster": existing, **spec},
    }


def test_a_standalone_cluster_gets_its_provider_config_and_its_tiers() -> None:
    tier = {"name": "chat", "backend": "LMCache", "lmcache": {"l1": {"sizeGiB": 10}}}
    got = call(inference_cluster(kvOffloadTiers=[tier]), given=d.COMPOSE)
    assert got.desired["clusterproviderconfig"]["spec"]["credentials"] == {
        "source": "Secret",
        "secretRef": {
            "namespace": "modelplane-system",
            "name": "kubeconfig-gpu",
            "key": "kubeconfig",
        },
    }
    child = got.desired["tier-chat"]
    assert child["metadata"]["namespace"] == "modelplane-system"
    assert child["metadata"]["labels"] == {"modelplane.ai/kv-offload-fleet": "chat"}
    assert child["spec"] == {
        "backend": "LMCache",
        "lmcache": {"l1": {"sizeGiB": 10}},
        "inferenceClusterRef": {"name": "gpu"},
    }
    assert got.status["providerConfigRef"] == {"name": "gpu"}


def test_beside_modelplane_a_cluster_gets_conditions_only() -> None:
    got = call(inference_cluster(), required={"tiers": [d.ready_tier(), d.unready_tier("slow")]})
    assert (got.desired, got.status) == ({}, {})
    assert got.conditions == {"KVOffloadTiersReady": ("False", "Starting")}


def deployment(**settings: Any) -> dict[str, Any]:
    container = {"name": "engine", "image": "vllm/vllm-openai:v0.32.0", "args": ["Qwen/Qwen3-32B"]}
    engine = {"name": "main", "members": [{"template": {"spec": {"containers": [container]}}}]}
    spec = {"inferenceClusterRef": {"name": "gpu"}, "engines": [engine], **settings}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": "qwen", "namespace": "team-a"},
        "spec": {"replicas": 2, "template": {"spec": spec}},
    }


def test_a_standalone_deployment_is_composed_and_wired() -> None:
    composite = deployment(kvOffloadTierRef={"name": "chat"})
    given = d.requirements(d.ready_tier()) | {"cluster": [d.cluster()]}
    got = call(composite, given=d.COMPOSE, required=given)
    assert set(got.desired) == {"deployment-main", "service", "usage-tier-4c387"}
    args = d.wired_pod(got.desired["deployment-main"])["spec"]["containers"][0]["args"]
    assert args[:2] == ["Qwen/Qwen3-32B", "--kv-transfer-config"]
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    assert got.status["tier"] == "modelplane-system/chat"
    assert got.composite_ready == "FALSE"
    seen = observe(got)
    counts = {"status": {"readyReplicas": 2}}
    seen["deployment-main"]["status"]["atProvider"] = {"manifest": counts}
    again = call(composite, given=d.COMPOSE, required=given, observed=seen)
    assert again.composite_ready == "TRUE"
    assert again.status["replicas"] == {"total": 2, "ready": 2}


def test_a_standalone_deployment_waits_for_its_tier() -> None:
    composite = deployment(kvOffloadTierRef={"name": "chat"})
    given = d.requirements(d.unready_tier()) | {"cluster": [d.cluster()]}
    got = call(composite, given=d.COMPOSE, required=given)
    assert "deployment-main" not in got.desired
    assert got.conditions["KVOffloadReady"] == ("False", "TierNotReady")
    assert (got.composite_ready, got.ttl) == ("FALSE", 10)


def test_an_open_circuit_breaker_shortens_the_ttl() -> None:
    composite = d.tier()
    closed = {"type": "Responsive", "status": "False", "reason": "WatchCircuitOpen"}
    composite["status"] = {"conditions": [closed]}
    first = call(d.tier(), required=required())
    got = call(composite, required=required(), observed=agents(observe(first), 3, 3))
    assert (got.composite_ready, got.ttl) == ("TRUE", 30)

"""A tier on one cluster, on a fleet, declared inline, and what is wrong with one."""

import json
from copy import deepcopy
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from tests.unit.composers import documents as d
from tests.unit.composers.calls import READY, Outcome, call, observe

CLUSTER_CONDITIONS = ("Accepted", "ClusterResolved", "ControlPlaneReady", "AgentsReady")


def required(**more: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return {"cluster": [d.cluster()], "usages": [], **more}


def agents(seen: dict[str, Any], desired: int, ready: int) -> dict[str, Any]:
    """The observed resources with the DaemonSet's status as the cluster reports it."""
    counts = {"desiredNumberScheduled": desired, "numberReady": ready}
    counts["updatedNumberScheduled"] = desired
    status = "True" if desired == ready else "False"
    seen["daemonset-agent"]["status"] = {
        "conditions": [{**READY, "status": status}],
        "atProvider": {"manifest": {"status": counts}},
    }
    return seen


@pytest.mark.parametrize("nodes", [3, 19, 100, 1000])
def test_start_on_many_nodes_changes_the_status_few_times(nodes: int) -> None:
    """Each change calls every consumer, on core 2.4."""
    known = {"cluster": [d.cluster()]}
    seen = observe(call(d.tier(), required=known))
    answers = []
    for ready in range(nodes + 1):
        got = call(d.tier(), required=known, observed=agents(seen, nodes, ready))
        answers.append((got.status, got.conditions, got.messages))
        shown = got.status["agents"]["ready"]
        assert shown <= ready and (shown == ready or nodes >= 40)
    changes = sum(1 for one, other in pairwise(answers) if one != other)
    assert changes <= min(nodes, 22)
    assert answers[-1][0]["agents"]["summary"] == f"{nodes}/{nodes}"


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
def test_cluster_decides_a_new_tier(name: str) -> None:
    required, condition, composed = CLUSTERS[name]
    got = call(d.tier(), required=required)
    assert tuple(got.conditions) == CLUSTER_CONDITIONS
    assert got.conditions["ClusterResolved"] == condition
    assert got.conditions["Accepted"] == ("True", "Valid")
    assert bool(got.desired) == composed
    assert (got.composite_ready, got.ttl, got.fatals) == ("FALSE", 10, [])


@pytest.mark.parametrize("name", ["unresolved", "absent", "without a ProviderConfig"])
def test_agents_stay_when_the_cluster_is_unreadable(name: str) -> None:
    first = call(d.tier(), required=required())
    got = call(d.tier(), required=CLUSTERS[name][0], observed=observe(first))
    assert got.desired == first.desired
    assert got.conditions["ClusterResolved"] == CLUSTERS[name][1]


def test_tier_reports_a_cluster_being_deleted() -> None:
    leaving = d.cluster()
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    got = call(d.tier(), required=required(cluster=[leaving]))
    assert got.conditions["ClusterResolved"] == ("True", "Resolved")
    assert "It is being deleted" in got.messages["ClusterResolved"]
    assert "being deleted" not in call(d.tier(), required=required()).messages["ClusterResolved"]


NONE, STARTING, THERE = ("False", "NoMatchingNodes"), ("False", "Starting"), ("True", "Ready")
FROM_ZERO = {"minNodes": 0}

# (spec.readiness, nodes desired, ready) -> AgentsReady
ROLLOUTS = (
    ({}, 0, 0, NONE),
    ({}, 3, 1, STARTING),
    ({}, 3, 3, THERE),
    # One bad node of many freezes nobody; of few it is too large a share.
    ({}, 200, 199, THERE),
    ({}, 200, 180, THERE),
    ({}, 200, 179, STARTING),
    ({}, 10, 9, THERE),
    ({}, 9, 8, STARTING),
    ({"minAvailable": "100%"}, 200, 199, STARTING),
    ({"minAvailable": 2}, 200, 2, THERE),
    ({"minAvailable": 2}, 1, 1, THERE),
    ({"minNodes": 3}, 2, 2, NONE),
    (FROM_ZERO, 0, 0, ("True", "NoMatchingNodes")),
    (FROM_ZERO, 1, 0, STARTING),
)


@pytest.mark.parametrize(("readiness", "desired", "ready", "condition"), ROLLOUTS)
def test_agents_ready_condition(
    readiness: dict, desired: int, ready: int, condition: tuple[str, str]
) -> None:
    tier = d.tier(readiness=readiness)
    first = call(tier, required=required())
    got = call(tier, required=required(), observed=agents(observe(first), desired, ready))
    assert got.conditions["AgentsReady"] == condition
    assert got.conditions["ControlPlaneReady"] == ("True", "NoneNeeded")
    flag, ttl = ("TRUE", 300) if condition[0] == "True" else ("FALSE", 10)
    assert (got.composite_ready, got.ttl) == (flag, ttl)
    shown = ready if ready == desired or desired < 40 else ready // 10 * 10
    assert got.status["agents"]["summary"] == f"{shown}/{desired}"
    assert got.status["capacityGiB"] == 200 * shown
    assert got.desired == first.desired


# upgradePolicy -> (agents ready, composite ready), 1 of 2 and 5 of 20 agents being new, all up
ROLLS = {
    "in turn": ({}, [(1, "FALSE"), (19, "TRUE")]),
    "a tenth at once": ({"maxUnavailable": "10%"}, [(1, "FALSE"), (18, "TRUE")]),
    "all at once": ({"maxUnavailable": "100%"}, [(0, "FALSE"), (0, "FALSE")]),
    "by hand": ({"type": "OnDelete"}, [(2, "TRUE"), (20, "TRUE")]),
}


@pytest.mark.parametrize("name", ROLLS)
def test_agents_that_are_replaced_in_turn_change_the_status_once(name: str) -> None:
    """Each change of the status calls every consumer, on core 2.4."""
    policy, want = ROLLS[name]
    tier = d.tier(upgradePolicy=policy)
    found = []
    for updated, desired in ((1, 2), (5, 20)):
        seen = agents(observe(call(tier, required=required())), desired, desired)
        seen["daemonset-agent"]["status"]["atProvider"]["manifest"]["status"][
            "updatedNumberScheduled"
        ] = updated
        got = call(tier, required=required(), observed=seen)
        found.append((got.status["agents"]["ready"], got.composite_ready))
    assert found == want


def test_a_roll_of_agents_is_two_changes_of_the_status() -> None:
    seen = observe(call(d.tier(), required=required()))
    statuses = []
    # (pods that are new, pods that are ready), as a DaemonSet of three replaces them.
    for updated, ready in ((3, 3), (0, 2), (1, 2), (1, 3), (1, 2), (2, 2), (2, 3), (2, 2), (3, 3)):
        seen = agents(seen, 3, ready)
        counts = seen["daemonset-agent"]["status"]["atProvider"]["manifest"]["status"]
        counts["updatedNumberScheduled"] = updated
        got = call(d.tier(), required=required(), observed=seen)
        statuses.append((got.status, got.conditions, got.messages, got.composite_ready))
    changed = [before != after for before, after in pairwise(statuses)]
    assert changed.count(True) == 2


def updating(
    *, updated: int = 20, ready: int = 20, desired: int = 20, **at: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A tier and what it observes of its agents. `at`: generations of the Object and DaemonSet, the
    edit that the Object does not have yet, the policy, what AgentsReady said for how long.
    """
    policy = {"type": at.get("policy", "RollingUpdate")}
    tier = d.tier(upgradePolicy=policy)
    tier["metadata"]["generation"] = 2
    seen = agents(observe(call(tier, required=required())), desired, ready)
    found = seen["daemonset-agent"]
    found["metadata"]["generation"] = at.get("object", 3)
    found["status"]["conditions"].append(
        {"type": "Synced", "status": "True", "observedGeneration": at.get("applied", 3)}
    )
    live = found["status"]["atProvider"]["manifest"]
    live["metadata"] = {"generation": at.get("live", 5)}
    live["status"] |= {"observedGeneration": at.get("seen", 5), "updatedNumberScheduled": updated}
    tier["spec"] |= at.get("edit", {})
    if reason := at.get("said"):
        status = "False" if reason == "Starting" else "True"
        said = since_new_year("AgentsReady", reason, status) | {"message": at.get("message", "")}
        tier["status"] = {"observedGeneration": 2, "conditions": [said]}
    return tier, seen


BIGGER = {"lmcache": {"l1": {"sizeGiB": 9}}}
# name: (what is observed, seconds later, AgentsReady)
UPDATES: dict[str, tuple[dict[str, Any], int, tuple[str, str]]] = {
    "through": ({}, 0, ("True", "Ready")),
    "the Object does not have the edit": ({"edit": BIGGER}, 0, ("True", "Updating")),
    "the provider has not applied it": ({"applied": 2}, 0, ("True", "Updating")),
    "the cluster has not seen it": ({"seen": 4}, 0, ("True", "Updating")),
    "no agent has it": ({"updated": 0}, 0, ("True", "Updating")),
    "some have it": ({"updated": 5}, 0, ("True", "Updating")),
    "one has it and fails": ({"updated": 1, "ready": 19}, 0, ("True", "Updating")),
    "enough have it": ({"updated": 18}, 0, ("True", "Ready")),
    "one has failed for long": (
        {"updated": 1, "ready": 19, "said": "Updating"},
        700,
        ("True", "UpdateTimedOut"),
    ),
    "it stays so": (
        {"updated": 1, "ready": 19, "said": "UpdateTimedOut"},
        1,
        ("True", "UpdateTimedOut"),
    ),
    "some have had it for long": ({"updated": 5, "said": "Updating"}, 700, ("True", "Updating")),
    "the others have failed for too long": (
        {"updated": 6, "ready": 19, "said": "Updating"},
        20 * 700,
        ("True", "UpdateTimedOut"),
    ),
    "they stay so": (
        {"updated": 6, "ready": 19, "said": "UpdateTimedOut"},
        1,
        ("True", "UpdateTimedOut"),
    ),
    "the first was late": (
        {"updated": 5, "said": "UpdateTimedOut", "message": "No agent has become ready with it."},
        20 * 700,
        ("True", "Updating"),
    ),
    "by hand, for long": (
        {"updated": 0, "policy": "OnDelete", "said": "Updating"},
        700,
        ("True", "Updating"),
    ),
    "a few roll one by one": (
        {"updated": 2, "desired": 3, "ready": 3, "said": "Starting"},
        700,
        ("False", "Starting"),
    ),
    "a few roll for too long": (
        {"updated": 2, "desired": 3, "ready": 3, "said": "Starting"},
        2000,
        ("False", "StartTimedOut"),
    ),
    "the first of a few fails": (
        {"updated": 1, "desired": 3, "ready": 2, "said": "Starting"},
        700,
        ("False", "StartTimedOut"),
    ),
}


@pytest.mark.parametrize("name", UPDATES)
def test_agents_of_the_old_template_are_no_update(name: str) -> None:
    fields, seconds, condition = UPDATES[name]
    tier, seen = updating(**fields)
    got = call(tier, required=required(), observed=seen, now=NEW_YEAR + seconds)
    assert got.conditions["AgentsReady"] == condition
    assert got.composite_ready == ("TRUE" if condition[0] == "True" else "FALSE")
    if condition[1] == "Updating":
        assert ("OnDelete" in got.messages["AgentsReady"]) == ("policy" in fields)


# name: (what is observed, GiB of 20 agents that had 200 each before)
CAPACITIES: dict[str, tuple[dict[str, Any], int]] = {
    "the Object does not have the edit": ({"edit": BIGGER}, 4000),
    "the provider has not applied it": ({"applied": 2}, 4000),
    "some have it": ({"updated": 5}, 19 * 200),
    "all have it": ({}, 20 * 100),
    "one of them fails": ({"ready": 19}, 19 * 100),
}


@pytest.mark.parametrize("name", CAPACITIES)
def test_capacity_is_that_of_the_agents_that_run(name: str) -> None:
    fields, capacity = CAPACITIES[name]
    tier, seen = updating(**fields)
    if "edit" not in fields:
        tier["spec"]["lmcache"] = {"l1": {"sizeGiB": 100}}
        made = call(tier, required=required()).desired["daemonset-agent"]
        seen["daemonset-agent"]["spec"] = made["spec"]
    tier["status"] = {"agents": {"ready": 20, "desired": 20}, "capacityGiB": 4000}
    got = call(tier, required=required(), observed=seen, now=NEW_YEAR)
    assert got.status["capacityGiB"] == capacity


# the image of the agents on the cluster -> whether the tier says that it is another one
IMAGES = {
    "{host}/{name}:{tag}": False,
    "mirror.example:5000/docker/{host}/{name}:{tag}": False,
    "{host}/{name}:{tag}@sha256:" + "0" * 64: False,
    "{host}/{name}@sha256:" + "0" * 64: False,
    "{host}/{name}:other": True,
    "{host}/other:{tag}": True,
    "x" * 100_000: True,
    "": False,
}


@pytest.mark.parametrize("image", IMAGES)
@pytest.mark.parametrize("kind", ["AgentsReady", "ControlPlaneReady"])
def test_an_image_that_was_edited_on_the_cluster_is_named(image: str, kind: str) -> None:
    """A registry's mirror looks like an edit by hand: the tier stays ready."""
    is_agent = kind == "AgentsReady"
    spec = {} if is_agent else POOL
    key, tier = ("daemonset-agent" if is_agent else "deployment-master"), d.tier()
    tier["spec"] = _tier_spec(spec)
    seen = json.loads(json.dumps(observe(call(tier, required=required()))))
    if is_agent:
        counts = agents(seen, 3, 3)[key]["status"]["atProvider"]["manifest"]["status"]
        there = {**seen[key]["spec"]["forProvider"]["manifest"], "status": counts}
        seen[key]["status"]["atProvider"]["manifest"] = json.loads(json.dumps(there))
    (container,) = seen[key]["status"]["atProvider"]["manifest"]["spec"]["template"]["spec"][
        "containers"
    ]
    host, _, rest = container["image"].rpartition("/")
    name, _, tag = rest.partition(":")
    composed, container["image"] = container["image"], image.format(host=host, name=name, tag=tag)
    got = call(tier, required=required(), observed=seen)
    assert got.conditions[kind] == ("True", "Ready")
    said = f"{key}: container {container['name']} has image {container['image'][:500]}"
    assert got.messages[kind].startswith(said if IMAGES[image] else "")
    assert (f", not {composed}. Somebody" in got.messages[kind]) == IMAGES[image]
    assert len(got.messages[kind]) < 1500 * IMAGES[image] + 1


@pytest.mark.parametrize("digit", "01")
def test_a_digest_that_was_edited_on_the_cluster_is_named(digit: str) -> None:
    tier = d.tier(image={"digest": "sha256:" + "0" * 64, "version": "0.5.6"})
    seen = agents(observe(call(tier, required=required())), 3, 3)["daemonset-agent"]
    composed = seen["spec"]["forProvider"]["manifest"]["spec"]["template"]["spec"]["containers"]
    image = composed[0]["image"].replace("0" * 64, digit * 64)
    pod = {"containers": [{"name": composed[0]["name"], "image": image}]}
    seen["status"]["atProvider"]["manifest"]["spec"] = {"template": {"spec": pod}}
    got = call(tier, required=required(), observed={"daemonset-agent": seen})
    assert got.conditions["AgentsReady"] == ("True", "Ready")
    assert ("Somebody edited the workload" in got.messages["AgentsReady"]) == (digit == "1")


# managementPolicies of the agents' Object, whether the DaemonSet on the cluster has the edit
POLICIES = (
    (["Observe"], False, ("True", "Updating")),
    (["Observe"], True, ("True", "Ready")),
    (["Create", "LateInitialize", "Observe", "Update"], False, ("True", "Ready")),
    (["*"], False, ("True", "Ready")),
)


@pytest.mark.parametrize(("policies", "edited", "condition"), POLICIES)
def test_an_object_that_is_only_observed_applies_nothing(
    policies: list[str], edited: bool, condition: tuple[str, str]
) -> None:
    """Synced is True of it, with its newest generation."""
    tier, seen = updating()
    found = seen["daemonset-agent"]
    found["spec"] = {**found["spec"], "managementPolicies": policies}
    live = json.loads(json.dumps(found["spec"]["forProvider"]["manifest"]))
    if not edited:
        live["spec"]["template"]["spec"]["containers"][0]["image"] = "lmcache:old"
    manifest = found["status"]["atProvider"]["manifest"]
    found["status"]["atProvider"]["manifest"] = {
        **live,
        **manifest,
        "metadata": {**live["metadata"], **manifest["metadata"]},
    }
    got = call(tier, required=required(), observed=seen, now=NEW_YEAR)
    assert got.conditions["AgentsReady"] == condition


@pytest.mark.parametrize(("seconds", "ttl"), [(1, 300), (400, 60), (700, 300)])
def test_answer_that_time_changes_is_asked_for_again(seconds: int, ttl: int) -> None:
    """A ready tier is asked rarely: that its update is late would be said a quarter hour late."""
    tier, seen = updating(updated=1, ready=19, said="Updating")
    assert call(tier, required=required(), observed=seen, now=NEW_YEAR + seconds).ttl == ttl


# (nodes with an agent, ready, of the newest template) of ten that need one -> AgentsReady
QUOTA = (
    (5, 5, 5, ("True", "Ready"), "5 of 10 agents are ready, which is enough."),
    (5, 5, 0, ("True", "Updating"), "No agent runs the tier's last edit yet"),
    (5, 3, 4, ("True", "Ready"), "3 of 10 agents are ready, which is enough."),
)


@pytest.mark.parametrize(("created", "ready", "updated", "condition", "message"), QUOTA)
def test_agents_that_a_cluster_does_not_create_are_no_old_ones(
    created: int, ready: int, updated: int, condition: tuple[str, str], message: str
) -> None:
    tier = d.tier(readiness={"minAvailable": 2})
    seen = agents(observe(call(tier, required=required())), 10, ready)
    counts = seen["daemonset-agent"]["status"]["atProvider"]["manifest"]["status"]
    counts |= {"currentNumberScheduled": created, "updatedNumberScheduled": updated}
    got = call(tier, required=required(), observed=seen)
    assert got.conditions["AgentsReady"] == condition
    assert got.messages["AgentsReady"].startswith(message)


# policy, (replicas, ready, updated) of a StatefulSet of ten stores -> AgentsReady, agents
STORES = (
    ("RollingUpdate", (10, 10, 10), ("True", "Ready"), "10/10"),
    # A quota, or a policy on claims, lets one pod be created.
    ("RollingUpdate", (1, 1, 1), ("False", "Starting"), "1/10"),
    ("RollingUpdate", (0, 0, 0), ("False", "Starting"), "0/10"),
    # More than the spec's exist until its controller has taken some away.
    ("RollingUpdate", (20, 20, 0), ("True", "Updating"), "10/10"),
    ("OnDelete", (10, 10, 0), ("True", "Updating"), "10/10"),
    ("OnDelete", (10, 10, 10), ("True", "Ready"), "10/10"),
)


@pytest.mark.parametrize(("policy", "counts", "condition", "summary"), STORES)
def test_a_statefulset_has_the_agents_of_its_spec(
    policy: str, counts: tuple[int, ...], condition: tuple[str, str], summary: str
) -> None:
    """Its status counts pods that exist, and pods of the newest revision under each policy."""
    store = {"sizeGiB": 8, "form": "StatefulSet", "replicas": 10}
    tier = d.tier(backend="Mooncake", mooncake={"store": store}, upgradePolicy={"type": policy})
    del tier["spec"]["lmcache"]
    seen = observe(call(tier, required=required()))
    names = ("replicas", "readyReplicas", "updatedReplicas")
    status = dict(zip(names, counts, strict=True))
    seen["statefulset-store"]["status"]["atProvider"]["manifest"]["status"] = status
    got = call(tier, required=required(), observed=seen)
    assert got.conditions["AgentsReady"] == condition
    assert got.status["agents"]["summary"] == summary
    message = got.messages["AgentsReady"]
    created = counts[0]
    assert (f"{10 - created} of their pods do not exist" in message) == (created < 10)
    assert ("StatefulSet say which" in message) == (created < 10)


NOT_UPDATED = [("Mooncake", "deployment-master"), ("Mooncake", "networkpolicy-pool")]
NOT_UPDATED += [("LMCache", "networkpolicy-agent")]


@pytest.mark.parametrize(("backend", "key"), NOT_UPDATED)
def test_control_plane_that_is_not_updated_says_so(backend: str, key: str) -> None:
    spec = POOL if backend == "Mooncake" else {}
    tier = {**d.tier(), "spec": _tier_spec(spec)}
    seen = observe(call(tier, required=required()))
    got = call(tier, required=required(), observed=seen)
    reason = "Ready" if backend == "Mooncake" else "NoneNeeded"
    assert got.conditions["ControlPlaneReady"] == ("True", reason)
    seen[key]["metadata"]["generation"] = 2
    synced = {"type": "Synced", "status": "True", "observedGeneration": 1}
    seen[key]["status"]["conditions"].append(synced)
    got = call(tier, required=required(), observed=seen)
    assert got.conditions["ControlPlaneReady"] == ("True", "Updating")
    assert got.messages["ControlPlaneReady"] == f"Not updated yet: {key}."


def test_control_plane_waits_for_an_edit_of_what_has_no_spec() -> None:
    """The master reads its tenants from a ConfigMap, and restarts for none."""

    def shared(gib: int) -> dict[str, Any]:
        quotas = [{"namespace": "team-a", "sizeGiB": gib}]
        store = {"sizeGiB": 8}
        pool = {"store": store, "tenants": {"quotas": quotas, "othersSizeGiB": 1}}
        return {**d.tier(), "spec": _tier_spec({**POOL, "mooncake": pool})}

    seen = observe(call(shared(1), required=required()))
    for gib, reason in ((1, "Ready"), (2, "Updating")):
        got = call(shared(gib), required=required(), observed=seen)
        assert got.conditions["ControlPlaneReady"] == ("True", reason)
    assert got.messages["ControlPlaneReady"] == "Not updated yet: configmap-tenants."


# a part that was edited on the cluster and written again -> ControlPlaneReady, while the provider
# shows the status that its write was answered with
WRITTEN = {"poddisruptionbudget-master": "Ready", "deployment-master": "Updating"}


@pytest.mark.parametrize("key", WRITTEN)
def test_status_of_what_is_not_watched_is_not_awaited(key: str) -> None:
    settings = etcd("e1")["mooncake"] | {"master": {"replicas": 2}}
    tier = {**d.tier(), "spec": _tier_spec(POOL | {"mooncake": settings})}
    seen = observe(call(tier, required=required()))
    there = seen[key]["status"].setdefault("atProvider", {})
    there["manifest"] = {
        **there.get("manifest", {}),
        "metadata": {"generation": 3},
        "status": {"observedGeneration": 2},
    }
    got = call(tier, required=required(), observed=seen)
    assert got.conditions["ControlPlaneReady"] == ("True", WRITTEN[key])


@pytest.mark.parametrize(("seconds", "reason"), [(1, "Updating"), (700, "UpdateTimedOut")])
def test_control_plane_that_is_never_updated_says_so(seconds: int, reason: str) -> None:
    tier = {**d.tier(), "spec": _tier_spec(POOL)}
    seen = observe(call(tier, required=required()))
    seen["deployment-master"]["metadata"]["generation"] = 2
    synced = {"type": "Synced", "status": "True", "observedGeneration": 1}
    seen["deployment-master"]["status"]["conditions"].append(synced)
    said = since_new_year("ControlPlaneReady", "Updating", "True")
    tier["status"] = {"conditions": [said]}
    got = call(tier, required=required(), observed=seen, now=NEW_YEAR + seconds)
    assert got.conditions["ControlPlaneReady"] == ("True", reason)


def test_control_plane_awaits_what_supports_it() -> None:
    tier = {**d.tier(), "spec": _tier_spec(POOL)}
    seen = observe(call(tier, required=required()))
    for key in ("service-master", "networkpolicy-pool"):
        seen[key]["status"] = {}
    got = call(tier, required=required(), observed=seen)
    assert got.conditions["ControlPlaneReady"] == ("False", "Starting")
    assert got.messages["ControlPlaneReady"] == "Not ready yet: service-master, networkpolicy-pool"


def moved(seen: dict[str, Any], *, applied: int, keys: int) -> dict[str, Any]:
    """Observed Objects; the first `keys` have another cluster. Generation 2 is the move."""
    out = {}
    for number, (key, part) in enumerate(sorted(seen.items())):
        synced = {"type": "Synced", "status": "True", "observedGeneration": 1}
        spec, generation = part["spec"], 1
        if number < keys:
            spec = {**spec, "providerConfigRef": {"kind": "ClusterProviderConfig", "name": "gpu-2"}}
            generation, synced = 2, {**synced, "observedGeneration": applied}
        conditions = [*part["status"]["conditions"], synced]
        metadata = {**part["metadata"], "generation": generation}
        status = {**part["status"], "conditions": conditions}
        out[key] = {**part, "spec": spec, "metadata": metadata, "status": status}
    return out


WAITS, ALL = ("False", "WaitingForCluster"), 99
# (how many Objects have the new cluster, the generation that is applied, AgentsReady said before)
MOVES = {
    "nothing yet": (0, 1, ("True", "Ready"), WAITS),
    "some": (1, 2, WAITS, WAITS),
    "some, at which core failed": (1, 2, ("True", "Ready"), WAITS),
    "not applied": (ALL, 1, WAITS, WAITS),
    "applied": (ALL, 2, WAITS, ("True", "Ready")),
}


@pytest.mark.parametrize("name", MOVES)
def test_a_cluster_that_is_built_anew_has_no_agents_yet(name: str) -> None:
    """An Object's status repeats the old cluster until the provider applies it on the new one."""
    keys, applied, (status, reason), want = MOVES[name]
    seen = agents(observe(call(d.tier(), required=required())), 3, 3)
    tier = d.tier()
    tier["status"] = {"conditions": [since_new_year("AgentsReady", reason, status)]}
    known = required(cluster=[d.cluster(provider_config="gpu-2")])
    got = call(tier, required=known, observed=moved(seen, applied=applied, keys=keys))
    assert got.conditions["AgentsReady"] == want
    is_through = want[0] == "True"
    assert got.composite_ready == ("TRUE" if is_through else "FALSE")
    assert got.status["agents"]["summary"] == ("3/3" if is_through else "0/0")
    assert got.status["providerConfigRef"] == {"name": "gpu-2"}


def test_agents_without_status_are_not_ready() -> None:
    first = call(d.tier(readiness=FROM_ZERO), required=required())
    got = call(d.tier(readiness=FROM_ZERO), required=required(), observed=observe(first))
    assert got.conditions["AgentsReady"] == STARTING
    assert got.messages["AgentsReady"] == "Not on the cluster yet."


def test_tier_without_agents_reports_taints_and_selector() -> None:
    nodes = {"selector": {"pool": "a"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    first = call(d.tier(nodes=nodes), required=required())
    got = call(d.tier(nodes=nodes), required=required(), observed=agents(observe(first), 0, 0))
    message = got.messages["AgentsReady"]
    assert "(pool=a)" in message and "(gpu)" in message and "minNodes to 0" in message
    assert "cloud.google.com/gke-accelerator" in message and "docs/platforms.md" in message


NEW_YEAR = 1767225600.0  # 2026-01-01T00:00:00Z
# seconds that AgentsReady has been False with reason Starting -> reason
STARTS = {10: "Starting", 700: "StartTimedOut"}


def since_new_year(kind: str, reason: str, status: str = "False") -> dict[str, str]:
    """A tier's own condition as core keeps it; the time is that of its last change of any kind."""
    at = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {"type": kind, "status": status, "reason": reason, **at}


# The tier's own condition for an hour: (status, reason) -> reason of a part that starts now.
BEFORE = {
    ("False", "WaitingForTier"): "Starting",
    ("False", "WaitingForCluster"): "Starting",
    ("False", "NotApplied"): "Starting",
    ("False", "NoMatchingNodes"): "Starting",
    ("Unknown", "NotObserved"): "Starting",
    ("Unknown", "Resolving"): "Starting",
    ("True", "Ready"): "Starting",
    ("False", "Starting"): "StartTimedOut",
    ("False", "StartTimedOut"): "StartTimedOut",
}


@pytest.mark.parametrize("kind", ["AgentsReady", "ControlPlaneReady"])
@pytest.mark.parametrize("before", BEFORE)
def test_only_the_time_of_starting_counts_as_a_start(before: tuple[str, str], kind: str) -> None:
    status, reason = before
    spec = {"backend": "Mooncake", "lmcache": None, "mooncake": {"store": {"sizeGiB": 8}}}
    tier = d.tier() if kind == "AgentsReady" else d.tier(**spec)
    tier["spec"] = {k: v for k, v in tier["spec"].items() if v is not None}
    seen = observe(call(tier, required=required()))
    if kind == "AgentsReady":
        seen = agents(seen, 2, 0)
    else:
        seen = {key: {**part, "status": {}} for key, part in seen.items()}
    tier["status"] = {"conditions": [since_new_year(kind, reason, status)]}
    got = call(tier, required=required(), observed=seen, now=NEW_YEAR + 3600)
    assert got.conditions[kind] == ("False", BEFORE[before])


@pytest.mark.parametrize("seconds", STARTS)
def test_slow_start_becomes_start_timed_out(seconds: int) -> None:
    since = since_new_year("AgentsReady", "Starting")
    first = call(d.tier(), required=required())
    tier = {**d.tier(), "status": {"conditions": [since]}}
    now = NEW_YEAR + seconds
    got = call(tier, required=required(), observed=agents(observe(first), 2, 0), now=now)
    assert got.conditions["AgentsReady"] == ("False", STARTS[seconds])
    assert ("RuntimeClass" in got.messages["AgentsReady"]) == (seconds == 700)
    assert got.messages["AgentsReady"].startswith("0 of 2 agents are ready, 2 are needed.")


@pytest.mark.parametrize(("updated", "reason"), [(3, "StartTimedOut"), (2, "Starting")])
def test_a_pod_that_is_not_created_is_no_roll(updated: int, reason: str) -> None:
    """One of four is missing for ten minutes; with another old one, a roll has its own time."""
    first = call(d.tier(), required=required())
    tier = {**d.tier(), "status": {"conditions": [since_new_year("AgentsReady", "Starting")]}}
    seen = agents(observe(first), 4, 3)
    counts = seen["daemonset-agent"]["status"]["atProvider"]["manifest"]["status"]
    counts |= {"currentNumberScheduled": 3, "updatedNumberScheduled": updated}
    got = call(tier, required=required(), observed=seen, now=NEW_YEAR + 700)
    assert got.conditions["AgentsReady"] == ("False", reason)


def test_start_timed_out_stays_until_ready_or_edited() -> None:
    """Core begins to count anew with each other reason or message, this one included.

    Neither core 2.3 nor 2.4 writes a generation into the conditions of functions.
    """
    said = since_new_year("AgentsReady", "StartTimedOut")
    first = call(d.tier(), required=required())

    def later(generation: int, ready: int, status: dict[str, Any], seconds: int = 1) -> Outcome:
        tier = {**d.tier(), "status": {"conditions": [said], **status}}
        tier["metadata"] = {**tier["metadata"], "generation": generation}
        observed = agents(observe(first), 2, ready)
        return call(tier, required=required(), observed=observed, now=NEW_YEAR + seconds)

    kept = later(3, 0, {})  # a status of a release that wrote no generation
    assert kept.conditions["AgentsReady"] == ("False", "StartTimedOut")
    assert kept.status["observedGeneration"] == 3
    timed_out = later(3, 1, kept.status)
    assert timed_out.conditions["AgentsReady"] == ("False", "StartTimedOut")
    for seconds in (1, 3600):
        edited = later(4, 0, kept.status, seconds)
        assert edited.conditions["AgentsReady"] == ("False", "Starting")
        assert edited.status["observedGeneration"] == 4
    assert later(3, 2, kept.status).conditions["AgentsReady"] == ("True", "Ready")


def test_misscheduled_agents_are_counted() -> None:
    """All nodes were tainted, or lost their label: what runs there serves nobody new."""
    first = call(d.tier(), required=required())
    observed = agents(observe(first), 0, 0)
    status = observed["daemonset-agent"]["status"]["atProvider"]["manifest"]["status"]
    status["numberMisscheduled"] = 3
    got = call(d.tier(), required=required(), observed=observed)
    assert got.conditions["AgentsReady"] == ("False", "NoMatchingNodes")
    begin = "Agents belong on 0 nodes (3 more run where none belongs any more), and"
    assert got.messages["AgentsReady"].startswith(begin)


# (seconds that AgentsReady has been False, pods that exist of 2) -> does it say that none is made?
# Never by the seconds alone: core counts them anew with each other message.
CREATED = {(10, 0): True, (10, 2): False, (700, 0): True, (700, 2): False}


@pytest.mark.parametrize(("seconds", "created"), CREATED)
def test_refused_pods_differ_from_slow_pods(seconds: int, created: int) -> None:
    """A RuntimeClass that is not there leaves no trace in a DaemonSet's status but this."""
    since = since_new_year("AgentsReady", "Starting")
    first = call(d.tier(), required=required())
    tier = {**d.tier(), "status": {"conditions": [since]}}
    seen = agents(observe(first), 2, 0)
    counts = seen["daemonset-agent"]["status"]["atProvider"]["manifest"]["status"]
    counts["currentNumberScheduled"] = created
    got = call(tier, required=required(), observed=seen, now=NEW_YEAR + seconds)
    message = got.messages["AgentsReady"]
    assert ("Pod Security level baseline" in message) == CREATED[seconds, created]
    assert ("no RuntimeClass" in message) == (CREATED[seconds, created] or seconds == 700)


@pytest.mark.parametrize("readiness", [{}, FROM_ZERO])
def test_scale_from_zero_names_the_node_template_label(readiness: dict) -> None:
    tier = d.tier(readiness=readiness)
    first = call(tier, required=required())
    got = call(tier, required=required(), observed=agents(observe(first), 0, 0))
    assert got.conditions["AgentsReady"][1] == "NoMatchingNodes"
    assert "node-template" in got.messages["AgentsReady"]


def test_apply_error_gives_one_answer_over_its_tries() -> None:
    first = call(d.tier(), required=required())
    said = set()
    for port in (53412, 40001):
        error = f"apply failed: write tcp 10.0.0.1:{port}->10.0.0.9:6443: broken pipe"
        synced = {"type": "Synced", "status": "False", "message": error}
        seen = observe(first)
        seen["service-agent"]["status"] = {"conditions": [synced]}
        said.add(call(d.tier(), required=required(), observed=seen).messages["ControlPlaneReady"])
    assert said == {"service-agent: apply failed: write tcp (address)->(address): broken pipe"}


def test_apply_error_is_quoted() -> None:
    first = call(d.tier(), required=required())
    observed = agents(observe(first), 1, 1)
    said = {"type": "Synced", "status": "False", "message": "daemonsets.apps is forbidden"}
    for key, kind in (("daemonset-agent", "AgentsReady"), ("service-agent", "ControlPlaneReady")):
        broken = {**observed, key: {**observed[key], "status": {"conditions": [said, READY]}}}
        got = call(d.tier(), required=required(), observed=broken)
        assert got.conditions[kind] == ("False", "NotApplied")
        assert got.messages[kind] == f"{key}: daemonsets.apps is forbidden"
        assert got.composite_ready == "FALSE"


T8, T9 = "2026-11-23T08:00:00Z", "2026-11-23T09:00:00Z"
REFUSED = "connect failed: Unauthorized"
RESET = "observe failed: Get https://api.gpu:6443/apis: read tcp 10.0.0.1:{}->10.0.0.9:6443: reset"
# The errors of one outage, try by try: (error, its time). Each try renews the time.
TRIES = ((RESET.format(53412), T8), (RESET.format(40001), T9), ("observe failed: i/o timeout", T9))
KINDS = {"AgentsReady": "daemonset-agent", "ControlPlaneReady": "service-agent"}


def unseen(parts: dict[str, Any], error: str, at: str, *keys: str) -> dict[str, Any]:
    """The observed parts while the provider fails to observe those named by `keys`."""
    said = {"type": "Synced", "status": "False", "message": error, "lastTransitionTime": at}
    for key in keys:
        status = parts[key].setdefault("status", {})
        there = status.setdefault("atProvider", {})
        there["manifest"] = {**there.get("manifest", {}), "kind": "x"}
        status["conditions"] = [READY, said]
    return parts


def written(composite: dict[str, Any], got: Outcome, at: str) -> dict[str, Any]:
    """The composite with the conditions of an answer, as core writes them."""
    own = [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": got.messages[kind],
            "lastTransitionTime": at,
        }
        for kind, (status, reason) in got.conditions.items()
    ]
    return {**composite, "status": {"conditions": own}}


def outage(tier: dict[str, Any], error: str, at: str, *keys: str) -> Outcome:
    """A call for a tier while the parts named by `keys` are unseen, by default one a condition."""
    seen = agents(observe(call(d.tier(), required=required())), 3, 3)
    seen = unseen(seen, error, at, *(keys or KINDS.values()))
    return call(tier, required=required(), observed=seen)


def test_tier_of_an_unseen_cluster_is_unknown_since_then() -> None:
    got = outage(d.tier(), REFUSED, T8)
    for kind, key in KINDS.items():
        assert got.conditions[kind] == ("Unknown", "NotObserved")
        assert got.messages[kind] == (
            f"Looks fail since {T8}: {key}: {REFUSED}. What the status repeats is older: by up to"
            " the provider's --poll (10 minutes). Check the API server of InferenceCluster gpu, and"
            " the kubeconfig in the Secret that ClusterProviderConfig gpu names."
        )
    assert got.composite_ready == "FALSE"
    assert got.status["agents"]["summary"] == "3/3"


def test_an_outage_of_a_tier_gives_one_answer() -> None:
    first = outage(d.tier(), *TRIES[0])
    assert "read tcp (address)->(address): reset" in first.messages["AgentsReady"]
    for error, at in TRIES:
        assert outage(written(d.tier(), first, T8), error, at) == first


def test_a_tier_that_is_seen_again_is_judged_by_its_agents() -> None:
    tier = written(d.tier(), outage(d.tier(), REFUSED, T8), T8)
    seen = agents(observe(call(d.tier(), required=required())), 3, 3)
    back = call(tier, required=required(), observed=seen)
    assert back.conditions["AgentsReady"] == ("True", "Ready")
    assert back.messages["AgentsReady"] == ""
    again = outage(written(d.tier(), back, T8), REFUSED, T9)
    assert again.messages["AgentsReady"].startswith(f"Looks fail since {T9}: daemonset-agent: ")


def test_a_part_that_is_seen_again_is_not_named_any_more() -> None:
    """The others may stay unseen for another reason: the provider may not read them."""
    both = outage(d.tier(), *TRIES[0], "networkpolicy-agent", "service-agent")
    assert ": networkpolicy-agent: " in both.messages["ControlPlaneReady"]
    tier = written(d.tier(), both, T8)
    got = outage(tier, REFUSED, T9, "service-agent")
    begin = f"Looks fail since {T9}: service-agent: {REFUSED}."
    assert got.messages["ControlPlaneReady"].startswith(begin)


def test_object_that_was_never_seen_is_not_applied() -> None:
    seen = observe(call(d.tier(), required=required()))
    said = {"type": "Synced", "status": "False", "message": "connect failed: refused"}
    seen["daemonset-agent"]["status"] = {"conditions": [said]}
    got = call(d.tier(), required=required(), observed=seen)
    assert got.conditions["AgentsReady"] == ("False", "NotApplied")


@pytest.mark.parametrize("seconds", STARTS)
def test_slow_control_plane_says_what_usually_stands_in_the_way(seconds: int) -> None:
    kind = "ControlPlaneReady"
    since = since_new_year(kind, "Starting")
    store = {"backend": "Mooncake", "lmcache": None, "mooncake": {"store": {"sizeGiB": 8}}}
    tier = {**d.tier(**store), "status": {"conditions": [since]}}
    tier["spec"] = {k: v for k, v in tier["spec"].items() if v is not None}
    got = call(tier, required=required(), now=NEW_YEAR + seconds)
    assert got.conditions[kind] == ("False", STARTS[seconds])
    assert ("no volume for a claim" in got.messages[kind]) is (seconds == 700)


USAGE = {
    "apiVersion": "protection.crossplane.io/v1beta1",
    "kind": "Usage",
    "metadata": {"name": "u", "namespace": "team-a"},
    "spec": {"by": {"kind": "ModelReplica", "resourceRef": {"name": "qwen"}}},
}
POOL = {"backend": "Mooncake", "lmcache": None, "mooncake": {"store": {"sizeGiB": 8}}}
PAGES = {"type": "Mooncake", "mooncake": {"storageTierRef": {"name": "pool"}}}
SHARED = {
    "mooncake": {
        "store": {"sizeGiB": 8},
        "tenants": {"quotas": [{"namespace": "team-a", "sizeGiB": 2}], "othersSizeGiB": 1},
    }
}


def pinned_pool(settings: dict[str, str], **spec: Any) -> dict[str, Any]:
    """A pool that was ready with these settings in force."""
    found = d.ready_tier("pool", **POOL | spec)
    found["status"]["pinned"] = {"spec.backend": "Mooncake", **settings}
    return found


# (the pool that a tier needs, ControlPlaneReady)
POOLS = {
    "ready": (d.ready_tier("pool", **POOL), ("True", "NoneNeeded")),
    "starting": (d.unready_tier("pool", **POOL), ("False", "WaitingForTier")),
    "its edit refused": (d.refused_tier("pool", **POOL), ("False", "WaitingForTier")),
    "its edit not judged": (
        pinned_pool({"spec.mooncake.ports.rpc": "50052"}),
        ("False", "WaitingForTier"),
    ),
    "its edit not judged, of shares": (
        pinned_pool({"spec.mooncake.tenants.quotas": "team-a team-b"}, **SHARED),
        ("False", "WaitingForTier"),
    ),
    "its edit not judged, which it will refuse": (
        pinned_pool({}, image={"tag": "0.2.1"}),
        ("False", "WaitingForTier"),
    ),
    "as it was judged": (pinned_pool({"spec.mooncake.ports.rpc": "50051"}), ("True", "NoneNeeded")),
}


@pytest.mark.parametrize("name", POOLS)
def test_tier_waits_for_its_required_tier(name: str) -> None:
    pool, want = POOLS[name]
    hicache = {"host": {"sizeGiB": 8}, "storage": PAGES}
    tier = d.tier(backend="HiCache", lmcache=None, hicache=hicache)
    needs = {"need/store": [pool], "need/store/children": []}
    got = call(tier, required=required() | needs)
    assert got.conditions["ControlPlaneReady"] == want, got.messages
    assert got.composite_ready == ("TRUE" if want[0] == "True" else "FALSE")
    # And so do its consumers: what they are told of the pool must be what runs.
    known = d.requirements({**tier, "status": d.ready_tier()["status"]})
    known |= {key.replace("need/", "needs/modelplane-system/chat/"): v for key, v in needs.items()}
    engine = d.engine(args=["--model-path", d.MODEL], image="lmsysorg/sglang:v0.5.23")
    container = d.wired_pod(engine)["spec"]["containers"][0]
    container |= {"command": ["sglang", "serve"], "volumeMounts": []}
    consumer = call(d.replica(), desired={"engine": engine}, required=known)
    reason = "Wired" if want[0] == "True" else "TierNotReady"
    assert consumer.conditions["KVOffloadReady"] == (want[0], reason), consumer.messages


ONE_STORE = {"type": "Raw", "identity": "0123456789ab", "raw": {"backend": "eic"}}
PINNED = {
    "ipc": ({"lmcache": {"l1": {"sizeGiB": 200}, "ipc": "SharedMemory"}}, "spec.lmcache.ipc"),
    "chunks": (
        {"lmcache": {"l1": {"sizeGiB": 200}, "chunkTokens": 512}},
        "spec.lmcache.chunkTokens",
    ),
    "object groups": (
        {"lmcache": {"l1": {"sizeGiB": 200}, "separateObjectGroups": True}},
        "spec.lmcache.separateObjectGroups",
    ),
    "mode": (
        {"lmcache": {"mode": "InProcess", "inProcess": {"memoryGiB": 4}}},
        "spec.lmcache.mode",
    ),
    "backend": (
        {"backend": "Mooncake", "lmcache": None, "mooncake": {"store": {"sizeGiB": 8}}},
        "spec.backend",
    ),
}


DISK = {"sizeGiB": 8, "hostPath": {"path": "/mnt/kv"}}


def with_level(*, serde: str = "") -> dict[str, Any]:
    level = {"name": "nvme", "type": "Disk", "disk": DISK}
    return with_levels({**level, "serde": {"type": serde}} if serde else level)


def with_levels(*levels: dict[str, Any]) -> dict[str, Any]:
    return {"lmcache": {"l1": {"sizeGiB": 200}, "l2": list(levels)}}


def test_the_encoding_of_a_level_cannot_change_in_use() -> None:
    """Not by an edit, and not by taking the level away and bringing it back either."""
    first = call(d.tier(**with_level()), required=required())
    used, status = required() | {"usages": [USAGE]}, first.status
    for spec in (with_level(serde="FP8"), with_levels(), with_level(serde="FP8")):
        edited = {**d.tier(**spec), "status": {"pinned": status["pinned"]}}
        got = call(edited, required=used, observed=observe(first))
        if spec == with_levels():
            assert got.conditions["Accepted"][0] == "True"
            status = got.status
            continue
        path = "spec.lmcache.l2[nvme].serde: cannot change from none to FP8"
        assert path in got.messages["Accepted"]
    unused = call({**edited, "status": {"pinned": status["pinned"]}}, required=required())
    assert unused.conditions["Accepted"][0] == "True"
    assert unused.status["pinned"]["spec.lmcache.l2[nvme].serde"] == "FP8"


@pytest.mark.parametrize("name", PINNED)
def test_pinned_fields_cannot_change_in_use(name: str) -> None:
    spec, path = PINNED[name]
    first = call(d.tier(), required=required())
    status = {"status": {"pinned": first.status["pinned"]}}
    edited, observed = {**d.tier(**spec), **status}, observe(first)
    used = required() | {"usages": [USAGE]}
    got = call(edited, required=used, observed=observed)
    assert got.conditions["Accepted"] == ("False", "Invalid")
    assert f"{path}: cannot change from " in got.messages["Accepted"]
    assert got.fatals, "what runs is kept"
    unused = call(edited, required=required(), observed=observed)
    assert unused.conditions["Accepted"][0] == "True"
    assert unused.status["pinned"] != first.status["pinned"]


def nodes(*tolerated: str, **selector: str) -> dict[str, Any]:
    tolerations = [{"key": key, "operator": "Exists"} for key in tolerated]
    return {"nodes": {"selector": selector, "tolerations": tolerations}}


def taints(**toleration: Any) -> dict[str, Any]:
    found = {key: value for key, value in toleration.items() if value is not None}
    return {"nodes": {"tolerations": [found]}}


NO_SCHEDULE = "NoSchedule"
GPU = {"key": "gpu", "operator": "Exists", "effect": NO_SCHEDULE}
GPU_A = {"key": "gpu", "operator": "Equal", "value": "a", "effect": NO_SCHEDULE}
A_MINUTE = {**GPU_A, "effect": "NoExecute", "tolerationSeconds": 60}


def pool(**settings: Any) -> dict[str, Any]:
    return POOL | {"mooncake": {"store": {"sizeGiB": 8}, **settings}}


STATEFUL = {"sizeGiB": 8, "form": "StatefulSet"}


def etcd(*hosts: str) -> dict[str, Any]:
    endpoints = [{"host": host, "port": 2379} for host in hosts]
    external = {"source": "External", "external": {"endpoints": endpoints}}
    return pool(metadata="etcd", etcd=external)


HTTP, PORTS = "spec.mooncake.ports", {"metadata": 9090, "admin": 9091}
EXTERNAL = "spec.mooncake.external"
METADATA = {"masterAddress": "m1:50051", "metadataServer": "http://m1:8080/metadata"}
# (spec, edit, the setting that refuses it in use; "" where the edit is made)
USED = {
    "other nodes": (nodes(pool="a"), nodes(pool="b"), "spec.nodes.selector"),
    "fewer nodes": (nodes(pool="a"), nodes(pool="a", gpu="l4"), "spec.nodes.selector"),
    "fewer than every node": (nodes(), nodes(pool="a"), "spec.nodes.selector"),
    "more nodes": (nodes(pool="a", gpu="l4"), nodes(pool="a"), ""),
    "every node": (nodes(pool="a"), nodes(), ""),
    "one taint less": (nodes("llm", "gpu"), nodes("gpu"), "spec.nodes.tolerations"),
    "no taint": (nodes("llm"), nodes(), "spec.nodes.tolerations"),
    "the first taint": (nodes(), nodes("llm"), ""),
    "one taint more": (nodes("gpu"), nodes("llm", "gpu"), ""),
    "a taint of any value": (taints(**GPU_A), taints(**GPU), ""),
    "a taint of any effect": (taints(**GPU_A), taints(**{**GPU_A, "effect": None}), ""),
    "a taint of any key": (taints(**GPU_A), taints(operator="Exists", effect=NO_SCHEDULE), ""),
    "a taint for ever": (taints(**A_MINUTE), taints(**{**A_MINUTE, "tolerationSeconds": None}), ""),
    "a taint of one value": (taints(**GPU), taints(**GPU_A), "spec.nodes.tolerations"),
    "a taint of another value": (
        taints(**GPU_A),
        taints(**{**GPU_A, "value": "b"}),
        "spec.nodes.tolerations",
    ),
    "a taint of another effect": (
        taints(**GPU_A),
        taints(operator="Exists", effect="NoExecute"),
        "spec.nodes.tolerations",
    ),
    "a taint for a minute": (
        taints(**{**A_MINUTE, "tolerationSeconds": None}),
        taints(**A_MINUTE),
        "spec.nodes.tolerations",
    ),
    "every taint": (
        nodes("gpu"),
        {"nodes": {"tolerations": [{"operator": "Exists"}]}},
        "",
    ),
    "other nodes of a pool": (pool() | nodes(pool="a"), pool() | nodes(pool="b"), ""),
    "metadata": (pool(metadata="http"), pool(metadata="http", ports=PORTS), f"{HTTP}.metadata"),
    "ports that no engine holds": (pool(), pool(ports=PORTS), ""),
    "admin": (
        pool(adminAccess="Engines"),
        pool(adminAccess="Engines", ports=PORTS),
        f"{HTTP}.admin",
    ),
    "another master": (
        pool(external={"masterAddress": "m1:50051"}),
        pool(external={"masterAddress": "m2:50051"}),
        f"{EXTERNAL}.masterAddress",
    ),
    "other metadata": (
        pool(metadata="http", external=METADATA),
        pool(metadata="http", external=METADATA | {"metadataServer": "http://m2:8080/metadata"}),
        f"{EXTERNAL}.metadataServer",
    ),
    "another etcd": (etcd("e1"), etcd("e2"), "spec.mooncake.etcd.external.endpoints"),
}


@pytest.mark.parametrize("name", USED)
def test_what_running_engines_hold_of_a_tier_stays(name: str) -> None:
    spec, edit, path = USED[name]
    before, after = ({**d.tier(), "spec": _tier_spec(each)} for each in (spec, edit))
    first = call(before, required=required())
    assert not first.fatals
    edited = {**after, "status": {"pinned": first.status["pinned"]}}
    got = call(edited, required=required() | {"usages": [USAGE]}, observed=observe(first))
    assert got.conditions["Accepted"][0] == ("False" if path else "True"), got.messages
    assert got.messages["Accepted"].startswith(f"{path}: cannot change from " if path else "")
    unused = call(edited, required=required(), observed=observe(first))
    assert unused.conditions["Accepted"][0] == "True"


def _tier_spec(spec: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in d.tier(**spec)["spec"].items() if value is not None}


def claimed(size: int, storage_class: str | None = None) -> dict[str, Any]:
    persistence = {"storageClassName": storage_class} if storage_class else {}
    redis = {"managed": {"sizeGiB": size, "persistence": persistence}}
    return with_levels({"name": "r", "type": "Redis", "redis": redis})


# (before, edit, what refuses it also without consumers)
CLAIMS = {
    "smaller": (claimed(8), claimed(4), "cannot shrink from 16Gi to 8Gi"),
    "larger": (claimed(4), claimed(8), ""),
    "of another class": (
        claimed(8, "slow"),
        claimed(8, "fast"),
        "cannot change from slow to fast",
    ),
    "gone": (claimed(8), {}, ""),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_only_grows(name: str) -> None:
    before, after, refusal = CLAIMS[name]
    first = call(d.tier(**before), required=required())
    edited = d.tier(**after) | {"status": {"pinned": first.status["pinned"]}}
    got = call(edited, required=required(), observed=observe(first))
    assert got.conditions["Accepted"][0] == ("False" if refusal else "True")
    assert refusal in got.messages["Accepted"]


@pytest.mark.parametrize(
    ("there", "edit", "accepted"),
    [
        (None, claimed(4), "True"),  # a quota refused it
        ({"resources": {"requests": {"storage": "4Gi"}}}, claimed(4), "True"),
        ({"resources": {"requests": {"storage": "1Zi"}}}, claimed(4), "True"),
        ({"resources": {"requests": {"storage": "16Gi"}}}, claimed(8, "fast"), "True"),
        ({"storageClassName": "usual"}, claimed(8, "fast"), "False"),
    ],
)
def test_a_claim_is_held_by_what_the_cluster_has(
    there: dict[str, Any] | None, edit: dict[str, Any], accepted: str
) -> None:
    first = call(d.tier(**claimed(8)), required=required())
    seen = observe(first)
    (key,) = (k for k, it in first.desired.items() if "PersistentVolumeClaim" in str(it))
    seen[key]["status"]["atProvider"] = {"manifest": {"spec": there}} if there else {}
    edited = d.tier(**edit) | {"status": {"pinned": first.status["pinned"]}}
    got = call(edited, required=required(), observed=seen)
    assert got.conditions["Accepted"][0] == accepted


def test_an_invalid_value_of_a_pinned_setting_says_what_it_was() -> None:
    pinned = {"status": {"pinned": {"spec.mooncake.protocol": "tcp"}}}
    got = call(
        d.tier(**POOL | {"mooncake": {"protocol": "rdma", "store": {"sizeGiB": 8}}}) | pinned,
        required=required(),
    )
    assert got.messages["Accepted"] == (
        "spec.mooncake.protocol: is rdma, but spec.rdma.source is None: set it to DevicePlugin or"
        " DRA, or use tcp. It was tcp, and cannot change while consumers use the tier"
    )


@pytest.mark.parametrize("ready", [3, 1])
def test_what_runs_is_judged_while_an_edit_is_refused(ready: int) -> None:
    first = call(d.tier(), required=required())
    pinned = {"status": {"pinned": first.status["pinned"]}}
    edit = {"lmcache": {"l1": {"sizeGiB": 64}, "chunkTokens": 512}}
    used = required() | {"usages": [USAGE]}
    observed = agents(observe(first), 3, ready)
    got = call(d.tier(**edit) | pinned, required=used, observed=observed)
    runs = call(d.tier() | pinned, required=used, observed=observed)
    assert got.conditions == runs.conditions | {"Accepted": ("False", "Invalid")}
    assert got.conditions["AgentsReady"][0] == ("True" if ready == 3 else "False")
    assert got.fatals, "what runs is kept"


@pytest.mark.parametrize("is_fleet", [False, True])
def test_what_runs_is_not_judged_by_a_refused_edit_that_composes_other_parts(
    is_fleet: bool,
) -> None:
    """NIXL needs no agents; those of LMCache run on, and may fail."""
    known = {"clusters": [d.cluster("us")], **required(usages=[USAGE])}
    first = call(d.tier(**(FLEET if is_fleet else {})), required=known)
    seen = in_use(observe(first), "tier-us") if is_fleet else observe(first, ready=False)
    edited = d.tier(backend="NIXL", lmcache=None, nixl={}) | {"status": first.status}
    got = call(edited, required=known, observed=seen)
    unknown = dict.fromkeys(CLUSTER_CONDITIONS[1:], ("Unknown", "Invalid"))
    assert got.conditions == {"Accepted": ("False", "Invalid"), **unknown}
    assert got.fatals, "what runs is kept"


# (replicas that an edit asks for, whether it is refused too) of ten stores
SCALED = ((20, True), (5, True), (20, False), (5, False))


@pytest.mark.parametrize(("replicas", "refused"), SCALED)
def test_stores_that_no_edit_has_reached_are_those_of_before(replicas: int, refused: bool) -> None:
    first, edit = (
        {**d.tier(), "spec": _tier_spec(pool(metadata="http", store=STATEFUL | {"replicas": n}))}
        for n in (10, replicas)
    )
    if refused:
        edit["spec"]["mooncake"]["ports"] = PORTS
    was = call(first, required=required())
    edit["status"] = {"pinned": was.status["pinned"]}
    used = required() | {"usages": [USAGE]}
    got = call(edit, required=used, observed=observe(was))
    assert got.conditions["Accepted"][0] == ("False" if refused else "True")
    reason = "Ready" if refused else "Updating"
    assert got.conditions["AgentsReady"] == ("True", reason), got.messages
    if not refused:
        assert got.status["agents"]["summary"] == "10/10"


# Tiers of which nothing runs on the cluster: (before, after, what is refused)
NOTHING_COMPOSED: dict[str, tuple[dict, dict, str]] = {
    "a transport": (
        {"backend": "NIXL", "nixl": {}},
        {"backend": "NIXL", "nixl": {"transfer": "Push"}},
        "spec.nixl.transfer: cannot change from Pull to Push",
    ),
    "a backend": (
        {"backend": "Native", "native": {"cpu": {"sizeGiB": 8}}},
        {"backend": "NIXL", "nixl": {}},
        "spec.backend: cannot change from Native to NIXL",
    ),
    "chunks inside engines": (
        {"backend": "LMCache", "lmcache": {"mode": "InProcess", "inProcess": {"memoryGiB": 4}}},
        {"backend": "LMCache", "lmcache": {"l1": {"sizeGiB": 8}}},
        "spec.lmcache.mode: cannot change from InProcess to NodeServer",
    ),
    "pages of one store": (
        {"backend": "HiCache", "hicache": {"host": {"sizeGiB": 8}, "storage": ONE_STORE}},
        {
            "backend": "HiCache",
            "hicache": {"host": {"sizeGiB": 8}, "storage": ONE_STORE, "pageTokens": 128},
        },
        "spec.hicache.pageTokens: cannot change from 64 to 128",
    ),
    "no store of one identity any more": (
        {"backend": "HiCache", "hicache": {"host": {"sizeGiB": 8}, "storage": ONE_STORE}},
        {
            "backend": "HiCache",
            "hicache": {"host": {"sizeGiB": 8}, "storage": {**ONE_STORE, "identity": None}},
        },
        "spec.hicache.storage.identity: cannot change from 0123456789ab to none",
    ),
    "a spec that is not valid": (
        {"backend": "NIXL", "nixl": {}},
        {
            "backend": "NIXL",
            "nixl": {"backend": "LIBFABRIC"},
            "rdma": {"source": "DRA", "devices": ["mlx5_0"]},
        },
        "spec.rdma: dra must be set when source is DRA",
    ),
}


@pytest.mark.parametrize("name", NOTHING_COMPOSED)
def test_pinned_fields_of_a_tier_without_resources_cannot_change_in_use(name: str) -> None:
    before, after, said = NOTHING_COMPOSED[name]
    first = call(d.tier(**{"lmcache": None, **before}), required=required())
    assert first.desired == {}
    edited = {**d.tier(**{"lmcache": None, **after}), "status": first.status}
    got = call(edited, required=required() | {"usages": [USAGE]})
    assert got.conditions["Accepted"] == ("False", "Invalid"), got.messages
    assert said in got.messages["Accepted"]
    assert got.fatals, "its status is kept, which says what engines run with"


def in_pool(name: str | None) -> dict[str, Any]:
    storage = {"type": "Mooncake", "mooncake": {"storageTierRef": {"name": name}}}
    hicache: dict[str, Any] = {"host": {"sizeGiB": 8}}
    return {"backend": "HiCache", "hicache": hicache | ({"storage": storage} if name else {})}


def levels(*found: dict[str, Any]) -> dict[str, Any]:
    return {"backend": "Native", "native": {"cpu": {"sizeGiB": 8}, "secondary": list(found)}}


def one_store(identity: str | None, pages: int) -> dict[str, Any]:
    hicache = {"host": {"sizeGiB": 8}, "pageTokens": pages}
    return {
        "backend": "HiCache",
        "hicache": {**hicache, "storage": {**ONE_STORE, "identity": identity}},
    }


FILES = {"sizeGiB": 10, "claim": {"name": "kv"}}
FILE_LEVEL = {"name": "files", "type": "FileSystem", "fileSystem": FILES}
# What engines use: (before, after, what is refused; "" for nothing).
EDITED_IN_USE: dict[str, tuple[dict, dict, str]] = {
    "a pool for none": (in_pool(None), in_pool("a"), ""),
    "another pool": (
        in_pool("a"), in_pool("b"),
        "spec.hicache.storage.mooncake.storageTierRef: cannot change from a to b",
    ),
    "no pool": (
        in_pool("a"), in_pool(None),
        "spec.hicache.storage.mooncake.storageTierRef: cannot change from a to none",
    ),
    "files for none": (levels(), levels(FILE_LEVEL), ""),
    "no files": (
        levels(FILE_LEVEL), levels(),
        "spec.native.secondary: cannot change from files at default/kv to no files",
    ),
    "whose pages a store is to hold": (one_store(None, 64), one_store("0123456789ab", 128), ""),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITED_IN_USE)
def test_some_settings_may_be_added_but_not_removed_in_use(name: str) -> None:
    before, after, said = EDITED_IN_USE[name]

    def asked(spec: dict[str, Any]) -> dict[str, Any]:
        storage = spec.get("hicache", {}).get("storage", {}).get("mooncake")
        pool = [d.ready_tier(storage["storageTierRef"]["name"], **POOL)] if storage else []
        return required() | {"usages": [USAGE], "need/store": pool, "need/store/children": []}

    first = call(d.tier(lmcache=None, **before), required=asked(before))
    edited = {**d.tier(lmcache=None, **after), "status": first.status}
    got = call(edited, required=asked(after), observed=observe(first))
    assert got.conditions["Accepted"][0] == ("False" if said else "True"), got.messages
    assert said in got.messages["Accepted"]
    assert bool(got.fatals) is bool(said)


def test_pinned_values_fit_the_status() -> None:
    """One value that does not would fail all of the status."""

    def tier(last: str) -> dict[str, Any]:
        claims = [{"name": f"{'c' * 200}{n}", "namespace": "n" * 60} for n in (1, 2, 3, last)]
        files = ({**FILE_LEVEL, "name": f"l{n}"} for n in range(4))
        each = zip(files, claims, strict=True)
        made = levels(*({**f, "fileSystem": {"sizeGiB": 1, "claim": c}} for f, c in each))
        return made | {"allowedNamespaces": {"from": "All"}}

    first = call(d.tier(lmcache=None, **tier("4")), required=required())
    assert max(map(len, first.status["pinned"].values())) <= 512
    for last, status in (("4", "True"), ("5", "False")):
        edited = {**d.tier(lmcache=None, **tier(last)), "status": first.status}
        used = required() | {"usages": [USAGE]}
        got = call(edited, required=used, observed=observe(first))
        assert got.conditions["Accepted"][0] == status


THROUGH = {
    **USAGE,
    "metadata": {"name": "u", "namespace": "modelplane-system"},
    "spec": {"by": {"kind": "KVOffloadTier", "resourceRef": {"name": "pages"}}},
}
# (the shares before and after, who uses the tier, the namespaces that cannot go)
BOTH = {"team-a": 2, "team-b": 2}
SHARES: dict[str, tuple[dict[str, int], dict[str, int], list, str]] = {
    "another size": (BOTH, {"team-a": 1, "team-b": 9}, [USAGE], ""),
    "one more": (BOTH, {**BOTH, "team-c": 2}, [USAGE], ""),
    "one without consumers goes": (BOTH, {"team-a": 2}, [USAGE], ""),
    "one with consumers": (BOTH, {"team-b": 2}, [USAGE], "team-a"),
    "all of them": (BOTH, {}, [USAGE], "team-a"),
    "all of them, unused": (BOTH, {}, [], ""),
    "the first": ({}, {"team-a": 2}, [USAGE], ""),
    "who uses it through another tier is not seen": (BOTH, {"team-a": 2}, [THROUGH], "team-b"),
}


@pytest.mark.parametrize("name", SHARES)
def test_quota_in_use_cannot_be_removed(name: str) -> None:
    def tier(shares: dict[str, int]) -> dict:
        quotas = [{"namespace": n, "sizeGiB": gib} for n, gib in shares.items()]
        tenants = {"quotas": quotas, "othersSizeGiB": 1}
        return d.tier(**POOL | {"mooncake": {"store": {"sizeGiB": 8}, "tenants": tenants}})

    before, after, usages, kept = SHARES[name]
    first = call(tier(before), required=required())
    assert all(first.status["pinned"].values()), "the status may hold no empty value"
    edited = {**tier(after), "status": {"pinned": first.status["pinned"]}}
    got = call(edited, required=required() | {"usages": usages}, observed=observe(first))
    assert got.conditions["Accepted"][0] == ("False" if kept else "True"), got.messages
    if kept:
        said = f"spec.mooncake.tenants.quotas: cannot lose {kept} while consumers there use it"
        assert said in got.messages["Accepted"]
        assert got.fatals, "what runs is kept"
        return
    master = "deployment-master"
    assert got.desired[master] == first.desired[master], "no edit of shares restarts the master"
    config = got.desired["configmap-tenants"]["spec"]["forProvider"]["manifest"]["data"]
    rows = json.loads(config["tenants.json"])["tenants"]
    assert {row["name"]: row["quota"] >> 30 for row in rows} == after | {"default": 1}


BOUND = {"sizeGiB": 500, "namespace": "default"}
# (what is asked of the evictor afterwards, the claim, what is refused in use)
BOUNDS: dict[str, tuple[dict[str, Any] | None, str, str]] = {
    "another size": ({**BOUND, "sizeGiB": 900}, "pages", ""),
    "none any more": (None, "pages", ""),
    "another namespace": (
        {**BOUND, "namespace": "team-b"},
        "pages",
        "spec.hicache.storage.evictor: cannot change from default/pages to team-b/pages",
    ),
    "another claim": (
        BOUND,
        "more",
        "spec.hicache.storage.evictor: cannot change from default/pages to default/more",
    ),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_evictor_of_directories_in_use_cannot_be_removed(name: str) -> None:
    def tier(evictor: dict[str, Any] | None, claim: str) -> dict:
        file = {"sizeGiB": 8, "claim": {"claimName": claim}}
        storage = {"type": "File", "file": file} | ({"evictor": evictor} if evictor else {})
        hicache = {"host": {"sizeGiB": 8}, "storage": storage}
        all_ = {"from": "All"}
        return d.tier(backend="HiCache", lmcache=None, hicache=hicache, allowedNamespaces=all_)

    evictor, claim, said = BOUNDS[name]
    first = call(tier(BOUND, "pages"), required=required())
    edited = {**tier(evictor, claim), "status": {"pinned": first.status["pinned"]}}
    for usages, refused in ([USAGE], said), ([], ""):
        got = call(edited, required=required() | {"usages": usages}, observed=observe(first))
        assert got.conditions["Accepted"][0] == ("False" if refused else "True"), got.messages
        assert refused in got.messages["Accepted"]


def test_quota_in_use_cannot_be_removed_through_no_quotas() -> None:
    """Engines that run name their tenant to a master without tenants too, and to the next one."""

    def tier(before: Outcome | None, *names: str) -> dict:
        settings: dict[str, Any] = {"store": {"sizeGiB": 8}}
        if names:
            quotas = [{"namespace": name, "sizeGiB": 2} for name in names]
            settings["tenants"] = {"quotas": quotas, "othersSizeGiB": 1}
        status = {"pinned": before.status["pinned"]} if before else {}
        return {**d.tier(**POOL | {"mooncake": settings}), "status": status}

    def asked(document: dict, usages: list | None) -> Outcome:
        known = {"cluster": [d.cluster()]} | ({} if usages is None else {"usages": usages})
        return call(document, required=known)

    first = asked(tier(None, "team-a", "team-b"), [USAGE])
    without = asked(tier(first), [USAGE])
    assert without.conditions["Accepted"][0] == "True"
    again = asked(tier(without, "team-b"), [USAGE])
    assert again.conditions["Accepted"][0] == "False"
    assert "quotas: cannot lose team-a while" in again.messages["Accepted"]
    assert asked(tier(without, "team-a"), [USAGE]).conditions["Accepted"][0] == "True"
    # Nobody has looked yet who uses it; and nobody does any more.
    unseen = asked(tier(first), None)
    assert asked(tier(unseen, "team-b"), [USAGE]).conditions["Accepted"][0] == "False"
    left = asked(tier(without), [])
    assert asked(tier(left, "team-b"), [USAGE]).conditions["Accepted"][0] == "True"


def test_immutable_kubernetes_fields_are_refused_always() -> None:
    def tier(size: int) -> dict:
        offload = {"sizeGiB": size, "claim": {}}
        store = {"sizeGiB": 8, "form": "StatefulSet", "replicas": 3, "offload": offload}
        return d.tier(backend="Mooncake", lmcache=None, mooncake={"store": store})

    first = call(tier(10), required=required())
    edited = {**tier(20), "status": {"pinned": first.status["pinned"]}}
    got = call(edited, required=required(), observed=observe(first))
    assert "spec.mooncake.store.offload.claim: cannot change from 10Gi" in got.messages["Accepted"]


def test_tier_composes_few_objects_and_watches() -> None:
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
    "a system's namespace": (
        {"namespace": "kube-flannel"},
        "spec.namespace: kube-flannel belongs to the cluster's own parts",
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


def test_all_problems_are_reported_at_once() -> None:
    spec = {"lmcache": {"l1": {"sizeGiB": -1}, "chunkTokens": 7}, "startupTimeoutSeconds": 1}
    message = call(d.tier(**spec), required=required()).messages["Accepted"]
    for path in ("spec.lmcache.l1.sizeGiB", "spec.lmcache.chunkTokens", "startupTimeoutSeconds"):
        assert path in message


FLEET = {"inferenceClusterRef": None, "clusterSelector": {"matchLabels": {"fleet": "prod"}}}


def test_a_fleet_stamps_one_child_per_cluster() -> None:
    clusters = [d.cluster("us"), d.cluster("eu")]
    got = call(d.tier(**FLEET), required={"clusters": clusters})
    assert sorted(got.desired) == ["tier-eu", "tier-us"]
    child = got.desired["tier-eu"]
    assert child["spec"] == d.tier(inferenceClusterRef={"name": "eu"})["spec"]
    assert child["metadata"]["labels"] == {
        "modelplane.ai/kv-offload-fleet": "chat",
        "modelplane.ai/kv-offload-provider-config": "gpu",
        "modelplane.ai/kv-offload-revision": got.status["rollout"]["revision"],
    }
    assert got.requirements["clusters"]["labels"] == {"fleet": "prod"}
    assert (got.composite_ready, got.ttl) == ("FALSE", 10)
    again = call(
        d.tier(**FLEET),
        required={"clusters": clusters},
        observed=observe(got),
    )
    assert (again.composite_ready, again.ttl) == ("TRUE", 300)
    assert again.status["cluster"] == "2/2 clusters"


def in_use(seen: dict[str, Any], key: str) -> dict[str, Any]:
    """With core's mark on a composed tier: a Usage is of it."""
    metadata = {**seen[key]["metadata"]}
    metadata["labels"] = metadata.get("labels", {}) | {"crossplane.io/in-use": "true"}
    return seen | {key: {**seen[key], "metadata": metadata}}


def test_a_fleet_whose_child_refused_its_edit_is_not_ready() -> None:
    clusters = {"clusters": [d.cluster("us"), d.cluster("eu")]}
    observed = observe(call(d.tier(**FLEET), required=clusters))
    said = {"type": "Accepted", "status": "False", "reason": "Invalid", "message": "spec.x: no"}
    observed["tier-eu"]["status"]["conditions"].append(said)  # core leaves Ready as it was
    got = call(d.tier(**FLEET), required=clusters, observed=observed)
    assert got.conditions["AgentsReady"] == ("False", "Starting")
    assert (got.composite_ready, got.status["cluster"]) == ("FALSE", "1/2 clusters")
    row = next(row for row in got.status["clusters"] if row["name"] == "eu")
    assert (row["ready"], row["message"]) == (False, "spec.x: no")


# What is left of a fleet whose clusters "eu" and "us" are there, when "us" no longer matches:
# (is the child in use, are the clusters looked up?) -> what is desired
SHRINKING = {
    "nobody uses it": (False, True, ["tier-eu"]),
    "in use": (True, True, ["tier-eu", "tier-us", "usage-fleet"]),
    "unresolved": (False, False, ["tier-eu", "tier-us"]),
}


@pytest.mark.parametrize("name", SHRINKING)
def test_child_in_use_is_kept(name: str) -> None:
    used, resolved, left = SHRINKING[name]
    both = {"clusters": [d.cluster("us"), d.cluster("eu")]}
    fleet = d.tier(**FLEET, removal="Remove")
    observed = observe(call(fleet, required=both))
    observed = in_use(observed, "tier-us") if used else observed
    required = {"clusters": [d.cluster("eu")]} if resolved else {}
    got = call(fleet, required=required, observed=observed)
    assert sorted(got.desired) == left
    assert set(got.requirements) == {"clusters"}, "nobody else is looked up"


BY_NAME = "cluster/us"
US = d.cluster("us")
US_GOES = d.cluster("us")
US_GOES["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
US_AGAIN = d.cluster("us")
US_AGAIN["metadata"]["uid"] = "second"
# A fleet on "eu" and "us", whose selector no longer matches "us":
# (spec.removal, is the child in use, what "us" is looked up as) -> what is desired, and is said
REMOVAL: dict[str, tuple[str | None, bool, list[Any] | None, list[str], str]] = {
    "by default it stays": (None, False, [US], ["tier-eu", "tier-us"], "Keeps 1 cluster that spec"),
    "Keep": ("Keep", False, [US], ["tier-eu", "tier-us"], "Keeps 1 cluster that spec"),
    "not looked up yet": (None, False, None, ["tier-eu", "tier-us"], "Keeps 1 cluster that spec"),
    "Remove": ("Remove", False, None, ["tier-eu"], ""),
    "Remove, in use": (
        *("Remove", True, None),
        ["tier-eu", "tier-us", "usage-fleet"],
        "Keeps 1 cluster that left the fleet, with the spec that each has, while a Usage protects",
    ),
    "the cluster is being deleted": (None, False, [US_GOES], ["tier-eu"], ""),
    "the cluster is gone": (None, False, [], ["tier-eu"], ""),
    "declared again": (None, False, [US_AGAIN], ["tier-eu"], ""),
    "gone, in use": (
        *(None, True, []),
        ["tier-eu", "tier-us", "usage-fleet"],
        "Keeps 1 cluster that left the fleet, with the spec that each has, while a Usage protects",
    ),
}


@pytest.mark.parametrize("name", REMOVAL)
def test_selector_edit_empties_no_cluster(name: str) -> None:
    removal, used, found, want, said = REMOVAL[name]
    fleet = d.tier(**FLEET, **({"removal": removal} if removal else {}))
    observed = observe(call(fleet, required=BOTH))
    if found == [US_AGAIN]:
        observed = stamped_for(observed, annotations=FOR_THE_FIRST)
    observed = in_use(observed, "tier-us") if used else observed
    looked_up = {} if found is None else {BY_NAME: found}
    got = call(fleet, required=ONLY_EU | looked_up, observed=observed)
    assert sorted(got.desired) == want
    assert got.messages["ClusterResolved"].startswith(said)
    assert bool(got.messages["ClusterResolved"]) == bool(said)
    if removal != "Remove":
        assert got.requirements[BY_NAME]["name"] == "us"
    if "tier-us" in want:
        assert got.desired["tier-us"]["spec"] == observed["tier-us"]["spec"]


def test_child_told_to_go_is_not_kept() -> None:
    observed = observe(call(d.tier(**FLEET), required=BOTH))
    observed["tier-us"] = terminating(observed["tier-us"])
    got = call(d.tier(**FLEET), required=ONLY_EU | {BY_NAME: [US]}, observed=observed)
    assert sorted(got.desired) == ["tier-eu"]


@pytest.mark.parametrize("used", [True, False])
def test_fleet_that_matches_nothing_is_not_ready_beside_what_it_keeps(used: bool) -> None:
    observed = observe(call(d.tier(**FLEET), required=BOTH))
    observed = in_use(observed, "tier-us") if used else observed
    found = {"clusters": [], BY_NAME: [US], "cluster/eu": []}
    got = call(d.tier(**FLEET), required=found, observed=observed)
    assert "tier-us" in got.desired
    assert got.conditions["ClusterResolved"] == ("False", "NoMatchingClusters")
    assert got.conditions["RolledOut"] == ("False", "NoMatchingClusters")
    assert got.messages["ClusterResolved"] == (
        "spec.clusterSelector.matchLabels: no InferenceCluster carries these labels. Keeps 1"
        " cluster that spec.clusterSelector no longer matches, with the spec that each has: us. To"
        " take off those that nothing uses, set spec.removal to Remove."
    )
    assert (got.composite_ready, got.status["cluster"]) == ("FALSE", "0/0 clusters, 1 kept")
    assert "rollout" not in got.status


@pytest.mark.parametrize("name", SHRINKING)
@pytest.mark.parametrize("there", [True, False], ids=["stamped", "new"])
def test_fleet_leaves_a_cluster_being_deleted(name: str, there: bool) -> None:
    """Deleted in the foreground it waits for its ProviderConfig, and that for the child's Objects:
    while the child stayed for it, both stayed for ever.
    """
    used, resolved, left = SHRINKING[name]
    us = d.cluster("us")
    us["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    now = {"clusters": [d.cluster("us"), d.cluster("eu")]}
    observed = observe(call(d.tier(**FLEET), required=now)) if there else {}
    observed = in_use(observed, "tier-us") if there and used else observed
    required = {"clusters": [us, d.cluster("eu")]} if resolved else {}
    got = call(d.tier(**FLEET), required=required, observed=observed)
    assert "tier-us" not in got.desired or (there and "tier-us" in left)
    assert ("tier-eu" in got.desired) == (there or resolved)


def test_child_that_core_has_not_finished_once_stays() -> None:
    """It may have Objects already, and names their ProviderConfig only then."""
    us = d.cluster("us")
    us["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    observed = observe(call(d.tier(**FLEET), required=BOTH))
    fresh = {k: v for k, v in observed["tier-us"].items() if k != "status"}
    required = {"clusters": [us, d.cluster("eu")]}
    fresh_name = fresh["metadata"]["name"]
    failed = {"conditions": [{"type": "Synced", "status": "False"}]}  # core's own word
    for child in (fresh, {**fresh, "status": failed}):
        got = call(d.tier(**FLEET), required=required, observed=observed | {"tier-us": child})
        assert got.desired["tier-us"]["spec"] == fresh["spec"]
        assert got.ttl == 10
        assert got.messages["ClusterResolved"] == (
            f"Taken off once Crossplane has reconciled each: KVOffloadTier {fresh_name}. Where one"
            " stays, kubectl describe kvot says why."
        )
    assert "tier-us" not in call(d.tier(**FLEET), required=required, observed=observed).desired


# name: (seconds since a child without an answer was made, what it has composed, whether it stays)
FRESH: dict[str, tuple[int, list[dict[str, str]], bool]] = {
    "just made": (300, [], True),
    "never reconciled": (301, [], False),
    "reconciled in part": (301, [{"kind": "Object", "name": "chat-us-agent"}], True),
}


@pytest.mark.parametrize("said", [[], [{"type": "Synced", "status": "False"}]])
@pytest.mark.parametrize("name", FRESH)
def test_leaving_child_that_never_ran_goes(name: str, said: list[dict[str, str]]) -> None:
    seconds, composed, stays = FRESH[name]
    us = d.cluster("us")
    us["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    observed = observe(call(d.tier(**FLEET), required=BOTH))
    child = observed["tier-us"]
    child["metadata"] = {**child["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}
    child["spec"] = {**child["spec"], "crossplane": {"resourceRefs": composed}}
    child["status"] = {"conditions": said}
    required = {"clusters": [us, d.cluster("eu")]}
    new_year = 1767225600.0
    got = call(d.tier(**FLEET), required=required, observed=observed, now=new_year + seconds)
    assert ("tier-us" in got.desired) == stays
    assert ("Taken off once" in got.messages["ClusterResolved"]) == stays


BOTH = {"clusters": [d.cluster("us"), d.cluster("eu")]}


def stamped(looked_at: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
    """What a fleet on "eu" and "us" observes: both children run; of the holds, those looked at."""
    seen = observe(call(d.tier(**FLEET), required=BOTH))
    for cluster in ("eu", "us"):
        status = seen[f"tier-{cluster}"]["status"]
        status["providerConfigRef"] = {"name": f"kubeconfig-{cluster}"}
    for cluster in looked_at:
        seen[f"hold-{cluster}"] = {
            "spec": {"providerConfigRef": {"name": f"kubeconfig-{cluster}"}},
            "status": {"conditions": [{"type": "Synced", "status": "False"}]},
        }
    return seen


def without(seen: dict[str, Any], key: str) -> dict[str, Any]:
    """Core observes no more what it was told to delete, gone or not."""
    return {k: v for k, v in seen.items() if k != key}


def listed(cluster: str, **metadata: Any) -> dict[str, Any]:
    """A child as it is looked up."""
    metadata = {"name": f"chat-{cluster}", **metadata}
    return {"metadata": metadata, "spec": {"inferenceClusterRef": {"name": cluster}}}


def terminating(found: dict[str, Any]) -> dict[str, Any]:
    metadata = {**found["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    return {**found, "metadata": metadata}


def protected(tier: dict[str, Any]) -> dict[str, Any]:
    """A tier on which core has put the mark of its Usage."""
    labels = {**tier["metadata"].get("labels", {}), "crossplane.io/in-use": "true"}
    return {**tier, "metadata": {**tier["metadata"], "labels": labels}}


ONLY_EU = {"clusters": [d.cluster("eu")]}
LEAVING = {"clusters": [terminating(d.cluster("us")), d.cluster("eu")]}
DEFERRED = stamped(("us",))
AWAY = without(DEFERRED, "tier-us")


def of_another(child: dict[str, Any]) -> dict[str, Any]:
    """A tier that an InferenceCluster composes under the fleet's name."""
    owner = {"kind": "InferenceCluster", "name": "us", "uid": "another", "controller": True}
    return {**child, "metadata": {**child["metadata"], "ownerReferences": [owner]}}


# How a child leaves "us": (observed, required) -> what is desired.
PARTING: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "its ProviderConfig is held first": (stamped(), LEAVING, ["hold-us", "tier-eu", "tier-us"]),
    "also where the cluster is gone": (
        stamped(),
        ONLY_EU | {"cluster/us": []},
        ["hold-us", "tier-eu", "tier-us"],
    ),
    "until the provider has looked": (
        DEFERRED | {"hold-us": without(DEFERRED["hold-us"], "status")},
        LEAVING,
        ["hold-us", "tier-eu", "tier-us"],
    ),
    "and not while somebody deletes the guard": (
        DEFERRED | {"hold-us": terminating({"metadata": {}, **DEFERRED["hold-us"]})},
        LEAVING,
        ["hold-us", "tier-eu", "tier-us"],
    ),
    "then it goes": (DEFERRED, LEAVING, ["hold-us", "tier-eu"]),
    "and may still be there": (AWAY, LEAVING, ["hold-us", "tier-eu"]),
    "as core saw it before": (
        AWAY,
        LEAVING | {"children": [listed("us"), listed("eu")]},
        ["hold-us", "tier-eu"],
    ),
    "and is": (
        AWAY,
        LEAVING | {"children": [terminating(listed("us")), listed("eu")]},
        ["hold-us", "tier-eu"],
    ),
    "and is no more": (AWAY, LEAVING | {"children": [listed("eu")]}, ["tier-eu"]),
    "and an inline tier of its name is there": (
        AWAY,
        LEAVING | {"children": [of_another(listed("us")), listed("eu")]},
        ["tier-eu"],
    ),
    "wanted again before it went": (
        DEFERRED,
        BOTH | {"children": [listed("us"), listed("eu")]},
        ["tier-eu", "tier-us"],
    ),
    "wanted again while it goes": (
        AWAY,
        BOTH | {"children": [terminating(listed("us")), listed("eu")]},
        ["hold-us", "tier-eu", "tier-us"],
    ),
    "as core saw that before": (
        AWAY,
        BOTH | {"children": [listed("us"), listed("eu")]},
        ["hold-us", "tier-eu", "tier-us"],
    ),
    "and nothing is looked up": (DEFERRED, {}, ["hold-us", "tier-eu", "tier-us"]),
}


def redeclared(found: dict[str, Any], uid: str) -> dict[str, Any]:
    return {**found, "metadata": {**found["metadata"], "uid": uid}}


REDECLARED = {"clusters": [redeclared(d.cluster("us"), "second"), d.cluster("eu")]}
FOR_THE_FIRST = {"modelplane.ai/kv-offload-cluster-uid": "first"}


def stamped_for(seen: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    child = seen["tier-us"]
    return seen | {"tier-us": {**child, "metadata": {**child["metadata"], **metadata}}}


# How a child leaves "us" for the cluster that was declared again under that name:
# (observed, required) -> (what is desired, the uid that the child is stamped with).
ANEW: dict[str, tuple[dict[str, Any], dict[str, Any], list[str], str | None]] = {
    "held first": (
        stamped_for(stamped(), annotations=FOR_THE_FIRST),
        REDECLARED,
        ["hold-us", "tier-eu", "tier-us"],
        "first",
    ),
    "then it goes": (
        stamped_for(DEFERRED, annotations=FOR_THE_FIRST),
        REDECLARED,
        ["hold-us", "tier-eu"],
        None,
    ),
    "stamped while the old one goes": (
        AWAY,
        REDECLARED | {"children": [terminating(listed("us")), listed("eu")]},
        ["hold-us", "tier-eu", "tier-us"],
        "second",
    ),
    "which had been stamped already": (
        stamped_for(DEFERRED, annotations=FOR_THE_FIRST, deletionTimestamp="2026-01-01T00:00:00Z"),
        REDECLARED | {"children": [terminating(listed("us")), listed("eu")]},
        ["hold-us", "tier-eu", "tier-us"],
        "second",
    ),
    "of an older release": (stamped(), REDECLARED, ["tier-eu", "tier-us"], "second"),
    "in use": (
        in_use(stamped_for(stamped(), annotations=FOR_THE_FIRST), "tier-us"),
        REDECLARED,
        ["tier-eu", "tier-us", "usage-fleet"],
        "first",
    ),
}


# The hold goes with the fleet tier, which therefore stays until nothing is left of the child.
PROTECTED = ["usage-fleet"]


@pytest.mark.parametrize("name", ANEW)
def test_child_leaves_a_redeclared_cluster(name: str) -> None:
    """Its ProviderConfig waits for the child, and the new cluster for a ProviderConfig of its own:
    nobody would ever see that the first one went.
    """
    seen, found, want, uid = ANEW[name]
    got = call(protected(d.tier(**FLEET)), required=found, observed=seen)
    assert sorted(got.desired) == [*want, *PROTECTED * ("hold-us" in want)]
    if uid:
        annotations = got.desired["tier-us"]["metadata"]["annotations"]
        assert annotations == {"modelplane.ai/kv-offload-cluster-uid": uid}


def test_fleet_says_why_it_passes_over_a_cluster() -> None:
    seen = in_use(stamped_for(stamped(), annotations=FOR_THE_FIRST), "tier-us")
    (us,) = [it for it in REDECLARED["clusters"] if it["metadata"]["name"] == "us"]
    got = call(d.tier(**FLEET), required={"clusters": [us]}, observed=seen)
    assert got.messages["ClusterResolved"].startswith(
        "spec.clusterSelector.matchLabels: no InferenceCluster carries these labels, but ones that"
        " were declared again before the tier of the one before was gone."
    )


@pytest.mark.parametrize("name", sorted(ANEW.keys() - {"of an older release"}))
def test_fleet_waits_for_a_redeclared_cluster(name: str) -> None:
    """It has no tier of its own yet, and says nothing good by that of the one before."""
    seen, found, *_ = ANEW[name]
    fleet = protected(d.tier(**FLEET))
    first = call(fleet, required=BOTH, observed=stamped())
    assert first.conditions["RolledOut"] == ("True", "Done")
    got = call({**fleet, "status": first.status}, required=found, observed=seen)
    assert got.conditions["RolledOut"] == ("False", "Progressing")
    assert got.status["rollout"]["waiting"] == ["us"]
    assert (got.composite_ready, got.status["cluster"], got.ttl) == ("FALSE", "1/2 clusters", 10)
    assert got.conditions["AgentsReady"] == ("False", "Starting")
    assert got.messages["AgentsReady"] == "Not ready yet on: us"
    assert "left the fleet" not in got.messages["ClusterResolved"]
    assert name not in ("in use", "held first") or got.messages["ClusterResolved"].startswith(
        "Waits for 1 cluster declared again before the tier of the one before was gone: us. Each"
        " gets its own when that is gone; move the consumers that still use it."
    )


def test_kept_cluster_that_fails_keeps_no_fleet_from_being_ready() -> None:
    """To take it out of the selector is what a halt advises."""
    observed = observe(call(d.tier(**FLEET), required=BOTH))
    conditions = [{"type": "Ready", "status": "False", "reason": "Creating"}]
    for key in ("tier-us", "tier-eu"):
        seen = observed | {key: {**observed[key], "status": {"conditions": conditions}}}
        got = call(d.tier(**FLEET), required=ONLY_EU | {BY_NAME: [US]}, observed=seen)
        is_kept = key == "tier-us"
        assert got.composite_ready == ("TRUE" if is_kept else "FALSE")
        assert got.messages["AgentsReady"] == (
            "Ready on all 1 clusters." if is_kept else "Not ready yet on: eu"
        )
        rows = {row["name"]: row["ready"] for row in got.status["clusters"]}
        assert rows == {"eu": is_kept, "us": not is_kept}
        assert got.status["cluster"] == f"{int(is_kept)}/1 clusters, 1 kept"


@pytest.mark.parametrize("name", PARTING)
def test_provider_config_outlives_the_leaving_child(name: str) -> None:
    """Without the hold a ProviderConfig that is being deleted goes before the child's Objects, and
    its agents run on.
    """
    seen, found, want = PARTING[name]
    got = call(protected(d.tier(**FLEET)), required=found, observed=seen)
    assert sorted(got.desired) == [*want, *PROTECTED * ("hold-us" in want)]
    assert ("children" in got.requirements) == ("hold-us" in seen)
    if "hold-us" in want:
        held = got.desired["hold-us"]["spec"]
        assert held["providerConfigRef"]["name"] == "kubeconfig-us"
        assert held["managementPolicies"] == ["Observe"]
        assert got.ttl == 10
        said = got.messages["ClusterResolved"]
        stray = " Crossplane composes it no more; delete it if it stays: KVOffloadTier chat-us."
        assert found == {} or said.removesuffix(stray).endswith("nothing is left: us.")
        assert (stray in said) == name.startswith("as core saw")


def test_child_goes_after_its_fleet_is_protected() -> None:
    """Its guard goes with the fleet, and core has yet to see the Usage of that."""
    got = call(d.tier(**FLEET), required=LEAVING, observed=DEFERRED)
    assert sorted(got.desired) == ["hold-us", "tier-eu", "tier-us", "usage-fleet"]
    again = call(protected(d.tier(**FLEET)), required=LEAVING, observed=DEFERRED)
    assert sorted(again.desired) == ["hold-us", "tier-eu", "usage-fleet"]


def test_status_of_a_fleet_of_1100_failing_clusters_can_be_stored() -> None:
    """etcd takes 1.5 MiB for the whole tier, and the schema 1,024 rows."""
    found = {"clusters": [d.cluster(f"gpu-{n:04}") for n in range(1100)], "usages": []}
    observed = observe(call(d.tier(**FLEET), required=found))
    said = {"type": "Accepted", "status": "False", "reason": "Invalid", "message": "é" * 2000}
    for key in sorted(observed)[50:]:
        observed[key]["status"]["conditions"].append(said)
    got = call(d.tier(**FLEET), required=found, observed=observed)
    rows = got.status["clusters"]
    assert len(rows) == 1024
    assert [row["ready"] for row in rows].count(False) == 1024, "what is not ready comes first"
    assert all(row["message"] for row in rows)
    assert len(json.dumps(got.status, ensure_ascii=False).encode()) < 512 * 1024
    assert max(map(len, got.messages.values())) < 4096
    assert got.status["cluster"] == "50/1100 clusters"


def test_fleet_status_omits_leaving_children() -> None:
    got = call(d.tier(**FLEET), required=LEAVING, observed=stamped())
    assert [row["name"] for row in got.status["clusters"]] == ["eu"]
    assert (got.status["cluster"], got.composite_ready) == ("1/1 clusters", "TRUE")
    assert got.messages["AgentsReady"] == "Ready on all 1 clusters."


def test_redeclared_child_being_deleted_is_not_ready() -> None:
    seen = DEFERRED | {"tier-us": terminating(DEFERRED["tier-us"])}
    found = BOTH | {"children": [terminating(listed("us")), listed("eu")]}
    got = call(d.tier(**FLEET), required=found, observed=seen)
    assert (got.status["cluster"], got.composite_ready) == ("1/2 clusters", "FALSE")
    assert got.messages["AgentsReady"] == "Not ready yet on: us"


def inference_cluster(**spec: Any) -> dict[str, Any]:
    existing = {"source": "Existing", "existing": {"secretRef": {"name": "kubeconfig-gpu"}}}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": "gpu"},
        "spec": {"cluster": existing, **spec},
    }


ON = "modelplane.ai/kv-offload-provider-config"


def test_child_is_labelled_with_the_provider_config_that_it_says_it_is_on() -> None:
    """Consumers compare that; the cluster may have been declared again meanwhile."""
    bare, long = d.cluster("eu"), d.cluster("us", provider_config="a" * 80)
    del bare["status"]
    first = call(d.tier(**FLEET), required={"clusters": [bare, long]})
    labels = {key: it["metadata"]["labels"] for key, it in first.desired.items()}
    assert ON not in labels["tier-eu"]
    assert len(labels["tier-us"][ON]) == 63
    seen = observe(first)
    seen["tier-us"]["status"]["providerConfigRef"] = {"name": "before"}
    again = call(d.tier(**FLEET), required={"clusters": [bare, long]}, observed=seen)
    assert again.desired["tier-us"]["metadata"]["labels"][ON] == "before"


def test_a_standalone_cluster_gets_its_provider_config_and_its_tiers() -> None:
    tier = {"name": "chat", "backend": "LMCache", "lmcache": {"l1": {"sizeGiB": 10}}}
    got = call(inference_cluster(kvOffloadTiers=[tier]), step_input=d.COMPOSE)
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
    assert child["metadata"]["labels"] == {
        "modelplane.ai/kv-offload-fleet": "chat",
        "modelplane.ai/kv-offload-provider-config": "gpu",
    }
    assert child["spec"] == {
        "backend": "LMCache",
        "lmcache": {"l1": {"sizeGiB": 10}},
        "inferenceClusterRef": {"name": "gpu"},
    }


@pytest.mark.parametrize("composed", [False, True], ids=["Modelplane's", "standalone"])
def test_tier_of_a_cluster_that_is_not_reconciled_is_not_ready(composed: bool) -> None:
    paused = {"type": "Synced", "status": "False", "reason": "ReconcilePaused"}
    inline = {"name": "chat", "backend": "LMCache", "lmcache": {"l1": {"sizeGiB": 10}}}
    cluster = inference_cluster(kvOffloadTiers=[inline] if composed else [])
    step = d.COMPOSE if composed else None
    seen = observe(call(cluster, step_input=step)) if composed else {}
    found = d.ready_tier()
    for each in (found, *(seen[key] for key in seen if key == "tier-chat")):
        each["status"] = {"conditions": [d.READY, paused]}
    got = call(cluster, step_input=step, observed=seen, required={"tiers": [found]})
    assert got.conditions["KVOffloadTiersReady"] == ("False", "Starting")
    assert got.messages["KVOffloadTiersReady"] == (
        "Not ready yet: chat (Synced=False (ReconcilePaused))"
    )


def test_tiers_wait_for_a_provider_config_that_is_being_deleted() -> None:
    """Core adopts the one of a deleted cluster of the same name."""
    first = call(inference_cluster(), step_input=d.COMPOSE)
    assert "providerConfigRef" not in first.status  # it may be there, and going
    observed = observe(first)
    there = call(inference_cluster(), step_input=d.COMPOSE, observed=observed)
    assert there.status["providerConfigRef"] == {"name": "gpu"}
    assert there.composite_ready == "TRUE"
    observed["clusterproviderconfig"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    leaves = call(inference_cluster(), step_input=d.COMPOSE, observed=observed)
    assert "providerConfigRef" not in leaves.status
    assert leaves.composite_ready == "FALSE"
    assert "is being deleted" in leaves.messages["Accepted"]


@pytest.mark.parametrize("used", [False, True], ids=["unused", "in use"])
def test_an_inline_tier_in_use_outlives_its_declaration(used: bool) -> None:
    tier = {"name": "chat", "backend": "LMCache", "lmcache": {"l1": {"sizeGiB": 10}}}
    before = call(inference_cluster(kvOffloadTiers=[tier]), step_input=d.COMPOSE)
    seen = observe(before)
    of_core = {"crossplane": {"compositionRef": {"name": "kvoffloadtiers"}}}
    seen["tier-chat"]["spec"] = {**seen["tier-chat"]["spec"], **of_core}
    seen = in_use(seen, "tier-chat") if used else seen
    got = call(inference_cluster(), step_input=d.COMPOSE, observed=seen)
    assert before.requirements == got.requirements == {}
    if not used:
        assert set(got.desired) == {"clusterproviderconfig"}
        assert got.conditions["KVOffloadTiersReady"] == ("True", "NoTiers")
        return
    assert got.desired["tier-chat"]["spec"] == before.desired["tier-chat"]["spec"]
    assert got.messages["KVOffloadTiersReady"] == (
        "Ready: chat. No longer in spec.kvOffloadTiers, and kept until nothing uses it: chat"
    )
    assert got.status["kvOffloadTiers"][0]["name"] == "chat"
    assert got.ttl == 300, "core calls again as soon as its mark is gone"


@pytest.mark.parametrize("used", [False, True], ids=["unused", "in use"])
def test_a_fleet_in_use_does_not_become_a_tier_of_one_cluster(used: bool) -> None:
    clusters = {"clusters": [d.cluster("us"), d.cluster("eu")]}
    observed = observe(call(d.tier(**FLEET), required=clusters))
    observed = in_use(observed, "tier-us") if used else observed
    got = call(d.tier(), required={"cluster": [d.cluster()]}, observed=observed)
    if used:
        assert got.fatals == [
            "the tier is not valid; what runs is kept: spec.clusterSelector: cannot be taken away"
            " while engines use the tier on its clusters (eu, us). Set it back; declare the tier of"
            " one cluster under another name and move the consumers"
        ]
    else:
        assert got.fatals == []
        assert "tier-eu" not in got.desired and "daemonset-agent" in got.desired


# (spec, what another package's XRD keeps of the status, whether it is used, the old cluster's name)
LEFT = {
    "for a fleet": (FLEET, {"cluster": "gpu"}, True, " (gpu)"),
    "for a fleet, without a status": (FLEET, {}, True, ""),
    "for another cluster": (
        {"inferenceClusterRef": {"name": "eu"}},
        {"cluster": "gpu"},
        True,
        " (gpu)",
    ),
    "unused, for a fleet": (FLEET, {"cluster": "gpu"}, False, None),
    "not at all": ({}, {"cluster": "gpu"}, True, None),
    "the guards of a fleet": (FLEET, {"cluster": "1/1 clusters"}, True, None),
}


@pytest.mark.parametrize("name", LEFT)
def test_a_tier_in_use_stays_on_its_cluster(name: str) -> None:
    """The XRD refuses the edit; that of another package may not."""
    spec, status, used, was = LEFT[name]
    known = {"cluster": [d.cluster()], "clusters": [d.cluster("us")], "usages": []}
    seen = observe(call(d.tier(), required=known))
    if name == "the guards of a fleet":
        seen = {"hold-eu": seen["namespace"]}
    tier = d.tier(**spec) | {"status": status}
    tier["metadata"]["labels"] = {"crossplane.io/in-use": "true"} if used else {}
    got = call(tier, required=known, observed=seen)
    if was is None:
        assert got.fatals == []
    else:
        assert got.fatals == [
            "the tier is not valid; what runs is kept: spec.inferenceClusterRef: cannot change"
            f" while engines use the tier on its cluster{was}. Set it back; declare the new tier"
            " under another name and move the consumers"
        ]
        assert got.conditions["Accepted"] == ("False", "Invalid")


def test_cluster_under_modelplane_gets_conditions_only() -> None:
    got = call(inference_cluster(), required={"tiers": [d.ready_tier(), d.unready_tier("slow")]})
    assert (got.desired, got.status) == ({}, {})
    assert got.conditions == {"KVOffloadTiersReady": ("False", "Starting")}
    assert got.messages["KVOffloadTiersReady"].startswith("Not ready yet: slow (")
    refused = call(inference_cluster(), required={"tiers": [d.refused_tier()]})
    assert refused.conditions == got.conditions


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
    required = d.requirements(d.ready_tier()) | {"cluster": [d.cluster()]}
    got = call(composite, step_input=d.COMPOSE, required=required)
    composed = {"configmap-kv-offload", "deployment-main", "service", "usage-tier-4c387e47e4"}
    assert set(got.desired) == composed
    args = d.wired_pod(got.desired["deployment-main"])["spec"]["containers"][0]["args"]
    assert args[:2] == ["Qwen/Qwen3-32B", "--kv-transfer-config"]
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    assert got.status["tier"] == "modelplane-system/chat"
    assert got.composite_ready == "FALSE"
    seen = observe(got)
    counts = {"status": {"readyReplicas": 2}}
    seen["deployment-main"]["status"]["atProvider"] = {"manifest": counts}
    again = call(composite, step_input=d.COMPOSE, required=required, observed=seen)
    assert again.composite_ready == "TRUE"
    assert again.status["replicas"] == {"total": 2, "ready": 2}


def test_a_deployment_whose_cluster_is_built_anew_waits_for_the_provider() -> None:
    """Its Objects say of the old cluster that all is well until they are applied on the new one."""
    old, new = ({"cluster": [d.cluster(provider_config=name)]} for name in ("gpu", "gpu-2"))
    seen = deepcopy(observe(call(deployment(), step_input=d.COMPOSE, required=old)))
    waiting = ("False", "WaitingForCluster")
    composite = deployment()
    for written, applied, condition in (
        ("gpu", 1, waiting),
        ("gpu-2", 1, waiting),
        ("gpu-2", 2, ("True", "Ready")),
    ):
        for it in seen.values():
            it["spec"]["providerConfigRef"]["name"] = written
            it["metadata"]["generation"] = 1 if written == "gpu" else 2
            synced = {"type": "Synced", "status": "True", "observedGeneration": applied}
            it["status"]["conditions"] = [READY, synced]
        got = call(composite, step_input=d.COMPOSE, required=new, observed=seen)
        assert got.conditions["WorkloadsReady"] == condition
        entry = dict(zip(("status", "reason"), condition, strict=True))
        said = [{"type": "WorkloadsReady", **entry}]
        composite["status"] = {**got.status, "conditions": said}


@pytest.mark.parametrize("key", ["daemonset-agent", "service-agent"])
def test_a_part_that_is_being_deleted_is_not_ready(key: str) -> None:
    known = {"cluster": [d.cluster()]}
    seen = agents(deepcopy(observe(call(d.tier(), required=known))), 3, 3)
    assert call(d.tier(), required=known, observed=seen).composite_ready == "TRUE"
    seen[key]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    got = call(d.tier(), required=known, observed=seen)
    assert got.ready[key] == got.composite_ready == "FALSE"
    is_agent = key == "daemonset-agent"
    unready = "AgentsReady" if is_agent else "ControlPlaneReady"
    assert got.conditions[unready] == ("False", "Starting")


def test_a_tier_without_workloads_says_which_part_is_not_there() -> None:
    """Else its conditions were all True while it is not ready, and a fleet's edit never halted."""
    monitoring = {"podMonitor": True, "enginePorts": [8000], "alerts": True}
    tier = d.tier(backend="NIXL", lmcache=None, nixl={}, monitoring=monitoring)
    seen = observe(call(tier, required=required()))
    for key, reason, ready in (
        ("", "NoneNeeded", "TRUE"),
        ("podmonitor-engines", "Starting", "FALSE"),
    ):
        there = {each: it for each, it in seen.items() if each != key}
        got = call(tier, required=required(), observed=there)
        assert got.conditions["ControlPlaneReady"][1] == reason
        assert (got.composite_ready, got.conditions["AgentsReady"][1]) == (ready, "NoneNeeded")


def deployment_outage(
    composite: dict[str, Any], error: str, at: str, *keys: str
) -> tuple[Outcome, str]:
    """A call while the named parts are unseen, and what it says of the workloads."""
    required = {"cluster": [d.cluster()]}
    seen = observe(call(deployment(), step_input=d.COMPOSE, required=required))
    seen = unseen(seen, error, at, *keys)
    got = call(composite, step_input=d.COMPOSE, required=required, observed=seen)
    return got, got.messages["WorkloadsReady"]


def test_a_standalone_deployment_of_an_unseen_cluster_is_unknown_since_then() -> None:
    got, message = deployment_outage(deployment(), REFUSED, T8, "deployment-main")
    assert got.conditions["WorkloadsReady"] == ("Unknown", "NotObserved")
    assert message == (
        f"Looks fail since {T8}: deployment-main: {REFUSED}. What the status repeats is older: by"
        " up to the provider's --poll (10 minutes). Check the API server of InferenceCluster gpu,"
        " and the kubeconfig in the Secret that ClusterProviderConfig gpu names."
    )
    assert got.composite_ready == "FALSE"


def test_an_outage_of_a_standalone_deployment_gives_one_answer() -> None:
    first, _ = deployment_outage(deployment(), *TRIES[0], "deployment-main")
    composite = written(deployment(), first, T8)
    for error, at in TRIES:
        got, _ = deployment_outage(composite, error, at, "deployment-main", "service")
        assert got == first
    back, _ = deployment_outage(composite, REFUSED, T8)
    assert back.conditions["WorkloadsReady"] == ("True", "Ready")
    _, message = deployment_outage(written(deployment(), back, T9), REFUSED, T9, "service")
    assert message.startswith(f"Looks fail since {T9}: service: {REFUSED}.")


# What the provider says of an edit while the pods of before are ready, and seconds since the edit
# -> WorkloadsReady, and words of its message
EDITS: dict[str, tuple[dict[str, Any], int, tuple[str, str], str]] = {
    "written": ({"status": "True", "observedGeneration": 2}, 900, ("True", "Ready"), ""),
    "not read yet": (
        {"status": "True", "observedGeneration": 1},
        300,
        ("True", "Updating"),
        "Not updated yet: deployment-main.",
    ),
    "not read for long": (
        {"status": "True", "observedGeneration": 1},
        301,
        ("False", "NotApplied"),
        "deployment-main: provider-kubernetes has not read the Object's newest edit",
    ),
    "refused": (
        {"status": "False", "observedGeneration": 2, "message": "update failed: exceeded quota"},
        0,
        ("False", "NotApplied"),
        "deployment-main: provider-kubernetes does not write the Object: update failed: exceeded",
    ),
    "not written": (
        {"status": "True", "observedGeneration": 2, "policies": ["Observe"]},
        0,
        ("False", "NotApplied"),
        "deployment-main: provider-kubernetes does not write the Object: its spec.management",
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_standalone_deployment_says_what_became_of_an_edit(name: str) -> None:
    synced, age, condition, words = EDITS[name]
    now = 1_000.0
    required = {"cluster": [d.cluster()]}
    before = observe(call(deployment(), step_input=d.COMPOSE, required=required))
    edited = deployment()
    edited["spec"]["template"]["spec"]["engines"][0]["members"][0]["template"]["spec"] |= {
        "priorityClassName": "high"
    }
    seen = observe(call(edited, step_input=d.COMPOSE, required=required))
    written = datetime.fromtimestamp(now - age, UTC).isoformat()
    shown = seen["deployment-main"]
    shown["metadata"] |= {"generation": 2, "managedFields": [{"time": written}]}
    if "policies" in synced:
        shown["spec"] = {**shown["spec"], "managementPolicies": synced["policies"]}
    there = before["deployment-main"]["status"]
    conditions = [*there["conditions"], {"type": "Synced", "reason": "R", **synced}]
    seen["deployment-main"]["status"] = {**there, "conditions": conditions}
    got = call(edited, step_input=d.COMPOSE, required=required, observed=seen, now=now)
    ready = condition[0].upper()
    assert (got.conditions["WorkloadsReady"], got.composite_ready) == (condition, ready)
    assert got.messages["WorkloadsReady"].startswith(words)
    # The same error of a write that changes nothing is no lack of it.
    seen["deployment-main"]["status"] = {
        **observe(call(edited, step_input=d.COMPOSE, required=required))["deployment-main"][
            "status"
        ],
        "conditions": conditions,
    }
    got = call(edited, step_input=d.COMPOSE, required=required, observed=seen)
    assert got.composite_ready == "TRUE"


def test_a_standalone_deployment_may_have_no_replicas() -> None:
    composite = deployment()
    composite["spec"]["replicas"] = 0
    got = call(composite, step_input=d.COMPOSE, required={"cluster": [d.cluster()]})
    assert got.conditions["Accepted"] == ("True", "Valid")
    manifest = got.desired["deployment-main"]["spec"]["forProvider"]["manifest"]
    assert manifest["spec"]["replicas"] == 0
    assert got.status["replicas"] == {"total": 0, "ready": 0}


def test_a_standalone_deployment_waits_for_its_tier() -> None:
    composite = deployment(kvOffloadTierRef={"name": "chat"})
    required = d.requirements(d.unready_tier()) | {"cluster": [d.cluster()]}
    got = call(composite, step_input=d.COMPOSE, required=required)
    assert "deployment-main" not in got.desired
    assert got.conditions["KVOffloadReady"] == ("False", "TierNotReady")
    assert (got.composite_ready, got.ttl) == ("FALSE", 10)


def test_open_circuit_breaker_shortens_the_ttl() -> None:
    composite = d.tier()
    closed = {"type": "Responsive", "status": "False", "reason": "WatchCircuitOpen"}
    composite["status"] = {"conditions": [closed]}
    first = call(d.tier(), required=required())
    got = call(composite, required=required(), observed=agents(observe(first), 3, 3))
    assert (got.composite_ready, got.ttl) == ("TRUE", 30)

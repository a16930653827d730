"""`kv-offload plan`: an edit of a tier, and everything that it would do."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from function.composers import fleet_rollout
from function.contract.versions import known_versions
from kv_offload.render import files, plan
from kv_offload.render import tree as trees
from kv_offload.render.effects import REFUSALS, Verb
from tests.unit.composers.test_waves import World

ROOT = Path(__file__).resolve().parents[3]
CHAT = files.load_one(ROOT / "example/lmcache/tier.yaml", "tier")
STORES = files.load_one(ROOT / "example/mooncake/ha-rdma.yaml", "tier")
REMOVED = object()


def edited(tier: dict[str, Any], **edits: Any) -> dict[str, Any]:
    """The tier with fields of its spec set, by path: `lmcache__l1__sizeGiB=99`."""
    document = copy.deepcopy(tier)
    for path, value in edits.items():
        *parents, last = path.split("__")
        target = document["spec"]
        for parent in parents:
            target = target.setdefault(parent, {})
        if value is REMOVED:
            del target[last]
        else:
            target[last] = value
    return document


def effects(now: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, str]]:
    return [(e.verb.name, e.what) for e in plan.plan(now, new, (), "tier.yaml")]


VLLM = f"vLLM 0.20.0 to {known_versions('vLLM')[-1]}"
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], list[tuple[str, str]]]] = {
    "nothing": (CHAT, CHAT, []),
    "what is the default anyway": (CHAT, edited(CHAT, startupTimeoutSeconds=300), []),
    "more memory": (
        CHAT,
        edited(CHAT, lmcache__l1__sizeGiB=99),
        [("RESTARTED", "daemonset-agent")],
    ),
    "another cluster": (
        CHAT,
        edited(CHAT, inferenceClusterRef={"name": "other"}),
        [("REFUSED", "spec.inferenceClusterRef")],
    ),
    "another namespace": (
        CHAT,
        edited(CHAT, namespace="elsewhere"),
        [("REFUSED", "spec.namespace")],
    ),
    "not valid": (
        CHAT,
        edited(CHAT, lmcache__l1__sizeGiB=0),
        [("REFUSED", "spec.lmcache.l1.sizeGiB")],
    ),
    "a longer start": (
        CHAT,
        edited(CHAT, startupTimeoutSeconds=900),
        [("RESTARTED", "daemonset-agent"), ("REWIRED", VLLM)],
    ),
    "monitoring": (
        CHAT,
        edited(CHAT, monitoring={"namespaceLabels": {"team": "ops"}}),
        [("UPDATED", "networkpolicy-agent")],
    ),
    "how agents are replaced": (
        CHAT,
        edited(CHAT, upgradePolicy={"type": "OnDelete"}),
        [("UPDATED", "daemonset-agent")],
    ),
    "who may use it": (CHAT, edited(CHAT, allowedNamespaces={"from": "All"}), []),
    "more masters": (
        STORES,
        edited(STORES, mooncake__master__replicas=5),
        [("UPDATED", "deployment-master")],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_effects_of_a_tier_edit(case: str) -> None:
    now, new, wanted = CASES[case]
    assert effects(now, new) == wanted


def test_a_fleet_is_planned_for_each_of_its_clusters() -> None:
    fleet = edited(
        CHAT, inferenceClusterRef=REMOVED, clusterSelector={"matchLabels": {"gpu": "h200"}}
    )
    more = edited(fleet, lmcache__l1__sizeGiB=99)
    assert effects(fleet, more) == [
        ("NOT_KNOWN", "spec.clusterSelector"),
        ("RESTARTED", "daemonset-agent"),
    ]


def inference_cluster(name: str, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"gpu": "h200", **labels}}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": metadata,
    }


def child(cluster: str, capacity: int, ready: bool = True) -> dict[str, Any]:
    """The fleet's child there, as kubectl shows it."""
    metadata = {"name": f"chat-{cluster}", "namespace": "modelplane-system"}
    metadata["labels"] = {
        "modelplane.ai/kv-offload-fleet": FLEET["metadata"]["name"],
        "modelplane.ai/kv-offload-revision": fleet_rollout.revision(FLEET["spec"]),
    }
    conditions = [{"type": "Ready", "status": str(ready), "reason": "x"}]
    status = {"agents": {"desired": 3}, "capacityGiB": capacity, "conditions": conditions}
    spec = {k: v for k, v in FLEET["spec"].items() if k != "clusterSelector"}
    spec = {**spec, "inferenceClusterRef": {"name": cluster}}
    return {"kind": "KVOffloadTier", "metadata": metadata, "spec": spec, "status": status}


def used(cluster: str, namespace: str) -> dict[str, Any]:
    fleet, tier = FLEET["metadata"]["name"], f"modelplane-system/chat-{cluster}"
    labels = {"modelplane.ai/kv-offload-used-fleet": f"modelplane-system.{fleet}"}
    consumer = json.dumps({"namespace": namespace, "kind": "ModelReplica", "name": "qwen"})
    annotations = {
        "modelplane.ai/kv-offload-used-tier": tier,
        "modelplane.ai/kv-offload-consumer": consumer,
    }
    metadata = {"namespace": namespace, "labels": labels, "annotations": annotations}
    return {"apiVersion": "protection.crossplane.io/v1beta1", "kind": "Usage", "metadata": metadata}


FLEET = edited(
    CHAT,
    inferenceClusterRef=REMOVED,
    clusterSelector={"matchLabels": {"gpu": "h200"}},
    allowedNamespaces={"from": "All"},
)
SIX = [inference_cluster(name, stage="prod" if name > "b" else "first") for name in "abcdef"]
MORE = {"lmcache__l1__sizeGiB": 99}
RESTART = "RESTARTED", "daemonset-agent", ""

# name: (the new fleet, what else is given; (effect, of what, on which clusters))
FLEETS: dict[str, tuple[dict[str, Any], list[Any], list[tuple[str, str, str]]]] = {
    "without its clusters": (
        edited(FLEET, **MORE),
        [],
        [("NOT_KNOWN", "spec.clusterSelector", ""), RESTART],
    ),
    "one first, then a quarter": (
        edited(FLEET, **MORE),
        SIX,
        [
            ("WAVE", "wave 1 of 2: a", ""),
            ("WAVE", "wave 2 of 2: b, c", ""),
            ("WAVE", "wave 2 of 2: d, e", ""),
            ("WAVE", "wave 2 of 2: f", ""),
            RESTART,
        ],
    ),
    "what is broken first": (
        edited(FLEET, **MORE),
        [*SIX, child("d", 600), child("e", 0, ready=False)],
        [
            ("WAVE", "wave 1 of 2: e", ""),
            ("WAVE", "wave 2 of 2: a, b", ""),
            ("WAVE", "wave 2 of 2: c, d", ""),
            ("WAVE", "wave 2 of 2: f", ""),
            RESTART,
        ],
    ),
    "by label, paused": (
        edited(
            FLEET,
            **MORE,
            rollout={
                "waves": [{"matchLabels": {"stage": "first"}}],
                "maxUnavailable": "100%",
                "paused": True,
            },
        ),
        SIX,
        [
            ("WAVE", "no cluster while spec.rollout.paused is true; then:", ""),
            ("WAVE", "wave 1 of 2: a, b", ""),
            ("WAVE", "wave 2 of 2: c, d, e, f", ""),
            RESTART,
        ],
    ),
    "an override": (
        edited(
            FLEET,
            clusterOverrides=[
                {"matchLabels": {"stage": "first"}, "spec": {"lmcache": {"l1": {"sizeGiB": 99}}}}
            ],
        ),
        SIX,
        [
            ("WAVE", "wave 1 of 2: a", ""),
            ("WAVE", "wave 2 of 2: b", ""),
            ("RESTARTED", "daemonset-agent", "a b"),
        ],
    ),
    "another selector": (
        edited(FLEET, clusterSelector={"matchLabels": {"stage": "first"}}),
        [*SIX, inference_cluster("g", gpu="h100", stage="first")],
        [
            *(("LEAVES", name, "") for name in "cdef"),
            ("JOINS", "g", ""),
        ],
    ),
    "how it rolls out": (edited(FLEET, rollout={"maxUnavailable": 1}), SIX, []),
    "fewer namespaces": (
        edited(FLEET, allowedNamespaces={"from": "Names", "names": ["team-a"]}),
        [*SIX, child("a", 9), used("a", "team-a"), used("a", "team-b")],
        [
            ("SHUT_OUT", "namespace team-b", ""),
            ("WAVE", "wave 1 of 2: a", ""),
            ("WAVE", "wave 2 of 2: b, c", ""),
            ("WAVE", "wave 2 of 2: d, e", ""),
            ("WAVE", "wave 2 of 2: f", ""),
        ],
    ),
}


@pytest.mark.parametrize("name", FLEETS)
def test_effects_of_a_fleet_edit(name: str) -> None:
    new, given, wanted = FLEETS[name]
    found = plan.plan(FLEET, new, given, "tier.yaml")
    assert [(e.verb.name, e.what, " ".join(e.clusters)) for e in found] == wanted


def test_plan_without_the_clusters_does_not_say_that_nothing_changes() -> None:
    narrow = edited(FLEET, clusterSelector={"matchLabels": {"stage": "first"}}, removal="Remove")
    found = plan.plan(FLEET, narrow, [], "tier.yaml")
    assert [(e.verb.name, e.what) for e in found] == [("NOT_KNOWN", "spec.clusterSelector")]
    assert "the clusters are not given" in plan._verdict(found)[0]
    assert plan.plan(FLEET, FLEET, [], "tier.yaml") == []


def test_plan_of_a_fleet_that_becomes_a_tier_of_one_cluster_says_that_it_is_refused() -> None:
    single = edited(FLEET, clusterSelector=REMOVED, inferenceClusterRef={"name": "a"})
    found = plan.plan(FLEET, single, [*SIX, child("a", 600)], "tier.yaml")
    assert [(e.verb.name, e.what) for e in found] == [("REFUSED", "spec.clusterSelector")]
    assert "every cluster would lose its tier at once" in found[0].why


def test_plan_of_a_fleet_says_what_is_lost() -> None:
    found = plan.plan(FLEET, edited(FLEET, **MORE), [*SIX, child("a", 600)], "tier.yaml")
    assert found[0].why == "3 agents of a restart with 600 GiB of blocks in memory"
    narrow = edited(FLEET, clusterSelector={"matchLabels": {"stage": "first"}}, removal="Remove")
    given = [*SIX, child("c", 600), child("d", 600), used("d", "team-a")]
    why = {e.what: e.why for e in plan.plan(FLEET, narrow, given, "tier.yaml")}
    assert why["c"] == "Nothing uses it: its agents go with 600 GiB of blocks in memory."
    assert why["d"] == "Its child stays as it is until nothing uses it: ModelReplica/team-a/qwen."
    assert why["e"].startswith("Its child goes, unless something uses it")


def test_plan_says_what_stays_on_a_cluster_that_leaves() -> None:
    narrow = edited(FLEET, clusterSelector={"matchLabels": {"stage": "first"}})
    given = [*SIX, child("c", 600), child("d", 600), used("d", "team-a")]
    why = {e.what: e.why for e in plan.plan(FLEET, narrow, given, "tier.yaml")}
    kept = "Its child stays as it is, with its cache: spec.removal is Keep."
    assert why == {
        "c": kept,
        "d": f"{kept} It is used by ModelReplica/team-a/qwen.",
        "e": kept,
        "f": kept,
    }
    found = plan.plan(
        narrow, {**narrow, "spec": {**narrow["spec"], "removal": "Remove"}}, given, ""
    )
    assert {e.what: e.why for e in found} == {
        "c": "Nothing uses it: its agents go with 600 GiB of blocks in memory.",
        "d": "Its child stays as it is until nothing uses it: ModelReplica/team-a/qwen.",
    }


# (allowedNamespaces as they are, as they become) -> who is shut out
CLOSED: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({"from": "All"}, {"from": "Same"}, ["every namespace that is not listed"]),
    (
        {"from": "Names", "names": ["a", "b"]},
        {"from": "Names", "names": ["b", "c"]},
        ["namespace a"],
    ),
    ({}, {"from": "Names", "names": ["b"]}, ["namespace modelplane-system"]),
    ({"from": "Names", "names": ["a"]}, {"from": "All"}, []),
]


@pytest.mark.parametrize("was, becomes, wanted", CLOSED)
def test_plan_says_whom_an_edit_shuts_out(
    was: dict[str, Any], becomes: dict[str, Any], wanted: list[str]
) -> None:
    now, new = (edited(CHAT, allowedNamespaces=it) for it in (was, becomes))
    found = plan.plan(now, new, (), "tier.yaml")
    assert [e.what for e in found if e.verb is Verb.SHUT_OUT] == wanted


def test_plan_says_that_agents_of_left_nodes_go_at_once() -> None:
    (why,) = (
        e.why
        for e in plan.plan(CHAT, edited(CHAT, nodes={"selector": {"x": "y"}}), (), "tier.yaml")
        if e.verb.name == "RESTARTED"
    )
    assert "Pods on nodes that no longer match are deleted all at once." in why


def test_a_usage_of_the_deprecated_group_does_not_show_that_a_tier_is_unused() -> None:
    old = {**used("a", "team-a"), "apiVersion": "apiextensions.crossplane.io/v1beta1"}
    away = edited(FLEET, clusterSelector={"matchLabels": {"gpu": "none"}}, removal="Remove")
    why = {e.what: e.why for e in plan.plan(FLEET, away, [*SIX, child("a", 9), old], "tier.yaml")}
    assert "unless something uses it" in why["a"]


JOINED = files.load_one(ROOT / "example/mooncake/external.yaml", "tier")
# (edit of the stores, effect on them, why)
SCALED = {
    "fewer": ({"replicas": 2}, Verb.UPDATED, "{gone} of its pods are deleted.{lost}"),
    "more": ({"replicas": 9}, Verb.UPDATED, "No pod restarts."),
    "fewer, and smaller": (
        {"replicas": 2, "sizeGiB": 10},
        Verb.RESTARTED,
        "One at a time. {gone} of its pods are deleted.{lost}",
    ),
}


@pytest.mark.parametrize("name", SCALED)
def test_plan_says_what_goes_with_stores(name: str) -> None:
    edit, verb, why = SCALED[name]
    store = {"form": "StatefulSet", "replicas": 4, "sizeGiB": 20}
    now = edited(JOINED, mooncake={"store": store})
    new = edited(JOINED, mooncake={"store": {**store, **edit}})
    (found,) = (e for e in plan.plan(now, new, (), "tier.yaml") if e.what == "statefulset-store")
    lost = " Each loses 20 GiB of blocks in memory."
    assert (found.verb, found.why) == (verb, why.format(gone=2, lost=lost))


def test_plan_refuses_a_class_for_a_claim_that_has_one() -> None:
    def on(**persistence: str) -> dict[str, Any]:
        redis = {"managed": {"sizeGiB": 8, "persistence": persistence}}
        return edited(CHAT, lmcache__l2=[{"name": "r", "type": "Redis", "redis": redis}])

    assert effects(on(), on(storageClassName="fast")) == [("REFUSED", "spec.lmcache")]
    assert effects(on(), on()) == []


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ({"metadata": "chat"}, "tier.yaml: metadata.name: must be set; metadata.namespace"),
        ({"metadata": {"name": "chat", "namespace": True}}, "metadata.namespace: must be a string"),
        ({"apiVersion": "modelplane.ai/v1"}, "apiVersion: is modelplane.ai/v1, expected"),
        ({"spec": "LMCache"}, "spec must be an object"),
    ],
)
def test_plan_of_what_is_no_tier_says_so(part: dict[str, Any], wrong: str) -> None:
    with pytest.raises(files.InputError, match=wrong):
        plan.plan(CHAT, {**CHAT, **part}, (), "tier.yaml")


def test_difference_shows_both_values() -> None:
    (effect,) = plan.plan(CHAT, edited(CHAT, lmcache__l1__sizeGiB=99), (), "tier.yaml")
    assert effect.verb is Verb.RESTARTED
    assert effect.why == "At most 1 at a time. Each loses 200 GiB of blocks in memory."
    assert "spec.template.spec.containers[0].resources.limits.memory: 205Gi -> 104Gi" in (
        effect.differences
    )


def test_every_pinned_setting_is_refused_while_in_use() -> None:
    in_process = edited(
        CHAT,
        nodes=REMOVED,
        lmcache={"mode": "InProcess", "inProcess": {"memoryGiB": 20}},
    )
    found = plan.plan(CHAT, in_process, (), "tier.yaml")
    assert (Verb.REFUSED_IN_USE, "spec.lmcache.mode") in [(e.verb, e.what) for e in found]
    text = trees.plain(plan.as_tree(in_process, found))
    assert "is refused while consumers use the tier" in text


@pytest.mark.parametrize(
    "update, said",
    [
        (None, "keep their wiring until their own template changes"),
        ("OnChange", "keep their wiring until their own template changes"),
        ("Rolling", "are replaced once the tier is ready"),
        ("Pinned", "even when their own template changes"),
    ],
)
def test_plan_tells_when_engines_get_the_new_wiring(update: str | None, said: str) -> None:
    new = edited(CHAT, startupTimeoutSeconds=900, **({"wiring__update": update} if update else {}))
    found = plan.plan(CHAT, new, (), "tier.yaml")
    assert said in " ".join(trees.plain(plan.as_tree(new, found)).split())


@pytest.mark.parametrize(
    "now, new, message",
    [
        (
            CHAT,
            {**CHAT, "metadata": {"name": "b", "namespace": "n"}},
            "compare two versions",
        ),
        (CHAT, {**CHAT, "kind": "Pod"}, "kind is Pod, expected KVOffloadTier"),
        (edited(CHAT, backend="No"), CHAT, "--now: the tier is not valid"),
    ],
)
def test_incomparable_documents_are_refused(
    now: dict[str, Any], new: dict[str, Any], message: str
) -> None:
    with pytest.raises(files.InputError, match=message):
        plan.plan(now, new, (), "tier.yaml")


def prepared(cluster_words: dict[str, str], *tags: str, calls: int = 3) -> World:
    """A fleet of v1 after these edits of its tag; what its clusters say of v1 or the last tag."""
    world = World({name: {} for name in "abcdef"})
    for tag in ("v1", *tags):
        world.tag = tag
        world.says = {(name, tag): word for name, word in cluster_words.items() if tag != "v1"}
        world.steps(calls)
    if not tags:
        world.says = {(name, "v1"): word for name, word in cluster_words.items()}
        world.answer()
    return world


# name: (what a fleet of six went through, its next tag)
HISTORIES: dict[str, tuple[World, str]] = {
    "nothing": (prepared({}), "v9"),
    "one is broken": (prepared({"d": "fails"}), "v9"),
    "one is not of use": (prepared({"d": "misses"}), "v9"),
    "one is not seen": (prepared({"a": "unseen"}), "v9"),
    "one starts": (prepared({"f": "starts"}), "v9"),
    "an edit halted at the first": (prepared({"a": "fails"}, "v2"), "v9"),
    "an edit stalled in the middle": (prepared({"b": "stalls"}, "v2", calls=4), "v9"),
    "an edit is set back in the middle": (prepared({}, "v2"), "v1"),
    "an edit is set back at the first": (prepared({"a": "fails"}, "v2"), "v1"),
    "two edits": (prepared({"a": "fails"}, "v2", "v3"), "v9"),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_plan_of_a_fleet_says_what_then_happens(name: str) -> None:
    history, tag = HISTORIES[name]
    world = copy.deepcopy(history)
    clusters = [{**it, "kind": "InferenceCluster"} for it in world.required()["clusters"]]
    now, given = world.fleet(), [*clusters, *copy.deepcopy([*world.children.values()])]
    world.tag = tag
    world.says = {key: word for key, word in world.says.items() if key[1] != tag}
    said = plan.plan(now, world.fleet(), given, "f")
    planned = [e.what for e in said if e.verb is Verb.WAVE]
    restarts = {name for e in said if e.verb is Verb.RESTARTED for name in e.clusters or "abcdef"}
    happened, carried = [], world.carried().split()
    first = set(carried)
    for _ in range(9):
        before, carried = carried, world.step().split()
        rollout = world.status["rollout"]
        who = ", ".join(it[0] for it in carried if it not in before)
        if who:
            happened.append(f"wave {rollout['wave']} of {rollout['waves']}: {who}")
    assert planned == happened
    assert restarts == {it[0] for it in set(carried) - first}


def half_way() -> tuple[World, list[dict[str, Any]]]:
    """A fleet whose first cluster has v2, and what plan is given of it."""
    world = prepared({}, "v2", calls=1)
    assert world.carried() == "a=v2 b=v1 c=v1 d=v1 e=v1 f=v1"
    clusters = [{**it, "kind": "InferenceCluster"} for it in world.required()["clusters"]]
    return world, [*clusters, *copy.deepcopy([*world.children.values()])]


# An edit of a fleet that is half way to v2 -> the clusters whose agents restart
HALF_WAY: dict[str, tuple[dict[str, Any], str]] = {
    "of what restarts nothing": ({"allowedNamespaces": {"from": "All"}}, "bcdef"),
    "of its roll-out": ({"rollout": {"maxUnavailable": 2}}, "bcdef"),
    "back to v1": ({"image": {"tag": "v1", "version": "0.5.6"}}, "a"),
}


@pytest.mark.parametrize("name", HALF_WAY)
def test_plan_compares_with_what_each_child_runs(name: str) -> None:
    edit, restarts = HALF_WAY[name]
    world, given = half_way()
    found = plan.plan(world.fleet(), edited(world.fleet(), **edit), given, "f")
    (effect,) = (e for e in found if e.verb is Verb.RESTARTED)
    assert "".join(effect.clusters) == restarts


def test_plan_of_a_file_takes_the_status_of_the_fleet_that_is_given() -> None:
    world, given = half_way()
    live = {**world.fleet(), "kind": "KVOffloadTier"}
    file = {k: v for k, v in live.items() if k != "status"}
    new = edited(file, image={"tag": "v1", "version": "0.5.6"})
    with_status, from_given = (
        plan.plan(live, new, given, "f"),
        plan.plan(file, new, [*given, live], "f"),
    )
    assert from_given == with_status


def test_plan_compares_pinned_settings_with_those_in_force() -> None:
    """A child that refused an edit runs what it ran before: setting that back is no change."""
    world, given = half_way()
    for document in given:
        if document["kind"] == "KVOffloadTier":
            document["status"]["pinned"] = {"spec.lmcache.chunkTokens": "256"}
    refused = edited(world.fleet(), lmcache__chunkTokens=512)
    for document in given:
        if document["metadata"]["name"] == "composed-tier-a":
            document["spec"]["lmcache"]["chunkTokens"] = 512

    def pinned(now: dict[str, Any], new: dict[str, Any]) -> list[str]:
        return [e.what for e in plan.plan(now, new, given, "f") if e.verb is Verb.REFUSED_IN_USE]

    assert pinned(refused, edited(refused, lmcache__chunkTokens=256)) == []
    assert pinned(refused, edited(refused, startupTimeoutSeconds=900)) == [
        "spec.lmcache.chunkTokens"
    ]


def test_plan_says_that_a_kept_cluster_comes_back_with_its_child() -> None:
    world = prepared({})
    world.clusters = {k: {"stage": "first" if k in "ab" else "prod"} for k in world.clusters}
    clusters = [{**it, "kind": "InferenceCluster"} for it in world.required()["clusters"]]
    given = [*clusters, *copy.deepcopy([*world.children.values()])]
    wide = edited(world.fleet(), image={"tag": "v2", "version": "0.5.6"})
    narrow = edited(wide, clusterSelector={"matchLabels": {"fleet": "prod", "stage": "prod"}})
    found = plan.plan(narrow, wide, given, "f")
    joins = {e.what: e.why for e in found if e.verb is Verb.JOINS}
    assert joins == dict.fromkeys(
        "ab", "It has its child of before, which takes the fleet's spec in its turn."
    )
    restarts = {name for e in found if e.verb is Verb.RESTARTED for name in e.clusters or "abcdef"}
    assert restarts == set("abcdef"), "all carry v1"


def test_plan_names_a_cluster_that_has_the_edit_and_halts_the_next() -> None:
    world = prepared({"a": "fails"}, "v2")
    assert world.state()[0] == "Halted"
    world.clusters = {k: {"stage": "first" if k == "a" else "prod"} for k in world.clusters}
    clusters = [{**it, "kind": "InferenceCluster"} for it in world.required()["clusters"]]
    given = [*clusters, *copy.deepcopy([*world.children.values()])]
    row = {"matchLabels": {"stage": "prod"}, "spec": {"startupTimeoutSeconds": 900}}
    new = edited(world.fleet(), clusterOverrides=[row])
    said = [e.what for e in plan.plan(world.fleet(), new, given, "f") if e.verb is Verb.WAVE]
    assert said[:2] == [
        "no cluster while these do not work, which have the edit: a; then:",
        "wave 1 of 2: b",
    ]


def test_plan_refuses_what_one_override_makes_impossible_on_its_clusters() -> None:
    hicache = {"storage": {"type": "Mooncake", "mooncake": {"storageTierRef": {"name": "pool"}}}}
    hosts = {"host": {"sizeGiB": 9}}
    fleet = edited(FLEET, backend="HiCache", lmcache=REMOVED, nodes=REMOVED, hicache=hosts)
    row = {"matchLabels": {"stage": "first"}, "spec": {"hicache": hicache}}
    (effect,) = plan.plan(fleet, edited(fleet, clusterOverrides=[row]), SIX, "tier.yaml")
    assert (effect.verb, effect.clusters) == (Verb.REFUSED, ("a", "b"))
    assert effect.why.endswith("pool is missing: give its file with --required")


def test_plan_says_that_rolling_moves_what_earlier_edits_left() -> None:
    found = plan.plan(CHAT, edited(CHAT, wiring={"update": "Rolling"}), (), "tier.yaml")
    assert [(e.verb, e.what) for e in found] == [(Verb.REWIRED, "spec.wiring.update")]


def test_plan_of_an_unchanged_fleet_says_nothing_of_clusters_that_go() -> None:
    leaves = edited(FLEET, clusterSelector={"matchLabels": {"stage": "first"}}, removal="Remove")
    assert plan.plan(leaves, leaves, [*SIX, child("c", 600)], "tier.yaml") == []


def test_plan_passes_over_a_cluster_that_was_declared_anew() -> None:
    """Its name is another cluster's by now; the fleet waits until the first one's child is gone."""
    world, given = half_way()
    for document in given:
        if document["kind"] == "InferenceCluster" and document["metadata"]["name"] == "b":
            document["metadata"]["uid"] = "second"
    new = edited(world.fleet(), image={"tag": "v3", "version": "0.5.6"})
    said = [e.what for e in plan.plan(world.fleet(), new, given, "f") if e.verb is Verb.WAVE]
    assert said and not any(" b" in each for each in said)


def test_plan_says_that_a_child_stays_which_a_usage_protects_that_is_not_given() -> None:
    narrow = edited(FLEET, clusterSelector={"matchLabels": {"stage": "first"}}, removal="Remove")
    protected = child("c", 600)
    protected["metadata"]["labels"]["crossplane.io/in-use"] = "true"
    given = [*SIX, protected, used("d", "team-a")]
    why = {e.what: e.why for e in plan.plan(FLEET, narrow, given, "tier.yaml")}
    assert why["c"] == "Its child stays as it is until nothing uses it: a Usage that is not given."


def test_plan_of_a_tier_of_one_cluster_that_becomes_a_fleet_is_refused() -> None:
    single = edited(FLEET, clusterSelector=REMOVED, inferenceClusterRef={"name": "any"})
    found = plan.plan(single, FLEET, SIX, "tier.yaml")
    assert [(e.verb.name, e.what) for e in found] == [("REFUSED", "spec.inferenceClusterRef")]


@pytest.mark.parametrize(
    ("word", "first"),
    [
        ("unseen", "no cluster while none that is next is seen (NotObserved); then:"),
        (
            "starts",
            "no cluster before these work, which start or take an edit: a, b, c, d, e, f; then:",
        ),
    ],
)
def test_plan_says_what_an_edit_waits_for_that_no_cluster_takes_now(word: str, first: str) -> None:
    world = prepared(dict.fromkeys("abcdef", word))
    clusters = [{**it, "kind": "InferenceCluster"} for it in world.required()["clusters"]]
    now, given = world.fleet(), [*clusters, *world.children.values()]
    world.tag = "v2"
    said = [e.what for e in plan.plan(now, world.fleet(), given, "f") if e.verb is Verb.WAVE]
    assert said[:2] == [first, "wave 1 of 2: a"]


def test_plan_refuses_overrides_that_do_not_fit_together_on_a_cluster() -> None:
    in_process = {"lmcache": {"mode": "InProcess", "inProcess": {"memoryGiB": 20}}}
    rows = [
        {"matchLabels": {"gpu": "h200"}, "spec": in_process},
        {"matchLabels": {"stage": "first"}, "spec": {"lmcache": {"l1": {"sizeGiB": 9}}}},
    ]
    new = edited(FLEET, clusterOverrides=rows, nodes=REMOVED)
    effect, *others = plan.plan(edited(FLEET, nodes=REMOVED), new, SIX, "tier.yaml")
    assert {(e.verb, e.clusters) for e in others} == {(Verb.REFUSED_IN_USE, tuple("cdef"))}
    assert (effect.verb, effect.what, effect.clusters) == (
        Verb.REFUSED, "spec.clusterOverrides", ("a", "b"),
    )  # fmt: skip
    assert "[0] and [1] do not fit together: spec.lmcache.l1: l1 may only be set" in effect.why


def test_plan_refuses_what_an_override_pins_on_its_clusters() -> None:
    row = {"matchLabels": {"stage": "first"}, "spec": {"lmcache": {"chunkTokens": 512}}}
    found = plan.plan(FLEET, edited(FLEET, clusterOverrides=[row]), SIX, "tier.yaml")
    assert [(e.verb, e.what, e.clusters) for e in found if e.verb in REFUSALS] == [
        (Verb.REFUSED_IN_USE, "spec.lmcache.chunkTokens", ("a", "b"))
    ]
    everywhere = plan.plan(FLEET, edited(FLEET, lmcache__chunkTokens=512), SIX, "tier.yaml")
    assert [(e.verb, e.what, e.clusters) for e in everywhere if e.verb in REFUSALS] == [
        (Verb.REFUSED_IN_USE, "spec.lmcache.chunkTokens", ())
    ]


def test_plan_says_that_a_selector_matches_no_given_cluster() -> None:
    nowhere = edited(FLEET, clusterSelector={"matchLabels": {"gpu": "b300"}})
    found = plan.plan(FLEET, nowhere, [*SIX, child("a", 600)], "tier.yaml")
    assert [e.verb for e in found] == [Verb.SELECTS_NONE, *[Verb.LEAVES] * 6]
    assert plan._verdict(found) == ("? selects none of the given clusters", "yellow")

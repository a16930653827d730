"""An edit of a fleet tier on six clusters: one first, then two at once; what fails halts it.

Six workload clusters, each of an API server, a scheduler and three nodes with GPUs of its own.
`plan` is asked before each edit. Images are not pulled: pods of one whose tag says `broken` stay
Pending.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from function.names import remote_name
from kv_offload.render import plan
from kv_offload.render.effects import Effect, Verb
from tests.cluster.documents import AGENTS_NAMESPACE, API, FIRST, SECOND, USAGE, deployment, tier
from tests.cluster.expect import Fleet
from tests.cluster.groups import Summary
from tests.cluster.rig import functions
from tests.cluster.rig.fleet import SYSTEM, add_nodes, inference_cluster
from tests.cluster.rig.kube import Manifest, Refused, condition, is_true

NAMES = [f"wave-{letter}" for letter in "abcdef"]
# Two of them are the rig's; the others run for this group.
MORE = NAMES[2:]
ON = dict(zip(NAMES, (FIRST, SECOND, *MORE), strict=True))
LOST = NAMES[2]
AT_ONCE = 2  # a quarter of six, rounded up
LIMIT = 60
# What a replaced composite lacks: the list of what it composes.
UNLISTED: Manifest = {"crossplane": {"resourceRefs": None}}


# What `plan` says of an edit that all of them take.
IN_WAVES = [
    "wave 1 of 2: wave-a",
    "wave 2 of 2: wave-b, wave-c",
    "wave 2 of 2: wave-d, wave-e",
    "wave 2 of 2: wave-f",
]


def waves(tag: str, **spec: Any) -> Manifest:
    made = tier(
        "waves",
        clusterSelector={"matchLabels": {"waves": "yes"}},
        image={"repository": "lmcache/standalone", "tag": tag, "version": "0.5.6"},
        upgradePolicy={"maxUnavailable": "100%"},
        lmcache={"mode": "NodeServer", "l1": {"sizeGiB": 8}},
        **spec,
    )
    del made["spec"]["inferenceClusterRef"]
    return made


def clusters(world: Fleet) -> list[Manifest]:
    found = []
    for name, server in ON.items():
        secret, document = inference_cluster(world.rig.workload(server))
        secret["metadata"]["name"] = f"{name}-kubeconfig"
        document["metadata"] = {"name": name, "labels": {"waves": "yes"}}
        document["spec"]["cluster"]["existing"]["secretRef"]["name"] = f"{name}-kubeconfig"
        found += [secret, document]
    return found


class Watched:
    """What the children and their agents do while an edit is on its way.

    `orders`: the clusters in the order in which they were seen with the edit.
    """

    def __init__(self, world: Fleet) -> None:
        self.world = world
        self.most = 0
        self.order: list[str] = []

    def children(self) -> dict[str, Manifest]:
        label = "modelplane.ai/kv-offload-fleet=waves"
        found = self.world.api.list(API, "KVOffloadTier", SYSTEM, label)
        return {each["spec"]["inferenceClusterRef"]["name"]: each for each in found}

    def ready_children(self) -> list[Manifest]:
        """Wait for all of them: one whose agents fail for a moment takes an edit before others."""
        found: list[Manifest] = []

        def are_ready() -> bool:
            found[:] = self.children().values()
            return all(is_true(it, "Ready") for it in found)

        self.until(are_ready, "every child is ready")
        return found

    def carriers(self, tag: str) -> set[str]:
        return {name for name, it in self.children().items() if it["spec"]["image"]["tag"] == tag}

    def through(self, name: str, tag: str) -> bool:
        """Whether every agent of a child runs the image, and is ready, on its cluster."""
        child = remote_name(SYSTEM, self.children()[name]["metadata"]["name"])
        pods = self.world.pods(ON[name], AGENTS_NAMESPACE, "app.kubernetes.io/component=agent")
        mine = [p for p in pods if p["metadata"]["labels"]["app.kubernetes.io/instance"] == child]
        new = [p for p in mine if p["spec"]["containers"][0]["image"].endswith(f":{tag}")]
        return len(new) == 3 and all(condition(p, "Ready").get("status") == "True" for p in new)

    def look(self, tag: str) -> set[str]:
        carrying = self.carriers(tag)
        at_work = {name for name in carrying if not self.through(name, tag)}
        fresh = carrying - set(self.order)
        if self.order and fresh:
            assert self.order[0] not in at_work, "the first cluster was not through"
        self.order += sorted(fresh)
        self.most = max(self.most, len(at_work))
        return carrying - at_work

    def foretold(self, now: Manifest, new: Manifest) -> list[Effect]:
        """What `plan` says, before it is applied, of an edit of the fleet as it is."""
        given = [self.world.get(each) for each in clusters(self.world)[1::2]]
        usages = self.world.api.list(USAGE, "Usage")
        return plan.plan(now, new, [*given, *self.children().values(), *usages], "tier.yaml")

    def order_foretold(self, now: Manifest, new: Manifest) -> list[str]:
        """Which waves `plan` says that an edit takes."""
        return [e.what for e in self.foretold(now, new) if e.verb is Verb.WAVE]

    def until(self, probe: Callable[[], bool], what: str, limit: float = LIMIT) -> None:
        self.world.rig.until(probe, what, limit, explain=lambda: self.world.explain(waves("")))

    def until_everywhere(self, tag: str) -> None:
        self.until(lambda: self.look(tag) == set(NAMES), f"{tag} is everywhere")
        self.world.until_condition(waves(tag), "RolledOut", ("True", "Done"))

    def rollout(self) -> Manifest:
        return self.world.get(waves("")).get("status", {}).get("rollout", {})


@pytest.fixture(scope="module")
def fleet(world: Fleet) -> Iterator[None]:
    with world.rig.more_workloads(*MORE):
        for name in MORE:
            add_nodes(world.rig, name)
        documents = clusters(world)
        with world.applied(*documents):
            for document in documents[1::2]:
                world.until_ready(document)
            with world.applied(waves("one")):
                watched = Watched(world)
                there = lambda: all(watched.through(name, "one") for name in NAMES)  # noqa: E731
                watched.until(lambda: watched.carriers("one") == set(NAMES), "six children")
                watched.until(there, "they all work")
                world.until_condition(waves("one"), "RolledOut", ("True", "Done"))
                yield
            world.until_released(*NAMES)


@pytest.fixture
def watched(world: Fleet, fleet: None) -> Watched:
    return Watched(world)


def test_edit_reaches_one_cluster_then_two_at_once(
    world: Fleet, watched: Watched, summary: Summary
):
    watched.ready_children()
    assert watched.order_foretold(waves("one"), waves("two")) == IN_WAVES
    began = time.monotonic()
    world.api.apply(waves("two"))
    watched.until_everywhere("two")
    summary.note(f"an edit is on six clusters after {time.monotonic() - began:.1f} s")
    stored = world.get(waves("two"))
    managed = stored["metadata"].pop("managedFields")
    sizes = (len(json.dumps(each).encode()) for each in (stored, managed))
    summary.note("the tier in etcd: {} bytes and {} of managedFields".format(*sizes))
    assert watched.order[0] == NAMES[0] and sorted(watched.order) == NAMES
    assert watched.most <= AT_ONCE


def generations(watched: Watched) -> dict[str, int]:
    return {name: it["metadata"]["generation"] for name, it in watched.children().items()}


def test_broken_image_halts_at_one_cluster_and_its_rollback_touches_no_other(
    world: Fleet, watched: Watched
):
    before = generations(watched)
    first = NAMES[0]
    assert watched.order_foretold(waves("two"), waves("broken")) == IN_WAVES
    world.api.apply(waves("broken"))
    watched.until(lambda: watched.rollout().get("waiting") == [first], "it waits for one")
    world.until_condition(waves("broken"), "RolledOut", ("False", "Progressing"))
    child = watched.children()[first]
    world.until_condition(child, "AgentsReady", ("False", "Starting"))

    def halted() -> bool:
        """Ten minutes in the life of a start; the time counts anew with each other message."""
        conditions = watched.children()[first]["status"]["conditions"]
        (agents,) = (c for c in conditions if c["type"] == "AgentsReady")
        if (agents["status"], agents["reason"]) == ("False", "Starting"):
            past = [{**c, "lastTransitionTime": "2026-01-01T00:00:00Z"} for c in conditions]
            world.api.patch(child, {"status": {"conditions": past}}, "status")
            world.touch(child)
        return world.condition(waves("broken"), "RolledOut") == ("False", "Halted")

    world.rig.until(halted, "it is halted", LIMIT, every=2, explain=lambda: world.explain(child))
    assert first in world.message(waves("broken"), "RolledOut")
    assert watched.carriers("broken") == {first}
    assert watched.order_foretold(waves("broken"), waves("two")) == [f"wave 1 of 2: {first}"]
    world.api.apply(waves("two"))
    watched.until_everywhere("two")
    after = generations(watched)
    assert {name for name in NAMES if after[name] != before[name]} == {first}


def test_newer_edit_in_the_middle_begins_with_one_cluster(world: Fleet, watched: Watched):
    world.api.apply(waves("three"))
    watched.until(lambda: len(watched.look("three")) == 1, "one works with it")
    said = watched.order_foretold(waves("three"), waves("four"))
    world.api.apply(waves("four"))
    later = Watched(world)
    later.until_everywhere("four")
    assert later.most <= AT_ONCE
    assert watched.carriers("three") == set()
    # Edit three goes on between the question and the answer: which one is first may change.
    assert re.fullmatch(r"wave 1 of 2: wave-[a-f]", said[0])


def test_function_that_dies_in_the_middle_goes_on(world: Fleet, watched: Watched):
    function = world.rig.parts.parts[functions.OURS]
    assert watched.order_foretold(waves("four"), waves("five")) == IN_WAVES
    world.api.apply(waves("five"))
    for enough in (1, 3):
        watched.until(lambda e=enough: len(watched.look("five")) >= e, f"{enough} work with it")
        function.kill()
        world.rig.parts.tend()
    watched.until_everywhere("five")
    assert watched.most <= AT_ONCE


def test_cluster_lost_in_the_middle_halts_until_it_is_back(world: Fleet, watched: Watched):
    """It goes while the first wave takes the edit: one that was lost before would be excused."""
    assert watched.order_foretold(waves("five"), waves("six")) == IN_WAVES
    server = world.rig.parts.parts[f"apiserver-{ON[LOST]}"]
    world.api.apply(waves("six"))
    world.until_condition(waves("six"), "RolledOut", ("False", "Progressing"))
    server.stop()
    try:
        world.until_condition(waves("six"), "RolledOut", ("False", "Halted"), limit=LIMIT)
        assert watched.rollout()["waiting"] == [LOST]
        carriers = watched.carriers("six")
        assert {*NAMES[:2], LOST} <= carriers < set(NAMES)
        time.sleep(5)
        assert watched.carriers("six") == carriers
    finally:
        server.restart()
    watched.until(lambda: watched.look("six") == set(NAMES), "six is everywhere", 120)
    world.until_condition(waves("six"), "RolledOut", ("True", "Done"))


def test_edit_that_replaces_the_tier_reaches_one_cluster_first(world: Fleet, watched: Watched):
    """`kubectl replace` takes away the list of what the fleet composes."""
    image = {**waves("seven")["spec"]["image"]}
    world.api.patch(waves("six"), {"spec": {**UNLISTED, "image": image}})
    watched.until_everywhere("seven")
    assert watched.order[0] == NAMES[0] and watched.most <= AT_ONCE
    world.api.patch(waves("seven"), {"spec": UNLISTED})
    again = Watched(world)
    world.api.apply(waves("six"))
    again.until_everywhere("six")
    assert again.most <= AT_ONCE


def test_override_changes_the_clusters_that_it_names(world: Fleet, watched: Watched):
    before = generations(watched)
    row = {"matchLabels": {"memory": "small"}, "spec": {"lmcache": {"l1": {"sizeGiB": 4}}}}
    smaller = waves("six", clusterOverrides=[row])
    cluster = {"apiVersion": API, "kind": "InferenceCluster", "metadata": {"name": "wave-c"}}
    world.api.patch(cluster, {"metadata": {"labels": {"memory": "small"}}})
    said = watched.order_foretold(waves("six"), smaller)
    world.api.apply(smaller)

    def small() -> bool:
        world.touch(smaller)
        after = generations(watched)
        done = world.condition(smaller, "RolledOut") == ("True", "Done")
        return done and [name for name in NAMES if after[name] != before[name]] == ["wave-c"]

    world.rig.until(small, "one is smaller", LIMIT, every=1, explain=lambda: str(watched.rollout()))
    world.until_ready(watched.children()["wave-c"])
    sizes = {
        name: it["spec"]["lmcache"]["l1"]["sizeGiB"] for name, it in watched.children().items()
    }
    assert sizes == {**dict.fromkeys(NAMES, 8), "wave-c": 4}
    assert said == ["wave 1 of 1: wave-c"]


def test_fleet_becomes_no_tier_of_one_cluster(world: Fleet, watched: Watched):
    """Each cluster would lose its tier at once: the API server refuses it, and plan says so."""
    single = waves("six")
    del single["spec"]["clusterSelector"]
    single["spec"]["inferenceClusterRef"] = {"name": NAMES[0]}
    (said,) = watched.foretold(waves("six"), single)
    assert said.verb is Verb.REFUSED
    edit = {"clusterSelector": None, "inferenceClusterRef": {"name": NAMES[0]}}
    with pytest.raises(Refused, match=re.escape(said.why)):
        world.api.patch(waves("six"), {"spec": edit})
    assert set(watched.children()) == set(NAMES)


def test_selector_edit_empties_no_cluster(world: Fleet, watched: Watched):
    used = deployment("waved", "waves", "wave-f")
    with world.applied(used):
        world.until_ready(used)
        for name in NAMES[:3]:
            world.api.patch(
                {"apiVersion": API, "kind": "InferenceCluster", "metadata": {"name": name}},
                {"metadata": {"labels": {"stage": "first"}}},
            )
        selector = {"clusterSelector": {"matchLabels": {"stage": "first"}}}
        whole, first = waves("six"), waves("six")
        first["spec"] |= selector
        said = {e.what: e.why for e in watched.foretold(whole, first) if e.verb is Verb.LEAVES}
        assert sorted(said) == NAMES[3:]
        assert all(" stays " in why for why in said.values())
        world.api.patch(waves("six"), {"spec": selector})

        def says_so() -> bool:
            world.touch(waves("six"))
            text = world.get(waves("six")).get("status", {}).get("cluster")
            return text == "3/3 clusters, 3 kept" and set(watched.children()) == set(NAMES)

        world.rig.until(says_so, "three clusters are kept", 120, every=1)
        freed = {**first, "spec": {**first["spec"], "removal": "Remove"}}
        said = {e.what: e.why for e in watched.foretold(first, freed) if e.verb is Verb.LEAVES}
        assert [name for name, why in said.items() if " stays " not in why] == NAMES[3:5]
        world.api.patch(waves("six"), {"spec": {"removal": "Remove"}})
        kept = {*NAMES[:3], "wave-f"}

        def left() -> bool:
            world.touch(waves("six"))
            return set(watched.children()) == kept

        world.rig.until(left, "only what is used stays", 120, every=1)
        world.until_condition(used, "KVOffloadReady", ("True", "Wired"))

"""Consumers and tiers are deleted in every way and order: nothing waits for itself, nothing stays.

All leave at once, and each test waits for its own: an Object goes in seconds, or at the provider's
poll (30 s), and core looks at a Usage that is being deleted every 30 s.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cluster.documents import (
    API,
    FIRST,
    OBJECT,
    SECOND,
    USAGE,
    changed,
    cluster_replica,
    replica_group,
    requesting,
    tier,
)
from tests.cluster.expect import Fleet
from tests.cluster.groups import Summary
from tests.cluster.rig.fleet import namespace
from tests.cluster.rig.kube import Manifest, Refused, condition, is_true

HELD = tier("held")
PAIRED = tier("paired")
# No node has so much memory.
NEVER = changed(tier("never"), "spec.lmcache.l1.sizeGiB", 2000)
STAMPED = tier("stamped")
del STAMPED["spec"]["inferenceClusterRef"]
STAMPED["spec"]["clusterSelector"] = {"matchLabels": {"accelerator": "h200"}}
TIERS = (HELD, PAIRED, NEVER, STAMPED)

SCALED = replica_group("scaled", "held", 2)
DROPPED = replica_group("dropped", "held", 2)
BY = {how: requesting(how.lower(), "held") for how in ("Background", "Foreground", "Orphan")}
LEAVING = namespace("team-leaving")
EVICTED = requesting("evicted", "held", namespace="team-leaving")
WIDE = cluster_replica("wide", "held")
MOVED = requesting("moved", "stamped")
PARTNER = requesting("partner", "paired")
UPGRADED = requesting("upgraded", "held")
RUNNING = (SCALED, DROPPED, *BY.values(), EVICTED, WIDE, MOVED, PARTNER, UPGRADED)

WAITING = requesting("waiting", "never")
HASTY = requesting("hasty", "never", policy="Optional")

# Two looks of core at a Usage, and the provider's poll.
GONE_SECONDS = 100


@pytest.fixture(scope="module")
def there(world: Fleet, standin: None) -> Iterator[None]:
    """All tiers and consumers, as far up as they come."""
    world.api.apply(LEAVING)
    for document in (*TIERS, *RUNNING, WAITING, HASTY):
        world.api.apply(document)
    for document in RUNNING:
        world.until_ready(document, limit=90)
    world.until_condition(WAITING, "KVOffloadReady", ("False", "TierNotReady"))
    world.until_ready(HASTY)
    world.rig.until(
        lambda: all(is_true(u, "Ready") for u in usages(world)),
        "every Usage of a running consumer is in force",
        60,
    )
    yield
    for document in (*RUNNING, WAITING, HASTY, *TIERS):
        if world.api.again(document) is not None:
            world.remove(document, limit=GONE_SECONDS)


@pytest.fixture(scope="module")
def leaving(world: Fleet, there: None) -> float:
    """When all of them were told to go."""
    for how, document in BY.items():
        world.api.delete(document, propagation=how)
    world.api.apply(replica_group("scaled", "held", 1))
    world.api.delete(DROPPED, propagation="Foreground")
    world.api.delete(LEAVING)
    world.api.delete(WIDE, propagation="Foreground")
    world.api.delete(UPGRADED, propagation="Foreground")
    for document in (WAITING, HASTY):
        world.api.delete(document, propagation="Foreground")
    moved = changed(requesting("moved", "stamped", SECOND), "spec.placement", "second")
    world.api.apply(moved)
    return time.monotonic()


def usages(world: Fleet, of: str = "") -> list[Manifest]:
    """The Usages that consumers composed: of all, or by the consumer's name."""
    found = [u for u in world.api.list(USAGE, "Usage") if u["spec"].get("by")]
    return [u for u in found if consumer(u) == of or not of]


def consumer(usage: Manifest) -> str:
    """`Kind namespace/name offloads ...`"""
    return usage["spec"]["reason"].split()[1].partition("/")[2]


def replicas(world: Fleet, group: Manifest) -> list[Manifest]:
    return world.composed(group, API, "ModelReplica")


def engines(world: Fleet, name: str, cluster: str = FIRST) -> list[str]:
    """The engine Deployments on a cluster whose names begin with a consumer's."""
    start = f"Deployment default/{name}"
    return [key for key in world.remote(cluster) if key.startswith(start)]


def until_gone(world: Fleet, document: Manifest, name: str = "") -> None:
    """The composite, its Objects and its Usages."""
    name = name or document["metadata"]["name"]

    def left() -> list[str]:
        found = [o for o in world.api.list(OBJECT, "Object") if named(o, name)]
        found += usages(world, of=name)
        found += [document] if world.api.again(document) else []
        return [f"{f['kind']} {f['metadata']['name']}" for f in found]

    world.rig.until(
        lambda: not left(),
        f"{document['kind']} {name} is gone",
        GONE_SECONDS,
        explain=lambda: f"{left()}\n{world.explain(document)}\n{events(world)}",
    )
    assert left() == []


def named(composed: Manifest, name: str) -> bool:
    return composed["metadata"].get("labels", {}).get("crossplane.io/composite") == name


def events(world: Fleet) -> str:
    """What core says about Usages: what one that does not go waits for."""
    return "\n".join(
        f"{e['involvedObject']['name']} {e['reason']}: {e['message']}"
        for e in world.api.list("v1", "Event")
        if e["involvedObject"].get("kind") == "Usage"
    )


# While all run


def test_usage_names_the_engine_object_of_the_consumer(world: Fleet, there: None):
    found = {consumer(u): u for u in usages(world)}
    assert len(found) == 2 + 2 + len(BY) + 5  # who does not run yet holds nothing
    for name, usage in found.items():
        by = usage["spec"]["by"]
        composed = world.api.get(
            OBJECT, by["kind"], by["resourceRef"]["name"], usage["metadata"]["namespace"]
        )
        manifest = composed["spec"]["forProvider"]["manifest"]
        assert manifest["metadata"]["name"] == f"{name}-main"


def test_used_tier_and_its_fleet_are_not_deleted(world: Fleet, there: None):
    children = [t for t in world.api.list(API, "KVOffloadTier") if child_of(t, STAMPED)]
    used = [t for t in children if t["spec"]["inferenceClusterRef"]["name"] == FIRST]
    for document in (HELD, PAIRED, *used):
        with pytest.raises(Refused, match="in-use by"):
            world.api.delete(document)

    def holds_itself() -> bool:
        world.touch(STAMPED)
        return is_true(fleet_usage(world), "Ready")

    world.rig.until(holds_itself, "the fleet holds itself", every=1, explain=str)
    with pytest.raises(Refused, match="consumers use its tiers"):
        world.api.delete(STAMPED)


def child_of(document: Manifest, fleet: Manifest) -> bool:
    name = fleet["metadata"]["name"]
    return document["metadata"].get("labels", {}).get("modelplane.ai/kv-offload-fleet") == name


def fleet_usage(world: Fleet) -> Manifest | None:
    found = world.composed(STAMPED, USAGE, "Usage")
    return found[0] if found else None


def test_usage_of_the_previous_release_is_updated(world: Fleet, there: None):
    """It named the consumer in `by`, and nowhere else."""
    (usage,) = usages(world, of="upgraded")
    by = {"apiVersion": API, "kind": "ModelReplica", "resourceRef": {"name": "upgraded"}}
    annotation = {"modelplane.ai/kv-offload-consumer": None}
    world.api.patch(usage, {"metadata": {"annotations": annotation}, "spec": {"by": by}})

    def kind() -> str:
        world.touch(UPGRADED)
        return usages(world, of="upgraded")[0]["spec"]["by"]["kind"]

    world.rig.until(lambda: kind() == "Object", "its engine's Object holds the tier", every=1)


# Leaving


def test_replica_no_longer_desired_by_its_parent_is_deleted(world: Fleet, leaving: float):
    world.rig.until(
        lambda: len(replicas(world, SCALED)) == 1 and len(engines(world, "scaled")) == 1,
        "one of two is left",
        GONE_SECONDS,
        explain=lambda: f"{replicas(world, SCALED)}\n{events(world)}",
    )
    (kept,) = replicas(world, SCALED)
    assert is_true(kept, "KVOffloadReady")
    assert len(usages(world, of=kept["metadata"]["name"])) == 1
    world.until_ready(SCALED)


def test_deleted_parent_deletes_its_replicas(world: Fleet, leaving: float):
    until_gone(world, DROPPED)
    assert engines(world, "dropped") == []


@pytest.mark.parametrize("how", ["Background", "Foreground"])
def test_deleted_consumer_deletes_its_engine(
    world: Fleet, leaving: float, summary: Summary, how: str
):
    until_gone(world, BY[how])
    assert engines(world, how.lower()) == []
    summary.note(f"{how}: gone within {time.monotonic() - leaving:.0f} s")


def test_consumer_of_the_previous_release_is_deleted(world: Fleet, leaving: float):
    until_gone(world, UPGRADED)


def test_orphaned_engine_protects_the_tier_until_deleted(world: Fleet, leaving: float):
    orphaned = BY["Orphan"]
    world.rig.until(lambda: world.api.again(orphaned) is None, "it is gone")
    assert engines(world, "orphan") == ["Deployment default/orphan-main"]
    assert len(usages(world, of="orphan")) == 1
    for each in world.api.list(OBJECT, "Object", "team-a", "crossplane.io/composite=orphan"):
        world.api.delete(each)
    until_gone(world, orphaned)


def test_deleted_namespace_waits_only_for_the_provider(world: Fleet, leaving: float):
    """provider-kubernetes v1.2.1 cannot delete an Object of a namespace that is being deleted,
    wired or not, once its ProviderConfigUsage there is gone: a person takes the finalizers away.
    Until then the engine runs on, and holds its tier.
    """

    def stuck() -> list[Manifest]:
        found = world.api.list(OBJECT, "Object", "team-leaving")
        return [o for o in found if "terminated" in condition(o, "Synced").get("message", "")]

    def gone() -> bool:
        for each in stuck():
            world.api.patch(each, {"metadata": {"finalizers": None}})
        return world.api.again(LEAVING) is None

    world.rig.until(
        gone,
        "the namespace is gone",
        GONE_SECONDS,
        explain=lambda: f"{world.api.again(LEAVING)}\n{events(world)}",
    )
    until_gone(world, EVICTED)
    for key, left in world.remote(FIRST).items():
        if key.rpartition("/")[2].partition("-")[0] == "evicted":  # its engine, its files
            world.rig.workload(FIRST).api.delete(left)


def test_cluster_scoped_consumer_is_deleted(world: Fleet, leaving: float):
    until_gone(world, WIDE)
    assert engines(world, "wide") == []


@pytest.mark.parametrize("document", [WAITING, HASTY], ids=["held back", "unwired"])
def test_unwired_consumer_is_deleted(world: Fleet, leaving: float, document: Manifest):
    until_gone(world, document)


def test_moved_consumer_protects_the_tier_of_its_new_cluster_only(world: Fleet, leaving: float):
    world.until_condition(MOVED, "KVOffloadReady", ("True", "Wired"), limit=60)
    world.until_ready(MOVED, limit=90)
    world.rig.until(lambda: engines(world, "moved", SECOND), "its engine runs there")

    def held() -> list[str]:
        return [u["spec"]["of"]["resourceRef"]["name"] for u in usages(world, of="moved")]

    children = [t for t in world.api.list(API, "KVOffloadTier") if child_of(t, STAMPED)]
    there = [
        t["metadata"]["name"]
        for t in children
        if t["spec"]["inferenceClusterRef"]["name"] == SECOND
    ]
    world.rig.until(
        lambda: held() == there, "it holds the child there", explain=lambda: str(held())
    )
    world.rig.until(lambda: not engines(world, "moved"), "nothing is left behind", GONE_SECONDS)


def test_tier_and_consumer_can_be_deleted_together(world: Fleet, leaving: float):
    with pytest.raises(Refused, match="in-use by"):
        world.api.delete(PAIRED)
    world.api.delete(PARTNER)
    world.remove(PAIRED, limit=GONE_SECONDS, waking=False)
    until_gone(world, PARTNER)


def test_mark_of_two_that_left_at_once_is_taken_off(world: Fleet, leaving: float):
    """Each of them counts the other, and core leaves its label on what they were of."""
    child = next(
        t
        for t in world.api.list(API, "KVOffloadTier")
        if child_of(t, STAMPED) and t["spec"]["inferenceClusterRef"]["name"] == FIRST
    )
    pair = [usage_of(child, name) for name in ("first-of-two", "second-of-two")]

    def is_marked() -> bool:
        return "crossplane.io/in-use" in world.get(child)["metadata"].get("labels", {})

    world.rig.until(lambda: not is_marked(), "the one before has left it", GONE_SECONDS)
    for usage in pair:
        world.api.apply(usage)
    world.rig.until(
        lambda: is_marked() and all(is_true(world.get(each), "Ready") for each in pair),
        "both are in force",
    )
    world.rig.until(
        lambda: world.get(child)["status"].get("usage", "").endswith("first-of-two"),
        "the tier knows one of them",
        explain=lambda: str(world.get(child)["status"]),
    )
    with ThreadPoolExecutor() as both:
        list(both.map(world.api.delete, pair))
    world.rig.until(
        lambda: not is_marked() and "usage" not in world.get(child)["status"],
        "nothing marks it",
        GONE_SECONDS,
        explain=lambda: str(world.get(child)["metadata"]),
    )


def usage_of(child: Manifest, name: str) -> Manifest:
    """A Usage of a tier as a consumer in its namespace has it, but by nobody."""
    namespace, tier = (child["metadata"][field] for field in ("namespace", "name"))
    labels = {"modelplane.ai/kv-offload-used-tier": f"{namespace}.{tier}"}
    of = {"apiVersion": API, "kind": "KVOffloadTier", "resourceRef": {"name": tier}}
    return {
        "apiVersion": USAGE,
        "kind": "Usage",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"of": of, "reason": "tests"},
    }


def test_no_usage_is_left(world: Fleet, leaving: float):
    for document in (SCALED, MOVED):
        world.remove(document, limit=GONE_SECONDS)
    world.rig.until(
        lambda: not usages(world), "no Usage is left", GONE_SECONDS, explain=lambda: events(world)
    )

    def is_unused() -> bool:
        world.touch(HELD)
        return world.get(HELD)["status"].get("consumers") == "0"

    world.rig.until(is_unused, "and no user is counted", every=1)
    for document in TIERS:
        world.remove(document, limit=GONE_SECONDS)
    for cluster in (FIRST, SECOND):
        world.until_empty(cluster)
    world.rig.until(lambda: not world.api.list(USAGE, "Usage"), "no Usage at all is left")

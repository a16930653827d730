"""The circuit breaker and slow news: large tiers, many tiers, and a long roll end Ready."""

import contextlib
import time
from collections.abc import Iterator

import pytest

from tests.cluster.documents import FIRST, changed, tier
from tests.cluster.expect import Fleet
from tests.cluster.groups import Summary
from tests.cluster.rig.crds import install_monitoring
from tests.cluster.rig.kube import condition, is_true
from tests.cluster.rig.nodes import gpu_node
from tests.cluster.rig.wait import PATIENCE

MANY = 20
ROLLED_NODES = 50
# Core 2.4 counts the events of Objects from the first reconcile's end on: the default of 100 may
# last for eleven of them, and a slow machine makes them as slowly as one token a second comes back.
# What is tested is an open breaker.
SMALL_BREAKER = ("--circuit-breaker-burst=25", "--circuit-breaker-refill-rate=0.1")
_REDIS = {"managed": {"sizeGiB": 8}}


def large_tier(name: str) -> dict:
    """A tier of eleven Objects: two managed Redis levels beside the agents, and monitoring."""
    levels = [{"name": n, "type": "Redis", "redis": _REDIS} for n in ("near", "far")]
    return tier(
        name,
        lmcache={"mode": "NodeServer", "l1": {"sizeGiB": 8}, "l2": levels},
        monitoring={"podMonitor": True, "namespaceLabels": {"name": "monitoring"}},
    )


def small_tier(name: str) -> dict:
    return changed(tier(name), "spec.lmcache.l1.sizeGiB", 1)


@contextlib.contextmanager
def breaker(world: Fleet, *flags: str) -> Iterator[None]:
    """Core with other flags of its breaker, for a while; without any, with its defaults."""
    core = world.rig.parts.parts["core"]
    before = core.argv
    core.argv = [*(word for word in before if "circuit-breaker" not in word), *flags]
    core.restart()
    try:
        yield
    finally:
        core.argv = before
        core.restart()


@pytest.fixture(scope="module", autouse=True)
def default_breaker(world: Fleet) -> Iterator[None]:
    """Core with the burst that it has by default; the other groups run with a fleet's."""
    with breaker(world):
        yield


def test_a_tier_of_more_than_ten_objects_becomes_ready(world: Fleet, summary: Summary):
    install_monitoring(world.rig.workload(FIRST).api)
    large = large_tier("large")
    with breaker(world, *SMALL_BREAKER):
        calls, tokens, began = world.calls(), world.tokens(), time.monotonic()
        with world.applied(large):
            world.until_ready(large, limit=60)
            assert len(world.objects(large)) >= 10
            assert world.condition(large, "Responsive") == ("False", "WatchCircuitOpen")
            summary.note(
                f"a tier of {len(world.objects(large))} Objects: Ready after"
                f" {time.monotonic() - began:.1f} s, {world.calls() - calls} calls,"
                f" {world.tokens() - tokens} tokens, its breaker open"
            )


def test_twenty_tiers_at_once_become_ready(world: Fleet, summary: Summary):
    tiers = [small_tier(f"many-{n:02}") for n in range(MANY)]
    calls, tokens, began = world.calls(), world.tokens(), time.monotonic()
    with world.applied(*tiers):
        for document in tiers:
            world.until_ready(document, limit=90)
        seconds = time.monotonic() - began
        opened = sum(
            condition(world.get(t), "Responsive").get("reason") == "WatchCircuitOpen" for t in tiers
        )
        summary.note(
            f"{MANY} tiers at once: Ready after {seconds:.1f} s,"
            f" {(world.calls() - calls) / MANY:.1f} calls and"
            f" {(world.tokens() - tokens) / MANY:.0f} tokens each, {opened} breakers open"
        )
        assert seconds < 60 * PATIENCE
        assert (world.calls() - calls) / MANY <= 40


def test_a_roll_over_fifty_nodes_ends_ready(world: Fleet, summary: Summary):
    rig = world.rig
    pool = {"pool": "wide"}
    nodes = [gpu_node(f"wide-{n:02}", pool) for n in range(ROLLED_NODES)]
    for node in nodes:
        del node["metadata"]["labels"]["nvidia.com/gpu.present"]
    rig.apply_nodes(rig.workload(FIRST), nodes, limit=60)
    wide = changed(small_tier("wide"), "spec.nodes.selector", pool)
    wide["spec"]["upgradePolicy"] = {"type": "RollingUpdate", "maxUnavailable": 5}
    try:
        with world.applied(wide):
            world.until_ready(wide, limit=90)
            assert world.get(wide)["status"]["agents"]["desired"] == ROLLED_NODES
            old = {p["metadata"]["uid"] for p in on(world, pool)}
            began = time.monotonic()
            world.api.apply(changed(wide, "spec.lmcache.cpuWorkers", 5))
            rig.until(
                lambda: not old & {p["metadata"]["uid"] for p in on(world, pool)},
                "every agent is new",
                120,
                explain=lambda: world.explain(wide),
            )
            # With an open breaker the tier's Ready may be from before the roll: the pods
            # themselves say when it has ended.
            rig.until(
                lambda: (
                    len(on(world, pool)) == ROLLED_NODES
                    and all(is_true(p, "Ready") for p in on(world, pool))
                ),
                "every new agent is ready",
                60,
                explain=lambda: world.explain(wide),
            )
            world.until_ready(wide, limit=60)
            summary.note(f"{ROLLED_NODES} nodes rolled in {time.monotonic() - began:.0f} s")
            rig.until(
                lambda: world.get(wide)["status"]["agents"]["summary"] == "50/50",
                "the status counts all of them",
                45,
            )
    finally:
        for node in nodes:
            rig.workload(FIRST).api.delete(node)


def on(world: Fleet, pool: dict[str, str]) -> list[dict]:
    """The agents of the rolled tier, by their nodes."""
    assert pool
    return [p for p in world.agents(FIRST) if p["spec"].get("nodeName", "").startswith("wide-")]

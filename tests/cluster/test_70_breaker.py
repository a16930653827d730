"""The circuit breaker and slow news: large tiers, many tiers, and a long roll end Ready."""

import time

from tests.cluster.documents import FIRST, changed, tier
from tests.cluster.expect import Fleet
from tests.cluster.groups import Summary
from tests.cluster.rig.kube import condition, is_true
from tests.cluster.rig.nodes import gpu_node

MANY = 20
ROLLED_NODES = 50
_DISK = {"name": "nvme", "type": "Disk", "disk": {"sizeGiB": 100, "hostPath": {"path": "/mnt/kv"}}}
_REDIS = {
    "name": "shared",
    "type": "Redis",
    "redis": {"managed": {"sizeGiB": 8, "persistence": {"storageClassName": "fast"}}},
}


def large_tier(name: str) -> dict:
    """A tier with every optional part that makes an Object of its own."""
    return tier(
        name,
        lmcache={"mode": "NodeServer", "l1": {"sizeGiB": 8}, "l2": [_DISK, _REDIS]},
        monitoring={"podMonitor": True},
        gpuVisibility={"source": "DRAAdminAccess"},
    )


def small_tier(name: str) -> dict:
    return changed(tier(name), "spec.lmcache.l1.sizeGiB", 1)


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
        assert seconds < 60
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
            world.until_ready(wide, limit=60)
            summary.note(f"{ROLLED_NODES} nodes rolled in {time.monotonic() - began:.0f} s")
            now = on(world, pool)
            assert len(now) == ROLLED_NODES
            assert all(is_true(p, "Ready") for p in now)
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

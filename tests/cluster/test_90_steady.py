"""Steady state costs nothing: no write, no event, and as many calls as the TTL says."""

import time

from tests.cluster.documents import API, FIRST, OBJECT, USAGE, deployment, tier
from tests.cluster.expect import Fleet
from tests.cluster.groups import Summary
from tests.cluster.rig.kube import is_true

STEADY_SECONDS = 120
SETTLING_SECONDS = 5
# An XR that is Ready asks again after 300 s; while its breaker is open, after 30 s.
MAX_CALLS_EACH = 2 * (STEADY_SECONDS // 30 + 1)
TIERS = [tier("still"), tier("still-eks", "eks-h200")]
DEPLOYMENTS = [deployment("quiet", "still"), deployment("quiet-eks", "still-eks", "eks-h200")]


def versions(world: Fleet) -> dict[str, str]:
    """The resourceVersion of everything that is ours, on both sides."""
    ours = [
        *world.api.list(API, "KVOffloadTier"),
        *world.api.list(API, "ModelDeployment"),
        *world.api.list(API, "InferenceCluster"),
        *world.api.list(OBJECT, "Object"),
        *world.api.list(USAGE, "Usage"),
    ]
    for cluster in world.rig.workloads:
        ours += world.remote(cluster).values()
    return {
        f"{m['kind']} {m['metadata'].get('namespace', '')}/{m['metadata']['name']}": m["metadata"][
            "resourceVersion"
        ]
        for m in ours
    }


def events(world: Fleet) -> dict[str, int]:
    """Events about our composites, with their counts: a repeated event is one too."""
    kinds = ("KVOffloadTier", "ModelDeployment", "InferenceCluster", "Object", "Usage")
    return {
        e["metadata"]["name"]: e.get("count") or 1
        for e in world.api.list("v1", "Event")
        if e["involvedObject"].get("kind") in kinds
    }


def test_nothing_is_written_and_nothing_happens_for_two_minutes(world: Fleet, summary: Summary):
    with world.applied(*TIERS, *DEPLOYMENTS):
        for document in (*TIERS, *DEPLOYMENTS):
            world.until_ready(document, limit=60)
        world.rig.until(
            lambda: all(is_true(o, "Ready") for o in world.api.list(OBJECT, "Object")),
            "every Object is Ready: one whose thing was there already takes its poll of 30 s",
            60,
        )
        time.sleep(SETTLING_SECONDS)
        before, heard, calls = versions(world), events(world), world.calls()
        assert len(before) >= 20
        time.sleep(STEADY_SECONDS)
        after = versions(world)
        assert {k: v for k, v in after.items() if before.get(k) != v} == {}
        assert events(world) == heard
        composites = len(TIERS) + len(DEPLOYMENTS) + len(world.rig.workloads)
        spent = world.calls() - calls
        summary.note(
            f"steady for {STEADY_SECONDS} s: {len(after)} objects stood still,"
            f" {spent} calls for {composites} composites"
        )
        assert spent <= MAX_CALLS_EACH * composites
    assert world.rig.workload(FIRST).api.ready()

"""A cluster is drained, and all is deleted, in each order: nothing is stuck, nothing is left.

One story: each test goes on from where the one before ended.
"""

import contextlib

import pytest

from tests.cluster.documents import API, FIRST, SECOND
from tests.cluster.rig.kube import Manifest, Refused
from tests.modelplane.rig import site
from tests.modelplane.rig.life import Life
from tests.modelplane.rig.site import CHAT, SHARED, TIERS, code, talk

BOTH = talk(), code()


def test_drained_cluster_loses_its_replicas(life: Life, ours: None):
    with life.transcript.doing("talk and code with their tiers, on both clusters"):
        life.apply_ready(*TIERS)
        for document in BOTH:
            life.world.api.apply(document)
        life.until_all_wired(2, *BOTH)
    taint = {"key": "maintenance", "effect": "NoExecute"}
    _, document = site.inference_cluster(life.world.rig.workload(SECOND), [taint])
    with life.transcript.doing(f"InferenceCluster {SECOND} tainted NoExecute"):
        life.world.api.apply(document)
        life.world.rig.until(
            lambda: all(f" on {FIRST}" in w for d in BOTH for w in life.where(d)),
            "all replicas are on the other",
            150,
            explain=lambda: f"{[life.where(d) for d in BOTH]}\n{life.events()}",
        )
        life.until_all_wired(2, *BOTH)
        life.world.rig.until(
            lambda: not engines(life, SECOND), "no engine is there", 150, explain=life.events
        )


def test_drained_cluster_is_deleted_with_its_tiers(life: Life):
    world = life.world
    document = site.inference_cluster(world.rig.workload(SECOND))[1]
    with life.transcript.doing(f"InferenceCluster {SECOND} deleted, foreground"):
        life.until_deleted(document, "Foreground", *TIERS)
        world.until_empty(SECOND, 150)
    assert [tiers_on(life, tier) for tier in TIERS] == [[FIRST], [FIRST]]
    life.until_all_wired(2, *BOTH)
    with life.transcript.doing(f"InferenceCluster {SECOND} declared again"):
        for each in site.inference_cluster(world.rig.workload(SECOND)):
            world.api.apply(each)
        world.until_ready(document, limit=90)
        for tier in TIERS:
            life.touch(tier)
            world.rig.until(lambda t=tier: SECOND in tiers_on(life, t), "its tier is there", 90)
            world.until_ready(tier, limit=120)


def engines(life: Life, cluster: str) -> list[str]:
    start = "Deployment default/"
    return [k for k in life.world.remote(cluster) if k.startswith(start) and "-main" in k]


def tiers_on(life: Life, tier: Manifest) -> list[str]:
    """The clusters that a fleet tier has a child on."""
    return sorted(
        child["spec"]["inferenceClusterRef"]["name"]
        for child in life.world.composed(tier, API, "KVOffloadTier")
    )


def test_deployment_can_be_deleted_before_its_tier(life: Life):
    with life.transcript.doing("talk deleted, foreground"):
        life.world.api.delete(talk(), propagation="Foreground")
        life.until_gone(talk())


def test_tier_can_be_deleted_before_its_deployment(life: Life):
    with life.transcript.doing("tier shared deleted under code, then code, background"):
        life.touch(SHARED)
        with pytest.raises(Refused) as refused:
            life.world.api.delete(SHARED)
        life.transcript.saw(str(refused.value))
        life.until_all_wired(2, code())
        life.world.api.delete(code())
        life.until_deleted(SHARED, "Background")
        life.until_gone(code())
        life.until_left("shared", "kv-shared")


def test_tier_and_deployment_can_be_deleted_together(life: Life):
    with life.transcript.doing("talk and code again"):
        for document in (SHARED, *BOTH):
            life.world.api.apply(document)
        life.until_all_wired(2, *BOTH)
    with life.transcript.doing("both with their tiers deleted at once, foreground and background"):
        ways = {"Foreground": (talk(), CHAT), "Background": (code(), SHARED)}
        for how, documents in ways.items():
            for document in documents:
                with contextlib.suppress(Refused):
                    life.world.api.delete(document, propagation=how)
        for how, (_, tier) in ways.items():
            life.until_deleted(tier, how)
        life.until_gone(*BOTH)


def test_no_object_is_left(life: Life):
    world = life.world
    with life.transcript.doing("both InferenceClusters deleted, background"):
        for name in (FIRST, SECOND):
            document = site.inference_cluster(world.rig.workload(name))[1]
            life.until_deleted(document, "Background")
        life.until_left()
    life.transcript.saw("nothing is left on any cluster")
    assert life.unwired == set()
    life.transcript.saw("no ReplicaSet that asked for a tier was ever unwired")
    assert world.rig.parts.revived == []

"""A deployment of Modelplane's through everything that happens to one, with our step behind.

One story: each test goes on from where the one before ended (run it with -x).
"""

import time

import pytest

from tests.cluster.documents import API, FIRST, SECOND
from tests.cluster.platform import COMPOSITION, COPY
from tests.cluster.rig.kube import Manifest, Refused, is_true
from tests.modelplane.rig import site
from tests.modelplane.rig.life import CONDITION, Life

CHAT = site.fleet_tier("chat")
# SGLang's client of LMCache has no place for the identity in its keys.
SHARED = site.fleet_tier("shared", lmcache={"ipc": "SharedMemory", "l1": {"sizeGiB": 200}})
TIERS = (CHAT, SHARED)
SGLANG = "lmcache/sglang:v0.5.6"
OLDER = "vllm/vllm-openai:v0.32.0"


def talk(replicas: int = 2, *more: str, image: str = "") -> Manifest:
    return site.deployment("talk", "chat", replicas, *more, image=image)


def code(replicas: int = 2, *more: str) -> Manifest:
    return site.deployment("code", "shared", replicas, *more, image=SGLANG)


def test_ours_is_installed_beside_it(life: Life):
    with life.transcript.doing("our Function, Configurations kind and tier; the step, as a copy"):
        life.platform.install_ours("kind", "tier")
        life.platform.until_served("KVOffloadTier")
        for plural in life.platform.kinds.split(","):
            life.platform.add_step(f"{plural}.modelplane.ai")
    life.transcript.saw(life.platform.doctor().strip())


def test_who_asks_for_no_tier_of_that_name_reads_why(life: Life):
    """On the ModelDeployment, which is what an ML team looks at."""
    with life.transcript.doing("ModelDeployments talk and code, before their tiers"):
        for document in (talk(), code()):
            life.world.api.apply(document)
        for document in (talk(), code()):
            life.world.until_condition(document, CONDITION, ("False", "TierNotFound"), limit=90)
            life.transcript.saw(life.world.message(document, CONDITION))
            assert not is_true(life.world.get(document), "Ready")
            assert not any(map(life.engine, life.replicas(document)))


def test_they_come_up_wired_once_the_tiers_are_there(life: Life):
    with life.transcript.doing("fleet tiers chat and shared, on both clusters"):
        for document in TIERS:
            life.world.api.apply(document)
        for document in TIERS:
            life.world.until_ready(document, limit=120)
    with life.transcript.doing("their deployments come up"):
        life.until_wired(talk(), 2)
        life.until_wired(code(), 2)


def test_scaled_up(life: Life):
    before = life.identities(talk()) | life.identities(code())
    with life.transcript.doing("both scaled from 2 to 4 replicas"):
        for document in (talk(4), code(4)):
            life.world.api.apply(document)
        for document in (talk(4), code(4)):
            life.until_wired(document, 4)
    assert before.items() <= (life.identities(talk()) | life.identities(code())).items()


def test_rolled_out_with_another_identity(life: Life):
    float16 = "--dtype=float16"
    with life.transcript.doing("both rolled out with --dtype=float16"):
        for document in (talk(4, float16), code(4, float16)):
            life.world.api.apply(document)
        for document in (talk(4, float16), code(4, float16)):
            life.until_wired(document, 4, float16)
    older = talk(4, float16, image=OLDER)
    with life.transcript.doing(f"talk rolled out with {OLDER}"):
        life.world.api.apply(older)
        life.until_wired(older, 4, float16)
        images = {
            engine["image"]
            for r in life.replicas(older)
            for p in life.pods(r)
            for engine in p["spec"]["containers"]
        }
        assert images == {OLDER}


def test_scaled_down(life: Life):
    documents = talk(2, "--dtype=float16", image=OLDER), code(2, "--dtype=float16")
    before = [r["metadata"]["name"] for d in documents for r in life.replicas(d)]
    with life.transcript.doing("both scaled down to 2"):
        for document in documents:
            life.world.api.apply(document)
        for document in documents:
            life.until_wired(document, 2)
        kept = {r["metadata"]["name"] for d in documents for r in life.replicas(d)}
        gone = [name for name in before if name not in kept]
        life.world.rig.until(
            lambda: not life.left(*gone), f"nothing is left of {gone}", 150, explain=life.events
        )
        life.transcript.saw(f"nothing is left of {', '.join(gone)}")


def test_core_starts_again(life: Life):
    stays(life, "core restarted; its package manager wrote back what it holds", restart=True)


def test_modelplane_is_upgraded(life: Life):
    life.platform.upgrade_platform("v0.3.2")
    stays(life, "Modelplane's package upgraded; its Compositions differ in a label")


def test_modelplane_is_upgraded_to_another_composition(life: Life):
    named = [d for d in life.platform.definitions if d["metadata"]["name"] == COMPOSITION]
    (composition,) = (d for d in named if d["kind"] == "Composition")
    composition["spec"]["pipeline"][0]["step"] = "compose-otherwise"
    life.platform.upgrade_platform("v0.4.0")
    with life.transcript.doing("upgraded to a package whose Composition differs; doctor says so"):
        said = life.platform.doctor(code=1)
        life.transcript.saw(said.strip())
        assert f"Composition {COPY}: is a copy of Composition {COMPOSITION} as it was" in said
        life.platform.add_step(COMPOSITION)
    stays(life, "the copy made again")


def stays(life: Life, what: str, restart: bool = False) -> None:
    """What runs stays wired, in the same pods, and so does what comes."""
    documents = talk(2, "--dtype=float16", image=OLDER), code(2, "--dtype=float16")
    before = life.identities(documents[0]) | life.identities(documents[1])
    newcomer = site.deployment("newcomer", "chat", 1)
    with life.transcript.doing(what):
        if restart:
            life.platform.restart_core()
        life.world.api.apply(newcomer)
        life.until_wired(newcomer, 1)
        for document in documents:
            life.until_wired(document, 2)
    assert life.identities(documents[0]) | life.identities(documents[1]) == before
    life.transcript.saw(life.platform.doctor().strip())
    with life.transcript.doing("the newcomer deleted"):
        life.world.api.delete(newcomer)
        life.until_gone(newcomer)


def test_a_cluster_is_drained_and_deleted(life: Life):
    world = life.world
    documents = talk(2, "--dtype=float16", image=OLDER), code(2, "--dtype=float16")
    taint = {"key": "maintenance", "effect": "NoExecute"}
    _, document = site.inference_cluster(world.rig.workload(SECOND), [taint])
    with life.transcript.doing(f"InferenceCluster {SECOND} tainted NoExecute"):
        world.api.apply(document)
        world.rig.until(
            lambda: all(f" on {FIRST}" in w for d in documents for w in life.where(d)),
            "all replicas are on the other",
            120,
            explain=lambda: str([life.where(d) for d in documents]),
        )
        for each in documents:
            life.until_wired(each, 2)
        world.rig.until(
            lambda: not engines(life, SECOND), "nothing runs there", 150, explain=life.events
        )
    with life.transcript.doing(f"InferenceCluster {SECOND} deleted (foreground), tiers on it"):
        until_deleted(life, document, "Foreground")
        world.until_empty(SECOND, 150)
    for tier in TIERS:
        life.transcript.saw(f"{tier['metadata']['name']}: {tiers_on(life, tier)}")
        assert tiers_on(life, tier) == [FIRST]
    with life.transcript.doing(f"InferenceCluster {SECOND} declared again"):
        for each in site.inference_cluster(world.rig.workload(SECOND)):
            world.api.apply(each)
        world.until_ready(document, limit=90)
        for tier in TIERS:
            touch(life, tier)
            world.rig.until(lambda t=tier: tiers_on(life, t) == sorted((FIRST, SECOND)), "both", 90)
            world.until_ready(tier, limit=120)


def touch(life: Life, document: Manifest) -> None:
    change = {"metadata": {"annotations": {"example.org/touched": str(time.time())}}}
    life.world.api.patch(document, change)


def engines(life: Life, cluster: str) -> list[str]:
    return [
        key
        for key in life.world.remote(cluster)
        if key.startswith("Deployment default/") and "-main" in key
    ]


def tiers_on(life: Life, tier: Manifest) -> list[str]:
    """The clusters that a fleet tier has a child on."""
    return sorted(
        child["spec"]["inferenceClusterRef"]["name"]
        for child in life.world.composed(tier, API, "KVOffloadTier")
    )


def until_deleted(life: Life, document: Manifest, how: str = "Background") -> None:
    """Delete, again while something holds it, as a person would."""
    world = life.world
    said: list[str] = []

    def deleted() -> bool:
        try:
            world.api.delete(document, propagation=how)
        except Refused as refused:
            said.append(str(refused))
            return False
        return True

    name = f"{document['kind']} {document['metadata']['name']}"
    world.rig.until(deleted, f"{name} may be deleted", 150, every=2, explain=lambda: said[-1])
    if said:
        life.transcript.saw(f"refused {len(said)} times: {said[0]}")
    for tier in filter(world.api.again, TIERS):  # or they look at clusters by their TTL, minutes
        touch(life, tier)
    world.rig.until(
        lambda: world.api.again(document) is None,
        f"{name} is gone",
        150,
        explain=lambda: world.explain(document),
    )


def test_the_deployment_deleted_first_foreground(life: Life):
    with life.transcript.doing("talk deleted, foreground"):
        life.world.api.delete(talk(), propagation="Foreground")
        life.until_gone(talk())


def test_the_tier_deleted_first(life: Life):
    with life.transcript.doing("tier shared deleted under code, then code (background)"):
        with pytest.raises(Refused) as refused:
            life.world.api.delete(SHARED)
        life.transcript.saw(str(refused.value))
        life.until_wired(code(), 2)
        life.world.api.delete(code())
        until_deleted(life, SHARED)
        life.until_gone(code())


def test_both_deleted_at_once(life: Life):
    with life.transcript.doing("talk and code again, on new and old tiers"):
        for document in (SHARED, talk(), code()):
            life.world.api.apply(document)
        for document in (talk(), code()):
            life.until_wired(document, 2)
    with life.transcript.doing("both, and both tiers, deleted at once, foreground and background"):
        ways = {"Foreground": (talk(), CHAT), "Background": (code(), SHARED)}
        for how, (document, tier) in ways.items():
            life.world.api.delete(document, propagation=how)
            with pytest.raises(Refused):
                life.world.api.delete(tier, propagation=how)
        for how, (_, tier) in ways.items():
            until_deleted(life, tier, how)
        life.until_gone(talk(), code())


def test_nothing_is_left(life: Life):
    world = life.world
    with life.transcript.doing("both InferenceClusters deleted"):
        for name in (FIRST, SECOND):
            until_deleted(life, site.inference_cluster(world.rig.workload(name))[1])
    world.rig.until(
        lambda: not life.left(), "nothing is left", 60, explain=lambda: str(life.left())
    )
    life.transcript.saw("nothing is left on any cluster")
    assert life.unwired == set()
    life.transcript.saw("no ReplicaSet that asked for a tier was ever unwired")
    assert world.rig.parts.revived == []

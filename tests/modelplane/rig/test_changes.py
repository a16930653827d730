"""What happens to deployments while they live: scaled, rolled out, and all below them upgraded.

One story: each test goes on from where the one before ended.
"""

from tests.cluster.platform import COMPOSITION, COPY
from tests.cluster.rig.kube import Manifest, is_true
from tests.modelplane.rig import site
from tests.modelplane.rig.life import CONDITION, Life
from tests.modelplane.rig.site import TIERS, VLLM, code, talk

FLOAT16 = "--dtype=float16"
OLDER = "vllm/vllm-openai:v0.32.0"
BOTH = talk(), code()


def test_missing_tier_is_reported_on_the_deployment(life: Life, ours: None):
    """On the ModelDeployment, which is what an ML team looks at."""
    with life.transcript.doing("ModelDeployments talk and code, before their tiers"):
        for document in BOTH:
            life.world.api.apply(document)
        for document in BOTH:
            life.world.until_condition(document, CONDITION, ("False", "TierNotFound"), limit=90)
            life.transcript.saw(life.world.message(document, CONDITION))
            assert not is_true(life.world.get(document), "Ready")
            assert not any(map(life.engine, life.replicas(document)))


def test_deployments_start_wired_when_their_tiers_exist(life: Life):
    with life.transcript.doing("fleet tiers chat and shared, on both clusters"):
        life.apply_ready(*TIERS)
    with life.transcript.doing("their deployments come up"):
        life.until_all_wired(2, *BOTH)


def test_scaled_up_replicas_are_wired(life: Life):
    before = life.identities(*BOTH)
    apply(life, "both scaled from 2 to 4 replicas", 4, talk(4), code(4))
    assert before.items() <= life.identities(*BOTH).items()


def test_rollout_changes_the_identity(life: Life):
    both = talk(4, FLOAT16), code(4, FLOAT16)
    apply(life, f"both rolled out with {FLOAT16}", 4, *both, words=[FLOAT16])
    older = talk(4, FLOAT16, image=OLDER)
    apply(life, f"talk rolled out with {OLDER}", 4, older, words=[FLOAT16])
    assert life.images(older) == {OLDER}


def test_scale_down_deletes_replicas(life: Life):
    before = [r["metadata"]["name"] for d in BOTH for r in life.replicas(d)]
    apply(life, "both scaled down to 2", 2, talk(2, FLOAT16, image=OLDER), code(2, FLOAT16))
    kept = {r["metadata"]["name"] for d in BOTH for r in life.replicas(d)}
    gone = [name for name in before if name not in kept]
    with life.transcript.doing(f"nothing is left of {', '.join(gone)}"):
        life.until_left(*gone)


def apply(
    life: Life, what: str, replicas: int, *documents: Manifest, words: list[str] | None = None
):
    with life.transcript.doing(what):
        for document in documents:
            life.world.api.apply(document)
        life.until_all_wired(replicas, *documents, words=words or ())


def test_wiring_survives_a_restart_of_core(life: Life):
    with life.transcript.doing("core restarted; its package manager wrote back what it holds"):
        stays(life, life.platform.restart_core, "after-a-restart")


def test_wiring_survives_an_upgrade_of_modelplane(life: Life):
    with life.transcript.doing("Modelplane's package upgraded; its documents differ in a label"):
        stays(life, lambda: life.platform.upgrade_platform("v0.3.2"), "after-an-upgrade")


def test_wiring_survives_an_upgrade_to_another_composition(life: Life):
    def upgrade() -> None:
        named = [d for d in life.platform.definitions if d["metadata"]["name"] == COMPOSITION]
        (composition,) = (d for d in named if d["kind"] == "Composition")
        composition["spec"]["pipeline"][0]["step"] = "compose-otherwise"
        life.platform.upgrade_platform("v0.4.0")
        said = life.platform.doctor(code=1)
        life.transcript.saw(f"kv-offload doctor: {said.strip()}")
        assert f"Composition {COPY}: is a copy of Composition {COMPOSITION} as it was" in said
        life.platform.add_step(COMPOSITION)

    with life.transcript.doing("upgraded to another Composition, the copy made again"):
        stays(life, upgrade, "after-a-change")


def stays(life: Life, act, newcomer: str) -> None:
    """What runs stays wired, in the same pods, and what comes is wired too; then that one goes."""
    before = life.identities(*BOTH)
    act()
    document = site.deployment(newcomer, "chat", 1, image=VLLM)
    life.world.api.apply(document)
    life.until_all_wired(1, document)
    life.until_all_wired(2, *BOTH)
    assert life.identities(*BOTH) == before
    life.transcript.saw(f"kv-offload doctor: {life.platform.doctor().strip()}")
    life.world.api.delete(document)


def test_nothing_was_unwired_and_added_replicas_are_gone(life: Life):
    life.until_left("after")
    assert life.unwired == set()
    life.transcript.saw("no ReplicaSet that asked for a tier was ever unwired")

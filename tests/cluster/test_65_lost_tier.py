"""A tier deleted under its consumer, against all protection: the engine pods stay as they are."""

from tests.cluster.documents import FIRST, deployment, tier
from tests.cluster.expect import Fleet, engine, flag, identities

LOST = tier("lost-one")
ORPHAN = deployment("orphan", "lost-one", model="some/orphan")


def test_engines_stay_wired_and_use_a_recreated_tier(world: Fleet):
    with world.applied(LOST, ORPHAN):
        world.until_ready(LOST)
        world.until_ready(ORPHAN)
        pods = world.pods(FIRST, "default")
        wired = flag(engine(pods[0]), "--kv-transfer-config")
        assert wired
        delete_by_force(world)
        world.until_condition(ORPHAN, "KVOffloadReady", ("False", "TierNotFound"), limit=60)
        assert "as recorded" in world.message(ORPHAN, "KVOffloadReady")
        assert identities(world.pods(FIRST, "default")) == identities(pods)
        world.api.apply(LOST)
        world.until_ready(LOST, limit=90)
        world.until_condition(ORPHAN, "KVOffloadReady", ("True", "Wired"), limit=60)
        after = world.pods(FIRST, "default")
        assert identities(after) == identities(pods)
        assert flag(engine(after[0]), "--kv-transfer-config") == wired


def delete_by_force(world: Fleet) -> None:
    """What somebody does who will not be stopped: take the mark away, then delete."""
    label = {"metadata": {"labels": {"crossplane.io/in-use": None}}}
    world.api.patch(LOST, label)
    world.api.delete(LOST)
    world.rig.until(lambda: world.api.again(LOST) is None, "the tier is gone")
    # The consumer looks the tier up again when it is touched, or by its TTL.
    world.api.patch(ORPHAN, {"metadata": {"annotations": {"example.org/touched": "now"}}})

"""The end: everything is deleted, both sides are empty, and no process crashed."""

from tests.cluster.documents import AGENTS_NAMESPACE, API, OBJECT, USAGE
from tests.cluster.expect import Fleet
from tests.cluster.steady import DEPLOYMENTS, TIERS


def test_control_plane_is_empty(world: Fleet):
    for document in (*DEPLOYMENTS, *TIERS):
        world.remove(document)
    for kind in ("KVOffloadTier", "ModelDeployment"):
        assert world.api.list(API, kind) == []
    world.rig.until(lambda: not world.api.list(OBJECT, "Object"), "all Objects are gone", 120)
    assert world.api.list(OBJECT, "Object") == []
    assert world.api.list(USAGE, "Usage") == []


def test_the_workload_clusters_are_empty(world: Fleet):
    for cluster in world.rig.workloads:
        world.until_empty(cluster)
        assert world.remote(cluster) == {}
        world.rig.until(
            lambda c=cluster: not world.pods(c, AGENTS_NAMESPACE) + world.pods(c, "default"),
            f"no pod is left on {cluster}",
        )
        assert world.pods(cluster, "default") == []


def test_no_process_crashed(world: Fleet):
    """Parts that the faults killed were started again; nothing else ever was."""
    own = [line for line in world.rig.parts.revived if "SIGKILL" not in line]
    assert own == []

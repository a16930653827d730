"""A cluster is deleted under a fleet tier: its ProviderConfig stays until the provider has taken
everything off, and no longer.
"""

from collections.abc import Callable, Iterator

import pytest

from tests.cluster.documents import API, OBJECT, SECOND, tier
from tests.cluster.expect import Fleet
from tests.cluster.rig.fleet import inference_cluster
from tests.cluster.rig.kube import Manifest, describe

PARTING = tier("parting", clusterSelector={"matchLabels": {"accelerator": "h200"}})
del PARTING["spec"]["inferenceClusterRef"]


@pytest.fixture(scope="module")
def parting(world: Fleet) -> Iterator[Manifest]:
    with world.applied(PARTING):
        yield PARTING


@pytest.fixture
def cluster(world: Fleet, parting: Manifest) -> Iterator[Manifest]:
    """The second cluster, which the tier stands on; declared again afterwards."""
    secret, document = inference_cluster(world.rig.workload(SECOND))
    for each in (secret, document):
        world.api.apply(each)
    world.until_ready(document)
    until(
        world,
        lambda: clusters(world) == "2/2 clusters",
        "the tier stands on both clusters",
        lambda: world.explain(parting),
    )
    yield document
    world.api.apply(document)
    world.until_ready(document)


def until(world: Fleet, probe: Callable[[], bool], what: str, explain: Callable[[], str]) -> None:
    """Wait, and have the tier look meanwhile: what core looks up for it may be a moment old."""

    def touched() -> bool:
        world.touch(PARTING)
        return probe()

    world.rig.until(touched, what, 150, every=1, explain=explain)


def clusters(world: Fleet) -> str:
    return world.get(PARTING).get("status", {}).get("cluster", "")


def left(world: Fleet, cluster: Manifest) -> list[str]:
    """What still speaks of a cluster on the control plane."""
    name = cluster["metadata"]["name"]
    found = [o for o in world.api.list(OBJECT, "Object") if provider_config(o) == name]
    config = world.api.get(OBJECT, "ClusterProviderConfig", name)
    return [
        describe(world.api, each)
        for each in (*found, config, world.api.again(cluster))
        if each is not None
    ]


def provider_config(composed: Manifest) -> str:
    return composed["spec"]["providerConfigRef"]["name"]


def test_deleted_cluster_has_no_object_of_a_tier(
    world: Fleet, parting: Manifest, cluster: Manifest
):
    world.api.delete(cluster, propagation="Foreground")
    until(
        world,
        lambda: not left(world, cluster),
        "the control plane has forgotten the cluster",
        lambda: "\n".join(left(world, cluster)),
    )
    assert world.remote(SECOND) == {}
    assert clusters(world) == "1/1 clusters"
    children = world.composed(parting, API, "KVOffloadTier")
    assert [c["spec"]["inferenceClusterRef"]["name"] for c in children] == ["gke-h200"]


def test_redeclared_cluster_gets_its_tier(world: Fleet, parting: Manifest, cluster: Manifest):
    """The ProviderConfig of the first one is still being deleted then, and waits for the tier."""
    (before,) = on_second(world)
    world.api.delete(cluster)
    world.rig.until(lambda: world.api.again(cluster) is None, "its name is free")
    world.api.apply(cluster)
    until(
        world,
        lambda: on_second(world) not in ([], [before]) and clusters(world) == "2/2 clusters",
        "another child stands there",
        lambda: f"{world.explain(parting)}\n{describe(world.api, cluster)}",
    )
    world.until_ready(parting)
    config = world.api.get(OBJECT, "ClusterProviderConfig", SECOND)
    assert "deletionTimestamp" not in config["metadata"]


def on_second(world: Fleet) -> list[str]:
    """The uids of the tier's children there."""
    return [
        child["metadata"]["uid"]
        for child in world.composed(PARTING, API, "KVOffloadTier")
        if child["spec"]["inferenceClusterRef"]["name"] == SECOND
    ]

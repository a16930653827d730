"""Our XRDs and Compositions install, and the API server refuses invalid documents."""

import pytest

from tests.cluster.documents import API, FIRST, deployment, tier
from tests.cluster.expect import Fleet
from tests.cluster.rig.fleet import SYSTEM
from tests.cluster.rig.functions import CHECKOUT
from tests.cluster.rig.kube import Refused, is_true, load

KINDS = ("KVOffloadTier", "InferenceCluster", "ModelDeployment")


@pytest.mark.parametrize("kind", KINDS)
def test_xrd_is_established_and_served(world: Fleet, kind: str):
    xrds = world.api.list("apiextensions.crossplane.io/v2", "CompositeResourceDefinition")
    xrd = next(x for x in xrds if x["spec"]["names"]["kind"] == kind)
    assert is_true(xrd, "Established")
    assert world.api.serves(API, kind)


def test_every_composition_has_a_valid_pipeline(world: Fleet):
    revisions = world.api.list("apiextensions.crossplane.io/v1", "CompositionRevision")
    assert len(revisions) >= len(KINDS)
    for revision in revisions:
        assert is_true(revision, "ValidPipeline"), revision["metadata"]["name"]


def test_inference_clusters_are_ready_and_name_their_provider_config(world: Fleet):
    for name in world.rig.workloads:
        found = world.until_ready(world.api.get(API, "InferenceCluster", name), limit=60)
        assert found["status"]["providerConfigRef"] == {"name": name}
        config = world.api.get("kubernetes.m.crossplane.io/v1alpha1", "ClusterProviderConfig", name)
        assert config["metadata"]["ownerReferences"][0]["name"] == name


def test_tiers_have_their_printer_columns(world: Fleet):
    columns = world.api.columns(API, "KVOffloadTier")
    assert columns >= {"CLUSTER", "BACKEND", "AGENTS", "READY", "USED-BY", "AGE"}
    definition = load(CHECKOUT / "xrd" / "kvoffloadtier.yaml")[0]
    assert "kvot" in definition["spec"]["names"]["shortNames"]


BAD = {
    "unknown backend": ({"backend": "Magic"}, "spec.backend"),
    "both cluster references": (
        {"clusterSelector": {"matchLabels": {"a": "b"}}},
        "inferenceClusterRef",
    ),
    "the object of no backend": ({"lmcache": None}, "lmcache"),
    "a size of nothing": ({"lmcache": {"l1": {"sizeGiB": 0}}}, "sizeGiB"),
    "a size with its unit": ({"lmcache": {"l1": {"sizeGiB": "64Gi"}}}, "sizeGiB"),
    "a chunk that no block fits": (
        {"lmcache": {"l1": {"sizeGiB": 1}, "chunkTokens": 100}},
        "chunkTokens",
    ),
    "an unknown field": ({"lmcache": {"l1": {"sizeGiB": 1}, "chunkToken": 256}}, "chunkToken"),
    "Names without names": ({"allowedNamespaces": {"from": "Names"}}, "names"),
}


@pytest.mark.parametrize("case", BAD)
def test_invalid_tier_is_refused_with_its_field(world: Fleet, case: str):
    change, field = BAD[case]
    document = tier("bad")
    document["spec"] |= change
    document["spec"] = {k: v for k, v in document["spec"].items() if v is not None}
    with pytest.raises(Refused) as refused:
        world.api.create(document, dry_run=True)
    assert field in str(refused.value)


def test_valid_tier_and_deployment_are_admitted(world: Fleet):
    assert world.api.create(tier("good"), dry_run=True)["spec"]["inferenceClusterRef"] == {
        "name": FIRST
    }
    assert world.api.create(deployment("good", "good"), dry_run=True)["metadata"]["name"] == "good"


def test_manifests_of_make_kind_become_ready(world: Fleet):
    """What tools/kind/kind.sh waits for; the cluster is the rig's here."""
    documents = load(CHECKOUT / "tools" / "kind" / "fleet.yaml")
    cluster, offload, workload = documents
    reference = cluster["spec"]["cluster"]["existing"]["secretRef"]
    secret = world.rig.workload(FIRST).kubeconfig_secret(SYSTEM)
    secret["metadata"]["name"] = reference["name"]
    world.api.apply(secret)
    with world.applied(cluster):
        with world.applied(offload, workload):
            for document in (cluster, offload):
                world.until_ready(document)
            world.until_condition(workload, "KVOffloadReady", ("True", "Wired"), touching=True)
        world.until_released(cluster["metadata"]["name"])
    world.api.delete(secret)

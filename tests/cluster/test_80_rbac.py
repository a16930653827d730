"""With RBAC: core and the provider have the rights of our roles, and everything still works.

A control plane of its own, because core's rights are chosen at its start.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.documents import FIRST, TOLERATED, changed, deployment, tier
from tests.cluster.expect import Fleet
from tests.cluster.rig import fleet
from tests.cluster.rig.apiserver import User
from tests.cluster.rig.functions import CHECKOUT
from tests.cluster.rig.kube import Api, load
from tests.cluster.rig.up import CORE_USER, PROVIDER_USER, Rig

# The shared control plane is left alone meanwhile, which is what test_90_steady.py looks at.
pytestmark = pytest.mark.usefixtures("steady")
CHAT = tier("guarded")
QWEN = deployment("guarded", "guarded")


@pytest.fixture(scope="module")
def guarded(bare_run: Path) -> Iterator[Fleet]:
    with Rig(bare_run, (FIRST,), authorization="RBAC", with_lws=False) as rig:
        fleet.declare(rig)
        yield Fleet(rig)


def may(api: Api, user: User, verb: str, group: str, resource: str) -> bool:
    """Whether a user may do that anywhere."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {
            "user": user.name,
            "groups": list(user.groups),
            "resourceAttributes": {"verb": verb, "group": group, "resource": resource},
        },
    }
    return api.create(review)["status"]["allowed"]


def test_core_is_not_cluster_admin(guarded: Fleet):
    assert not may(guarded.api, CORE_USER, "list", "", "pods")
    assert not may(guarded.api, CORE_USER, "create", "apps", "daemonsets")
    assert not may(guarded.api, CORE_USER, "create", "rbac.authorization.k8s.io", "clusterroles")


def test_core_has_the_rights_that_the_function_needs(guarded: Fleet):
    for verb in ("get", "list", "watch", "create", "patch", "delete"):
        assert may(guarded.api, CORE_USER, verb, "kubernetes.m.crossplane.io", "objects")
        assert may(guarded.api, CORE_USER, verb, "protection.crossplane.io", "usages")
    assert may(guarded.api, CORE_USER, "list", "modelplane.ai", "inferenceclusters")


def test_provider_is_no_admin_of_a_workload_cluster(guarded: Fleet):
    api = guarded.rig.workload(FIRST).api
    assert may(api, PROVIDER_USER, "create", "apps", "daemonsets")
    for group, resource in (
        ("", "secrets"),
        ("", "pods"),
        ("rbac.authorization.k8s.io", "clusterroles"),
    ):
        assert not may(api, PROVIDER_USER, "list", group, resource)
    assert not may(api, PROVIDER_USER, "delete", "", "namespaces")


def test_a_tier_and_its_consumer_become_ready(guarded: Fleet):
    with guarded.applied(CHAT, QWEN):
        guarded.until_ready(CHAT, limit=60)
        guarded.until_ready(QWEN, limit=60)
        assert guarded.condition(QWEN, "KVOffloadReady") == ("True", "Wired")
    guarded.until_empty(FIRST)


def test_a_tier_with_stores_and_a_master_becomes_ready(guarded: Fleet):
    (document,) = load(CHECKOUT / "example" / "mooncake" / "smallest.yaml")
    document = changed(document, "spec.inferenceClusterRef.name", FIRST)
    document = changed(document, "spec.nodes.tolerations", [TOLERATED])
    with guarded.applied(document):
        guarded.until_ready(document, limit=60)
    guarded.until_empty(FIRST)

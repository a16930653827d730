"""With RBAC: core has the chart's rights and ours, and everything still works.

A control plane of its own, because core's rights are chosen at its start.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.documents import FIRST, deployment, tier
from tests.cluster.expect import Fleet
from tests.cluster.rig import fleet
from tests.cluster.rig.up import CORE_USER, Rig

# The shared control plane is left alone meanwhile, which is what test_90_steady.py looks at.
pytestmark = pytest.mark.usefixtures("steady")
CHAT = tier("guarded")
QWEN = deployment("guarded", "guarded")


@pytest.fixture(scope="module")
def guarded(bare_run: Path) -> Iterator[Fleet]:
    with Rig(bare_run, (FIRST,), authorization="RBAC", with_lws=False) as rig:
        fleet.declare(rig)
        yield Fleet(rig)


def may(world: Fleet, verb: str, group: str, resource: str) -> bool:
    """Whether core's user may do that anywhere."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {
            "user": CORE_USER.name,
            "groups": list(CORE_USER.groups),
            "resourceAttributes": {"verb": verb, "group": group, "resource": resource},
        },
    }
    return world.api.create(review)["status"]["allowed"]


def test_core_is_not_cluster_admin(guarded: Fleet):
    assert not may(guarded, "list", "", "pods")
    assert not may(guarded, "create", "apps", "daemonsets")
    assert not may(guarded, "create", "rbac.authorization.k8s.io", "clusterroles")


def test_core_has_the_rights_that_the_function_needs(guarded: Fleet):
    for verb in ("get", "list", "watch", "create", "patch", "delete"):
        assert may(guarded, verb, "kubernetes.m.crossplane.io", "objects")
        assert may(guarded, verb, "protection.crossplane.io", "usages")
    assert may(guarded, "list", "modelplane.ai", "inferenceclusters")


def test_a_tier_and_its_consumer_become_ready(guarded: Fleet):
    with guarded.applied(CHAT, QWEN):
        guarded.until_ready(CHAT, limit=60)
        guarded.until_ready(QWEN, limit=60)
        assert guarded.condition(QWEN, "KVOffloadReady") == ("True", "Wired")
    guarded.until_empty(FIRST)

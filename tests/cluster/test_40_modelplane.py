"""Our step after Modelplane's changes only the pods that it wires.

The composites have the published shapes; a stand-in composes them (standin/function.py).
"""

import copy
import json
from collections.abc import Iterator

import pytest

from tests.cluster.documents import FIRST, changed, replica, tier
from tests.cluster.expect import RESOURCE_KEY, Fleet, engine, flag, identities
from tests.cluster.rig.kube import Manifest, is_true

CHAT = tier("mp-chat")
TIER = "modelplane.ai/kv-offload-tier"
WIRED = replica("wired", {TIER: "mp-chat", "example.org/owner": "search"})
BARE = replica("bare", {"example.org/owner": "search"})


@pytest.fixture(scope="module", autouse=True)
def platform(world: Fleet, standin: None) -> Iterator[None]:
    """A tier and both replicas, Ready."""
    with world.applied(CHAT, WIRED, BARE):
        world.until_ready(CHAT)
        world.until_ready(BARE)
        world.until_condition(WIRED, "KVOffloadReady", ("True", "Wired"))
        world.until_ready(WIRED)
        yield


def composed(world: Fleet, document: Manifest, key: str) -> Manifest:
    # In one look: what is being deleted may be gone at the next.
    objects = {o["metadata"]["annotations"][RESOURCE_KEY]: o for o in world.objects(document)}
    return objects[key]


def workload(world: Fleet, document: Manifest) -> Manifest:
    return composed(world, document, "workload-main")["spec"]["forProvider"]["manifest"]


def test_pods_inside_the_object_are_wired(world: Fleet):
    container = engine(workload(world, WIRED))
    assert json.loads(flag(container, "--kv-transfer-config"))["kv_connector"]
    pods = world.pods(FIRST, "default", "modelplane.ai/workload=wired-main")
    assert len(pods) == 1
    assert flag(engine(pods[0]), "--kv-transfer-config") == flag(container, "--kv-transfer-config")


def test_wiring_only_adds_to_what_the_step_before_composed(world: Fleet):
    """The wired pod with the additions taken out is the unwired pod of the twin replica."""
    wired, bare = workload(world, WIRED), workload(world, BARE)
    rename = json.loads(json.dumps(bare).replace("bare-main", "wired-main"))
    assert missing(rename, wired) == []


def missing(smaller: object, larger: object, path: str = "") -> list[str]:
    """Paths of what is in `smaller` and not, or otherwise, in `larger`; lists may grow."""
    if isinstance(smaller, dict) and isinstance(larger, dict):
        return [
            problem
            for key, value in smaller.items()
            for problem in (
                missing(value, larger[key], f"{path}.{key}") if key in larger else [f"{path}.{key}"]
            )
        ]
    if isinstance(smaller, list) and isinstance(larger, list):
        rest = list(larger)
        problems = []
        for number, value in enumerate(smaller):
            match = next((each for each in rest if not missing(value, each)), None)
            if match is None:
                problems.append(f"{path}[{number}]")
            else:
                rest.remove(match)
        return problems
    return [] if smaller == larger else [f"{path}: {smaller!r} became {larger!r}"]


def test_other_objects_of_the_composite_are_unchanged(world: Fleet):
    ours = composed(world, WIRED, "service")["spec"]
    twin = copy.deepcopy(composed(world, BARE, "service")["spec"])
    text = json.dumps(twin).replace('"bare"', '"wired"')
    assert json.loads(text) == ours


def test_object_settings_of_the_other_step_are_kept(world: Fleet):
    ours, twin = (composed(world, d, "workload-main")["spec"] for d in (WIRED, BARE))
    for field in ("providerConfigRef", "readiness", "watch", "managementPolicies"):
        assert ours.get(field) == twin.get(field)


def test_conditions_of_the_other_step_are_kept_and_ours_is_added(world: Fleet):
    world.until_condition(WIRED, "ModelReady", ("True", "Serving"))
    assert world.condition(WIRED, "KVOffloadReady") == ("True", "Wired")


def test_replica_without_tier_is_unchanged(world: Fleet):
    found = world.get(BARE)
    assert is_true(found, "Ready")
    assert world.condition(BARE, "KVOffloadReady") == ("Unknown", "")
    assert world.keys(BARE) == ["service", "workload-main"]


def test_our_step_writes_no_status_field_of_another_kind(world: Fleet):
    assert set(world.get(WIRED)["status"]) <= {"conditions", "crossplane"}
    assert world.condition(WIRED, "Synced")[0] == "True"


def test_held_back_replica_is_not_ready_and_keeps_its_other_objects(world: Fleet):
    early = replica("early", {TIER: "mp-later"})
    later = tier("mp-later")
    with world.applied(early):
        world.until_condition(early, "KVOffloadReady", ("False", "TierNotFound"))
        world.rig.until(lambda: world.keys(early) == ["service"], "the service is composed")
        assert not is_true(world.get(early), "Ready")
        assert world.pods(FIRST, "default", "modelplane.ai/workload=early-main") == []
        with world.applied(later):
            world.until_ready(later)
            world.until_ready(early)
            assert world.pods(FIRST, "default", "modelplane.ai/workload=early-main")
            world.remove(early)


def test_removed_annotation_unwires_the_replica(world: Fleet):
    turned = replica("turned", {TIER: "mp-chat"})
    with world.applied(turned):
        world.until_ready(turned)
        path = "spec.engines.0.members.0.template.metadata.annotations"
        world.api.apply(changed(turned, path, {}))
        world.rig.until(
            lambda: flag(engine(workload(world, turned)), "--kv-transfer-config") == "",
            "the pod template is unwired",
        )
        world.until_ready(turned)


def test_unwired_twin_was_never_rolled(world: Fleet):
    deployment = world.rig.workload(FIRST).api.get("apps/v1", "Deployment", "bare-main", "default")
    assert deployment["metadata"]["generation"] == 1
    assert len(identities(world.pods(FIRST, "default", "modelplane.ai/workload=bare-main"))) == 1

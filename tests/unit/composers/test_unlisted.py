"""A composite that lists nothing of what it has composed: somebody replaced it."""

from typing import Any

import pytest

from tests.unit.composers import documents as d
from tests.unit.composers.calls import call, observe

KEY = "model-serving-main"
KEY_ANNOTATION = "crossplane.io/composition-resource-name"
FLEET = {"clusterSelector": {"matchLabels": {"fleet": "prod"}}, "inferenceClusterRef": None}
CLUSTERS = {"clusters": [d.cluster("eu"), d.cluster("us")]}
ROLLING = {"wiring": {"update": "Rolling"}}


def found(composite: dict[str, Any], seen: dict[str, Any], **other: Any) -> dict[str, Any]:
    """What core finds by its label: what it composed, and what another composite did."""
    uid, home = composite["metadata"]["uid"], composite["metadata"]["namespace"]
    required: dict[str, list[Any]] = {}
    forged = [("another", home), (uid, "elsewhere")]
    for owner, namespace in (*forged, (other.get("owner", uid), home), *forged):
        for key, document in seen.items():
            metadata = {
                **document["metadata"],
                "namespace": namespace,
                "annotations": {**document["metadata"].get("annotations", {}), KEY_ANNOTATION: key},
                "ownerReferences": [{"uid": owner, "controller": True}],
            }
            name = f"unlisted/{document['apiVersion']}/{document['kind']}"
            spec = document["spec"] if owner == uid and namespace == home else {"forged": True}
            required.setdefault(name, []).append({**document, "metadata": metadata, "spec": spec})
    return required


def fleet(tag: str) -> dict[str, Any]:
    made = d.tier(**FLEET, image={"tag": tag, "version": "0.5.6"})
    made["metadata"]["uid"] = "uid-chat"
    return made


def tags(desired: dict[str, Any]) -> set[str]:
    return {it["spec"]["image"]["tag"] for it in desired.values() if it["kind"] == "KVOffloadTier"}


def test_edit_of_a_replaced_fleet_waits_for_its_children() -> None:
    first = call(fleet("v1"), required=CLUSTERS)
    status = {**first.status, "conditions": [{"type": "Accepted", "status": "True"}]}
    edited = {**fleet("v2"), "status": status}
    asked = call(edited, required=CLUSTERS)
    lost = {name for name in asked.requirements if name.startswith("unlisted/")}
    assert lost == {
        "unlisted/kubernetes.m.crossplane.io/v1alpha1/Object",
        "unlisted/modelplane.ai/v1alpha1/KVOffloadTier",
        "unlisted/protection.crossplane.io/v1beta1/Usage",
    }
    labels = [asked.requirements[name]["labels"] for name in sorted(lost)]
    assert labels == [{"crossplane.io/composite": "chat"}] * 3
    assert {asked.requirements[name]["namespace"] for name in lost} == {"modelplane-system"}
    inner = {**edited["metadata"], "labels": {"crossplane.io/composite": "root"}}
    nested = call({**edited, "metadata": inner}, required=CLUSTERS)
    assert {nested.requirements[name]["labels"]["crossplane.io/composite"] for name in lost} == {
        "root"
    }
    seen = observe(first)
    for owners in ("text", [1], {"a": 1}, [None], None):
        odd = {"metadata": {"annotations": {KEY_ANNOTATION: "x"}, "ownerReferences": owners}}
        required = CLUSTERS | {"unlisted/modelplane.ai/v1alpha1/KVOffloadTier": [odd]}
        assert not call(edited, required=required).fatals
    got = call(edited, required=CLUSTERS | found(edited, seen))
    assert got.desired == call(edited, required=CLUSTERS, observed=seen).desired
    strangers = call(edited, required=CLUSTERS | found(edited, seen, owner="a stranger"))
    assert tags(strangers.desired) == {"v2"}


@pytest.mark.parametrize("policy", ["Required", "Optional"])
def test_engine_of_a_replaced_consumer_keeps_its_wiring(policy: str) -> None:
    annotations = {"modelplane.ai/kv-offload-tier": "chat", "modelplane.ai/kv-offload": policy}
    desired = {KEY: d.engine(annotations)}
    first = call(d.replica(), desired=desired, required=d.requirements(d.ready_tier(**ROLLING)))
    seen = observe(first)
    status = {"conditions": [{"type": "KVOffloadReady", "status": "True"}]}
    replaced = {**d.replica(), "status": status}
    edited = d.ready_tier(**ROLLING, startupTimeoutSeconds=900)
    required = d.requirements(edited) | found(replaced, seen)
    got = call(replaced, desired=desired, required=required)
    kept = call(replaced, desired=desired, required=d.requirements(edited), observed=seen)
    assert got.desired == kept.desired
    assert d.wired_pod(got.desired[KEY]) == d.wired_pod(first.desired[KEY])
    assert {name for name in got.requirements if name.startswith("unlisted/")} == {
        "unlisted/kubernetes.m.crossplane.io/v1alpha1/Object",
        "unlisted/modelplane.ai/v1alpha1/KVOffloadTier",
        "unlisted/protection.crossplane.io/v1beta1/Usage",
    }
    unseen = call(replaced, desired=desired, required=d.requirements(edited))
    assert d.wired_pod(unseen.desired[KEY]) != d.wired_pod(first.desired[KEY])


def test_composite_that_composes_something_is_looked_up_no_further() -> None:
    first = call(fleet("v1"), required=CLUSTERS)
    assert not any(name.startswith("unlisted/") for name in first.requirements)
    status = {**first.status, "conditions": [{"type": "Accepted", "status": "True"}]}
    again = call({**fleet("v1"), "status": status}, required=CLUSTERS, observed=observe(first))
    assert not any(name.startswith("unlisted/") for name in again.requirements)


@pytest.mark.parametrize("bare", [True, False])
def test_files_of_a_bare_engine_are_looked_up(*, bare: bool) -> None:
    """Core may have no right to read ConfigMaps where it composes none."""
    document = d.engine()
    document = document["spec"]["forProvider"]["manifest"] if bare else document
    said = {"type": "KVOffloadReady", "status": "True"}
    replaced = {**d.replica(), "status": {"conditions": [said]}}
    got = call(replaced, desired={KEY: document}, required=d.requirements(d.ready_tier()))
    assert ("unlisted/v1/ConfigMap" in got.requirements) == bare


# What composed a Usage, and does so no more: (composite, the type that it was answered with).
LEFT = {
    "a fleet that empties no cluster": (fleet("v1"), "Accepted"),
    "a consumer without an engine": (d.replica(), "KVOffloadReady"),
}


@pytest.mark.parametrize("name", LEFT)
def test_usage_that_core_lost_is_listed_once_and_dropped(name: str) -> None:
    """A core that should have stopped makes it anew, behind the last one's list."""
    composite, kind = LEFT[name]
    labels = {**composite["metadata"].get("labels", {}), "crossplane.io/in-use": "true"}
    metadata = {**composite["metadata"], "labels": labels}
    status = {"conditions": [{"type": kind, "status": "True"}]}
    composite = {**composite, "metadata": metadata, "status": status}
    of = {"kind": "KVOffloadTier", "resourceRef": {"name": "chat"}}
    usage = {
        "apiVersion": "protection.crossplane.io/v1beta1",
        "kind": "Usage",
        "metadata": {"name": "chat-1", "labels": {"a": "b"}, "resourceVersion": "7"},
        "spec": {"of": of, "reason": "it was used"},
    }
    required = {"clusters": [], **found(composite, {"usage-fleet": usage})}
    got = call(composite, required=required)
    made = got.desired["usage-fleet"]
    annotations = {KEY_ANNOTATION: "usage-fleet"}
    home = composite["metadata"]["namespace"]
    wanted = {"name": "chat-1", "namespace": home, "labels": {"a": "b"}}
    assert made == {**usage, "metadata": {**wanted, "annotations": annotations}}
    leaves = {**usage, "metadata": {**usage["metadata"], "deletionTimestamp": "2026-01-01"}}
    gone = call(composite, required={"clusters": [], **found(composite, {"usage-fleet": leaves})})
    theirs = {**usage, "spec": {"of": of}}
    other = call(composite, desired={"usage-fleet": theirs}, required=required)
    assert other.desired["usage-fleet"] == theirs
    assert "usage-fleet" not in "".join(other.messages.values())
    listed = call(composite, required={"clusters": []}, observed={"usage-fleet": usage})
    assert "usage-fleet" not in {**gone.desired, **listed.desired}

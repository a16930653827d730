"""What a backend can ask for, through the whole function: a backend of our own, nothing patched."""

from typing import Any

import pytest

from function.backends.registry import Registry
from function.composers import usage
from function.composers.admission import admitted
from tests.unit.composers import documents as d
from tests.unit.composers.calls import READY, call
from tests.unit.contract.backends.borrowed import PORT, BorrowedSpec

REGISTRY = Registry({"Borrowed": BorrowedSpec}, "tests.unit.contract.backends")
STORE = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "KVOffloadTier",
    "metadata": {"name": "pool", "namespace": "modelplane-system"},
    "spec": {"inferenceClusterRef": {"name": "gpu"}},
    "status": {"endpoints": {"master": "pool:50051"}, "conditions": [READY]},
}
NEED, CHILDREN = "need/store", "need/store/children"
USAGE = "usage-needed-store"
REF = "modelplane-system/chat"
ENGINE = "model-serving-main"


def tier(**settings: Any) -> dict[str, Any]:
    borrowed = {"storeRef": {"name": "pool"}, **settings}
    return d.tier(backend="Borrowed", lmcache=None, borrowed=borrowed)


def ready_tier(**settings: Any) -> dict[str, Any]:
    return {**tier(**settings), "status": d.ready_tier()["status"]}


def found(*store: dict[str, Any], children: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"cluster": [d.cluster()], "usages": [], NEED: list(store), CHILDREN: list(children)}


def elsewhere(cluster: str, name: str = "pool") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "modelplane-system"}
    return {**STORE, "metadata": metadata, "spec": {"inferenceClusterRef": {"name": cluster}}}


def test_required_tier_is_looked_up_first() -> None:
    got = call(tier(), backends=REGISTRY)
    assert got.requirements == {
        NEED: {"kind": "KVOffloadTier", "name": "pool", "namespace": "modelplane-system"},
        CHILDREN: {
            "kind": "KVOffloadTier",
            "labels": {"modelplane.ai/kv-offload-fleet": "pool"},
            "namespace": "modelplane-system",
        },
    }
    assert got.conditions["Accepted"] == ("Unknown", "Resolving")
    assert (got.desired, got.composite_ready, got.ttl, got.fatals) == ({}, "FALSE", 10, [])


def test_missing_tier_is_reported_with_its_field() -> None:
    got = call(tier(), required=found(), backends=REGISTRY)
    assert got.conditions["Accepted"] == ("False", "Invalid")
    assert got.messages["Accepted"] == (
        "spec.borrowed.storeRef.name: there is no KVOffloadTier modelplane-system/pool; create it,"
        " or correct the name"
    )
    assert NEED in got.requirements
    # It may be made in the next moment, and core does not watch for it.
    assert got.ttl == 10


# What a name leads to: (the tiers of that name, the children of a fleet of that name, words)
MEANT: tuple[tuple[tuple[Any, ...], tuple[Any, ...], str], ...] = (
    ((STORE,), (), ""),
    ((elsewhere(""),), (elsewhere("gpu", "pool-gpu"), elsewhere("cpu", "pool-cpu")), ""),
    ((elsewhere("cpu"),), (), "is not on cluster gpu, where this tier is, but on cpu: KV blocks"),
    ((elsewhere(""),), (), "is not on cluster gpu, where this tier is, but on no cluster yet"),
    ((STORE,), (elsewhere("gpu", "pool-gpu"),), "several tiers on cluster gpu: pool, pool-gpu;"),
)


@pytest.mark.parametrize(("store", "children", "words"), MEANT)
def test_required_tier_must_be_on_the_same_cluster(store: Any, children: Any, words: str) -> None:
    got = call(tier(), required=found(*store, children=children), backends=REGISTRY)
    assert got.conditions["Accepted"][0] == ("False" if words else "True")
    assert words in got.messages["Accepted"]
    consumed = consume({ENGINE: d.engine()}, *store, children=children)
    assert consumed.conditions["KVOffloadReady"][0] == ("False" if words else "True")
    assert words in consumed.messages["KVOffloadReady"]


def test_tier_waits_for_and_uses_its_required_tier() -> None:
    starting = {"type": "AgentsReady", "status": "False", "reason": "Starting"}
    unready = {**STORE, "status": {**STORE["status"], "conditions": [starting]}}
    got = call(tier(), required=found(unready), backends=REGISTRY)
    assert got.conditions["ControlPlaneReady"] == ("False", "WaitingForTier")
    assert got.messages["ControlPlaneReady"] == (
        "KVOffloadTier modelplane-system/pool, which it needs, is not ready:"
        " AgentsReady=False (Starting)"
    )
    assert (got.composite_ready, got.ttl) == ("FALSE", 10)
    assert got.desired[USAGE]["spec"] == {
        "of": {
            "apiVersion": "modelplane.ai/v1alpha1",
            "kind": "KVOffloadTier",
            "resourceRef": {"name": "pool"},
        },
        "reason": "KVOffloadTier modelplane-system/chat keeps its blocks there",
    }
    assert got.ready[USAGE] == "TRUE"
    consumed = consume({ENGINE: d.engine()}, unready)
    assert consumed.conditions["KVOffloadReady"] == ("False", "TierNotReady")
    assert ENGINE not in consumed.desired


def test_required_tier_is_in_use_by_the_tier_that_needs_it() -> None:
    fleet = {"modelplane.ai/kv-offload-fleet": "pools"}
    child = {**STORE, "metadata": {**STORE["metadata"], "labels": fleet}}
    marked = call(tier(), required=found(child), backends=REGISTRY).desired[USAGE]
    assert marked["metadata"]["labels"] == {
        "modelplane.ai/kv-offload-used-tier": "modelplane-system.pool",
        "modelplane.ai/kv-offload-used-fleet": "modelplane-system.pools",
    }
    usage_ = {**marked, "metadata": {**marked["metadata"], "namespace": "modelplane-system"}}
    assert usage.user(usage_) == usage.Consumer("modelplane-system", "KVOffloadTier", "chat")
    assert admitted(d.tier("pool"), [usage_]) == [usage_]


def test_fleet_tier_requires_no_other_tier() -> None:
    fleet = tier()
    fleet["spec"] |= {"clusterSelector": {"matchLabels": {}}}
    del fleet["spec"]["inferenceClusterRef"]
    got = call(fleet, required={"clusters": [d.cluster()]}, backends=REGISTRY)
    assert got.conditions["Accepted"] == ("True", "Valid")
    assert set(got.requirements) == {"clusters"}
    assert got.desired["tier-gpu"]["spec"]["borrowed"] == {"storeRef": {"name": "pool"}}


def test_parts_see_the_required_tier() -> None:
    got = call(tier(), required=found(STORE), backends=REGISTRY)
    manifest = got.desired["configmap-lanes"]["spec"]["forProvider"]["manifest"]
    assert manifest["data"] == {"store": "pool:50051"}
    moved = {**STORE, "status": {"endpoints": {"master": "pool:50052"}}}
    again = call(tier(), required=found(moved), backends=REGISTRY)
    assert again.status["endpoints"] == {"store": "pool:50052"}


def test_schema_problems_name_the_fields_of_the_backend() -> None:
    got = call(tier(lanes=9), backends=REGISTRY)
    assert "spec.borrowed.lanes" in got.messages["Accepted"]
    other = call(d.tier(), backends=REGISTRY)
    assert "spec.backend" in other.messages["Accepted"]
    forbids = tier()
    forbids["spec"]["gpuVisibility"] = {"source": "CDI"}
    refused = call(forbids, backends=REGISTRY)
    assert refused.messages["Accepted"] == (
        "spec.gpuVisibility: gpuVisibility may not be set: it looks at no GPU"
    )
    own = call(tier(lanes=7), required=found(STORE), backends=REGISTRY)
    assert own.messages["Accepted"] == "spec.borrowed.lanes: must not be 7"


def consume(
    desired: dict[str, Any],
    *store: dict[str, Any],
    children: tuple[dict[str, Any], ...] = (),
    resolved: bool = True,
) -> Any:
    required = d.requirements(ready_tier())
    if resolved:
        required[f"needs/{REF}/store"] = list(store)
        required[f"needs/{REF}/store/children"] = list(children)
    return call(d.replica(), desired=desired, required=required, backends=REGISTRY)


def test_consumer_waits_for_the_required_tier() -> None:
    waiting = consume({ENGINE: d.engine()}, resolved=False)
    assert waiting.conditions["KVOffloadReady"] == ("Unknown", "TierUnresolved")
    assert waiting.requirements[f"needs/{REF}/store"]["name"] == "pool"
    absent = consume({ENGINE: d.engine()})
    assert absent.conditions["KVOffloadReady"] == ("False", "TierNotReady")
    assert "spec.borrowed.storeRef.name" in absent.messages["KVOffloadReady"]
    assert ENGINE not in absent.desired


def test_ports_and_flags_are_added() -> None:
    got = consume({ENGINE: d.engine()}, STORE)
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    container = d.wired_pod(got.desired[ENGINE])["spec"]["containers"][0]
    assert container["ports"] == [PORT]
    assert container["args"][-2:] == ["--block-size", "32"]


def test_port_with_another_meaning_is_a_conflict() -> None:
    engine = d.engine()
    container = d.wired_pod(engine)["spec"]["containers"][0]
    container["ports"] = [{"name": "http", "containerPort": 7070}]
    got = consume({ENGINE: engine}, STORE)
    assert got.conditions["KVOffloadReady"] == ("False", "PodConflict")
    assert "spec.containers[engine].ports[http]" in got.messages["KVOffloadReady"]


def test_assumed_flag_does_not_change_the_identity() -> None:
    plain = consume({ENGINE: d.engine()}, STORE)
    args = [d.MODEL, "--block-size", "32"]
    written = consume({ENGINE: d.engine(args=args)}, STORE)
    digests = {got.messages["KVOffloadReady"].partition("cache identity ")[2][:12] for got in
               (plain, written)}  # fmt: skip
    assert len(digests) == 1


def test_incompatible_engines_are_refused_together() -> None:
    longer = d.engine(args=[d.MODEL, "--max-model-len", "9"])
    got = consume({"prefill": d.engine(), "decode": longer}, STORE)
    assert got.conditions["KVOffloadReady"] == ("False", "ConnectorConflict")
    assert got.messages["KVOffloadReady"].count("--max-model-len differs") == 2
    assert not {"prefill", "decode"} & set(got.desired)
    alike = consume({"prefill": d.engine(), "decode": d.engine()}, STORE)
    assert alike.conditions["KVOffloadReady"] == ("True", "Wired")

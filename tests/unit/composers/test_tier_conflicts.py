"""Two tiers of one cluster that cannot both have a port, a directory or an evictor."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from function.backends.registry import BACKENDS
from function.composers import tier_conflicts, tier_plan
from function.composers.tier_plan import TierPlan
from function.contract.backend import Part
from function.edge.structs import encode
from tests.unit.composers import documents as d
from tests.unit.composers.calls import call

Document = dict[str, Any]


def with_disk(name: str, path: str, **spec: Any) -> Document:
    """An LMCache tier with a directory of its nodes."""
    level = {"name": "nvme", "type": "Disk", "disk": {"sizeGiB": 9, "hostPath": {"path": path}}}
    lmcache = {"l1": {"sizeGiB": 9}, "l2": [level]}
    return d.tier(name, lmcache=lmcache, **spec)


def with_claim(name: str, claim: str) -> Document:
    """A Native tier whose evictor bounds a directory of the teams' claim."""
    files = {"sizeGiB": 9, "claim": {"name": claim, "namespace": "default"}}
    level = {"name": "files", "type": "FileSystem", "fileSystem": files}
    native = {"cpu": {"sizeGiB": 9}, "secondary": [level]}
    return d.tier(name, backend="Native", lmcache=None, native=native)


def on(*labels: str) -> Document:
    return {"selector": dict(label.split("=") for label in labels)}


A, B = "modelplane-system/a", "modelplane-system/b"
_FIELD = "spec.lmcache.l2[0].disk.hostPath.path"
# name: two tiers -> what is said
PAIRS: dict[str, tuple[Document, Document, list[str]]] = {
    "one directory": (
        with_disk("a", "/mnt/kv"),
        with_disk("b", "/mnt/kv/"),
        [f"host directory /mnt/kv: {A} ({_FIELD}) and {B} ({_FIELD})"],
    ),
    "one below the other": (
        with_disk("b", "/mnt/kv"),
        with_disk("a", "/mnt/kv/a"),
        [f"host directory /mnt/kv: {A} ({_FIELD}) and {B} ({_FIELD})"],
    ),
    "names that begin alike": (with_disk("a", "/mnt/kv"), with_disk("b", "/mnt/kv2"), []),
    "other nodes": (
        with_disk("a", "/mnt/kv", nodes=on("pool=a")),
        with_disk("b", "/mnt/kv", nodes=on("pool=b")),
        [],
    ),
    "nodes that may be the same": (
        with_disk("a", "/mnt/kv", nodes=on("pool=a")),
        with_disk("b", "/mnt/kv", nodes=on("gpu=h200")),
        [f"host directory /mnt/kv: {A} ({_FIELD}) and {B} ({_FIELD})"],
    ),
    "no directory": (d.tier("a"), d.tier("b"), []),
    "both share the node's memory": (
        d.tier("a", lmcache={"l1": {"sizeGiB": 9}, "ipc": "SharedMemory"}),
        d.tier("b", lmcache={"l1": {"sizeGiB": 9}, "ipc": "SharedMemory"}),
        [],
    ),
    "a claim, and a directory each": (with_claim("a", "blocks"), with_claim("b", "blocks"), []),
    "not valid": (
        with_disk("a", "/mnt/kv"),
        with_disk("b", "/mnt/kv", startupTimeoutSeconds=1),
        [],
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_conflicts_name_both_tiers_and_fields(name: str) -> None:
    one, other, said = PAIRS[name]
    assert tier_conflicts.of_documents([one, other], BACKENDS) == said
    assert tier_conflicts.of_documents([other, one], BACKENDS) == said


def planned(document: Document) -> TierPlan:
    spec = document["spec"]
    name = document["metadata"]["name"]
    made = tier_plan.plan("modelplane-system", name, spec, encode(spec), BACKENDS)
    assert isinstance(made, TierPlan), made
    return made


def changed(name: str, edit: Any) -> TierPlan:
    """A tier whose agents are what no backend composes today."""
    made = planned(d.tier(name))
    parts = []
    for part in made.parts:
        manifest = deepcopy(part.manifest)
        if part.key == "daemonset-agent":
            edit(manifest["spec"]["template"]["spec"])
        parts.append(replace(part, manifest=manifest))
    out = replace(made)
    vars(out)["parts"] = tuple(parts)
    return out


def test_ports_count_on_the_host_alone() -> None:
    def host_port(pod: Document) -> None:
        pod["containers"][0]["ports"][0]["hostPort"] = 7777

    def on_host(pod: Document) -> None:
        pod["hostNetwork"] = True
        pod["containers"][0]["ports"][0]["containerPort"] = 7777

    def pods_only(pod: Document) -> None:
        pod["containers"][0]["ports"][0]["containerPort"] = 7777

    said = [f"host port 7777/TCP: {A} (spec) and {B} (spec)"]
    assert tier_conflicts.find([changed("a", host_port), changed("b", on_host)]) == said
    assert tier_conflicts.find([changed("a", host_port), changed("b", pods_only)]) == []


def test_evictors_of_one_directory_conflict() -> None:
    one, other = planned(with_claim("a", "blocks")), planned(with_claim("b", "blocks"))
    same = tuple(
        Part(p.key, p.manifest, p.role, namespace_override=p.namespace_override) for p in one.parts
    )
    vars(other)["parts"] = same
    (said,) = tier_conflicts.find([one, other])
    assert said.startswith("evictor of claim default/blocks/")
    field = "spec.native.secondary[0].fileSystem.claim.name"
    assert said.endswith(f": {A} ({field}) and {B} ({field})")


CLUSTER = {
    "apiVersion": "modelplane.ai/v1alpha1",
    "kind": "InferenceCluster",
    "metadata": {"name": "gke-h200"},
}


def test_step_on_a_cluster_names_the_conflict() -> None:
    tiers = [with_disk("a", "/mnt/kv"), with_disk("b", "/mnt/kv")]
    for tier in tiers:
        tier["spec"]["inferenceClusterRef"] = {"name": "gke-h200"}
        tier["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    got = call(CLUSTER, required={"tiers": tiers})
    assert got.conditions["KVOffloadTiersReady"] == ("False", "TierConflict")
    assert got.messages["KVOffloadTiersReady"] == (
        f"Two tiers cannot have the same: host directory /mnt/kv: {A} ({_FIELD}) and {B}"
        f" ({_FIELD}). Change or remove one"
    )
    tiers[1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert call(CLUSTER, required={"tiers": tiers}).conditions["KVOffloadTiersReady"][1] != (
        "TierConflict"
    )

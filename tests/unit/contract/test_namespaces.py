"""Where on a workload cluster a tier may place something."""

from typing import Any

import pytest

from function.backends.registry import BACKENDS
from function.composers.tier_plan import InvalidTier, plan
from function.contract import namespaces
from function.edge.structs import encode

HOST = {"host": {"sizeGiB": 8}}


def _problems(namespace: str, backend: str, spec: dict[str, Any]) -> list[str]:
    cluster = {"inferenceClusterRef": {"name": "c"}}
    document = {**cluster, "backend": backend, **spec}
    planned = plan(namespace, "t", document, encode(document), BACKENDS)
    return [str(p) for p in planned.problems] if isinstance(planned, InvalidTier) else []


def _native(namespace: str, **spec: Any) -> tuple[str, dict[str, Any]]:
    claim = {"name": "kv", "namespace": namespace}
    level = {"name": "a", "type": "FileSystem", "fileSystem": {"sizeGiB": 1, "claim": claim}}
    return "Native", {"native": {"cpu": {"sizeGiB": 8}, "secondary": [level]}, **spec}


def _hicache(namespace: str, **spec: Any) -> tuple[str, dict[str, Any]]:
    storage = {
        "type": "File",
        "file": {"sizeGiB": 1, "claim": {"claimName": "kv"}},
        "evictor": {"sizeGiB": 1, "namespace": namespace},
    }
    return "HiCache", {"hicache": {**HOST, "storage": storage}, **spec}


CLAIMS = {
    "spec.native.secondary[0].fileSystem.claim.namespace": _native,
    "spec.hicache.storage.evictor.namespace": _hicache,
}
SYSTEM = ("kube-system", "kube-node-lease", "kube-flannel", "openshift-etcd", "crossplane-system")


@pytest.mark.parametrize("namespace", SYSTEM)
@pytest.mark.parametrize("field", CLAIMS)
def test_a_claim_in_a_system_namespace_is_refused(field: str, namespace: str) -> None:
    for allowed in ({"from": "All"}, {"from": "Names", "names": [namespace]}):
        backend, spec = CLAIMS[field](namespace, allowedNamespaces=allowed)
        text = f"{field}: {namespace} belongs to the cluster's own parts: choose another one"
        assert _problems("modelplane-system", backend, spec) == [text]


# (spec.allowedNamespaces, the claim's namespace, whether it is admitted)
ADMITTED: tuple[tuple[dict[str, Any], str, bool], ...] = (
    ({}, "default", True),
    ({}, "platform", True),
    ({}, "team-b", False),
    ({"from": "All"}, "team-b", True),
    ({"from": "Names", "names": ["team-a"]}, "default", True),
    ({"from": "Names", "names": ["team-a"]}, "team-a", True),
    ({"from": "Names", "names": ["team-a"]}, "team-b", False),
    ({"from": "Names", "names": ["team-a"]}, "platform", False),
)


@pytest.mark.parametrize(("allowed", "namespace", "admitted"), ADMITTED)
@pytest.mark.parametrize("field", CLAIMS)
def test_a_claim_is_in_a_namespace_that_the_tier_admits(
    field: str, allowed: dict[str, Any], namespace: str, admitted: bool
) -> None:
    backend, spec = CLAIMS[field](namespace, allowedNamespaces=allowed)
    text = (
        f"{field}: {namespace} is not admitted by spec.allowedNamespaces: add it there (from: "
        "Names), or name a namespace of engines that the tier serves"
    )
    assert _problems("platform", backend, spec) == ([] if admitted else [text])


@pytest.mark.parametrize("namespace", ["kube-flannel", "crossplane-system", "gpu-operator"])
def test_agents_in_a_system_namespace_are_refused(namespace: str) -> None:
    spec = {"namespace": namespace, "hicache": HOST}
    text = f"spec.namespace: {namespace} belongs to the cluster's own parts: choose another one"
    assert _problems("platform", "HiCache", spec) == [text]


@pytest.mark.parametrize("namespace", ["kv-offload-system", "kubeflow", "crossplane", "team-a"])
def test_other_namespaces_are_no_systems(namespace: str) -> None:
    assert list(namespaces.problems(namespace, "spec.namespace")) == []

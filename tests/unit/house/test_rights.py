"""The roles in package/rbac name every kind that the function writes, and no other."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]
WRITES = {"create", "patch"}
# What a control plane holds; the rest is on workload clusters.
CONTROL_PLANE = {"KVOffloadTier", "Object", "ClusterProviderConfig"}
# Core's own chart grants it.
GRANTED = {"Usage"}


def _written() -> set[str]:
    """The kinds of manifests in the function's source, and in what render cases compose."""
    sources = [file.read_text() for file in (ROOT / "function").rglob("*.py")]
    literal = {kind for text in sources for kind in re.findall(r'"kind": "([A-Z]\w+)"', text)}
    goldens = [
        file.read_text() for file in (ROOT / "tests/render/cases/tier").rglob("expected.yaml")
    ]
    manifest = r"manifest:\n +apiVersion: .*\n +kind: (\w+)"
    composed = {kind for text in goldens for kind in re.findall(manifest, text)}
    assert len(literal) > 10 and len(composed) > 8
    return literal | composed


def _granted(file: str) -> set[str]:
    (role,) = yaml.safe_load_all((ROOT / "package" / "rbac" / file).read_text())
    return {
        resource
        for rule in role["rules"]
        for resource in rule["resources"]
        if set(rule["verbs"]) >= WRITES and "/" not in resource
    }


def _resource(kind: str) -> str:
    return f"{kind.lower()[:-1]}ies" if kind.endswith("y") else f"{kind.lower()}s"


def test_workload_clusters_grant_what_is_composed_there() -> None:
    kinds = _written() - CONTROL_PLANE - GRANTED
    assert {_resource(kind) for kind in kinds} == _granted("workload-cluster.yaml")


def test_control_plane_grants_what_is_composed_there() -> None:
    assert {_resource(kind) for kind in CONTROL_PLANE} == _granted("clusterrole.yaml")

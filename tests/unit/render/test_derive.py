"""Derivations against values of crossplane 2.4.0 (goldens in tests/render/cases/engine)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.kube import naming
from kv_offload.render import derive

UID = "e2de7f8a-5a35-5678-b4b8-29b16cf1e4bf"
LONG = "a-name-of-sixty-three-characters-which-is-the-most-an-xr-can-b-e"[:63]
LONG_UID = derive.uid("example.org/v1", "Thing", "default", LONG)


def test_uid_of_a_namespaced_composite() -> None:
    assert derive.uid("example.org/v1", "Thing", "default", "thing") == UID


def test_uid_of_a_cluster_scoped_composite() -> None:
    uid = derive.uid("example.org/v1", "Thing", "", "thing")
    assert uid == "9345b638-8ebb-5d04-b540-853e29980a96"


@pytest.mark.parametrize(
    ("parent", "uid", "key", "name"),
    [
        ("thing-", UID, "a", "thing-d6e75c4c5a6e"),
        ("thing", UID, "a", "thing-d6e75c4c5a6e"),
        (f"{LONG}-", LONG_UID, "a", f"{LONG[:50]}-751124b5234a"),
        (LONG[:52], LONG_UID, "b", f"{LONG[:50]}-6301dd859c77"),
    ],
)
def test_child_names(parent: str, uid: str, key: str, name: str) -> None:
    assert naming.composed(parent, uid, key) == name


@given(st.text("abc-", max_size=80), st.text("abc", max_size=5))
def test_child_names_fit_and_end_in_the_hash(parent: str, key: str) -> None:
    name = naming.composed(parent, UID, key)
    stem, _, digest = name.rpartition("-")
    assert len(name) <= 63
    assert len(digest) == 12
    assert parent.rstrip("-").startswith(stem.rstrip("-"))


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["a"], "a"),
        (["b", "a"], "a, b"),
        (["c", "b", "a"], "a, b, and c"),
        (["d", "c", "b", "a"], "a, b, c, and 1 more"),
    ],
)
def test_long_lists_in_messages_are_shortened(names: list[str], text: str) -> None:
    assert derive.first_and_more(names) == text


@pytest.mark.parametrize(
    ("name", "api_version", "kind", "valid"),
    [
        ("a.b-c", "v1", "ConfigMap", True),
        ("A", "v1", "ConfigMap", False),
        ("a:b", "rbac.authorization.k8s.io/v1", "ClusterRole", True),
        ("a:b", "v1", "ConfigMap", False),
        ("-a", "v1", "ConfigMap", False),
        ("a" * 254, "v1", "ConfigMap", False),
    ],
)
def test_valid_names(name: str, api_version: str, kind: str, valid: bool) -> None:
    assert derive.valid_name(name, api_version, kind) is valid


def test_references_are_sorted_as_core_sorts_them() -> None:
    def document(kind: str, name: str, namespace: str = "") -> dict:
        return {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
        }

    composed = [document("B", "a", "z"), document("A", "b", "y"), document("A", "a", "x")]
    assert derive.resource_refs(composed, namespaced=True) == [
        {"apiVersion": "v1", "kind": "A", "name": "a"},
        {"apiVersion": "v1", "kind": "A", "name": "b"},
        {"apiVersion": "v1", "kind": "B", "name": "a"},
    ]
    assert derive.resource_refs(composed, namespaced=False)[0]["namespace"] == "x"


def test_a_resource_of_another_controller_is_refused() -> None:
    xr = {
        "apiVersion": "example.org/v1",
        "kind": "Thing",
        "metadata": {"name": "t", "uid": UID, "labels": {naming.COMPOSITE_LABEL: "t"}},
    }
    owner = {"kind": "Other", "name": "o", "uid": "1", "controller": True}
    composed = {"apiVersion": "v1", "kind": "A", "metadata": {"ownerReferences": [owner]}}
    with pytest.raises(derive.DeriveError, match="already controlled by Other o"):
        derive.add_metadata(composed, xr, "a")

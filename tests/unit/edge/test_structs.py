"""Structs: round trips, path reads, and what is shared."""

from typing import Any

import pytest
from crossplane.function import resource
from google.protobuf import struct_pb2 as structpb
from hypothesis import given
from hypothesis import strategies as st

from function.edge import structs

DOCUMENT: dict[str, Any] = {
    "spec": {"replicas": 3, "ratio": 0.5, "on": True, "none": None, "list": [{"a": 1}, "b"]},
    "status": {
        "conditions": [
            {"type": "Synced", "status": "True"},
            {"type": "Ready", "status": "False"},
        ]
    },
}
STRUCT = resource.dict_to_struct(DOCUMENT)

_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), _values, max_size=5))
def test_encoded_value_decodes_equal(document: dict[str, Any]) -> None:
    struct = structpb.Struct.FromString(structs.encode(document))
    assert structs.decode(struct) == document


@given(st.dictionaries(st.text(), _values, max_size=5))
def test_encode_equals_the_sdk(document: dict[str, Any]) -> None:
    assert structs.encode(document) == resource.dict_to_struct(document).SerializeToString(
        deterministic=True
    )


def test_whole_numbers_are_ints() -> None:
    replicas = structs.decode(STRUCT)["spec"]["replicas"]
    assert (replicas, type(replicas)) == (3, int)


def test_equal_content_is_decoded_once() -> None:
    again = structpb.Struct.FromString(STRUCT.SerializeToString())
    assert structs.decode(STRUCT) is structs.decode(again)


READS = {
    ("spec", "replicas"): 3,
    ("spec", "list", 0, "a"): 1,
    ("spec", "list", 1): "b",
    ("spec", "list", 9): None,
    ("spec", "replicas", "x"): None,
    ("spec", "nothing"): None,
    ("nothing",): None,
    ("spec", "none"): None,
    ("status", "conditions", 1): {"type": "Ready", "status": "False"},
}


@pytest.mark.parametrize("path", READS, ids=str)
def test_read_of_a_path_changes_nothing(path: tuple[str | int, ...]) -> None:
    before = STRUCT.SerializeToString(deterministic=True)
    assert structs.read(STRUCT, *path) == READS[path]
    assert STRUCT.SerializeToString(deterministic=True) == before, "looking made an entry"


@pytest.mark.parametrize(
    ("kind", "status"), [("Ready", "False"), ("Synced", "True"), ("Other", "Unknown")]
)
def test_condition_status_is_read(kind: str, status: str) -> None:
    assert structs.condition(STRUCT, kind) == status
    assert structs.condition(structpb.Struct(), kind) == "Unknown"

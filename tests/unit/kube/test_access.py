"""Documents of an API server, compared with what was written."""

from typing import Any

import pytest

from function.kube import access

# name: (what was written, what is there, whether all of it is there)
HELD: dict[str, tuple[Any, Any, bool]] = {
    "nested empty objects": ({"a": {"b": {}}}, {}, True),
    "an empty list in an object": ({"a": {"b": []}}, {}, True),
    "null in an object": ({"template": {"metadata": {"creationTimestamp": None}}}, {}, True),
    "an empty object where there is null": ({"a": {"b": {}}}, {"a": None}, True),
    "an empty object where there is more": ({"a": {}}, {"a": {"b": 1}}, True),
    "empty in an item": ({"a": [{"n": 1, "e": {"f": []}}]}, {"a": [{"n": 1}]}, True),
    "an item that is empty": ({"a": [{}]}, {}, False),
    "a value beside an empty object": ({"a": {"b": {}, "c": 1}}, {}, False),
    "a value in a list that is missing": ({"a": {"b": [1]}}, {"a": {}}, False),
    "another number of items": ({"a": []}, {"a": [1]}, False),
    "an object where there is a list": ({"a": {"b": 1}}, {"a": []}, False),
    "a number of another value": ({"replicas": 0}, {"replicas": 1}, False),
    "quantities in items": (
        {"a": [{"limits": {"cpu": "1000m"}}]},
        {"a": [{"limits": {"cpu": "1"}}]},
        True,
    ),
}


@pytest.mark.parametrize("name", HELD)
def test_a_document_holds_what_was_written_but_for_what_is_empty(name: str) -> None:
    part, whole, want = HELD[name]
    assert access.holds(whole, part) == want


def test_a_field_of_others_is_not_compared_at_any_depth() -> None:
    part = {"spec": {"replicas": 1, "groups": [{"replicas": 1, "name": "a"}]}}
    whole = {"spec": {"replicas": 2, "groups": [{"replicas": 3, "name": "a"}]}}
    assert not access.holds(whole, part)
    assert access.holds(whole, part, but={"replicas"})
    assert not access.holds(whole | {"spec": {"groups": []}}, part, but={"replicas"})

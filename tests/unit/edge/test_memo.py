"""Caches and what is derived: by identity, and bounded by bytes."""

import sys
from dataclasses import dataclass

from crossplane.function import resource

from function.edge import structs
from function.edge.memo import Cache, Derived, size_of

_MIB = 1024 * 1024


def test_a_cache_is_bounded_by_bytes() -> None:
    left: list[str] = []
    cache: Cache[str, str] = Cache(100, left.append)
    assert [cache.put(name, name, 10) for name in "abcdefghij"] == [True] * 10
    assert cache.get("a") == "a"
    assert cache.put("k", "k", 10)
    assert (cache.get("a"), cache.get("b"), left, cache.held) == ("a", None, ["b"], 100)


def test_one_large_value_does_not_push_out_the_rest() -> None:
    cache: Cache[str, str] = Cache(100)
    assert cache.put("small", "small", 10)
    assert not cache.put("large", "large", 13)
    assert (cache.get("large"), cache.get("small")) == (None, "small")


def test_existing_entry_is_not_replaced() -> None:
    cache: Cache[str, object] = Cache(100)
    first = object()
    assert cache.put("a", first, 10)
    assert not cache.put("a", object(), 10)
    assert cache.get("a") is first


def test_same_objects_are_computed_once() -> None:
    derived, made, document = Derived(), [], {"a": 1}

    def make() -> str:
        made.append(1)
        return "result"

    assert [derived.get(make, document, key=("k",)) for _ in range(3)] == ["result"] * 3
    assert len(made) == 1


def test_equal_objects_are_distinct_keys() -> None:
    derived = Derived()
    assert derived.get(lambda: 1, {"a": 1}) == 1
    assert derived.get(lambda: 2, {"a": 1}) == 2


def test_reused_id_never_returns_another_object() -> None:
    derived = Derived()
    for i in range(1000):
        assert derived.get(lambda i=i: i, {"n": i}) == i


@dataclass
class Held:
    text: str


def test_shared_parts_of_a_value_are_counted_once() -> None:
    text = "x" * _MIB
    assert size_of(text, 2 * _MIB) == sys.getsizeof(text)
    for value in ([text, text], {"a": {"b": text}}, Held(text), lambda: text, Held(text).__repr__):
        assert _MIB < size_of(value, 2 * _MIB) < _MIB + 1024, value


def test_modules_and_functions_are_not_counted() -> None:
    assert size_of((sys, Held, len), _MIB) < 1024


def test_counting_stops_at_the_limit() -> None:
    values = [[i] for i in range(1_000_000)]
    assert _MIB < size_of([values[:10], values], _MIB) < 16 * _MIB


def test_cache_recounts_grown_values() -> None:
    cache: Cache[str, str] = Cache(100)
    for name in "abc":
        cache.put(name, name, 10)
    cache.resize("a", 85)
    assert [cache.get(name) for name in "abc"] == ["a", None, "c"]
    cache.resize("b", 50)
    assert cache.held == 95


def test_values_derived_from_documents_are_bounded() -> None:
    """Documents of a few bytes, and 1 MiB derived from each."""
    for i in range(200):
        document = structs.decode(resource.dict_to_struct({"derived": str(i)}))
        structs.derived(document).get(lambda: Held("x" * _MIB))
        structs.settle()
    assert 64 * _MIB < structs.held() < 128 * _MIB
    assert len([d for d in structs._by_id.values() if "derived" in d.content]) < 97


def test_oversized_value_is_not_cached() -> None:
    document = structs.decode(resource.dict_to_struct({"derived": "large"}))
    made: list[str] = []

    def make() -> str:
        made.append("")
        return "x" * (16 * _MIB)

    for _ in range(2):
        structs.derived(document).get(make)
        structs.settle()
    assert len(made) == 2

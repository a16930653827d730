"""Caches and what is derived: by identity, and bounded by bytes."""

from function.edge.memo import Cache, Derived


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


def test_what_is_there_stays() -> None:
    cache: Cache[str, object] = Cache(100)
    first = object()
    assert cache.put("a", first, 10)
    assert not cache.put("a", object(), 10)
    assert cache.get("a") is first


def test_the_same_objects_are_worked_out_once() -> None:
    derived, made, document = Derived(), [], {"a": 1}

    def make() -> str:
        made.append(1)
        return "result"

    assert [derived.get(make, document, key=("k",)) for _ in range(3)] == ["result"] * 3
    assert len(made) == 1


def test_equal_objects_are_not_the_same() -> None:
    derived = Derived()
    assert derived.get(lambda: 1, {"a": 1}) == 1
    assert derived.get(lambda: 2, {"a": 1}) == 2


def test_an_id_never_comes_to_stand_for_another_object() -> None:
    derived = Derived()
    for i in range(1000):
        assert derived.get(lambda i=i: i, {"n": i}) == i

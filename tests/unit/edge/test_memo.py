"""Memo: by identity, and bounded."""

from function.edge.memo import Memo


def test_the_same_objects_are_worked_out_once() -> None:
    memo, made, document = Memo(8), [], {"a": 1}

    def make() -> str:
        made.append(1)
        return "result"

    assert [memo.get(make, document, key=("k",)) for _ in range(3)] == ["result"] * 3
    assert len(made) == 1


def test_equal_objects_are_not_the_same() -> None:
    memo = Memo(8)
    assert memo.get(lambda: 1, {"a": 1}) == 1
    assert memo.get(lambda: 2, {"a": 1}) == 2


def test_an_id_never_comes_to_stand_for_another_object() -> None:
    memo = Memo(4)
    for i in range(1000):
        assert memo.get(lambda i=i: i, {"n": i}) == i

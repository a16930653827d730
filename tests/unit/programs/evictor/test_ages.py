"""Which files to remove, planned from age intervals instead of a list of files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from programs.evictor import ages
from programs.evictor.ages import Ages

FILES = st.lists(st.tuples(st.floats(-1e6, 2e9), st.integers(0, 10**12)), max_size=60)


def filled(files: list[tuple[float, int]]) -> Ages:
    found = Ages()
    for when, size in files:
        found.add(when, size)
    return found


@given(FILES, st.integers(0, 10**13), st.integers(0, 80))
def test_plan_removes_enough_and_the_oldest_first(
    files: list[tuple[float, int]], size: int, count: int
) -> None:
    """As long as every interval is a second, what goes is older than what stays but for that."""
    found = filled(files)
    plan = found.plan(size, count)
    doomed = [(when, bytes_) for when, bytes_ in files if plan.dooms(when, bytes_)]
    stays = list(files)
    for file in doomed:
        stays.remove(file)
    freed = sum(bytes_ for _, bytes_ in doomed)
    assert freed >= min(size, sum(bytes_ for _, bytes_ in files))
    assert len(doomed) >= min(count, len(files))
    if doomed and stays:
        newest, oldest = max(when for when, _ in doomed), min(when for when, _ in stays)
        assert newest < oldest + found.width
    if doomed:  # and no more than it takes: without the last of the newest it would be too little
        _, last = max(enumerate(doomed), key=lambda row: (row[1][0] // found.width, row[0]))
        assert freed - last[1] < size or len(doomed) - 1 < count


def test_plan_within_limits_removes_nothing() -> None:
    plan = filled([(5.0, 10), (6.0, 10)]).plan(0, 0)
    assert not plan.dooms(5.0, 10)


def test_number_of_intervals_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ages, "BUCKETS", 8)
    found = filled([(float(n), 1) for n in range(1000)])
    assert len(found.buckets) <= 8
    assert found.width == 128
    assert sum(files for _, files in found.buckets.values()) == 1000
    plan = found.plan(0, 300)
    doomed = [n for n in range(1000) if plan.dooms(float(n), 1)]
    assert len(doomed) == 300
    assert max(doomed) < 384  # the end of the interval that the 300th is in


@pytest.mark.parametrize("old", [0, 3])
@pytest.mark.parametrize("every", [1.0, 0.01])  # seconds; an interval is a second
def test_files_that_age_during_the_walk_go_only_as_needed(old: int, every: float) -> None:
    """Files that were too young when they were counted: not all of them for those few."""
    plan = filled([(n * every, 10) for n in range(old)]).plan(50, 5)
    went = [n for n in range(100) if plan.dooms(n * every, 10)]
    assert went == list(range(5))

"""One worker for a directory, with clocks of our own."""

from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from programs.evictor.lease import Lease
from tests.unit.programs.evictor import Clock

SECONDS = 60.0


def leases(root: Path, count: int) -> list[Lease]:
    return [Lease(str(root), SECONDS) for _ in range(count)]


def test_first_worker_holds_the_lease_and_others_wait(tmp_path: Path, clock: Clock) -> None:
    four = leases(tmp_path, 4)
    for _ in range(20):
        for lease in four:
            lease.step()
        assert [lease.held for lease in four] == [True, False, False, False]
        clock.now += SECONDS / 4


def test_one_worker_takes_over_from_a_dead_holder(tmp_path: Path, clock: Clock) -> None:
    four = leases(tmp_path, 4)
    for lease in four:
        lease.step()
    waited = 0.0
    while not any(lease.held for lease in four[1:]):
        clock.now += 5
        waited += 5
        for lease in four[1:]:
            lease.step()
    assert waited == SECONDS
    assert [lease.held for lease in four] == [False, True, False, False]


def test_returning_holder_has_lost_the_lease(tmp_path: Path, clock: Clock) -> None:
    one, two = leases(tmp_path, 2)
    one.step()
    two.step()
    clock.now += SECONDS + 1
    assert not one.held  # it could not say that it lives: it works no more
    two.step()
    assert two.held
    one.step()
    assert (one.held, two.held) == (False, True)


def test_released_lease_is_free_at_once(tmp_path: Path, clock: Clock) -> None:
    one, two = leases(tmp_path, 2)
    one.step()
    two.step()
    one.release()
    two.step()
    assert (one.held, two.held) == (False, True)
    one.step()  # its thread was late
    assert (one.held, two.held) == (False, True)


def test_lease_files_are_bounded(tmp_path: Path, clock: Clock) -> None:
    for _ in range(5):
        lease = Lease(str(tmp_path), SECONDS)
        lease.step()
        assert lease.held
        lease.release()
    assert [path.name for path in (tmp_path / ".evictor").iterdir()] == ["000000000005"]


def test_missing_directory_is_not_created(tmp_path: Path, clock: Clock) -> None:
    (lease,) = leases(tmp_path / "none", 1)
    lease.step()
    assert not lease.held
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "none").mkdir()
    lease.step()
    assert lease.held


def test_emptied_lease_directory_has_one_holder(tmp_path: Path, clock: Clock) -> None:
    one, two = leases(tmp_path, 2)
    one.step()
    for path in (tmp_path / ".evictor").iterdir():
        path.unlink()
    one.step()
    two.step()
    one.step()
    assert [one.held, two.held].count(True) == 1


def test_incomplete_lease_file_expires(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / ".evictor").mkdir()
    (tmp_path / ".evictor" / "000000000007").touch()
    (lease,) = leases(tmp_path, 1)
    lease.step()
    assert not lease.held
    clock.now += SECONDS
    lease.step()
    assert lease.held


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("step"), st.integers(0, 3)),
        st.tuples(st.just("pass"), st.integers(1, 70)),
        st.tuples(st.just("release"), st.integers(0, 3)),
    ),
    max_size=80,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_at_most_one_holder_at_any_time(
    tmp_path_factory: Any, clock: Clock, steps: list[tuple[str, int]]
) -> None:
    """Whoever is paused, slow, ends or comes back: at no time do two hold the directory."""
    four = leases(tmp_path_factory.mktemp("shared"), 4)
    for what, which in steps:
        if what == "step":
            four[which].step()
        elif what == "release":
            four[which].release()
        else:
            clock.now += which
        assert [lease.held for lease in four].count(True) <= 1

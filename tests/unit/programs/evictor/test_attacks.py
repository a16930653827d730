"""What somebody who may write to the volume can make the evictor do: nothing outside, no stop."""

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from programs.evictor.__main__ import keep, turn
from programs.evictor.directory import Directory
from programs.evictor.lease import Lease
from tests.unit.programs.evictor import Clock, fill, left, worker

_FLIP, _AT_CWD = 2, -100  # RENAME_EXCHANGE, AT_FDCWD


def _exchange(one: Path, other: Path) -> None:
    """Give each of two paths the other's name, at once."""
    libc = ctypes.CDLL(None, use_errno=True)
    words = (_AT_CWD, os.fsencode(one), _AT_CWD, os.fsencode(other), _FLIP)
    if libc.renameat2(*words):
        pytest.skip(f"no renameat2 here: errno {ctypes.get_errno()}")


def _within(seconds: float, work: Callable[[], Any]) -> None:
    """Fail where the work hangs."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "it hangs"


@contextmanager
def _flipping(one: Path, other: Path) -> Iterator[None]:
    end = threading.Event()

    def flip() -> None:
        while not end.is_set():
            _exchange(one, other)

    _exchange(one, other)
    _exchange(one, other)
    thread = threading.Thread(target=flip)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


# Outside of the directory --------------------------------------------------------------------


def test_a_folder_exchanged_for_a_link_before_the_removal_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    names = {f"f{n}": (9, 900.0) for n in range(10)}
    fill(outside, names)
    fill(inside / "d", names)
    (tmp_path / "link").symlink_to(outside)
    remove = Directory._remove

    def exchanged(self: Directory, *of: Any) -> bool:
        if not (inside / "d").is_symlink():
            _exchange(inside / "d", tmp_path / "link")
        return remove(self, *of)

    monkeypatch.setattr(Directory, "_remove", exchanged)
    worker(inside, bytes=1).turn()
    assert (inside / "d").is_symlink()
    assert len(left(outside)) == 10


def test_no_race_removes_or_marks_a_file_outside(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    names = {f"f{n:03}": (9, 900.0) for n in range(400)}
    fill(outside, names)
    fill(inside / "d", names)
    (tmp_path / "link").symlink_to(outside)
    now = time.time()
    for name in names:
        os.utime(outside / name, (now - 100, now - 900))
    found = worker(inside, bytes=1, empties=True)
    found.says_again = True
    with _flipping(inside / "d", tmp_path / "link"):
        for _ in range(100):
            found.due = 0
            turn(found)
    assert len(left(outside)) == 400
    assert {round(now - path.stat().st_mtime) for path in outside.iterdir()} == {900}


def test_a_link_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    """Engines that mount the whole volume may replace the tier's directory in it."""
    outside = tmp_path / "outside"
    fill(outside, {"a": (9, 900)})
    (tmp_path / "tier").symlink_to(outside)
    found = Directory(str(tmp_path / "tier"), bytes=1)
    with pytest.raises(OSError, match="link"):
        found.lease.step()
    found.make_room()
    turn(found)
    assert os.listdir(outside) == ["a"]


def test_a_link_in_place_of_a_parent_is_refused(tmp_path: Path) -> None:
    fill(tmp_path / "outside" / "tier", {"a": (9, 900)})
    (tmp_path / "volume").symlink_to(tmp_path / "outside")
    found = Directory(str(tmp_path / "volume" / "tier"), bytes=1)
    with pytest.raises(OSError, match="link"):
        found.lease.step()
    found.make_room()
    assert left(tmp_path / "outside") == ["tier/a"]


def test_make_room_follows_no_link(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    fill(outside, {f"f{n:03}": (9, 900.0) for n in range(400)})
    fill(inside / "d", {f"f{n:03}": (9, 900.0) for n in range(400)})
    (tmp_path / "link").symlink_to(outside)
    found = Directory(str(inside))
    with _flipping(inside / "d", tmp_path / "link"):
        for _ in range(50):
            found.make_room()
    assert len(left(outside)) == 400


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_lease_that_is_a_link_overwrites_nothing(tmp_path: Path, link: Any) -> None:
    victim, tier = tmp_path / "victim", tmp_path / "tier"
    victim.write_text("of somebody else")
    tier.mkdir()
    lease = Lease(str(tier), 60)
    for end in (lease.step, lease.release):
        lease.step()
        (own,) = (tier / ".evictor").iterdir()
        own.unlink()
        link(victim, own)
        end()
        assert victim.read_text() == "of somebody else"
        own.unlink(missing_ok=True)


def test_a_link_in_place_of_the_folder_of_leases_is_replaced(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    fill(outside, {"000000000001": (9, 900), "7": (9, 900)})
    inside.mkdir()
    (inside / ".evictor").symlink_to(outside)
    found = worker(inside)
    assert found.lease.held
    assert left(outside) == ["000000000001", "7"]


# One file that stops it ----------------------------------------------------------------------

NAMES = ["²", "9" * 255, "7", "-1", "0x1", "٣" * 12, "1_0", "000000000001.x", "a\nb", "9" * 12]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["file", "fifo", "link", "folder"])
def test_no_name_among_the_leases_stops_the_election(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / ".evictor" / name[: 255 // len(name[0].encode())]
    path.parent.mkdir()
    _make(path, kind)
    stop, found = threading.Event(), Directory(str(tmp_path), lease_seconds=0.4)
    thread = threading.Thread(target=keep, args=([found], stop), daemon=True)
    thread.start()
    end = time.monotonic() + 10
    while not found.lease.held and time.monotonic() < end:
        time.sleep(0.02)
    held = found.lease.held
    stop.set()
    assert held and thread.is_alive() | held
    assert found.lease.problem == ""


def _make(path: Path, kind: str) -> None:
    if kind == "file":
        path.touch()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to("/dev/zero")
    else:
        (path / "below" if kind == "full folder" else path).mkdir(parents=True)


@pytest.mark.parametrize("number", [1, 5])
@pytest.mark.parametrize("kind", ["fifo", "link", "folder", "full folder"])
def test_nothing_but_a_file_is_a_lease(tmp_path: Path, kind: str, number: int) -> None:
    (tmp_path / ".evictor").mkdir()
    _make(tmp_path / ".evictor" / f"{number:012}", kind)
    lease = Lease(str(tmp_path), 60)
    _within(5, lease.step)
    assert lease.held


@pytest.mark.parametrize("kind", ["file", "fifo"])
def test_no_file_in_place_of_the_folder_of_leases_stops_the_election(
    tmp_path: Path, kind: str
) -> None:
    _make(tmp_path / ".evictor", kind)
    found = Directory(str(tmp_path))
    _within(5, found.lease.step)
    assert found.lease.held


def test_a_lease_of_any_length_is_read_to_a_bound(tmp_path: Path) -> None:
    (tmp_path / ".evictor").mkdir()
    with open(tmp_path / ".evictor" / "000000000005", "wb") as file:
        file.truncate(2**40)
    lease = Lease(str(tmp_path), 60)
    _within(5, lease.step)
    assert not lease.held


def test_the_holder_removes_numbers_below_its_own(tmp_path: Path) -> None:
    lease = Lease(str(tmp_path), 60)
    for number in range(1, 6):
        fill(tmp_path, {f".evictor/{number:012}": (4096, 900)})
    lease._take(os.open(tmp_path / ".evictor", os.O_RDONLY), 6, [])
    lease.step()
    assert os.listdir(tmp_path / ".evictor") == ["000000000006"]
    assert lease.held


def _steps(lease: Lease, clock: Clock, count: int, before: Callable[[int], None]) -> int:
    """The step after which it works; `count` where it never does."""
    for number in range(count):
        before(number)
        with suppress(OSError):
            lease.step()
        if lease.held:
            return number
        clock.now += lease.seconds / 4
    return count


def test_growing_numbers_block_no_evictor_for_good(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / ".evictor").mkdir()

    def grow(number: int) -> None:
        (tmp_path / ".evictor" / f"{number + 100:012}").write_text(f"x {number}")

    lease = Lease(str(tmp_path), 60)
    assert _steps(lease, clock, 200, grow) <= 41
    for _ in range(10):  # and it goes on
        grow(500 + int(clock.now))
        lease.step()
        clock.now += 15
        assert lease.held


def test_failing_election_blocks_no_evictor_for_good(tmp_path: Path, clock: Clock) -> None:
    lease = Lease(str(tmp_path), 60)

    def refuse(*_: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    lease._folder = refuse  # type: ignore[attr-defined]
    assert _steps(lease, clock, 200, lambda _: None) <= 41


def test_a_worker_without_the_election_yields_to_a_steady_one(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / ".evictor").mkdir()
    lease, other = Lease(str(tmp_path), 60), Lease(str(tmp_path), 60)
    number = [0]

    def grow(_: int) -> None:
        number[0] += 1
        (tmp_path / ".evictor" / f"{number[0] + 100:012}").write_text("x")

    _steps(lease, clock, 60, grow)
    assert lease.held
    for _ in range(20):
        clock.now += 15
        other.step()
        lease.step()
    assert (lease.held, other.held) in {(True, False), (False, True)}


def test_a_full_file_system_is_evicted_under_a_forged_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else keeps a lease alive and removes nothing."""
    fill(tmp_path, {f"f{n}": (10, 900 - n) for n in range(20)})
    forged = Lease(str(tmp_path), 60)
    forged.step()
    found = worker(tmp_path, free=10)
    assert forged.held and not found.lease.held
    monkeypatch.setattr(found, "_file_system", lambda: ((1000, 50), (0, 0)))
    found.turn()
    assert len(left(tmp_path)) == 20
    monkeypatch.setattr(found, "_short_since", time.monotonic() - 3600)
    found.due = 0
    found.turn()
    assert len(left(tmp_path)) == 14
    found.due = 0
    monkeypatch.setattr(found, "_file_system", lambda: ((1000, 500), (0, 0)))
    found.turn()
    found.turn()
    assert len(left(tmp_path)) == 14


# What is hidden from it ----------------------------------------------------------------------


def test_files_among_the_leases_count_and_go(tmp_path: Path) -> None:
    hidden = {".evictor/big": (50, 900.0), ".evictor/d/e": (50, 900.0)}
    found = worker(tmp_path, bytes=10)
    fill(tmp_path, {"a": (4, 800), **hidden, ".evictor/000000000003": (9000, 900)})
    found.turn()
    names = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert names == ["000000000001", "a"]


def test_a_large_file_is_no_description_of_vllms(tmp_path: Path) -> None:
    fill(tmp_path, {"m/config.json": (100_000, 900), "n/config.json": (4, 900)})
    worker(tmp_path, bytes=10).turn()
    assert left(tmp_path) == ["n/config.json"]


def test_a_file_from_the_future_is_the_oldest(tmp_path: Path) -> None:
    fill(tmp_path, {"a": (4, 900), "b": (4, -(10.0**9)), "c": (4, 800)})
    worker(tmp_path, bytes=8, low=100).turn()
    assert left(tmp_path) == ["a", "c"]


def test_depth_takes_no_descriptor_without_bound(tmp_path: Path) -> None:
    deep = tmp_path / "/".join(["d"] * 300)
    deep.mkdir(parents=True)
    fill(tmp_path, {"a": (4, 900)})
    (deep / "f").write_bytes(b"x")
    found = worker(tmp_path, bytes=1)
    before = len(os.listdir("/proc/self/fd"))
    found.turn()
    assert left(tmp_path / "d") == ["/".join([*["d"] * 299, "f"])]
    assert "a" not in os.listdir(tmp_path)
    assert "deeper than" in found.problem
    assert len(os.listdir("/proc/self/fd")) == before


def test_names_that_are_no_text_are_reported(tmp_path: Path, capsys: Any) -> None:
    from programs.evictor.directory import say

    say(os.fsdecode(b"bad \xff name"))
    assert capsys.readouterr().out == "bad \\udcff name\n"

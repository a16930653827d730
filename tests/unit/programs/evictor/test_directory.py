"""One directory: the files removed, the files kept, and the time of the next walk."""

import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest

from programs.evictor import directory as module
from programs.evictor.directory import Directory, Stopped
from programs.evictor.files import mount_of
from tests.unit.programs.evictor import HOUR, fill, left, worker

Files = dict[str, tuple[int, float]]

# (files as path -> (size, age), limits, what is left)
TABLE: dict[str, tuple[Files, dict[str, Any], list[str]]] = {
    "nothing": ({}, {"bytes": 10}, []),
    "no limit": ({"a": (4, 900)}, {}, ["a"]),
    "at the limit": ({"a": (4, 900), "b": (4, 800)}, {"bytes": 8}, ["a", "b"]),
    "the oldest": ({"a": (4, 900), "b": (4, 800)}, {"bytes": 7}, ["b"]),
    "down to the low mark": (
        {f"f{n}": (10, 900 - n) for n in range(10)},
        {"bytes": 90, "low": 50},
        [f"f{n}" for n in range(6, 10)],
    ),
    "files": (
        {f"f{n}": (10, 900 - n) for n in range(10)},
        {"inodes": 9, "low": 100},
        [f"f{n}" for n in range(1, 10)],
    ),
    "directories are inodes": (
        {f"d{n}/f": (10, 900 - n) for n in range(5)},
        {"inodes": 9, "low": 100},
        [f"d{n}/f" for n in range(1, 5)],
    ),
    "bytes and files": (
        {"a": (50, 900), "b": (1, 800), "c": (1, 700), "d": (1, 600)},
        {"bytes": 10, "inodes": 2, "low": 100},
        ["c", "d"],
    ),
    "too young": ({"a": (4, 10), "b": (4, 900)}, {"bytes": 5}, ["a"]),
    "all too young": ({"a": (4, 10), "b": (4, 20)}, {"bytes": 1}, ["a", "b"]),
    "deep down": ({"deep/er/a": (4, 900), "b": (4, 800)}, {"bytes": 5}, ["b"]),
    "vLLM's description": (
        {"m/config.json": (4, 900), "b": (4, 800)},
        {"bytes": 1},
        ["m/config.json"],
    ),
    "being written": ({"a_1.tmp": (9, 900), "b": (4, 800)}, {"bytes": 9}, ["a_1.tmp"]),
    "left over": (
        {"a_1.tmp": (9, HOUR + 9), ".o_direct_probe_7.tmp": (9, HOUR + 9), "b": (4, 800)},
        {"bytes": 9},
        ["b"],
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_files_left_after_eviction(tmp_path: Path, name: str) -> None:
    files, limits, stays = TABLE[name]
    fill(tmp_path, files)
    found = worker(tmp_path, **limits)
    found.turn()
    assert left(tmp_path) == stays
    assert found.counts["files"] == len(stays)
    assert found.problem == ""


def test_recently_read_files_outlive_later_written_ones(tmp_path: Path) -> None:
    fill(tmp_path, {"read": (4, 900), "not": (4, 800)})
    now = time.time()
    os.utime(tmp_path / "read", (now - 100, now - 900))
    worker(tmp_path, bytes=5).turn()
    assert left(tmp_path) == ["read"]


def test_every_read_counts_under_relatime(tmp_path: Path) -> None:
    """relatime: written long ago, read an hour ago; read again, it would not say so."""
    fill(tmp_path, {"a": (4, 2 * HOUR)})
    path, now = tmp_path / "a", time.time()
    os.utime(path, (now - HOUR, now - 2 * HOUR))
    found = worker(tmp_path)
    found.says_again = True
    found.turn()
    assert path.stat().st_mtime == pytest.approx(now - HOUR, abs=1)
    if "relatime" in mount_of(str(tmp_path))[1]:
        path.read_bytes()
        assert path.stat().st_atime == pytest.approx(now, abs=60)
    else:
        assert found.order in ("used", "written")


def test_utime_refused_for_files_of_others_is_no_error(tmp_path: Path, monkeypatch: Any) -> None:
    fill(tmp_path, {"a": (4, 2 * HOUR)})
    now = time.time()
    os.utime(tmp_path / "a", (now - HOUR, now - 2 * HOUR))
    found = worker(tmp_path)
    found.says_again = True

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EPERM, "no")

    monkeypatch.setattr(module.os, "utime", refuse)  # type: ignore[attr-defined]
    found.turn()
    assert (found.says_again, found.problem) == (False, "")


def test_links_are_not_followed_and_a_missing_directory_is_empty(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    fill(outside, {"kept": (9, 900)})
    inside.mkdir()
    (inside / "link").symlink_to(outside / "kept")
    (inside / "loop").symlink_to(outside)
    worker(inside, bytes=1).turn()
    worker(tmp_path / "none", bytes=1).turn()
    assert left(outside) == ["kept"]
    assert (inside / "link").is_symlink()


def test_already_removed_files_count_as_freed(tmp_path: Path, monkeypatch: Any) -> None:
    """Another hand was quicker: no further file has to go for it."""
    fill(tmp_path, {f"f{n}": (10, 900 - n) for n in range(10)})
    remove = os.remove

    def quicker(path: str, dir_fd: int) -> None:
        remove(path, dir_fd=dir_fd)
        raise FileNotFoundError(path)

    monkeypatch.setattr(module.os, "remove", quicker)  # type: ignore[attr-defined]
    worker(tmp_path, bytes=70, low=100).turn()
    assert len(left(tmp_path)) == 7


def test_failed_removal_is_reported_and_not_retried_at_once(
    tmp_path: Path, monkeypatch: Any
) -> None:
    fill(tmp_path, {"a": (10, 900)})

    def refuse(_: str, **__: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(module.os, "remove", refuse)  # type: ignore[attr-defined]
    found = worker(tmp_path, bytes=1)
    found.turn()
    assert "cannot remove" in found.problem
    assert found.counts["stuck"] and found.due > time.monotonic() + 20
    assert found.hurry == found.due
    monkeypatch.undo()
    found.due = 0
    found.turn()
    assert (found.problem, left(tmp_path)) == ("", [])


def test_file_system_keeps_free_space(tmp_path: Path, monkeypatch: Any) -> None:
    fill(tmp_path, {f"f{n}": (10, 900 - n) for n in range(20)})
    found = worker(tmp_path, free=10)
    monkeypatch.setattr(found, "_file_system", lambda: ((1000, 50), (0, 0)))
    assert found.excess() == (60, 0)  # 11 % of 1000, less what is free
    found.turn()
    assert left(tmp_path) == sorted(f"f{n}" for n in range(6, 20))
    monkeypatch.setattr(found, "_file_system", lambda: ((1000, 100), (100, 4)))
    assert found.excess() == (0, 7)


def test_old_empty_directories_are_removed(tmp_path: Path) -> None:
    fill(tmp_path, {"old/a": (1, 900), "full/b": (1, 900)})
    (tmp_path / "old" / "a").unlink()
    (tmp_path / "new").mkdir()
    long_ago = time.time() - 2 * HOUR
    os.utime(tmp_path / "old", (long_ago, long_ago))
    os.utime(tmp_path / "full", (long_ago, long_ago))
    worker(tmp_path).turn()
    assert (tmp_path / "old").is_dir()  # not where writers do not make them again
    for lease in (tmp_path / ".evictor").iterdir():
        lease.unlink()
    found = worker(tmp_path, empties=True)
    found.turn()
    there = sorted(path.name for path in tmp_path.iterdir())
    assert there == [".evictor", "full", "new"]
    assert (found.counts["directories"], found.counts["empty_directories"]) == (1, 1)


def test_directories_about_to_go_cost_no_file(tmp_path: Path, monkeypatch: Any) -> None:
    """vLLM has a directory for nearly every file. Evicted by inodes, nothing runs away."""
    fill(tmp_path, {f"d{n:03}/f": (1, 900 - n) for n in range(200)})
    found = worker(tmp_path, inodes=200, low=50, empties=True)
    for _ in range(5):
        found.due = 0
        found.turn()
        assert len(left(tmp_path)) == 50
    assert found.counts["directories"] == 50
    assert found.counts["empty_directories"] == 150
    # The file system is short of inodes as well, and will not be when they are gone.
    found.free = 10
    inodes = (1000, 40)
    monkeypatch.setattr(found, "_file_system", lambda: ((0, 0), inodes))
    found.due = 0
    found.turn()
    assert len(left(tmp_path)) == 50


def test_nested_empty_directories_are_removed(tmp_path: Path) -> None:
    """Or what is left of an eviction counts against the inodes, and takes the rest of the files."""
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "f").write_bytes(b"x")
    found = worker(tmp_path, empties=True)
    found.census()
    assert (found.counts["directories"], found.counts["empty_directories"]) == (1, 4)


def test_inode_shortage_removes_empty_directories_sooner(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "empty").mkdir()
    before = time.time() - 100
    os.utime(tmp_path / "empty", (before, before))
    found = worker(tmp_path, free=10, empties=True)
    found.turn()
    assert (tmp_path / "empty").is_dir()
    monkeypatch.setattr(found, "_file_system", lambda: ((0, 0), (1000, 40)))
    found.due = 0
    found.turn()
    assert not (tmp_path / "empty").exists()


def test_a_dry_run_removes_nothing(tmp_path: Path, capsys: Any) -> None:
    fill(tmp_path, {"a": (4, 900), "b": (4, 800), "c_1.tmp": (1, 2 * HOUR)})
    os.utime(tmp_path / "b", (time.time() - 100, time.time() - 800))
    before = (tmp_path / "b").stat().st_mtime
    found = worker(tmp_path, bytes=5, dry_run=True, empties=True)
    found.turn()
    assert left(tmp_path) == ["a", "b", "c_1.tmp"]
    assert (tmp_path / "b").stat().st_mtime == before
    assert "would remove 1 of 2 files, 4 of 8 bytes" in capsys.readouterr().out
    assert found.due > time.monotonic()


def test_only_the_lease_holder_evicts(tmp_path: Path) -> None:
    fill(tmp_path, {"a": (4, 900), "b": (4, 800)})
    first = worker(tmp_path)
    second = worker(tmp_path, bytes=1)
    second.turn()
    assert left(tmp_path) == ["a", "b"]
    first.lease.release()
    second.lease.step()
    second.turn()
    assert left(tmp_path) == []


def test_stop_interrupts_a_turn(tmp_path: Path) -> None:
    fill(tmp_path, {f"f{n}": (10, 900 - n) for n in range(10)})
    found = worker(tmp_path, bytes=1)
    found.stop.set()
    with pytest.raises(Stopped):
        found.turn()
    assert len(left(tmp_path)) == 10


def test_time_of_the_next_walk(tmp_path: Path, monkeypatch: Any) -> None:
    """At its time; sooner where the file system fills; later where a walk takes long."""
    fill(tmp_path, {"a": (40, 900)})
    found = worker(tmp_path, bytes=100, period=300)
    inside = [(10**9, 10**8)]
    monkeypatch.setattr(found, "_file_system", lambda: (inside[0], (0, 0)))
    found.turn()
    begun = found.counts["walks_total"]
    assert found.due == pytest.approx(time.monotonic() + 300, abs=5)
    found.hurry = 0
    inside[0] = (10**9, 10**8 - 29)  # half of the 60 bytes that are left is not written yet
    found.turn()
    assert found.counts["walks_total"] == begun
    inside[0] = (10**9, 10**8 - 31)
    found.turn()
    assert found.counts["walks_total"] == begun + 1
    found._plan_next(time.monotonic() - 100, stuck=False)
    assert found.due == pytest.approx(time.monotonic() + 2000, abs=5)
    assert found.hurry == pytest.approx(time.monotonic() + 400, abs=5)
    found._plan_next(time.monotonic() - 9000, stuck=False)
    assert found.due == pytest.approx(time.monotonic() + 3600, abs=5)


def test_insufficient_eviction_repeats_at_once(tmp_path: Path, monkeypatch: Any) -> None:
    """Somebody wrote while it removed."""
    fill(tmp_path, {f"f{n}": (10, 900 - n) for n in range(10)})
    found = worker(tmp_path, bytes=50)
    evict = found.evict

    def meanwhile(*needs: Any) -> tuple[int, int]:
        gone = evict(*needs)
        found.counts["bytes"] += 100
        return gone

    monkeypatch.setattr(found, "evict", meanwhile)
    found.turn()
    assert found.due <= time.monotonic()


def test_full_disk_gets_room_for_a_lease(tmp_path: Path) -> None:
    fill(tmp_path, {f"d/f{n:02}": (1, 900 - n) for n in range(20)} | {"d/x.tmp": (1, 900)})
    Directory(str(tmp_path)).make_room()
    assert left(tmp_path) == ["d/f16", "d/f17", "d/f18", "d/f19", "d/x.tmp"]


def test_unreadable_directory_is_reported(tmp_path: Path, monkeypatch: Any) -> None:
    fill(tmp_path, {"a": (1, 900)})
    found = worker(tmp_path)

    def refuse(_: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("programs.evictor.walk.os.scandir", refuse)
    found.turn()
    assert "cannot list" in found.problem

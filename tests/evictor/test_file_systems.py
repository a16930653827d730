"""Eviction by file system: access times, and a full disk."""

import os
import time
from pathlib import Path

import pytest

from tests.evictor.conftest import Mount, Start, Worker, files, until


def write(root: Path, name: str, age: float) -> Path:
    path = root / name
    path.write_bytes(b"x" * 4096)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def walked(worker: Worker) -> None:
    """One more whole walk."""
    done = worker.metrics().get("walks_total", 0)
    until(lambda: worker.metrics().get("walks_total", 0) > done, "a walk")


# (mount option, what stays: `often` was read again and again, `late` was written last)
USES = [("strictatime", "often"), ("relatime", "often"), ("noatime", "late")]


@pytest.mark.parametrize(("option", "stays"), USES)
def test_recently_read_files_stay_with_access_times(
    mount: Mount, start: Start, option: str, stays: str
) -> None:
    """With relatime alone, only the first of two readings of a day would be told."""
    root = mount(f"size=64m,{option}") / "tier"
    root.mkdir()
    often, late = write(root, "often", 7200), write(root, "late", 3600)
    worker = start(root)
    walked(worker)
    often.read_bytes()
    walked(worker)
    time.sleep(2)
    late.read_bytes()
    walked(worker)
    time.sleep(2)
    often.read_bytes()
    worker.end()
    start(root, bytes=5000)
    until(lambda: len(files(root)) == 1, "the limit")
    assert files(root) == [str(root / stays)]


# What of a file system is full: (mount options, size of a file)
FULL = {"bytes": ("size=16m,nr_inodes=100k", 65536), "inodes": ("size=64m,nr_inodes=500", 10)}


@pytest.mark.parametrize("what", FULL)
def test_full_disk_is_evicted(mount: Mount, start: Start, what: str) -> None:
    """There is no room for a lease either."""
    options, size = FULL[what]
    root = mount(options) / "tier"
    root.mkdir()
    with pytest.raises(OSError, match="No space left"):
        for number in range(100_000):
            path = root / f"{number:06}"
            path.write_bytes(b"x" * size)
            os.utime(path, (time.time() - 10**6 + number,) * 2)
    whole = len(files(root))
    worker = start(root, free=20)
    until(lambda: worker.metrics().get("walks_total"), "a walk")
    until(lambda: len(files(root)) < whole * 0.8, "room")
    time.sleep(2)
    assert whole * 0.7 < len(files(root)) < whole * 0.8
    assert worker.metrics()["errors_total"] == 0
    oldest = min(files(root))
    assert int(Path(oldest).name) > whole * 0.2 - 20

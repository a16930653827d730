"""The evictor on small directories; `make evictor-test` has the large ones."""

import os
import time
from pathlib import Path
from typing import Any

from programs.evictor.directory import Directory

HOUR = 3600.0


def fill(root: Path, files: dict[str, tuple[int, float]]) -> None:
    """Files below `root`: path -> (size, seconds since they were written and read)."""
    now = time.time()
    for name, (size, age) in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
        os.utime(path, (now - age, now - age))


def left(root: Path) -> list[str]:
    """The files below `root` but the evictor's own."""
    found = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if path.parts[0] != ".evictor")


def worker(root: Path, **fields: Any) -> Directory:
    """A worker that holds its directory."""
    found = Directory(str(root), **fields)
    found.lease.step()
    return found


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

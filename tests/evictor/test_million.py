"""A million files: constant memory, the least recently used, one walk to know and one to remove."""

import os
import random
import time
from pathlib import Path

from tests.evictor.conftest import Mount, Start, files, tree, until

SIZE = 100_000
SPAN = 3 * 86400
MEMORY = 48 * 1024  # KiB; the container asks for 64 Mi


def test_million_files_are_evicted_with_constant_memory(mount: Mount, start: Start) -> None:
    root = mount("size=2g,nr_inodes=2m") / "tier"
    draw = random.Random(1)
    ages = {
        # vLLM's layout, and LMCache's: everything in one directory
        **{f"m/{n % 30:03x}/{n:02x}_g0": _ages(draw, 1000) for n in range(900)},
        "flat": _ages(draw, 100_000),
    }
    begun = time.monotonic()
    tree(root, ages, SIZE)
    made = time.monotonic() - begun
    worker = start(root, bytes=60_000 * 10**6, period=3600)
    took = until(lambda: worker.metrics().get("walks_total"), "a walk")
    peak, found = worker.peak, worker.metrics()
    there = files(root)
    print(
        f"\n1,000,000 files (made in {made:.0f} s): {len(there)} left after {took:.0f} s,"
        f" a walk of {found['walk_seconds']:.1f} s, at most {peak / 1024:.1f} MiB;"
        f" ended within {worker.end():.2f} s"
    )
    # 95 % of the limit, within one file; oldest first, within one interval of 64 s.
    assert len(there) == found["files"] == 570_000
    assert peak < MEMORY
    oldest = sorted((age for row in ages.values() for age in row), reverse=True)
    allowed = oldest[430_000 - 1] + 64 + (time.monotonic() - begun)
    now = time.time()
    assert max(now - os.stat(path).st_mtime for path in there) < allowed


def _ages(draw: random.Random, count: int) -> list[float]:
    return [100 + draw.random() * SPAN for _ in range(count)]


def test_a_directory_at_rest_costs_little(tmp_path: Path, start: Start) -> None:
    """The next walk is twenty times as far away as the last was long, and CPU goes with that."""
    tree(tmp_path / "tier", {f"d{n}": [1000.0] * 100 for n in range(500)}, 10)
    worker = start(tmp_path / "tier", bytes=10**9, period=0.1)
    until(lambda: worker.metrics().get("walks_total", 0) >= 3, "three walks")
    clock, before = time.monotonic(), _cpu(worker.process.pid)
    time.sleep(10)
    share = (_cpu(worker.process.pid) - before) / (time.monotonic() - clock)
    print(f"\n50,000 files at rest: {share:.1%} of a CPU")
    assert share < 0.25


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

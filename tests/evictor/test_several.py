"""Several workers for one directory: one of them works, and no more goes than must."""

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.evictor.conftest import Start, Worker, files, interpreters, tree, until

SIZE = 1000


def make(root: Path, count: int, keep: int = 100) -> None:
    """A hundred folders, d0 the newest; what is in and after `keep` is 1,000 s older than that: an
    interval of ages, out of which anything may go, does not hold files of both."""
    per = count // 100
    begin = [1000.0 + n * per + (1000 if n >= keep else 0) for n in range(100)]
    tree(root, {f"d{n}": [begin[n] + m for m in range(per)] for n in range(100)}, SIZE)


def holders(workers: Iterable[Worker]) -> int:
    return sum(worker.holds for worker in workers)


def limit(count: int) -> dict[str, int]:
    """That many files and not one more."""
    return {"inodes": count + 100, "low": 100}


def test_four_workers_evict_only_the_surplus(tmp_path: Path, start: Start) -> None:
    root = tmp_path / "tier"
    make(root, 19_000)
    four = [start(root, **limit(14_000)) for _ in range(4)]
    until(lambda: holders(four) == 1, "one holder")
    until(lambda: len(files(root)) <= 14_000, "the limit")
    for _ in range(20):  # and nobody goes on
        assert holders(four) <= 1
        assert len(files(root)) == 14_000
        time.sleep(0.5)
    assert sorted({path.split("/")[-2] for path in files(root)}) == sorted(
        f"d{n}" for n in range(74)
    )  # the newest
    tree(root, {"new": [10.0] * 1000}, SIZE)
    until(lambda: len(files(root)) <= 13_999, "the limit again")  # `new` is an inode as well
    time.sleep(3)
    assert len(files(root)) == 13_999
    assert len(os.listdir(root / "new")) == 1000
    assert sum(w.metrics()["removed_files_total"] for w in four) == 6001


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM])
def test_eviction_continues_after_the_loss_of_the_holder(
    tmp_path: Path, start: Start, how: signal.Signals
) -> None:
    root = tmp_path / "tier"
    make(root, 60_000, keep=10)
    three = [start(root, **limit(6_000)) for _ in range(3)]
    until(lambda: holders(three) == 1, "one holder")
    (holder,) = (worker for worker in three if worker.holds)
    others = [worker for worker in three if worker is not holder]
    until(lambda: holder.metrics().get("removed_files_total", 0) > 0, "the first removal")
    holder.send(how)
    there = len(files(root))
    assert there > 6_000, "it was over before it was lost"
    waited = until(lambda: holders(others) == 1, "another holder")
    print(f"\n{how.name} with {there} files there: the next worker after {waited:.1f} s")
    if how is signal.SIGSTOP:
        holder.send(signal.SIGCONT)
        for _ in range(20):
            assert holders(three) == 1
            time.sleep(0.1)
    until(lambda: len(files(root)) <= 6_000, "the limit")
    time.sleep(2)
    assert len(files(root)) == 6_000
    newest = {f"d{n}" for n in range(10)}
    assert {path.split("/")[-2] for path in files(root)} == newest


@pytest.mark.parametrize("python", interpreters(), ids=os.path.basename)
def test_evictor_runs_on_every_supported_python(tmp_path: Path, start: Start, python: str) -> None:
    root = tmp_path / "tier"
    make(root, 1000)
    worker = start(root, python=python, **limit(500))
    until(lambda: len(files(root)) == 500, "the limit")
    until(lambda: worker.metrics().get("walks_total"), "its metrics")
    worker.end()

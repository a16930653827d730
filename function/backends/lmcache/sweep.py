"""Keep directories of cached blocks under a limit: sweep.py [DIRECTORY BYTES SECONDS]..."""

import heapq
import os
import signal
import sys
import time
from collections.abc import Iterator

BATCH = 10000  # files that one pass sorts: bounds the memory
YOUNG = 60  # seconds


def files(directory: str) -> Iterator[tuple[float, int, str]]:
    """(modification time, size, path) of every file below; what vanishes meanwhile is left out."""
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                yield from files(entry.path)
            elif entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                yield status.st_mtime, status.st_size, entry.path
        except OSError:
            continue


def sweep(directory: str, limit: int, now: float) -> int:
    """Remove the oldest files until at most `limit` bytes are there; how many were removed."""
    removed = 0
    total = sum(size for _, size, _ in files(directory))
    while total > limit:
        old = (found for found in files(directory) if found[0] < now - YOUNG)
        before = removed
        for _, size, path in heapq.nsmallest(BATCH, old):
            if total <= limit:
                break
            try:
                os.remove(path)
            except OSError:
                continue
            total -= size
            removed += 1
        if removed == before:
            break
    return removed


def main(arguments: list[str]) -> None:
    # Process 1 ignores a signal that it has no handler for.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    rows = zip(arguments[::3], arguments[1::3], arguments[2::3], strict=True)
    jobs = [(directory, int(limit), float(period)) for directory, limit, period in rows]
    due = dict.fromkeys(range(len(jobs)), 0.0)
    while True:
        for number, (directory, limit, period) in enumerate(jobs):
            if due[number] <= time.monotonic():
                removed = sweep(directory, limit, time.time())
                if removed:
                    print(f"removed {removed} files of {directory}", flush=True)
                due[number] = time.monotonic() + period
        time.sleep(max(0.0, min(due.values()) - time.monotonic()))


if __name__ == "__main__":
    main(sys.argv[1:])

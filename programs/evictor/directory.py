"""One directory: what is there, what must go, and when to look.

What goes is what was used least recently, as far as the file system tells. Two walks find it in
constant memory: the first counts, and sorts ages into intervals; the second removes what is older
than the interval that the low mark falls into, and as much of that one as it takes.
"""

from __future__ import annotations

import contextlib
import errno
import heapq
import itertools
import math
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from .ages import Ages
from .files import KEPT, LOCAL, SMALL, mount_of, opened, size_of, temporary, used
from .lease import Lease
from .walk import Folder, walk

GRACE = 60.0  # seconds: nothing that was written or read since is removed
STALE = 3600.0  # seconds: temporary files and empty directories older than this are left-overs
LEASE = 60.0  # seconds without a sign of life until another worker takes over
LONGEST = 3600.0  # seconds between two walks at most, however long one takes
DUTY = 20  # a walk may take a twentieth of the time
HURRY = 4  # and a quarter where the file system fills meanwhile
NEGLECT = 600.0  # seconds short of room after which no other worker can be at work
AHEAD = 86400.0  # seconds by which a file may be newer than now; what is newer is the oldest
BATCH = 512  # files that are removed at a time, so that a listing goes on undisturbed

# name -> (type, help)
MEASURES = {
    "bytes": ("gauge", "Bytes below the directory at the last walk."),
    "files": ("gauge", "Files below the directory at the last walk."),
    "directories": ("gauge", "Directories that hold something, at the last walk."),
    "empty_directories": ("gauge", "Directories that hold nothing, at the last walk."),
    "files_read": ("gauge", "Files whose access time is later than their modification."),
    "removed_files_total": ("counter", "Files that were evicted."),
    "removed_bytes_total": ("counter", "Bytes of the files that were removed."),
    "left_overs_total": ("counter", "Temporary files of writers that are gone, removed."),
    "errors_total": ("counter", "Files or directories that could not be read or removed."),
    "walks_total": ("counter", "Walks through the directory."),
    "walk_seconds": ("gauge", "How long the last walk took, with what it removed."),
    "last_walk_timestamp_seconds": ("gauge", "When the last walk ended."),
    "stuck": ("gauge", "1 where a limit is passed and nothing can be removed."),
}


class Stopped(Exception):
    """The worker is to end, or works for this directory no longer."""


@dataclass
class Directory:
    """One directory and its limits.

    `bytes`, `inodes`: high marks, 0 for none; a directory is an inode. `low`: percent of a high
    mark to go down to. `free`: percent of the file system's bytes and inodes that must stay free,
    0 for none. `period`: seconds between two walks at least. `empties`: remove directories that
    stay empty, where whoever writes makes them again; they count as gone already. The rest is of
    the worker: `grace`, `stale` in seconds, `dry_run`, `stop`.
    """

    path: str
    bytes: int = 0
    inodes: int = 0
    low: int = 95
    free: int = 0
    period: float = 30.0
    empties: bool = False
    grace: float = GRACE
    stale: float = STALE
    dry_run: bool = False
    lease_seconds: float = LEASE
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.path = os.path.abspath(self.path)
        self.lease = Lease(self.path, self.lease_seconds)
        kind, options = mount_of(self.path)
        self.order = "written" if "noatime" in options else "used"
        # With relatime the file system tells of a file's first reading after it was written, and of
        # one a day. A file that is said to be as old as its last reading tells of the next.
        self.says_again = kind in LOCAL and "relatime" in options and not self.dry_run
        self.counts: dict[str, float] = dict.fromkeys(MEASURES, 0)
        self.problem = ""
        self.progress = time.monotonic()
        self.due = self.hurry = 0.0
        self._marks: list[float] = []  # bytes and inodes in use at which to look again
        self._errors: dict[str, str] = {}
        self._said = ""
        self._look, self._short_since = 0.0, math.inf
        self._works = False  # without a lease

    @property
    def ails(self) -> str:
        """What keeps us from our work, "" for nothing."""
        return self.problem or self.lease.problem

    # What is there ---------------------------------------------------------------------------

    def census(self) -> Ages:
        """Count everything, and clear left-overs away."""
        now, ages = self._now(), Ages()
        # Where inodes are short, empty directories need not have been so for long.
        unused = now - (self.grace if self._short()[1] else self.stale)
        total = files = directories = empty = read = 0
        with opened(self.path) as top:
            for folder, name, status, entries in self._walk(top):
                if status is None:
                    directories += 1 if entries else 0
                    empty += 0 if entries or self._clear(folder, name, unused) else 1
                    continue
                size, when = size_of(status), _used(status, now)
                left_over = temporary(name) and when < now - self.stale
                if left_over and self._remove(folder, name, size, "left_overs_total"):
                    continue
                files, total = files + 1, total + size
                if self._evictable(name, size, when, now):
                    ages.add(when, size)
                if status.st_atime > status.st_mtime:
                    read += 1
                    self._say_again(folder, name, status)
        self.counts.update(bytes=total, files=files, files_read=read)
        self.counts.update(directories=directories, empty_directories=empty)
        return ages

    def _walk(self, at: int) -> Iterator[tuple[Folder, str, os.stat_result | None, int]]:
        return walk(Folder(at, self.path), self._go_on, self._failed)

    def _go_on(self) -> None:
        if self.stop.is_set() or not (self.lease.held or self._works):
            raise Stopped
        self.progress = time.monotonic()

    def _failed(self, what: str, path: str, error: OSError) -> None:
        """Count an error, and keep it to be told. What is gone meanwhile is none."""
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            self.counts["errors_total"] += 1
            self._errors[what] = f"cannot {what} {path[:200]!r}: {error.strerror}"

    def _now(self) -> float:
        return time.time() + self.lease.clock

    def _evictable(self, name: str, size: int, when: float, now: float) -> bool:
        kept = temporary(name) or (name in KEPT and size <= SMALL)
        return when < now - self.grace and not kept

    def _say_again(self, folder: Folder, name: str, status: os.stat_result) -> None:
        if self.says_again:
            times = (status.st_atime_ns, status.st_atime_ns)
            try:
                os.utime(name, ns=times, dir_fd=folder.at, follow_symlinks=False)
            except PermissionError:
                self.says_again = False
            except OSError as error:
                self._failed("mark", f"{folder.path}/{name}", error)

    def _clear(self, above: Folder, name: str, unused: float) -> bool:
        """Remove an empty directory where nothing has been since then; whether it is gone."""
        if not self.empties or self.dry_run:
            return False
        try:
            if os.stat(name, dir_fd=above.at, follow_symlinks=False).st_mtime >= unused:
                return False
            os.rmdir(name, dir_fd=above.at)
        except FileNotFoundError:
            return True
        except OSError:  # somebody has just written there
            return False
        return True

    # What must go ----------------------------------------------------------------------------

    def excess(self) -> tuple[int, int]:
        """(bytes, files) to free: down to the low marks, where a high one is passed."""
        need = list(self._short())
        for i, (high, got) in enumerate(zip((self.bytes, self.inodes), self._have())):
            if high and got > high:
                need[i] = max(need[i], math.ceil(got - high * self.low / 100))
        # With its last file a directory goes too: so many files for so many inodes.
        share = self.counts["files"] / max(1.0, self._have()[1]) if self.empties else 1.0
        return need[0], math.ceil(need[1] * share)

    def _short(self) -> tuple[int, int]:
        """(bytes, inodes) that the file system lacks, with a tenth more than it must keep free."""
        cleared = (0, int(self.counts["empty_directories"]) if self.empties else 0)
        short = [0, 0]
        for i, (total, left) in enumerate(self._file_system()):
            if (left + cleared[i]) * 100 < total * self.free:
                short[i] = math.ceil(total * self.free * 1.1 / 100 - left - cleared[i])
        return short[0], short[1]

    def evict(self, ages: Ages, size: int, files: int) -> tuple[int, int]:
        """Remove what must go; (bytes, files) that are gone, by whoever's hand."""
        plan, now = ages.plan(size, files), self._now()
        doomed: list[tuple[Folder, str, int]] = []
        gone = [0, 0]

        def remove() -> None:
            for at, doomed_name, bytes_ in doomed:
                if self._remove(at, doomed_name, bytes_, "removed_files_total"):
                    gone[0] += bytes_
                    gone[1] += 1
            doomed.clear()

        with opened(self.path) as top:
            for folder, name, status, _ in self._walk(top):
                if status is None or len(doomed) >= BATCH:
                    remove()  # while their folders are open
                if status is None:
                    continue
                size, when = size_of(status), _used(status, now)
                if self._evictable(name, size, when, now) and plan.dooms(when, size):
                    doomed.append((folder, name, size))
            remove()
        return gone[0], gone[1]

    def _remove(self, folder: Folder, name: str, size: int, counter: str) -> bool:
        """Whether the file is gone."""
        self._go_on()
        if not self.dry_run:
            try:
                os.remove(name, dir_fd=folder.at)
            except FileNotFoundError:
                pass
            except OSError as error:
                self._failed("remove", f"{folder.path}/{name}", error)
                return False
            self.counts[counter] += 1
            self.counts["removed_bytes_total"] += size
        return True

    def _have(self) -> tuple[float, float]:
        """Bytes and inodes; a directory that is about to be cleared away is none."""
        inodes = self.counts["files"] + self.counts["directories"]
        return self.counts["bytes"], inodes + (
            0 if self.empties else self.counts["empty_directories"]
        )

    def _file_system(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """(all, free) in bytes and in inodes; (0, 0) of what the file system does not count."""
        with opened(self.path) as at:
            v = os.statvfs(at)
        return (v.f_blocks * v.f_frsize, v.f_bavail * v.f_frsize), (v.f_files, v.f_favail)

    # When ------------------------------------------------------------------------------------

    def turn(self) -> None:
        """One round, where it is ours and time. Raises Stopped, OSError."""
        now = time.monotonic()
        self._works = self._neglected(now)
        if not (self.lease.held or self._works):
            self.problem = ""
            return
        if now < self.due and not (now >= self.hurry and self._fills()):
            return
        # Where the round ends early, the next one is not before its time.
        self.due = self.hurry = now + self.period
        self._errors, gone = {}, (0, 0)
        ages = self.census()
        need = self.excess()
        if any(need):
            had, gone = self._have(), self.evict(ages, *need)
            self._say(
                f"{'would remove' if self.dry_run else 'removed'} {gone[1]} of"
                f" {self.counts['files']:.0f} files, {gone[0]} of {had[0]:.0f} bytes, least"
                f" recently {self.order} first"
            )
        if not self.dry_run:
            self.counts["bytes"] -= gone[0]
            self.counts["files"] -= gone[1]
        self._plan_next(now, stuck=any(need) and (self.dry_run or not any(gone)))

    def _neglected(self, now: float) -> bool:
        """Whether the file system has been short of room so long that who holds the lease does not
        work: whoever may write to the directory can look like a holder."""
        if now >= self._look:
            self._look, short = now + self.period, False
            with contextlib.suppress(OSError):
                short = not self.lease.held and any(self._short())
            self._short_since = min(self._short_since, now) if short else math.inf
        return not self.lease.held and now - self._short_since >= NEGLECT

    def _say(self, text: str) -> None:
        """What is so at every round is said once."""
        if text != self._said:
            say(f"{self.path}: {text}")
        self._said = text

    def _plan_next(self, begun: float, stuck: bool) -> None:
        end = time.monotonic()
        took = end - begun
        more = not stuck and any(self.excess())
        self.due = end if more else end + min(LONGEST, max(self.period, DUTY * took))
        self.hurry = self.due if stuck else end + max(1.0, HURRY * took)
        self.problem = "; ".join(self._errors.values())
        self.counts.update(walk_seconds=took, last_walk_timestamp_seconds=time.time(), stuck=stuck)
        self.counts["walks_total"] += 1
        self._marks = [
            total - left + (max(0.0, high - got) / 2 if high else math.inf)
            for (total, left), high, got in zip(
                self._file_system(), (self.bytes, self.inodes), self._have()
            )
        ]

    def _fills(self) -> bool:
        """Whether so much was written to the file system that a limit may be passed by now."""
        return any(
            left * 100 < total * self.free or total - left > mark
            for (total, left), mark in zip(self._file_system(), self._marks)
        )

    def make_room(self) -> None:
        """Remove a few old files: on a full disk there is no room for a lease either."""
        now = time.time()
        old: list[tuple[float, str, str]] = []
        with contextlib.suppress(OSError), opened(self.path) as at:
            found = walk(Folder(at, self.path), lambda: None, lambda *_: None)
            files = (
                (_used(status, now), folder.path, name)
                for folder, name, status, _ in itertools.islice(found, 4096)
                if status is not None
                and self._evictable(name, size_of(status), _used(status, now), now)
            )
            old = heapq.nsmallest(0 if self.dry_run else 16, files)
        for _, path, name in old:
            with contextlib.suppress(OSError), opened(path) as at:
                os.remove(name, dir_fd=at)


def _used(status: os.stat_result, now: float) -> float:
    """When a file was last used; what says that it is of the future is the oldest."""
    when = used(status)
    return when if when < now + AHEAD else 0.0


def say(text: str) -> None:
    """To the log, also a name that is no text."""
    print(text.encode("utf-8", "backslashreplace").decode(), flush=True)

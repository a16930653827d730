"""One worker for a directory, over all nodes that mount it.

The holder counts in a numbered file, made by O_EXCL. Whoever sees the count stand still for the
time of a lease, by its own clock, makes the file of the next number; the one before stops when it
sees that. It needs nothing but an atomic O_EXCL, which NFS 3 and newer, CephFS and Lustre have.

Whoever may write to the directory may write there too: links, pipes, numbers that always grow. Only
regular files of twelve digits count, and a worker that has seen no steady number for ten leases
works without one: two that work at once remove the same files, and no worker fills the disk.

Rejected: locks by fcntl. They are local to a node, without a word, on NFS mounted `nolock` or
`local_lock` and on Lustre mounted `localflock`; a lost NFS server leaves them held by the dead.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterable, Iterator

from .files import OWN, is_lease, open_file, open_folder, opened

FREE = "free"
HOPELESS = 10  # leases without a steady number, with four steps each
LAST = 10**12 - 1
LENGTH = 128  # bytes of a lease


class Lease:
    """The right to work for one directory. `step` must be called four times a lease or more."""

    def __init__(self, directory: str, seconds: float) -> None:
        self.directory = directory
        self.seconds = seconds
        self.name = f"{socket.gethostname()}-{secrets.token_hex(4)}"
        self.number = 0
        self.problem = ""
        self.clock = 0.0  # the file system's clock less ours
        self._count = 0
        self._beat = -math.inf
        self._seen: tuple[int, str, float] = (0, "", 0.0)
        self._steady = (time.monotonic(), 0)  # when, and steps since
        self._since = (0, -math.inf)  # the largest number, and when it came
        self._lock = threading.Lock()
        self._over = False

    @property
    def held(self) -> bool:
        """Whether the directory is ours; not when we could not say so for half a lease."""
        own = self.number > 0 and time.monotonic() - self._beat < self.seconds / 2
        return own or self.hopeless

    @property
    def hopeless(self) -> bool:
        """Whether no worker can be elected."""
        when, steps = self._steady
        waited = time.monotonic() - when >= HOPELESS * self.seconds
        return not self._over and waited and steps >= 4 * HOPELESS

    def step(self) -> None:
        """Say that we live, or see whether the holder does. Raises OSError."""
        with self._lock:
            if self._over:
                return
            self._steady = (self._steady[0], self._steady[1] + 1)
            self._step()

    def _step(self) -> None:
        try:
            with self._folder() as folder:
                self._elect(folder)
        except FileNotFoundError:
            if not os.path.isdir(self.directory):  # nobody has written anything yet
                self.number, self._steady = 0, (time.monotonic(), 0)
                return
            raise

    @contextlib.contextmanager
    def _folder(self) -> Iterator[int]:
        """The descriptor of the folder of leases, made where there is none."""
        with opened(self.directory) as above:
            try:
                found = open_folder(OWN, above)
            except OSError as error:
                if error.errno == errno.ENOTDIR:
                    os.remove(OWN, dir_fd=above)  # a link, a file: it is no worker's
                elif error.errno != errno.ENOENT:
                    raise
                os.mkdir(OWN, 0o755, dir_fd=above)
                found = open_folder(OWN, above)
        try:
            yield found
        finally:
            os.close(found)

    def _elect(self, folder: int) -> None:
        top, next_free, others = self._numbers(folder)
        now = time.monotonic()
        if top != self._since[0]:
            self._since = (top, now)
        if self.number and top == self.number:
            self._write(folder, f"{self.name} {self._count}")
        else:
            self.number = 0
        if self.number or (top and now - self._since[1] >= self.seconds):
            self._steady = (now, 0)
        if self.number:
            _remove(folder, others)
            return
        said = self._read(folder, top) if top else FREE
        if self._seen[:2] != (top, said):
            self._seen = (top, said, now)
        if said == FREE or now - self._seen[2] >= self.seconds:
            self._take(folder, next_free, [top, *others] if top else others)

    def release(self) -> None:
        """Let the next one begin at once."""
        with self._lock:
            self._over = True
            if self.number:
                with contextlib.suppress(OSError), self._folder() as folder:
                    self._write(folder, FREE)
            self.number = 0

    def _numbers(self, folder: int) -> tuple[int, int, list[int]]:
        """(largest number of a file, smallest above all of anything, some of the other numbers)."""
        top = last = 0
        some: list[int] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if is_lease(entry.name):
                    number = int(entry.name)
                    last = max(last, number)
                    top = max(top, number if entry.is_file(follow_symlinks=False) else 0)
                    if len(some) < 1024:
                        some.append(number)
        return top, last + 1, [number for number in some if number != top]

    def _read(self, folder: int, number: int) -> str:
        """What a lease says; "" for one that cannot be read, which then stands still."""
        try:
            file = open_file(_name(number), folder, os.O_RDONLY)
        except OSError as error:
            if error.errno in (None, errno.ENOENT, errno.EACCES, errno.ELOOP, errno.ENXIO):
                return ""
            raise
        try:
            return os.pread(file, LENGTH, 0).partition(b"\n")[0].decode("ascii", "replace").strip()
        finally:
            os.close(file)

    def _take(self, folder: int, number: int, older: list[int]) -> None:
        with contextlib.suppress(FileExistsError):
            if number <= LAST:
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
                file = os.open(_name(number), flags, 0o644, dir_fd=folder)
                self.number = number
                self._put(file, f"{self.name} 0")
            _remove(folder, older)

    def _write(self, folder: int, text: str) -> None:
        """Only into the file that we made: another one of its name may be anybody's."""
        said = self._read(folder, self.number)
        try:
            if said and not said.startswith(self.name):
                raise FileNotFoundError
            file = open_file(_name(self.number), folder, os.O_WRONLY)
        except OSError as error:
            self.number = 0
            if not isinstance(error, FileNotFoundError) and error.errno != errno.ELOOP:
                raise
            return
        self._put(file, text)

    def _put(self, file: int, text: str) -> None:
        """In place and of one length: it must work where the disk is full. Closes the file."""
        try:
            os.pwrite(file, text.ljust(LENGTH - 1).encode()[: LENGTH - 1] + b"\n", 0)
            os.fsync(file)
            self.clock = os.fstat(file).st_mtime - time.time()
        finally:
            os.close(file)
        self._count += 1
        self._beat = time.monotonic()


def _remove(folder: int, numbers: Iterable[int]) -> None:
    """Remove these leases, and what is in place of one."""
    for number in numbers:
        for remove in (os.remove, os.rmdir):
            with contextlib.suppress(OSError):
                remove(_name(number), dir_fd=folder)


def _name(number: int) -> str:
    return f"{number:012}"

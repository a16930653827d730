"""One worker for a directory, over all nodes that mount it.

The holder counts in a numbered file, made by O_EXCL. Whoever sees the count stand still for the
time of a lease, by its own clock, makes the file of the next number; the one before stops when it
sees that. It needs nothing but an atomic O_EXCL, which NFS 3 and newer, CephFS and Lustre have.

Rejected: locks by fcntl. They are local to a node, without a word, on NFS mounted `nolock` or
`local_lock` and on Lustre mounted `localflock`; a lost NFS server leaves them held by the dead.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterable

from .files import OWN

FREE = "free"


class Lease:
    """The right to work for one directory. `step` must be called four times a lease or more."""

    def __init__(self, directory: str, seconds: float) -> None:
        self.directory = directory
        self.folder = os.path.join(directory, OWN)
        self.seconds = seconds
        self.name = f"{socket.gethostname()}-{secrets.token_hex(4)}"
        self.number = 0
        self.problem = ""
        self.clock = 0.0  # the file system's clock less ours
        self._count = 0
        self._beat = -math.inf
        self._seen: tuple[int, str, float] = (0, "", 0.0)
        self._lock = threading.Lock()
        self._over = False

    @property
    def held(self) -> bool:
        """Whether the directory is ours; not when we could not say so for half a lease."""
        return self.number > 0 and time.monotonic() - self._beat < self.seconds / 2

    def step(self) -> None:
        """Say that we live, or see whether the holder does. Raises OSError."""
        with self._lock:
            if not self._over:
                self._step()

    def _step(self) -> None:
        if not os.path.isdir(self.directory):
            self.number = 0
            return
        numbers = self._numbers()
        top = max(numbers, default=0)
        if self.number:
            if top == self.number:
                self._write(f"{self.name} {self._count}")
                return
            self.number = 0
        said = self._read(top) if top else FREE
        now = time.monotonic()
        if self._seen[:2] != (top, said):
            self._seen = (top, said, now)
        if said == FREE or now - self._seen[2] >= self.seconds:
            self._take(top + 1, numbers)

    def release(self) -> None:
        """Let the next one begin at once."""
        with self._lock:
            self._over = True
            if self.number:
                with contextlib.suppress(OSError):
                    self._write(FREE)
            self.number = 0

    def _numbers(self) -> list[int]:
        try:
            return [int(name) for name in os.listdir(self.folder) if name.isdigit()]
        except FileNotFoundError:
            return []

    def _path(self, number: int) -> str:
        return os.path.join(self.folder, f"{number:012}")

    def _read(self, number: int) -> str:
        try:
            with open(self._path(number), encoding="utf-8", errors="replace") as file:
                return file.readline().strip()
        except FileNotFoundError:
            return ""

    def _take(self, number: int, older: Iterable[int]) -> None:
        os.makedirs(self.folder, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self._path(number), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
            self.number = number
            self._write(f"{self.name} 0")
            for old in older:
                with contextlib.suppress(OSError):
                    os.remove(self._path(old))

    def _write(self, text: str) -> None:
        """In place and of one length: it must work where the disk is full."""
        try:
            file = os.open(self._path(self.number), os.O_WRONLY)
        except FileNotFoundError:
            self.number = 0
            return
        try:
            os.pwrite(file, text.ljust(127).encode()[:127] + b"\n", 0)
            os.fsync(file)
            self.clock = os.fstat(file).st_mtime - time.time()
        finally:
            os.close(file)
        self._count += 1
        self._beat = time.monotonic()

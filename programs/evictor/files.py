"""What is known of a cache's files: how large, last used when, whose. And how they are opened.

Whoever may write to the volume may exchange a file or a folder for a link, a pipe or another one at
any time. So each name is opened from its folder's descriptor, and no link is followed.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator

OWN = ".evictor"  # where workers elect one of them
KEPT = frozenset(("config.json",))  # vLLM's description of a directory, written once
SMALL = 65536  # bytes that such a description has at the most
_LEASE = re.compile("[0-9]{12}")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A folder above may forbid listing.
_ABOVE = _FOLDER | getattr(os, "O_PATH", 0)
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def open_folder(name: str, above: int) -> int:
    """The descriptor of a folder. Raises NotADirectoryError for a link."""
    return os.open(name, _FOLDER, dir_fd=above)


@contextlib.contextmanager
def opened(path: str) -> Iterator[int]:
    """The descriptor of an absolute path, none of whose parts may be a link. Raises OSError."""
    parts = [part for part in path.split("/") if part]
    at = os.open("/", _ABOVE if parts else _FOLDER)
    try:
        for number, part in enumerate(parts):
            flags = _FOLDER if number == len(parts) - 1 else _ABOVE
            try:
                below = os.open(part, flags, dir_fd=at)
            except NotADirectoryError as error:
                told = f"/{'/'.join(parts[: number + 1])} is a link or no directory"
                raise OSError(error.errno, told) from None
            os.close(at)
            at = below
        yield at
    finally:
        os.close(at)


def open_file(name: str, folder: int, flags: int) -> int:
    """The descriptor of a regular file with one name. Raises OSError for anything else."""
    found = os.open(name, flags | _FILE, dir_fd=folder)
    status = os.fstat(found)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(found)
        raise FileNotFoundError(f"{name} is no file of its own")
    return found


def is_lease(name: str) -> bool:
    """Whether workers give such a name to a lease."""
    return _LEASE.fullmatch(name) is not None


# File systems whose `relatime` is this node's own affair.
LOCAL = frozenset(("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "zfs"))


def temporary(name: str) -> bool:
    """Whether vLLM or LMCache give such a name to a file that is being written."""
    return name.endswith(".tmp") or name.startswith(".o_direct_probe")


def size_of(status: os.stat_result) -> int:
    """Bytes on the disk or in the file, whichever is more."""
    return max(status.st_size, getattr(status, "st_blocks", 0) * 512)


def used(status: os.stat_result) -> float:
    """When a file was last used. Without access times that is when it was written."""
    return max(status.st_atime, status.st_mtime)


def mount_of(path: str, table: str = "/proc/self/mountinfo") -> tuple[str, set[str]]:
    """The type and the options of the file system at `path`; ("", set()) where nobody says."""
    found: tuple[str, set[str]] = ("", set())
    best = -1
    try:
        with open(table, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                before, _, after = line.partition(" - ")
                fields = before.split(" ")
                at = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), fields[4])
                inside = path == at or path.startswith(at.rstrip("/") + "/")
                if inside and len(at) >= best:
                    best, found = len(at), (after.split(" ")[0], set(fields[5].split(",")))
    except (OSError, IndexError):
        pass
    return found

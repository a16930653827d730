"""What is known of a cache's files: how large, last used when, whose."""

from __future__ import annotations

import os
import re

OWN = ".evictor"  # where workers elect one of them
KEPT = frozenset(("config.json",))  # vLLM's description of a directory, written once

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

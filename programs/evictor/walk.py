"""Everything below a directory, one entry at a time: no list is ever as long as the cache."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator

from .files import OWN, is_lease, open_folder

LEASE = 4096  # bytes that a lease has at the most
DEEPEST = 64  # folders within each other: each costs two descriptors


class Folder:
    """An open folder: its descriptor, its path for messages, and its entries that are no empty
    folders."""

    def __init__(self, at: int, path: str) -> None:
        self.at, self.path, self.count = at, path, 0
        self.entries: Iterator[os.DirEntry[str]] = iter(())


def walk(
    top: Folder, go_on: Callable[[], None], failed: Callable[[str, str, OSError], None]
) -> Iterator[tuple[Folder, str, os.stat_result | None, int]]:
    """(folder, name, status, 0) of each file; (folder above, name, None, entries) of each directory
    after its own, less those entries that are directories and hold nothing either.

    A folder stays open until the directory itself was yielded; `top` is the caller's. `go_on` is
    called at each entry, and raises to stop. Errors are `failed`'s, which is also told of what
    vanishes meanwhile, and the walk goes on. Links are not followed, and leases are left out.
    """
    stack: list[Folder] = [top]
    names: list[str] = []
    _list(top, failed)
    try:
        while stack:
            folder = stack[-1]
            try:
                entry = next(folder.entries, None)
            except OSError as error:
                failed("list", folder.path, error)
                entry, folder.count = None, folder.count + 1
            if entry is None:
                if len(stack) > 1:
                    name = names[-1]
                    stack[-2].count -= 0 if folder.count else 1
                    if name != OWN or len(stack) > 2:
                        yield stack[-2], name, None, folder.count
                    os.close(folder.at)
                    names.pop()
                stack.pop()
                continue
            go_on()
            folder.count += 1
            try:
                if entry.is_dir(follow_symlinks=False):
                    below = _below(folder, entry.name, len(stack), failed)
                    if below is not None:
                        stack.append(below)
                        names.append(entry.name)
                elif entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    lease = names == [OWN] and is_lease(entry.name) and status.st_size <= LEASE
                    if not lease:
                        yield folder, entry.name, status, 0
            except OSError as error:
                failed("read", f"{folder.path}/{entry.name}", error)
    finally:
        for folder in stack[1:]:
            os.close(folder.at)


def _below(
    above: Folder, name: str, depth: int, failed: Callable[[str, str, OSError], None]
) -> Folder | None:
    path = f"{above.path}/{name}"
    try:
        if depth > DEEPEST:
            raise OSError(errno.ELOOP, f"deeper than {DEEPEST} folders")
        found = Folder(open_folder(name, above.at), path)
    except OSError as error:
        failed("list", path, error)
        return None
    _list(found, failed)
    return found


def _list(folder: Folder, failed: Callable[[str, str, OSError], None]) -> None:
    try:
        folder.entries = os.scandir(folder.at)
    except OSError as error:
        folder.count += 1  # it may hold something
        failed("list", folder.path, error)

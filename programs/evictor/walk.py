"""Everything below a directory, one entry at a time: no list is ever as long as the cache."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from .files import OWN


def walk(
    top: str, go_on: Callable[[], None], failed: Callable[[str, OSError], None]
) -> Iterator[tuple[str, os.stat_result | None, int]]:
    """(path, status, 0) of each file; (path, None, entries) of each directory after its own, less
    those entries that are directories and hold nothing either.

    `go_on` is called at each entry, and raises to stop. Errors are `failed`'s, which is also told
    of what vanishes meanwhile, and the walk goes on. Links are not followed.
    """
    stack: list[tuple[str, Iterator[os.DirEntry[str]], list[int]]] = []
    below = top
    while below or stack:
        if below:
            try:
                stack.append((below, os.scandir(below), [0]))
            except OSError as error:
                failed("list", error)
            below = ""
            continue
        path, entries, count = stack[-1]
        try:
            entry = next(entries, None)
        except OSError as error:
            failed("list", error)
            entry, count[0] = None, count[0] + 1
        if entry is None:
            stack.pop()
            if stack:
                stack[-1][2][0] -= 0 if count[0] else 1
                yield path, None, count[0]
            continue
        go_on()
        if entry.name == OWN and len(stack) == 1:
            continue
        count[0] += 1
        try:
            if entry.is_dir(follow_symlinks=False):
                below = entry.path
            elif entry.is_file(follow_symlinks=False):
                yield entry.path, entry.stat(follow_symlinks=False), 0
        except OSError as error:
            failed("read", error)

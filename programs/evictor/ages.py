"""The least recently used of a million files, in constant memory."""

from __future__ import annotations

import math

BUCKETS = 4096


class Ages:
    """How many bytes and files were last used when, in at most BUCKETS intervals of one width."""

    def __init__(self) -> None:
        self.width = 1.0
        self.buckets: dict[int, tuple[int, int]] = {}
        self.newest = -math.inf

    def add(self, when: float, size: int) -> None:
        """One file."""
        self.newest = max(self.newest, when)
        self._put(int(when // self.width), size, 1)
        while len(self.buckets) > BUCKETS:
            self.width *= 2
            before, self.buckets = self.buckets, {}
            for key, (bytes_, files) in before.items():
                self._put(key // 2, bytes_, files)

    def _put(self, key: int, size: int, files: int) -> None:
        had = self.buckets.get(key, (0, 0))
        self.buckets[key] = (had[0] + size, had[1] + files)

    def plan(self, size: int, files: int) -> Plan:
        """What must go so that `size` bytes and `files` files are freed, oldest first.

        Where all of them are too few, also of what has grown old since they were counted, but no
        more of it than is wanted.
        """
        for key in sorted(self.buckets):
            bytes_, count = self.buckets[key]
            if size <= bytes_ and files <= count:
                return Plan(key * self.width, (key + 1) * self.width, size, files)
            size, files = size - bytes_, files - count
        # Not the interval's end: it may be wide, and hold files that were too young to be counted.
        return Plan(math.nextafter(self.newest, math.inf), math.inf, size, files)


class Plan:
    """All that was last used before `before`, and of what was until `until` so much."""

    def __init__(self, before: float, until: float, size: int, files: int) -> None:
        self.before, self.until, self.size, self.files = before, until, size, files

    def dooms(self, when: float, size: int) -> bool:
        """Whether a file goes that was last used at `when`."""
        if when < self.before:
            return True
        if when >= self.until or (self.size <= 0 and self.files <= 0):
            return False
        self.size, self.files = self.size - size, self.files - 1
        return True

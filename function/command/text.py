"""Text that was decoded from another text, with the way back.

A script stands inside an argv item (where Kubernetes expands `$(VAR)`), or inside a quoted word of
another script. `Text` keeps, for every run of decoded bytes, the bytes of the outer text that made
it and the quoting they stand in, so that an edit of the inner text becomes one of the outer text.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

# The quoting that a byte stands in: an argv item, '...', "...", or no quotes.
LITERAL, SINGLE, DOUBLE, BARE = "literal", "single", "double", "bare"


@dataclass(frozen=True, slots=True)
class Opaque:
    """Bytes `start:end` stand for a text that is not known. `inert`: only plain characters."""

    start: int
    end: int
    name: str
    inert: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """Decoded bytes `start:end`, made by bytes `first:last` of the outer text, in quoting `mode`.

    `fixed`: they are the value of a variable that the outer bytes name.
    """

    start: int
    end: int
    first: int
    last: int
    mode: str
    fixed: bool = False

    @property
    def direct(self) -> bool:
        """Whether the bytes are the outer ones, one by one."""
        return not self.fixed and self.end - self.start == self.last - self.first


@dataclass(frozen=True, slots=True)
class Source:
    """Bytes `start:end` of the outer text, where an edit goes, and the quoting there."""

    start: int
    end: int
    mode: str


@dataclass(frozen=True)
class Text:
    """Decoded bytes and where they come from.

    `runs`: their sources; `opaque`: what of them is not known; both in order.
    """

    data: bytes
    runs: tuple[Run, ...] = ()
    opaque: tuple[Opaque, ...] = ()

    @cached_property
    def _starts(self) -> list[int]:
        return [run.start for run in self.runs]

    @cached_property
    def _opaque_ends(self) -> list[int]:
        return [part.end for part in self.opaque]

    def decode(self) -> str:
        return self.data.decode("utf-8", "replace")

    def hidden_in(self, start: int, end: int) -> Opaque | None:
        """Return the first opaque part that touches `start:end`."""
        return next(self.all_hidden_in(start, end), None)

    def all_hidden_in(self, start: int, end: int) -> Iterator[Opaque]:
        for at in range(bisect_right(self._opaque_ends, start), len(self.opaque)):
            if self.opaque[at].start >= end:
                return
            yield self.opaque[at]

    def source(self, start: int, end: int) -> Source | None:
        """Where an edit of `start:end` goes in the outer text, and the mode there.

        `start == end` is an insertion after the byte before. None where the place is not the outer
        text's own (inside a variable's value), or not one piece of it.
        """
        return self._insertion(start) if start == end else self._range(start, end)

    def _insertion(self, at: int) -> Source | None:
        if at == 0:
            return None
        run = self.runs[bisect_right(self._starts, at - 1) - 1]
        if run.direct:
            behind = run.first + at - run.start
        elif at < run.end:
            return None
        else:
            behind = run.last
        return Source(behind, behind, run.mode)

    def _range(self, start: int, end: int) -> Source | None:
        at = bisect_right(self._starts, start) - 1
        head = run = self.runs[at]
        if run.fixed:
            return None
        first = run.first + start - run.start if run.direct else run.first
        while run.end < end:
            at, before = at + 1, run
            run = self.runs[at]
            if run.fixed or (run.mode, run.first) != (head.mode, before.last):
                return None
        last = run.first + end - run.start if run.direct else run.last
        return Source(first, last, head.mode)

    def made_by(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the range of decoded bytes whose source begins in `start:end` outside."""
        at = max(bisect_left(self.runs, start, key=lambda run: run.first) - 1, 0)
        found: tuple[int, int] | None = None
        while at < len(self.runs) and self.runs[at].first < end:
            run = self.runs[at]
            at += 1
            low, high = run.start, run.end
            if run.direct:
                low, high = max(start, run.first), min(end, run.last)
                low, high = run.start + low - run.first, run.start + high - run.first
            elif run.first < start:
                continue
            if low < high:
                found = (found[0] if found else low, high)
        return found


class Sink(Protocol):
    """What decoded bytes are given to, in order. `raw`: the outer text."""

    raw: bytes

    def unit(self, data: bytes, start: int, end: int, mode: str) -> None: ...


class TextBuilder:
    """Builds a Text run by run, in order."""

    def __init__(self, raw: str | bytes) -> None:
        self.raw = raw.encode() if isinstance(raw, str) else raw
        self._data = bytearray()
        self._runs: list[Run] = []
        self._opaque: list[Opaque] = []

    def __len__(self) -> int:
        return len(self._data)

    def unit(self, data: bytes, start: int, end: int, mode: str) -> None:
        """Return `data` made by `raw[start:end]`: byte by byte where the lengths agree."""
        self._add(data, start, end, mode, False)

    def fixed(self, data: bytes, start: int, end: int, mode: str) -> None:
        """Return `data` as the value of a variable that `raw[start:end]` names."""
        self._add(data, start, end, mode, True)

    def opaque(self, name: str, start: int, end: int, mode: str, inert: bool = False) -> None:
        """`raw[start:end]` gives a text that is not known."""
        at = len(self)
        self.fixed(b"${" + name.encode() + b"}", start, end, mode)
        self._opaque.append(Opaque(at, len(self), name, inert))

    def _add(self, data: bytes, first: int, last: int, mode: str, fixed: bool) -> None:
        if not data:
            return
        start = len(self._data)
        self._data += data
        run = Run(start, len(self._data), first, last, mode, fixed)
        if self._runs and run.direct:
            before = self._runs[-1]
            if before.direct and (before.last, before.mode) == (first, mode):
                self._runs.pop()
                run = Run(before.start, run.end, before.first, last, mode)
        self._runs.append(run)

    def build(self) -> Text:
        return Text(bytes(self._data), tuple(self._runs), tuple(self._opaque))

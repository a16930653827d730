"""Text that was decoded from another text, with the way back.

A script stands inside an argv item (where Kubernetes expands `$(VAR)`), or inside a quoted word of
another script. `Text` keeps, for every decoded byte, the bytes of the outer text that made it and
the quoting they stand in, so that an edit of the inner text becomes an edit of the outer one.
"""

from dataclasses import dataclass

# The quoting that a byte stands in: an argv item, '...', "...", or no quotes.
LITERAL, SINGLE, DOUBLE, BARE = "literal", "single", "double", "bare"


@dataclass(frozen=True)
class Opaque:
    """Bytes `start:end` stand for a text that is not known. `inert`: only plain characters."""

    start: int
    end: int
    name: str
    inert: bool = False


@dataclass(frozen=True)
class Text:
    """`data`: the decoded bytes. Per byte: its source's start and end, mode, and whether it came
    from a variable (fixed). `opaque`: what is not known."""

    data: bytes
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    modes: tuple[str, ...]
    is_fixed: tuple[bool, ...]
    opaque: tuple[Opaque, ...] = ()

    def decode(self) -> str:
        return self.data.decode("utf-8", "replace")

    def hidden_in(self, start: int, end: int) -> Opaque | None:
        """The first opaque part that touches `start:end`."""
        return next((o for o in self.opaque if o.start < end and o.end > start), None)

    def source_range(self, start: int, end: int) -> tuple[int, int, str] | None:
        """Where an edit of `start:end` goes in the outer text, and the mode there.

        `start == end` is an insertion after the byte before. None where the place is not the outer
        text's own (inside a variable's value), or not one piece of it.
        """
        if start == end:
            if start == 0:
                return None
            at, mode = self.ends[start - 1], self.modes[start - 1]
            if start < len(self.data) and self.starts[start] < at:
                return None
            return at, at, mode
        if any(self.is_fixed[start:end]) or len(set(self.modes[start:end])) != 1:
            return None
        pairs = zip(self.ends[start : end - 1], self.starts[start + 1 : end], strict=True)
        if any(a != b for a, b in pairs):
            return None
        return self.starts[start], self.ends[end - 1], self.modes[start]


class TextBuilder:
    """Builds a Text unit by unit, in order."""

    def __init__(self, raw: str | bytes) -> None:
        self.raw = raw.encode() if isinstance(raw, str) else raw
        self._data = bytearray()
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._modes: list[str] = []
        self._fixed: list[bool] = []
        self._opaque: list[Opaque] = []

    def __len__(self) -> int:
        return len(self._data)

    def unit(self, data: bytes, start: int, end: int, mode: str) -> None:
        """`data` made by `raw[start:end]`: byte by byte where the lengths agree."""
        if len(data) == end - start:
            self._add(data, range(start, end), range(start + 1, end + 1), mode, False)
        else:
            self._add(data, [start] * len(data), [end] * len(data), mode, False)

    def fixed(self, data: bytes, start: int, end: int, mode: str) -> None:
        """`data` is the value of a variable that `raw[start:end]` names."""
        self._add(data, [start] * len(data), [end] * len(data), mode, True)

    def opaque(self, name: str, start: int, end: int, mode: str, inert: bool = False) -> None:
        """`raw[start:end]` gives a text that is not known."""
        at = len(self)
        self.fixed(b"${" + name.encode() + b"}", start, end, mode)
        self._opaque.append(Opaque(at, len(self), name, inert))

    def _add(self, data: bytes, starts, ends, mode: str, fixed: bool) -> None:
        self._data += data
        self._starts += starts
        self._ends += ends
        self._modes += [mode] * len(data)
        self._fixed += [fixed] * len(data)

    def build(self) -> Text:
        return Text(
            bytes(self._data),
            tuple(self._starts),
            tuple(self._ends),
            tuple(self._modes),
            tuple(self._fixed),
            tuple(self._opaque),
        )

"""Quoting: words for a shell, edits for the quotes they land in, and unquoting of literals."""

import re

from function.command.text import BARE, DOUBLE, SINGLE, Sink

_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:@%+,")
_KEYWORDS = "if then elif else fi for in do done while until case esac time"
_RESERVED = frozenset(_KEYWORDS.split())
_IN_DOUBLE = b'\\"$`'
# Characters that a shell acts on in a word outside of quotes.
GLOB = frozenset(b"*?[")
_ESCAPED = re.compile(rb"\\.?", re.DOTALL)


def word(value: str) -> bytes:
    """`value` as one word of a script: as it is where no shell minds, else in single quotes."""
    data = value.encode()
    plain = data and _SAFE.issuperset(data) and value not in _RESERVED
    return data if plain else single(data)


def single(data: bytes) -> bytes:
    return b"'" + data.replace(b"'", b"'\\''") + b"'"


def encode(data: bytes, mode: str) -> bytes:
    """Return `data` quoted for a place of quoting `mode`."""
    if mode == SINGLE:
        return data.replace(b"'", b"'\\''")
    if mode == DOUBLE:
        return b"".join(b"\\" + bytes((c,)) if c in _IN_DOUBLE else bytes((c,)) for c in data)
    if mode == BARE:
        return single(data)
    raise ValueError(mode)


def unquote_bare(out: Sink, start: int, end: int) -> None:
    """Decode raw[start:end], a word outside of quotes."""
    _unescape(out, start, end, BARE, None)


def _unescape(out: Sink, start: int, end: int, mode: str, escaped: bytes | None) -> None:
    """Decode backslashes; before anything, or before the `escaped` characters only."""
    at = start
    while at < end:
        slash = out.raw.find(b"\\", at, end - 1)
        stop = end if slash < 0 else slash
        out.unit(out.raw[at:stop], at, stop, mode)
        if slash < 0:
            return
        following = out.raw[slash + 1 : slash + 2]
        if escaped is not None and following not in escaped:
            out.unit(out.raw[slash : slash + 1], slash, slash + 1, mode)
            at = slash + 1
            continue
        if following != b"\n":
            out.unit(following, slash, slash + 2, mode)
        at = slash + 2


def unquote_single(out: Sink, start: int, end: int) -> None:
    """Decode raw[start:end], the inside of single quotes."""
    out.unit(out.raw[start:end], start, end, SINGLE)


def unquote_double(out: Sink, start: int, end: int) -> None:
    """Decode raw[start:end], literal text inside double quotes."""
    _unescape(out, start, end, DOUBLE, b'\\"$`\n')


def bare_specials(raw: bytes) -> bool:
    """Whether a word outside of quotes is more than its letters: a glob, a tilde."""
    return raw[:1] == b"~" or not GLOB.isdisjoint(_ESCAPED.sub(b"", raw))

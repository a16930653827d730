"""Quoting: words for a shell, edits for the quotes they land in, and unquoting of literals."""

from function.wiring.command.text import BARE, DOUBLE, LITERAL, SINGLE, TextBuilder

_SAFE = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:@%+,")
_KEYWORDS = "if then elif else fi for in do done while until case esac time"
_RESERVED = frozenset(_KEYWORDS.split())
_IN_DOUBLE = b'\\"$`'
# Characters that a shell acts on in a word outside of quotes.
GLOB = frozenset(b"*?[")


def word(value: str) -> bytes:
    """`value` as one word of a script: as it is where no shell minds, else in single quotes."""
    data = value.encode()
    plain = data and _SAFE.issuperset(data) and value not in _RESERVED
    return data if plain else single(data)


def single(data: bytes) -> bytes:
    return b"'" + data.replace(b"'", b"'\\''") + b"'"


def encode(data: bytes, mode: str) -> bytes:
    """`data` written into a place of quoting `mode`, so that it is decoded to itself."""
    if mode == SINGLE:
        return data.replace(b"'", b"'\\''")
    if mode == DOUBLE:
        return b"".join(b"\\" + bytes((c,)) if c in _IN_DOUBLE else bytes((c,)) for c in data)
    if mode == BARE:
        return single(data)
    raise ValueError(mode)


def unquote_bare(out: TextBuilder, start: int, end: int) -> None:
    """Decodes raw[start:end], a word outside of quotes."""
    at = start
    while at < end:
        if out.raw[at : at + 1] == b"\\" and at + 1 < end:
            if out.raw[at + 1 : at + 2] != b"\n":
                out.unit(out.raw[at + 1 : at + 2], at, at + 2, BARE)
            at += 2
        else:
            out.unit(out.raw[at : at + 1], at, at + 1, BARE)
            at += 1


def unquote_single(out: TextBuilder, start: int, end: int) -> None:
    """Decodes raw[start:end], the inside of single quotes."""
    out.unit(out.raw[start:end], start, end, SINGLE)


def unquote_double(out: TextBuilder, start: int, end: int) -> None:
    """Decodes raw[start:end], literal text inside double quotes."""
    at = start
    while at < end:
        following = out.raw[at + 1 : at + 2]
        if out.raw[at : at + 1] == b"\\" and at + 1 < end and following in b'\\"$`\n':
            if following != b"\n":
                out.unit(following, at, at + 2, DOUBLE)
            at += 2
        else:
            out.unit(out.raw[at : at + 1], at, at + 1, DOUBLE)
            at += 1


def bare_specials(raw: bytes) -> bool:
    """Whether a word outside of quotes is more than its letters: a glob, a tilde, braces."""
    at = 0
    seen = bytearray()
    while at < len(raw):
        if raw[at : at + 1] == b"\\":
            at += 2
            continue
        seen.append(raw[at])
        at += 1
    return bool(GLOB.intersection(seen)) or raw[:1] == b"~"


__all__ = ["BARE", "DOUBLE", "LITERAL", "SINGLE", "encode", "single", "word"]

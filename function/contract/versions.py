"""Versions of engines: the releases, which of them are supported, and reading one from a text."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from function.facts import Table


@dataclass(frozen=True)
class Release:
    """One release. `holds`: versions of each package in the engine's own image for CUDA."""

    version: str
    holds: Mapping[str, tuple[str, ...]]
    source: str


@dataclass(frozen=True)
class SupportedLines:
    """Which lines of releases are supported: from `oldest` to that of the newest release.

    `numbers`: how many numbers of a version name its line: 2 of 0.33.0. `undeclared`: the oldest
    line of an image whose version nobody declares.
    """

    oldest: str
    undeclared: str
    numbers: int
    source: str


@cache
def releases(engine: str) -> Table[Release]:
    """Return the releases of an engine, oldest first, the unsupported ones included."""
    return Table(Release, engine.lower(), "releases")


@cache
def _support(engine: str) -> SupportedLines:
    (row,) = Table(SupportedLines, engine.lower(), "support")
    return row


@cache
def known_versions(engine: str) -> tuple[str, ...]:
    """Return the first release of every supported line."""
    return _since(engine, _support(engine).oldest)


@cache
def undeclared_versions(engine: str) -> tuple[str, ...]:
    """Return what an engine may be whose version nobody declares: a recent one."""
    return _since(engine, _support(engine).undeclared)


def _since(engine: str, oldest: str) -> tuple[str, ...]:
    first = {line(engine, r.version): r.version for r in reversed(releases(engine))}
    return tuple(v for v in reversed(first.values()) if Version(v) >= Version(oldest))


def line(engine: str, version: str) -> str:
    """Return the line of releases that a version belongs to: "0.33" of vLLM 0.33.1."""
    return ".".join(str(n) for n in Version(version).release[: _support(engine).numbers])


@lru_cache(maxsize=1024)  # `newest` is a text of users'
def ceiling(engine: str, newest: str = "") -> str:
    """Return the line behind the newest release: "0.34" behind vLLM 0.33.0.

    `newest`: a version that somebody accepts although no row names it, "" for none.
    """
    numbers = _support(engine).numbers
    ours, theirs = Version(releases(engine)[-1].version), parse(newest)
    *rest, last = (*max(ours, theirs or ours).release, 0, 0)[:numbers]
    return ".".join(map(str, (*rest, last + 1)))


def supported_range(engine: str, since: str = "", until: str = "", newest: str = "") -> str:
    """Return supported versions as a PEP 440 range; `newest` as in `ceiling`."""
    return f">={since or _support(engine).oldest},<{until or ceiling(engine, newest)}"


def parse(version: str | None) -> Version | None:
    """Return a PEP 440 version, `v` in front allowed; None for none and for what is no version.

    Python reads no number of more than 4,300 digits; it raises a ValueError of its own.
    """
    try:
        return Version(version) if version else None
    except ValueError:
        return None


def within(version: Version, spec: str) -> bool:
    """Return whether a version is in a PEP 440 range.

    A nightly or a vendor's build of a version (0.33.1rc1, 0.33.0+cu129) counts as that version.
    """
    return _range(spec).contains(version, prereleases=True)


_range = lru_cache(SpecifierSet)  # at most 128: a few rows are asked for again and again


def within_any(versions: Iterable[str], spec: str) -> bool:
    """Return whether one of the versions is in the range."""
    return any(within(Version(version), spec) for version in versions)


def in_words(*ranges: str) -> str:
    """Return PEP 440 ranges for people: "0.22 to 0.33.x" for ">=0.22,<0.28" and ">=0.28,<0.34"."""
    merged: list[str] = []
    for each in ranges:
        least, _, below = each.partition(",")
        before, _, end = merged[-1].partition(",") if merged else ("", "", "")
        if end.startswith("<") and least == f">={end[1:]}":
            merged[-1] = ",".join(filter(None, (before, below)))
        else:
            merged.append(each)
    return " or ".join(map(_in_words, merged))


def _in_words(spec: str) -> str:
    if spec.startswith("<"):
        return f"older than {spec[1:]}"
    least, _, below = spec.partition(",")
    least = least.lstrip("=>").replace("*", "x")
    *rest, last = (int(n) for n in below.lstrip("<").split(".")) if below else (0,)
    if not below or last == 0:
        return least + (" or newer" if spec.startswith(">") and not below else "")
    most = ".".join(map(str, (*rest, last - 1)))
    return f"{least} to {most}{'.x' if len(rest) < 2 else ''}"

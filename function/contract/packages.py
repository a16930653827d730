"""What is known of a package in an engine's image, and how it is known."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from packaging.specifiers import SpecifierSet
from packaging.version import Version

# How a fact is known. Stated: an upstream file pins it, or somebody looked inside and published
# what is there. Derived: what the image's requirements resolve to, by upload dates, at its build.
STATED = "stated"
DERIVED = "derived"
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Fact:
    """One package of one image.

    `versions`: every version that it may be, oldest first; () says that the package is not there,
    None that nobody knows. `note`: what else holds of the build, a clause for people. `declared`:
    somebody says it of this very image, and `source` names the place.
    """

    versions: tuple[str, ...] | None
    known: str
    source: str
    note: str = ""
    declared: bool = False

    def within(self, specifier: str) -> bool | None:
        """Return whether the package fits.

        True if every version that it may be does, False if none does or it is not there, None if
        it is unknown.
        """
        if self.versions is None:
            return None
        spec = SpecifierSet(specifier)
        fits = [spec.contains(Version(v), prereleases=True) for v in self.versions]
        if not any(fits):
            return False
        return True if all(fits) else None

    def __str__(self) -> str:
        if self.versions is None:
            return "unknown"
        return " or ".join(self.versions) or "none"


def stated(source: str, *versions: str, note: str = "") -> Fact:
    return Fact(versions, STATED, source, note)


def derived(source: str, *versions: str, note: str = "") -> Fact:
    return Fact(versions, DERIVED, source, note)


def absent(source: str) -> Fact:
    return Fact((), STATED, source)


def unknown(source: str) -> Fact:
    return Fact(None, UNKNOWN, source)


def either(facts: Iterable[Fact | None]) -> Fact:
    """Return the fact for several images: every version that one of them may hold.

    Unknown in one is unknown of all.
    """
    there = list(dict.fromkeys(facts))
    first = there[0] if there else None
    if first is None or None in there:
        return unknown("no row in docs/images.md")
    if len(there) == 1:
        return first
    known = [fact.versions for fact in there if fact is not None]
    if None in known:
        return unknown("no row in docs/images.md for one of its images")
    each = {version for versions in known for version in versions or ()}
    if not all(known):
        return unknown("one of its images does not hold it")
    return replace(first, versions=tuple(sorted(each, key=Version)), source="its several images")

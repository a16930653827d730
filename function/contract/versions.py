"""Versions of engines: which are supported, and reading one from a text."""

from collections.abc import Iterable

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from function.api.engines import SGLANG, VLLM

# Every supported version.
KNOWN: dict[str, tuple[str, ...]] = {
    VLLM: tuple(f"0.{minor}.0" for minor in range(20, 34)),
    SGLANG: tuple(f"0.5.{patch}" for patch in range(5, 24)),
}

# The same as PEP 440 ranges.
SUPPORTED = {VLLM: ">=0.20,<0.34", SGLANG: ">=0.5.5,<0.5.24"}

# What an engine may be whose version nobody says: an image without one in its tag is a recent one.
UNDECLARED = {VLLM: KNOWN[VLLM], SGLANG: tuple(f"0.5.{patch}" for patch in range(15, 24))}


def parse(version: str | None) -> Version | None:
    """A PEP 440 version, `v` in front allowed; None for none and for what is no version.

    Python reads no number of more than 4,300 digits, and says so by a ValueError of its own.
    """
    try:
        return Version(version) if version else None
    except ValueError:
        return None


def within(version: Version, spec: str) -> bool:
    """Whether a version is of a PEP 440 range.

    A nightly or a vendor's build of a version (0.33.1rc1, 0.33.0+cu129) counts as that version.
    """
    return SpecifierSet(spec).contains(version, prereleases=True)


def within_any(versions: Iterable[str], spec: str) -> bool:
    """Whether one of the versions is of the range."""
    return any(within(Version(version), spec) for version in versions)

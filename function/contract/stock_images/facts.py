"""What is known of an image: a fact per package, and how it is known."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from packaging.specifiers import SpecifierSet
from packaging.version import Version

# How a fact is known. Stated: an upstream file pins it, or somebody looked inside and published
# what is there. Derived: what the image's requirements resolve to, by upload dates, at its build.
STATED = "stated"
DERIVED = "derived"
UNKNOWN = "unknown"

PACKAGES = ("lmcache", "mooncake", "nixl", "torch", "cuda")


@dataclass(frozen=True)
class Fact:
    """One package of one image.

    `versions`: every version that it may be, oldest first; () says that the package is not there,
    None that nobody knows. `note`: what else holds of the build, a clause for people.
    """

    versions: tuple[str, ...] | None
    known: str
    source: str
    note: str = ""

    def within(self, specifier: str) -> bool | None:
        """Whether the package fits: True if every version that it may be does, False if none does
        (or it is not there), None if nobody can tell."""
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


@dataclass(frozen=True)
class Contents:
    """What an image holds. `engine`: vLLM or SGLang. `version`: of the engine, None where the tag
    does not tell; `version_known` and `version_source` say how it is known.

    `packages`: facts by the names of `PACKAGES`; a name that is missing is unknown. `accelerator`:
    cuda, rocm, xpu, cpu, hpu, neuron, npu, tpu, "" where the image does not tell. `moving`: the
    tag names another image tomorrow, so nothing is said of it.
    """

    engine: str
    version: str | None = None
    version_known: str = UNKNOWN
    version_source: str = ""
    packages: Mapping[str, Fact] = field(default_factory=dict)
    accelerator: str = ""
    moving: bool = False

    def package(self, name: str) -> Fact:
        """The fact of a package, whether or not the table has one."""
        return self.packages.get(name) or unknown("no table says what this image holds")

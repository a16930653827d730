"""What the engines' own release images hold: function/facts/vllm.yaml, sglang.yaml."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from packaging.version import Version

from function.contract.accelerators.kinds import CUDA
from function.contract.packages import UNKNOWN as NOT_KNOWN
from function.contract.packages import Fact, absent, stated, unknown
from function.contract.versions import Release, releases
from function.facts import Table

OTHER, NONE = "other", "none"


@dataclass(frozen=True)
class Evidence:
    """How a package of an engine's own images is known; the first row that fits an image counts.

    `on`: the accelerator of the image, `other` for all but CUDA. `since`, `until` (exclusive): of
    the engine. `cuda`: how the image's CUDA begins. `versions`: in place of those that the release
    holds; `none`: the package is not there. `<on>` in `source` stands for the accelerator.
    """

    package: str
    known: str
    source: str
    on: str = CUDA
    since: str = ""
    until: str = ""
    cuda: str = ""
    versions: tuple[str, ...] = ()
    note: str = ""

    def fits(self, version: Version, accelerator: str, cuda: str) -> bool:
        """Return whether the row is about an image of this release, accelerator and CUDA."""
        return (
            self.on in (accelerator, OTHER if accelerator != CUDA else CUDA)
            and (not self.since or version >= Version(self.since))
            and (not self.until or version < Version(self.until))
            and cuda.startswith(self.cuda)
        )

    def fact(self, release: Release, accelerator: str) -> Fact:
        """Return the fact for an image of that release."""
        source = self.source.replace("<on>", accelerator)
        if self.known == NOT_KNOWN:
            return unknown(source)
        if self.versions == (NONE,):
            return absent(source)
        versions = self.versions or release.holds[self.package]
        return Fact(versions, self.known, source, self.note)


@cache
def _evidence(engine: str) -> Table[Evidence]:
    return Table(Evidence, engine.lower(), "evidence")


def packages(engine: str, version: str, accelerator: str, cuda: str = "") -> Mapping[str, Fact]:
    """Return the packages of an engine's own image; none for a release without a row.

    `cuda`: the CUDA that the tag names ("12.9"), "" for the release's default.
    """
    known = version in _by_version(engine)  # no other text of a user's is remembered
    return _packages(engine, version, accelerator, cuda) if known else {}


@cache
def _by_version(engine: str) -> Mapping[str, Release]:
    return {row.version: row for row in reversed(releases(engine))}


@lru_cache(maxsize=256)
def _packages(engine: str, version: str, accelerator: str, cuda: str) -> Mapping[str, Fact]:
    release = _by_version(engine)[version]
    found: dict[str, Fact] = {}
    if cuda and accelerator == CUDA:
        found["cuda"] = stated("the image's tag", cuda)
    rows = _evidence(engine)
    for row in (*(r for r in rows if r.package == "cuda"), *rows):
        held = found.get("cuda")
        has = held.versions[0] if held and held.versions else ""
        if row.package not in found and row.fits(Version(version), accelerator, has):
            found[row.package] = row.fact(release, accelerator)
    return found

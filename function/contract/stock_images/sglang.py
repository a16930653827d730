"""What SGLang's own release images hold.

Mooncake is pinned by `MOONCAKE_VERSION` of `docker/Dockerfile`; the Dockerfiles of the tags were
not at hand, so the pins stand between the upstream changes that name them: where two pins are
possible at a release, both are in the row. nixl is installed without a version: the newest on the
day, three days before the release's upload to two days after. LMCache is not in the image. torch
is what the release's wheel requires. CUDA 12 images end with v0.5.19-cu129 (SGLang's install page);
which CUDA a tag without a suffix has between 0.5.14 and 0.5.18 is not known.
"""

from dataclasses import dataclass

from function.contract.packages import Fact, absent, derived, stated, unknown

_PINS = "SGLang's pull requests that move MOONCAKE_VERSION (12541, 15886, 32302, 36493), by date"
_STATED = {
    "0.5.16": "llm-d's helpers/mooncake-master-store-sglang: 0.3.11.post1 in v0.5.16",
    "0.5.18": "SGLang PR 36493 of 2026-08-26 replaces 0.3.12.post1",
    "0.5.19": "llm-d's helpers/mooncake-master-store-sglang: 0.3.13 in v0.5.19",
}
_NO_LMCACHE = "SGLang's docker/Dockerfile installs no lmcache; lmcache/sglang adds it"


@dataclass(frozen=True)
class Release:
    version: str
    torch: str
    mooncake: tuple[str, ...]
    nixl: tuple[str, ...]


_37 = ("0.3.7.post1", "0.3.7.post2")
_39 = ("0.3.9", "0.3.10", "0.3.10.post1")
_311 = ("0.3.10.post2", "0.3.11", "0.3.11.post1")
_313 = ("0.3.13", "0.3.13.post1")

RELEASES: tuple[Release, ...] = (
    Release("0.5.5", "2.8.0", _37, ("0.7.0", "0.7.1")),
    Release("0.5.5.post1", "2.8.0", _37, ("0.7.1",)),
    Release("0.5.5.post2", "2.8.0", _37, ("0.7.1",)),
    Release("0.5.5.post3", "2.8.0", _37, ("0.7.1",)),
    Release("0.5.6", "2.9.1", _37, ("0.8.0",)),
    Release("0.5.6.post1", "2.9.1", _37, ("0.8.0",)),
    Release("0.5.6.post2", "2.9.1", _37, ("0.8.0",)),
    Release("0.5.7", "2.9.1", ("0.3.7.post2", "0.3.8"), ("0.8.0",)),
    Release("0.5.8", "2.9.1", ("0.3.8", "0.3.8.post1"), ("0.8.0", "0.9.0")),
    Release("0.5.8.post1", "2.9.1", ("0.3.8", "0.3.8.post1", "0.3.9"), ("0.9.0",)),
    Release("0.5.9", "2.9.1", ("0.3.8.post1", "0.3.9"), ("0.10.0",)),
    Release("0.5.10", "2.9.1", _39, ("1.0.0",)),
    Release("0.5.10.post1", "2.9.1", _39, ("1.0.0",)),
    Release("0.5.11", "2.11.0", (*_39, "0.3.10.post2"), ("1.0.1",)),
    Release("0.5.12", "2.11.0", (*_39, "0.3.10.post2"), ("1.1.0",)),
    Release("0.5.12.post1", "2.11.0", (*_39, *_311), ("1.1.0",)),
    Release("0.5.13", "2.11.0", _311, ("1.2.0",)),
    Release("0.5.13.post1", "2.11.0", _311, ("1.2.0", "1.3.0")),
    Release("0.5.14", "2.11.0", _311, ("1.3.0",)),
    Release("0.5.15", "2.11.0", _311, ("1.3.0", "1.3.1")),
    Release("0.5.15.post1", "2.11.0", _311, ("1.3.1",)),
    Release("0.5.16", "2.11.0", ("0.3.11.post1",), ("1.3.1", "1.3.2")),
    Release("0.5.17", "2.11.0", ("0.3.11.post1", "0.3.12", "0.3.12.post1"), ("1.3.2",)),
    Release("0.5.18", "2.13.0", ("0.3.12.post1",), ("1.4.0",)),
    Release("0.5.19", "2.13.0", ("0.3.13",), ("1.4.0", "1.4.1")),
    Release("0.5.20", "2.13.0", _313, ("1.4.1",)),
    Release("0.5.21", "2.13.0", _313, ("1.4.1", "1.5.0")),
    Release("0.5.22", "2.14.1", _313, ("1.5.0",)),
    Release("0.5.23", "2.14.1", _313, ("1.5.0", "1.5.1")),
)
_BY_VERSION = {row.version: row for row in RELEASES}
# The CUDA of a tag without a suffix.
_CUDA12_DEFAULT = {row.version for row in RELEASES[: [r.version for r in RELEASES].index("0.5.14")]}
_CUDA13_ONLY = ("0.5.20", "0.5.21", "0.5.22", "0.5.23")


def cuda_images(version: str, cuda: str) -> dict[str, Fact] | None:
    """The packages of `lmsysorg/sglang` of a release; None for one that is not in the table."""
    row = _BY_VERSION.get(version)
    if row is None:
        return None
    pin = _STATED.get(version)
    return {
        "lmcache": absent(_NO_LMCACHE),
        "mooncake": stated(pin, *row.mooncake) if pin else derived(_PINS, *row.mooncake),
        "nixl": derived("nixl without a version in SGLang's docker/Dockerfile", *row.nixl),
        "torch": stated("the requirement of that release's wheel", row.torch),
        "cuda": _cuda(version, cuda),
    }


def _cuda(version: str, cuda: str) -> Fact:
    if cuda:
        return stated("the image's tag", cuda)
    if version in _CUDA13_ONLY:
        return stated("SGLang's install page: CUDA 12 images end with v0.5.19", "13.0")
    if version in _CUDA12_DEFAULT:
        return derived("CUDA 13 images of that time carry -cu130", "12.9")
    return unknown("the tag names no CUDA, and the default changed about then")


def other_images(version: str, accelerator: str) -> dict[str, Fact] | None:
    """The packages of the images for other accelerators: that they hold no LMCache, and no more."""
    if version not in _BY_VERSION:
        return None
    return {
        "lmcache": absent(f"SGLang's docker/{accelerator}.Dockerfile installs no lmcache"),
        "cuda": absent("no CUDA image"),
    }

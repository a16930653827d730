"""Images whose tags are releases of their publisher's own: LMCache's, llm-d's, Ray's, NVIDIA's.

function/facts/images.yaml says which engine each release holds. Here is what differs by publisher.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from function.contract.accelerators.kinds import CUDA
from function.contract.packages import Fact, absent, derived, stated, unknown
from function.contract.stock_images import own
from function.contract.stock_images.facts import Contents
from function.contract.stock_images.repositories import Repository
from function.contract.stock_images.tags import Tag
from function.contract.versions import parse
from function.facts import Table


@dataclass(frozen=True)
class Build:
    """The `version` of the engine in a `release` of a repository, or of a publisher's all.

    `release`: whole, or its first two numbers. In place of it `before`: every older release without
    a row, or `dated`: images by a date; their engine is no newer than `version`.

    `engine`: of the images meant, "" for all of the repository.
    """

    repository: str
    version: str
    known: str
    source: str
    release: str = ""
    before: str = ""
    dated: bool = False
    engine: str = ""
    torch: str = ""
    cuda: str = ""
    nixl: str = ""

    @property
    def is_bound(self) -> bool:
        """Return whether the engine may be older than `version`."""
        return bool(self.before or self.dated)


BUILDS = Table(Build, "images", "builds")

_TAG = "the image's tag is LMCache's version"
_UNLISTED = "NVIDIA's release notes do not name it"
_RAY_LOCK = "docker/ray-llm/Dockerfile installs Ray's lock file alone, which has no lmcache"
_LLMD_LMCACHE = (
    "llm-d builds vLLM itself; lmcache was missing from images of January 2026 (llm-d 661)"
)


def contents(row: Repository, tag: Tag) -> Contents:
    """Return what an image holds whose tag is a release."""
    build = _build(row.path, tag.release)
    match row.path.partition("/")[0]:
        case "lmcache":
            return _lmcache(row, tag, build)
        case "llm-d":
            return _llmd(row, tag, build)
        case "nvidia":
            return _nvidia(row, build)
        case "rayproject":
            return _ray(row, tag, build)
    return _contents(row, build, {})


def dated(row: Repository) -> Contents | None:
    """Return what an image holds whose tag is a date; None where no row says it."""
    build = next((b for b in BUILDS if b.dated and b.repository == row.path), None)
    return _contents(row, build, {}) if build else None


def names(repository: str) -> tuple[str, ...]:
    """Return the releases of a repository that have a row, oldest first."""
    return tuple(row.release for row in BUILDS if row.repository == repository and row.release)


def _build(path: str, release: str) -> Build | None:
    rows = [row for row in BUILDS if row.repository in (path, path.partition("/")[0])]
    short = ".".join(release.split(".")[:2])
    for row in rows:
        if row.release == release or (row.release == short and row.release.count(".") == 1):
            return row
    found = parse(release)
    older = (row for row in rows if found and row.before and found < (parse(row.before) or found))
    return next(older, None)


def _contents(row: Repository, build: Build | None, packages: Mapping[str, Fact]) -> Contents:
    if build is None:
        return Contents(row.engine, packages=packages, accelerator=row.accelerator)
    return Contents(
        row.engine,
        build.version,
        build.known,
        build.source,
        packages,
        row.accelerator,
        at_most=build.is_bound,
    )


def _lmcache(row: Repository, tag: Tag, build: Build | None) -> Contents:
    note = f"LMCache's build for CUDA {tag.cuda}" if tag.cuda and row.variants else ""
    lmcache = {"lmcache": stated(_TAG, tag.version or "", note=note)}
    if build is not None and build.before:
        return _contents(row, build, lmcache)
    if build is None or tag.variant - row.variants:
        return _contents(row, None, lmcache)
    stock = own.packages(row.engine, build.version, CUDA, tag.cuda if row.variants else "")
    if build.torch:
        packages = {
            "torch": stated(build.source, build.torch),
            "cuda": stock["cuda"],
            "mooncake": derived(
                f"as in lmsysorg/sglang:v{build.version}", *(stock["mooncake"].versions or ())
            ),
        }
    else:
        newest = "docker/Dockerfile of LMCache: vLLM at its newest on the day"
        packages = {
            "torch": stock["torch"],
            "cuda": stated("the image's tag" if tag.cuda else newest, tag.cuda or "13.0"),
            "mooncake": absent("docker/Dockerfile of LMCache installs no Mooncake"),
            "nixl": unknown("nixl at its newest on the day"),
        }
    packages["python"] = stated("docker/Dockerfile of LMCache: PYTHON_VERSION", "3.12")
    if tag.variant:  # the engine's own image with LMCache on top
        packages |= {name: stock[name] for name in ("mooncake", "nixl")}
    return _contents(row, build, {**lmcache, **packages})


def _llmd(row: Repository, tag: Tag, build: Build | None) -> Contents:
    """Return the engine where llm-d names it; its rocm and hpu images are of their own commits."""
    if build is None or row.engine != build.engine:
        return _contents(row, None, {})
    if build.before:
        return _contents(row, build, {})
    if row.accelerator in ("rocm", "hpu"):
        return _contents(row, None, {})
    packages: dict[str, Fact] = {"lmcache": unknown(_LLMD_LMCACHE)}
    if row.path == "llm-d/llm-d-cuda" and tag.release.startswith("0.8"):
        packages["cuda"] = stated(build.source, "13.0")
    if row.path == "llm-d/llm-d-xpu" and tag.release == "0.9.0":  # vllm-openai-xpu as it is
        packages |= own.packages(row.engine, build.version, "xpu")
    return _contents(row, build, packages)


def _nvidia(row: Repository, build: Build | None) -> Contents:
    packages: dict[str, Fact] = {name: unknown(_UNLISTED) for name in ("lmcache", "mooncake")}
    if build is not None and build.torch:
        packages["torch"] = stated("NVIDIA's vLLM release notes", build.torch)
    if build is not None and build.cuda:
        packages["cuda"] = stated("NVIDIA's vLLM release notes", build.cuda)
    return _contents(row, build, packages)


def _ray(row: Repository, tag: Tag, build: Build | None) -> Contents:
    """Return what Ray's lock file pins; the tag names Python and CUDA."""
    if build is None or build.before or tag.variant - {f"py{tag.python.replace('.', '')}"}:
        return _contents(row, build, {})
    packages = {"lmcache": derived(_RAY_LOCK)}
    if build.nixl:
        packages["nixl"] = derived(build.source, build.nixl)
    if torch := own.packages(row.engine, build.version, CUDA).get("torch"):
        packages["torch"] = derived(f"vLLM {build.version} pins it", *(torch.versions or ()))
    if tag.cuda:
        packages["cuda"] = stated("the image's tag", tag.cuda)
    if tag.python:
        packages["python"] = stated("the image's tag", tag.python)
    return _contents(row, build, packages)

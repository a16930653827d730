"""What is inside a public engine image: the engine, its version, and the packages beside it.

The one home of facts about images: `find` says what a repository starts, `contents` what an image
of it holds. docs/images.md is generated from these tables. What no row covers is unknown, and what
is unknown can be declared: annotation `modelplane.ai/kv-offload-packages`, the step Input's
`engineImages`, and `kv-offload probe`, which reads it inside the image.
"""

from collections.abc import Mapping

from function.api.engines import VLLM
from function.contract.accelerators.kinds import CUDA
from function.contract.image_reference import ImageReference
from function.contract.packages import DERIVED, PACKAGES, STATED, UNKNOWN, Fact
from function.contract.stock_images import builds, sglang, vllm
from function.contract.stock_images.facts import Contents
from function.contract.stock_images.repositories import (
    INSIDE,
    RELEASE,
    VERSION,
    Repository,
    find,
)
from function.contract.stock_images.tags import Tag, cuda, read

__all__ = [
    "DERIVED",
    "PACKAGES",
    "STATED",
    "TAG",
    "UNKNOWN",
    "Contents",
    "Fact",
    "Repository",
    "contents",
    "find",
]

# Where the engines' projects publish, and what mirrors keep of it. Under another name an image may
# hold anything beside the engine.
_OWN = (
    "vllm/vllm-openai",
    "vllm/vllm-openai-rocm",
    "vllm/vllm-openai-xpu",
    "vllm/vllm-openai-cpu",
    "lmsysorg/sglang",
)
# How the version of the engine is known that the tag itself is, or holds.
TAG = "the image's tag"


def contents(image: str, declared: str = "") -> Contents | None:
    """What a public image holds; None for a repository that the table does not know.

    `declared`: the engine's version, where somebody says it; it stands for a tag that says none
    (`latest`, a digest), with the CUDA that it may name ("0.33.0+cu129").
    """
    reference = ImageReference.parse(image)
    row = find(reference)
    if row is None:
        return None
    tag = read(reference.tag, whole_version=row.tags == VERSION)
    accelerator = tag.accelerator or row.accelerator
    moving = tag.moves and not reference.digest
    if row.path == "lmcache/vllm-openai" and tag.dated:
        return builds.lmcache_dated()
    if row.tags == RELEASE and tag.release:
        return _of_release(row, tag)
    version = tag.inside or (tag.version if row.tags == VERSION else None)
    if row.tags not in (VERSION, INSIDE) or version is None:
        version, _, local = declared.partition("+")
        packages: Mapping[str, Fact] = {}
        if row.tags == VERSION and version and any(map(reference.ends_with, _OWN)):
            packages = _packages(row, version, cuda(local), accelerator)
        return Contents(row.engine, packages=packages, accelerator=accelerator, moving=moving)
    packages = {}
    if not tag.variant and any(map(reference.ends_with, _OWN)):
        packages = _packages(row, version, tag.cuda, accelerator)
    return Contents(row.engine, version, STATED, TAG, packages, accelerator)


def _packages(
    row: Repository, version: str, cuda_version: str, accelerator: str
) -> Mapping[str, Fact]:
    own = vllm if row.engine == VLLM else sglang
    if accelerator == CUDA:
        return own.cuda_images(version, cuda_version) or {}
    return own.other_images(version, accelerator) or {}


def _of_release(row: Repository, tag: Tag) -> Contents:
    """An image whose tag is a release of its publisher."""
    version = tag.version or ""
    match row.path.partition("/")[0]:
        case "lmcache":
            of = builds.lmcache_vllm if row.engine == VLLM else builds.lmcache_sglang
            return of(version, tag.cuda, tag.variant)
        case "llm-d":
            return builds.llmd(row.path, row.accelerator, row.engine, version)
        case "rayproject":
            return builds.ray(tag.release)
        case "nvidia":
            return builds.nvidia(tag.release)
    return builds.redhat(tag.release, row.accelerator)

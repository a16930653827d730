"""What is inside a public engine image: the engine, its version, and the packages beside it.

`find` returns what a repository starts, `contents` what an image of it holds. The rows are in
function/facts. What no row covers is unknown, and can be declared: by the annotation
`modelplane.ai/kv-offload-packages` or `engineImages` of the step's Input. `kv-offload probe` reads
it inside the image.
"""

from collections.abc import Mapping
from functools import lru_cache

from function.contract.image_reference import ImageReference
from function.contract.packages import STATED, Fact
from function.contract.stock_images import builds, own
from function.contract.stock_images.facts import Contents
from function.contract.stock_images.repositories import INSIDE, RELEASE, VERSION, find
from function.contract.stock_images.tags import cuda, read

# How an engine's version is known that the tag itself is, or holds.
TAG = "the image's tag"


def contents(image: str, declared: str = "") -> Contents | None:
    """Return what a public image holds; None for a repository without a row.

    `declared`: the engine's version, where somebody declares it. It replaces a tag that names none
    (`latest`, a digest), with the CUDA that it may name ("0.33.0+cu129"). What short references
    hold is remembered.
    """
    judge = _contents if len(image) + len(declared) <= 512 else _contents.__wrapped__
    return judge(image, declared)


@lru_cache(256)
def _contents(image: str, declared: str) -> Contents | None:
    reference = ImageReference.parse(image)
    row = find(reference)
    if row is None:
        return None
    tag = read(reference.tag, whole_version=row.tags == VERSION)
    accelerator = tag.accelerator or row.accelerator
    moving = tag.moves and not reference.digest
    if tag.dated and (dated := builds.dated(row)):
        return dated
    if row.tags == RELEASE and tag.release:
        return builds.contents(row, tag)
    is_own = bool(row.home) and reference.ends_with(row.home)
    version = tag.inside or (tag.version if row.tags == VERSION else None)
    if row.tags not in (VERSION, INSIDE) or version is None:
        version, _, local = declared.partition("+")
        packages: Mapping[str, Fact] = {}
        if row.tags == VERSION and version and is_own:
            packages = own.packages(row.engine, version, accelerator, cuda(local))
        return Contents(row.engine, packages=packages, accelerator=accelerator, moving=moving)
    packages = {}
    if not tag.variant and is_own:
        packages = own.packages(row.engine, version, accelerator, tag.cuda)
    return Contents(row.engine, version, STATED, TAG, packages, accelerator)

"""The repositories of public engine images: what they start, and how their tags are read.

The rows are in function/facts/images.yaml, keyed by the end of the path, which mirrors keep.
"""

from dataclasses import dataclass
from functools import cache

from function.contract.accelerators.kinds import CUDA
from function.contract.image_reference import ImageReference
from function.facts import Table

# How a tag tells the engine's version: it is it (`v0.33.0`, `0.17.0-xpu`), it holds it somewhere
# (`rocm6.2_..._vllm_0.6.4`), a release of the image's own stands for it, or it says nothing.
VERSION = "version"
INSIDE = "inside"
RELEASE = "release"
NOTHING = "nothing"


@dataclass(frozen=True)
class Repository:
    """A repository of images of an engine, by the end of its path.

    `entrypoint`: its ENTRYPOINT; () runs the container's arguments as a command line. `home`: where
    the engine's project publishes it: under another path it may hold anything beside the engine.
    `suggested`: whether messages name it as a way out. `ray`: it holds Ray, and messages name it to
    pods that need Ray.

    `variants`: words of a tag under which what is inside is known. `examples`: for docs/images.md,
    with `<release>` or `<supported>` in them.
    """

    path: str
    engine: str
    source: str
    entrypoint: tuple[str, ...] = ()
    tags: str = NOTHING
    accelerator: str = ""
    home: str = ""
    suggested: bool = False
    ray: bool = False
    variants: frozenset[str] = frozenset()
    examples: tuple[str, ...] = ()


REPOSITORIES = Table(Repository, "images", "repositories")


def find(reference: ImageReference) -> Repository | None:
    """Return the row of an image: by its last two path elements, else by its last."""
    elements = reference.path.split("/")
    by_path = _by_path()
    return by_path.get("/".join(elements[-2:])) or by_path.get(elements[-1])


def own(engine: str) -> Repository | None:
    """Return the repository of an engine's own images for CUDA; None where no row names it."""
    rows = (row for row in REPOSITORIES if row.home and row.engine == engine)
    return next((row for row in rows if row.accelerator == CUDA), None)


@cache
def _by_path() -> dict[str, Repository]:
    return {row.path: row for row in REPOSITORIES}

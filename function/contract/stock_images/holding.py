"""Which public images hold what a connector needs: the way out in a message."""

from collections.abc import Iterator
from functools import cache
from itertools import groupby

from function.contract.stock_images import builds, contents
from function.contract.stock_images.repositories import REPOSITORIES
from function.contract.versions import releases


@cache
def holding(engine: str, package: str, specifier: str) -> tuple[str, ...]:
    """Return the series of public CUDA images that surely hold a package of that range.

    E.g. "vllm/vllm-openai:v0.32.0 to v0.33.0"; () where none does.
    """
    return tuple(
        _series(repository, [tag for tag, fits in rows if fits])
        for repository, of_it in groupby(_images(engine), lambda image: image[0])
        for fits, run in groupby(
            [(tag, _fits(f"{repository}:{tag}", package, specifier)) for _, tag in of_it],
            lambda row: row[1],
        )
        if fits and (rows := list(run))
    )


def _fits(image: str, package: str, specifier: str) -> bool:
    held = contents(image)
    return held is not None and held.package(package).within(specifier) is True


def _series(repository: str, tags: list[str]) -> str:
    last = f" to {tags[-1]}" if len(tags) > 1 else ""
    return f"{repository}:{tags[0]}{last}"


def _images(engine: str) -> Iterator[tuple[str, str]]:
    """Yield (repository, tag) of CUDA images, the releases of each repository in order."""
    for row in REPOSITORIES:
        if row.suggested and row.engine == engine:
            own = (release.version for release in releases(engine))
            tags = own if row.home else builds.names(row.path)
            yield from ((row.home or row.path, f"v{tag}") for tag in tags)

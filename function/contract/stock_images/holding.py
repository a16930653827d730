"""Which public images hold what a connector needs: the way out in a message."""

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import groupby

from packaging.version import Version

from function.contract.image_reference import ImageReference
from function.contract.stock_images import builds, contents
from function.contract.stock_images.facts import Contents
from function.contract.stock_images.repositories import REPOSITORIES, Repository, find
from function.contract.versions import parse, releases


@cache
def holding(
    engine: str,
    package: str,
    specifier: str,
    *,
    needs_ray: bool = False,
    without: frozenset[str] = frozenset(),
) -> tuple[str, ...]:
    """Return the series of public CUDA images that surely hold a package of that range.

    E.g. "vllm/vllm-openai:v0.32.0 to v0.33.0"; () where none does. `needs_ray`: and that hold Ray.
    `without`: releases of the engine that are not served.
    """
    rows, refused = _suggested(engine, needs_ray), frozenset(map(Version, without))

    def fits(held: Contents) -> bool:
        version = None if held.at_most else parse(held.version)
        is_served = version not in refused if version else not refused
        return is_served and held.package(package).within(specifier) is True

    return _all_series(rows, fits)


def with_version(
    image: str, engine: str, takes: Callable[[Version], bool], *, needs_ray: bool
) -> tuple[str, ...]:
    """Return the series of public CUDA images whose engine has a version that is taken.

    They are of the image's own repository, and all that hold Ray where that is needed. () where the
    tags are the engine's versions, which need no look-up.
    """
    own = find(ImageReference.parse(image))
    if own is not None and own.home:
        return ()

    def fits(held: Contents) -> bool:
        version = None if held.at_most else parse(held.version)
        return version is not None and takes(version)

    rows = (row for row in _suggested(engine, needs_ray) if row.ray or row is own)
    return _all_series(rows, fits)


def _suggested(engine: str, needs_ray: bool) -> list[Repository]:
    rows = (row for row in REPOSITORIES if row.suggested and row.ray is needs_ray)
    return [row for row in rows if row.engine == engine]


def _all_series(rows: Iterable[Repository], fits: Callable[[Contents], bool]) -> tuple[str, ...]:
    """Return the unbroken series of images that fit, by repository."""
    return tuple(
        _series(row.home or row.path, list(run))
        for row in rows
        for takes, run in groupby(_tags(row), partial(_fits, row, fits))
        if takes
    )


def _fits(row: Repository, fits: Callable[[Contents], bool], tag: str) -> bool:
    held = contents(f"{row.home or row.path}:{tag}")
    return held is not None and fits(held)


def _series(repository: str, tags: list[str]) -> str:
    last = f" to {tags[-1]}" if len(tags) > 1 else ""
    return f"{repository}:{tags[0]}{last}"


def _tags(row: Repository) -> Iterator[str]:
    """Yield the tags of a repository's releases for CUDA, in order.

    Those of `examples` where these are written out: a release alone is no tag there.
    """
    if row.home:
        yield from (f"v{release.version}" for release in releases(row.engine))
    elif any("<release>" in example for example in row.examples):
        yield from (f"v{release}" for release in builds.names(row.path))
    else:
        yield from (example.rpartition(":")[2] for example in row.examples)

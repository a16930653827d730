"""Packages in an engine's image whose versions count: of each backend, and those all share."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, create_model

from function import facts
from function.api import fields as f
from function.api.base import ApiModel


@dataclass(frozen=True)
class Package:
    """Something in an engine's image whose version counts.

    `says`: what it is, with an example of a version. `distributions`: what brings it, by their
    names on PyPI. `said`: whether image names and a variable NAME_VERSION tell its version.
    `arm64_since`: the first release with wheels for arm64, "" for any.
    """

    name: str
    says: str
    source: str
    distributions: tuple[str, ...] = ()
    said: bool = False
    arm64_since: str = ""


_SECTION = "packages"
_FILES = (
    *sorted(facts.FOLDER.parent.glob("backends/*/facts.yaml")),
    facts.FOLDER / "packages.yaml",
)


def _rows() -> Iterator[Package]:
    for path in _FILES:
        if _SECTION in facts.document(path).sections:
            yield from facts.Table(Package, path, _SECTION)


PACKAGES: Mapping[str, Package] = {row.name: row for row in _rows()}
# A distribution's name on PyPI -> the package that it brings.
BROUGHT: Mapping[str, str] = {d: row.name for row in PACKAGES.values() for d in row.distributions}

PackageVersion = Annotated[str, f.text(f.PACKAGE_VERSION, most=32)]

if TYPE_CHECKING:
    ImagePackages = ApiModel
else:
    ImagePackages = create_model(
        "ImagePackages",
        __base__=ApiModel,
        __doc__="Versions of packages in an engine's image; `none` means not installed.",
        **{
            row.name: (PackageVersion | None, Field(default=None, description=row.says))
            for row in PACKAGES.values()
        },
    )

"""What somebody declares an image to hold: `lmcache=0.5.6,mooncake=0.3.13`, `lmcache=none`."""

from collections.abc import Mapping
from dataclasses import replace

from packaging.version import InvalidVersion, Version

from function.contract.stock_images.facts import PACKAGES, STATED, Contents, Fact

SOURCE = "declared"
_NONE = "none"
# The distributions behind a name: people write what `pip list` prints.
_DISTRIBUTIONS = {
    "mooncake-transfer-engine": "mooncake",
    "mooncake-transfer-engine-cuda13": "mooncake",
    "mooncake-transfer-engine-non-cuda": "mooncake",
    "nixl-cu12": "nixl",
    "nixl-cu13": "nixl",
}
_MOST = 16


def parse(text: str) -> Mapping[str, Fact]:
    """The facts by package, of `PACKAGES`. Raises ValueError that says what is wrong and how to
    write it."""
    found: dict[str, Fact] = {}
    entries = [entry.strip() for entry in text.split(",")]
    if len(entries) > _MOST:
        raise ValueError(f"{len(entries)} packages; at most {_MOST}")
    for entry in filter(None, entries):
        name, equals, version = (part.strip() for part in entry.partition("="))
        version = version.removeprefix("=").strip()
        key = _DISTRIBUTIONS.get(name.lower().replace("_", "-"), name.lower())
        if not equals or key not in PACKAGES:
            raise ValueError(
                f"{entry!r} is not NAME=VERSION with a name of {', '.join(PACKAGES)}, such as "
                "lmcache=0.5.6"
            )
        fact = Fact(() if version.lower() == _NONE else (_version(entry, version),), STATED, SOURCE)
        if found.setdefault(key, fact) != fact:
            raise ValueError(f"{key} is given twice, and differs")
    if not found:
        raise ValueError(f"no package in {text!r}; write, for example, lmcache=0.5.6,mooncake=none")
    return found


def _version(entry: str, version: str) -> str:
    try:
        return str(Version(version))
    except InvalidVersion:
        raise ValueError(
            f"{entry!r}: {version!r} is not a version, such as 0.5.6, and not {_NONE}"
        ) from None


def with_declared(contents: Contents, packages: Mapping[str, Fact]) -> Contents:
    """The same image, where what is declared stands in the place of what the table says."""
    return replace(contents, packages={**contents.packages, **packages})


def written(packages: Mapping[str, Fact]) -> str:
    """The inverse of `parse`, for facts with one version or none."""
    return ",".join(f"{name}={fact}" for name, fact in packages.items())

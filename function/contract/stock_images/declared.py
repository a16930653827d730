"""What somebody declares an image to hold: `lmcache=0.5.6,mooncake=0.3.13`, `lmcache=none`."""

from collections.abc import Mapping

from packaging.version import Version

from function.api.packages import BROUGHT, PACKAGES
from function.contract.packages import STATED, Fact
from function.contract.versions import parse as parsed

_NONE = "none"
_MOST = 16


def parse(text: str, source: str) -> Mapping[str, Fact]:
    """Return the facts by package, of `PACKAGES`; `source`: where they are declared.

    Raise ValueError with what is wrong and how to write it.
    """
    found: dict[str, Fact] = {}
    entries = [entry.strip() for entry in text.split(",")]
    if len(entries) > _MOST:
        raise ValueError(f"{len(entries)} packages; at most {_MOST}")
    for entry in filter(None, entries):
        name, equals, version = (part.strip() for part in entry.partition("="))
        version = version.removeprefix("=").strip()
        # People write what `pip list` prints.
        key = BROUGHT.get(name.lower().replace("_", "-"), name.lower())
        if not equals or key not in PACKAGES:
            raise ValueError(
                f"{entry!r} is not NAME=VERSION with a name of {', '.join(PACKAGES)}, such as "
                "lmcache=0.5.6"
            )
        fact = _fact(version if version.lower() == _NONE else _version(entry, version), source)
        if found.setdefault(key, fact) != fact:
            raise ValueError(f"{key} is given twice, and differs")
    if not found:
        raise ValueError(f"no package in {text!r}; write, for example, lmcache=0.5.6,mooncake=none")
    return found


def of_fields(versions: Mapping[str, str | None], source: str) -> Mapping[str, Fact]:
    """Return the facts of fields that are versions or `none`; None is left out."""
    return {name: _fact(version, source) for name, version in versions.items() if version}


def _fact(version: str, source: str) -> Fact:
    versions = () if version.lower() == _NONE else (str(Version(version)),)
    return Fact(versions, STATED, source, declared=True)


def _version(entry: str, version: str) -> str:
    found = parsed(version)
    if found is None:
        raise ValueError(f"{entry!r}: {version!r} is not a version, such as 0.5.6, and not {_NONE}")
    return str(found)


def written(packages: Mapping[str, Fact]) -> str:
    """Invert `parse`, for facts with one version or none."""
    return ",".join(f"{name}={fact}" for name, fact in packages.items())

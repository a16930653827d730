"""The version gate: whether a connector goes with an engine, and what it has there.

`check()` answers from the table in `table.py`; what the table does not cover is refused.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from function.contract.engine import Engine
from function.contract.gate.table import KNOWN, TABLE, Caution, Row
from function.problems import Refused

__all__ = ["Verdict", "check", "cuda_major", "parse"]

DECLARE = 'declare it by the annotation modelplane.ai/kv-offload-engine-version, e.g. "{example}"'
_CUDA = re.compile(r"(?:^|[+._-])cu(\d{2})\d\b")


@dataclass(frozen=True)
class Verdict:
    """`allowed` is always True: what is not allowed is raised. `warnings`: sentences for people.

    `features`: names of `table.Feature` that this engine and backend have; where a version is not
    known, those that every supported version has.
    """

    allowed: bool
    warnings: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()


def check(connector: str, engine: Engine, backend_version: str | None = None) -> Verdict:
    """What `connector` (see `table.Row`) has on `engine`.

    `backend_version`: the version of the tier's own package (`Row.package`), None when unknown.
    Raises Refused: EngineUnsupported where no version of the engine has the connector, or this one
    has it not; VersionMismatch where the versions exclude each other, or the answer needs a version
    that nobody declared.
    """
    rows = [r for r in TABLE if r.connector == connector and r.engine == engine.name]
    if not rows:
        raise Refused("EngineUnsupported", f"{connector} does not exist for {engine.name}")
    version = parse(engine.version)
    package = parse(backend_version)
    matching = [r for r in rows if version is None or _in(version, r.versions)]
    if version is None:
        _needs_no_version(connector, engine, matching)
    elif not matching:
        raise _unsupported(connector, engine, rows)
    matching = _by_package(connector, engine, matching, package, version)
    cuda = cuda_major(engine)
    warnings = _cautions(matching, engine, version, package, cuda)
    return Verdict(True, warnings, _features(matching, version, package))


def parse(version: str | None) -> Version | None:
    """A PEP 440 version, `v` in front allowed; None for none and for what is no version."""
    try:
        return Version(version) if version else None
    except InvalidVersion:
        return None


def cuda_major(engine: Engine) -> int | None:
    """The CUDA major that the engine's version or image tag names (`+cu129`, `-cu130`)."""
    for text in (engine.version or "", engine.image.rpartition("/")[2].partition(":")[2]):
        if found := _CUDA.search(text):
            return int(found[1])
    return None


def _needs_no_version(connector: str, engine: Engine, rows: Sequence[Row]) -> None:
    """An unknown version will do only where every supported version has the connector."""
    missing = [v for v in KNOWN[engine.name] if not any(_in(Version(v), r.versions) for r in rows)]
    if missing:
        ranges = " or ".join(r.versions for r in rows)
        given = f"{engine.version!r} is no version" if engine.version else "is not known"
        raise Refused(
            "VersionMismatch",
            f"{connector} needs {engine.name} {ranges}, and this engine's version {given}; "
            f"{DECLARE.format(example=KNOWN[engine.name][-1])}",
        )


def _unsupported(connector: str, engine: Engine, rows: Sequence[Row]) -> Refused:
    ranges = " or ".join(row.versions for row in rows)
    source = f" ({engine.version_source})" if engine.version_source else ""
    return Refused(
        "EngineUnsupported",
        f"{connector} needs {engine.name} {ranges}, this engine is {engine.version}{source}; use "
        "another engine version or another tier (docs/versions.md)",
    )


def _by_package(
    connector: str,
    engine: Engine,
    rows: Sequence[Row],
    package: Version | None,
    version: Version | None,
) -> list[Row]:
    """The rows that the tier's own version fits; with an unknown engine all of them must fit."""
    if package is None:
        return list(rows)
    fitting = [r for r in rows if not r.package_versions or _in(package, r.package_versions)]
    if not fitting or (version is None and len(fitting) < len(rows)):
        wrong = next(r for r in rows if r not in fitting)
        advice = "" if version else f"; or {DECLARE.format(example=KNOWN[engine.name][-1])}"
        raise Refused(
            "VersionMismatch",
            f"{connector} on {engine.name} {wrong.versions} needs {wrong.package} "
            f"{wrong.package_versions}, the tier runs {package}{advice}",
        )
    return fitting


def _cautions(
    rows: Sequence[Row],
    engine: Engine,
    version: Version | None,
    package: Version | None,
    cuda: int | None,
) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for caution in (c for row in rows for c in row.cautions):
        if not _applies(caution, engine, version, package, cuda):
            continue
        if caution.refuse:
            raise Refused("VersionMismatch", caution.message)
        found[caution.message] = None
    return tuple(found)


def _applies(
    caution: Caution,
    engine: Engine,
    version: Version | None,
    package: Version | None,
    cuda: int | None,
) -> bool:
    repository = engine.image.partition("@")[0]
    head, colon, tag = repository.rpartition(":")
    if colon and "/" not in tag:
        repository = head
    return (
        _known_in(version, caution.engine)
        and _known_in(package, caution.backend)
        and caution.cuda in (0, cuda)
        and f"/{repository}".endswith(f"/{caution.repository}" if caution.repository else "")
    )


def _features(
    rows: Sequence[Row], version: Version | None, package: Version | None
) -> frozenset[str]:
    per_row = [
        {
            f.name
            for f in row.features
            if _has(f.engine, version, _supported(row)) and _known_in(package, f.backend)
        }
        for row in rows
    ]
    return frozenset(set.intersection(*per_row)) if per_row else frozenset()


def _supported(row: Row) -> list[Version]:
    return [v for v in map(Version, KNOWN[row.engine]) if _in(v, row.versions)]


def _has(spec: str, version: Version | None, supported: Sequence[Version]) -> bool:
    if version is not None:
        return _in(version, spec)
    return all(_in(each, spec) for each in supported)


def _known_in(version: Version | None, spec: str) -> bool:
    return not spec or (version is not None and _in(version, spec))


def _in(version: Version, spec: str) -> bool:
    # A nightly or a vendor's build of a version (0.33.1rc1, 0.33.0+cu129) counts as that version.
    return SpecifierSet(spec).contains(version, prereleases=True)

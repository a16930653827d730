"""The ledger of known faults: facts/advisories.yaml, and which of them an engine falls under."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

from packaging.version import Version

from function.contract.engine import Engine
from function.contract.models import classify
from function.contract.models.support import FamilyRow, Support
from function.contract.versions import parse, undeclared_versions, within, within_any
from function.facts import Table
from function.reasons import Reason

TIER = "tier"


class Effect(Enum):
    WRONG_OUTPUT = "wrong output"
    SILENT_MISS = "silent miss"
    CRASH = "crash"
    HANG = "hang"
    LEAK = "leak"


class KnownBy(Enum):
    RAN = "ran"  # seen by this project's own runs
    READ = "read"  # read in the release
    REPORTED = "reported"  # by others, upstream


class Treatment(Enum):
    REFUSE = "refuse"
    CAUTION = "caution"
    SETTING = "setting"  # wired with a setting that avoids it
    ELSEWHERE = "elsewhere"  # refused by another rule than the gate's
    NONE = "none"  # not visible to the function


@dataclass(frozen=True)
class Affected:
    """Versions of one package. `versions`: a PEP 440 range, "" for all.

    `package`: the engine's own, in lower case, or one of its image (`function.contract.packages`).
    `place`: "tier" for what the tier's own processes run.
    """

    package: str
    versions: str = ""
    place: str = "image"


@dataclass(frozen=True)
class Advisory:
    """One known fault. Fields that OSV has too are named as there.

    `summary`: what happens, a sentence without its period. `advice`: what to type, alike.
    `advice_over_pods`: that for an engine over several pods, "" for the same.
    `affected`: all of them together. `fixed`: the first version without it, or "open".
    `references`: issues, pull requests or runs.

    Where it holds ("" and () for everywhere): `connectors` as the gate names them, with a variant
    or without; `families`: each one of the models, or several joined by `+`; `levels`: of the tier,
    as `type` names them; `modes`: of the tier; `other_connectors`: of the pod's own; `flags`: one
    of the engine's, with `=value` for a value; `without`: none of these flags has a value.
    `handled`: what is done where `action` is not the gate's.
    """

    id: str
    summary: str
    effect: Effect
    evidence: KnownBy
    action: Treatment
    fixed: str
    references: tuple[str, ...]
    source: str = ""
    published: str = ""
    advice: str = ""
    advice_over_pods: str = ""
    handled: str = ""
    engine: str = ""
    connectors: tuple[str, ...] = ()
    affected: tuple[Affected, ...] = ()
    families: tuple[str, ...] = ()
    accelerators: tuple[str, ...] = ()
    levels: frozenset[str] = frozenset()
    modes: frozenset[str] = frozenset()
    other_connectors: frozenset[str] = frozenset()
    flags: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    name: str = field(init=False, compare=False)
    engine_versions: str = field(init=False, compare=False)
    packages: tuple[Affected, ...] = field(init=False, compare=False)
    message: str = field(init=False, compare=False)
    message_over_pods: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Derive what every judgement needs.

        `name`: as messages say it. `engine_versions`: a PEP 440 range, "" for all. `packages`:
        those of `affected` beside the engine. `message`: what happens, where that is known from,
        what to type; `message_over_pods`: that for an engine over several pods.
        """
        own = self.engine.lower()
        name = f"{self.id}, {self.references[0]}"
        begin = f"{self.summary} ({name}). "
        message = begin + (f"{self.advice}." if self.advice else "")
        over_pods = f"{begin}{self.advice_over_pods}." if self.advice_over_pods else message
        versions = next((a.versions for a in self.affected if a.package == own), "")
        packages = tuple(a for a in self.affected if a.package != own and a.versions)
        for field_name, value in (
            ("name", name),
            ("engine_versions", versions),
            ("packages", packages),
            ("message", message),
            ("message_over_pods", over_pods),
        ):
            object.__setattr__(self, field_name, value)

    @property
    def reason(self) -> Reason:
        """VersionMismatch where another version helps."""
        bounded = any(affected.versions for affected in self.affected)
        return Reason.VERSION_MISMATCH if bounded else Reason.ENGINE_UNSUPPORTED


REFUSE = Treatment.REFUSE
ADVISORIES = Table(Advisory, "advisories", "advisories")
GATED = {Treatment.REFUSE: Support.REFUSED, Treatment.CAUTION: Support.CAUTION}


@lru_cache(maxsize=512)  # a version is a text of users'
def _of(engine: str, version: str | None, connector: str) -> tuple[Advisory, ...]:
    """Return the advisories about a connector on a version of an engine.

    What depends on the model is there for any undeclared version.
    """
    names = {connector, connector.partition("/")[0]}
    return tuple(
        a
        for a in ADVISORIES
        if a.engine in ("", engine)
        and (not a.connectors or not names.isdisjoint(a.connectors))
        and ((a.families and parse(version) is None) or affects(a, engine, version))
    )


def applicable(
    connector: str,
    engine: Engine,
    package_version: Version | None = None,
    mode: str = "",
    levels: frozenset[str] = frozenset(),
) -> Iterator[Advisory]:
    """Yield the advisories that are met here, families aside.

    `package_version`: of the tier's own package, None when unknown. `mode`: of the tier. `levels`:
    types of its levels.
    """
    return (
        a
        for a in _of(engine.name, engine.version, connector)
        if (not a.modes or mode in a.modes)
        and (not a.levels or not levels.isdisjoint(a.levels))
        and (not a.accelerators or engine.accelerator.name in a.accelerators)
        and (not a.other_connectors or not engine.connectors.isdisjoint(a.other_connectors))
        and (not a.flags or _has_one(engine, a.flags))
        and not any(engine.flag(name) for name in a.without)
        and all(_is_affected(package, engine, package_version) for package in a.packages)
    )


def affects(advisory: Advisory, engine: str, version: str | None) -> bool:
    """Return whether a version of the engine is affected.

    An undeclared version is any recent one: it is refused if one of them is affected, and a caution
    is said if all are.
    """
    spec, parsed = advisory.engine_versions, parse(version)
    if not spec:
        return True
    if parsed is not None:
        return within(parsed, spec)
    quantifier = any if advisory.action is REFUSE else all
    return quantifier(within(Version(v), spec) for v in undeclared_versions(engine))


def hits(
    connector: str,
    engine: Engine,
    package_version: Version | None = None,
    mode: str = "",
    levels: frozenset[str] = frozenset(),
) -> Iterator[Advisory]:
    """Yield every advisory that the engine falls under, by what is known of its model.

    Those that the gate does not judge are among them. Parameters as of `applicable`.
    """
    families = classify(engine, engine.families).families
    for advisory in applicable(connector, engine, package_version, mode, levels):
        of_model = [set(together.split("+")) <= families for together in advisory.families]
        affected = affects(advisory, engine.name, engine.version)
        if affected and (not of_model or any(of_model)):
            yield advisory


def family_rows(found: Iterable[Advisory], connector: str, engine: Engine) -> Iterator[FamilyRow]:
    """Yield what is met with models of certain families, for `models.support.judge`."""
    for advisory in found:
        for together in advisory.families:
            yield FamilyRow(
                connector,
                engine.name,
                frozenset(together.split("+")),
                GATED[advisory.action],
                advisory.source,
                advisory.message if engine.pods < 2 else advisory.message_over_pods,
                advisory.engine_versions,
            )


def _has_one(engine: Engine, flags: Iterable[str]) -> bool:
    parts = (flag.partition("=") for flag in flags)
    return any(engine.flag(n) == value if value else engine.has(n) for n, _, value in parts)


def _is_affected(affected: Affected, engine: Engine, package_version: Version | None) -> bool:
    """Return whether a package is affected; False for an unknown one of the image.

    Pairings refuse what is unknown and matters.
    """
    if affected.place == TIER:
        return package_version is not None and within(package_version, affected.versions)
    return within_any(engine.package(affected.package).versions or (), affected.versions)

"""The ledger of known faults: facts/advisories.yaml, and which of them an engine falls under."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cache

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


class Evidence(Enum):
    RAN = "ran"  # seen by this project's own runs
    READ = "read"  # read in the release
    REPORTED = "reported"  # by others, upstream


class Action(Enum):
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
    `affected`: all of them together. `fixed`: the first version without it, or "open".
    `references`: issues, pull requests or runs.

    Where it holds ("" and () for everywhere): `connectors` as the gate names them, with a variant
    or without; `families`: each one of the models, or several joined by `+`; `levels`: of the tier,
    as `type` names them; `modes`: of the tier; `other_connectors`: of the pod's own; `flags`: one
    of the engine's, with `=value` for a value. `handled`: what is done where `action` is not the
    gate's.
    """

    id: str
    summary: str
    effect: Effect
    evidence: Evidence
    action: Action
    fixed: str
    references: tuple[str, ...]
    source: str = ""
    published: str = ""
    advice: str = ""
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
    name: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Write the name by which messages say it."""
        object.__setattr__(self, "name", f"{self.id}, {self.references[0]}")

    @property
    def engine_versions(self) -> str:
        """The engine's versions as a PEP 440 range, "" for all."""
        return next((a.versions for a in self.affected if a.package == self.engine.lower()), "")

    @property
    def reason(self) -> Reason:
        """VersionMismatch where another version helps."""
        bounded = any(affected.versions for affected in self.affected)
        return Reason.VERSION_MISMATCH if bounded else Reason.ENGINE_UNSUPPORTED

    @property
    def message(self) -> str:
        """What people read: what happens, where that is known from, what to type."""
        return f"{self.summary} ({self.name}). " + (f"{self.advice}." if self.advice else "")


REFUSE = Action.REFUSE
ADVISORIES = Table(Advisory, "advisories", "advisories")
GATED = {Action.REFUSE: Support.REFUSED, Action.CAUTION: Support.CAUTION}


@dataclass(frozen=True)
class Circumstances:
    """What decides whether a fault is met.

    `levels`: types of the tier's levels. `mode`: of the tier. `package_version`: of the tier's own
    package, None when unknown.
    """

    connector: str
    engine: Engine
    package_version: Version | None = None
    mode: str = ""
    levels: frozenset[str] = frozenset()


@cache
def _of_engine(name: str) -> tuple[Advisory, ...]:
    return tuple(a for a in ADVISORIES if a.action in GATED and a.engine in ("", name))


def met(at: Circumstances) -> Iterator[Advisory]:
    """Yield what the gate refuses or warns of here, families and the engine's version aside."""
    return (a for a in _of_engine(at.engine.name) if all(holds(a, at) for holds in _CONDITIONS))


def affects(advisory: Advisory, engine: Engine) -> bool:
    """Return whether the engine's version is affected.

    An undeclared version is any recent one: it is refused if one of them is affected, and a caution
    is said if all are.
    """
    spec, version = advisory.engine_versions, parse(engine.version)
    if not spec:
        return True
    if version is not None:
        return within(version, spec)
    quantifier = any if advisory.action is REFUSE else all
    return quantifier(within(Version(v), spec) for v in undeclared_versions(engine.name))


def hits(at: Circumstances) -> Iterator[Advisory]:
    """Yield every advisory that the engine falls under, by what is known of its model."""
    families = classify(at.engine, at.engine.families).families
    for advisory in met(at):
        of_model = [set(together.split("+")) <= families for together in advisory.families]
        if affects(advisory, at.engine) and (not of_model or any(of_model)):
            yield advisory


def family_rows(at: Circumstances) -> tuple[FamilyRow, ...]:
    """Return what is met with models of certain families, for `models.support.judge`."""
    return tuple(
        FamilyRow(
            at.connector,
            at.engine.name,
            frozenset(together.split("+")),
            GATED[advisory.action],
            advisory.source,
            advisory.message,
            advisory.engine_versions,
        )
        for advisory in met(at)
        for together in advisory.families
    )


def _connector(advisory: Advisory, at: Circumstances) -> bool:
    names = (at.connector, at.connector.partition("/")[0])
    return not advisory.connectors or any(name in advisory.connectors for name in names)


def _packages(advisory: Advisory, at: Circumstances) -> bool:
    """Return whether every package is one of the affected; an unknown one counts as fitting.

    Pairings refuse what is unknown and matters.
    """
    for affected in advisory.affected:
        if affected.package == advisory.engine.lower() or not affected.versions:
            continue
        if affected.place == TIER:
            if at.package_version is None or not within(at.package_version, affected.versions):
                return False
        elif not within_any(at.engine.package(affected.package).versions or (), affected.versions):
            return False
    return True


def _flags(advisory: Advisory, at: Circumstances) -> bool:
    return not advisory.flags or any(
        at.engine.flag(name) == value if value else at.engine.has(name)
        for name, _, value in (flag.partition("=") for flag in advisory.flags)
    )


_CONDITIONS: tuple[Callable[[Advisory, Circumstances], bool], ...] = (
    _connector,
    lambda advisory, at: not advisory.modes or at.mode in advisory.modes,
    lambda advisory, at: not advisory.levels or bool(at.levels & advisory.levels),
    lambda advisory, at: (
        not advisory.accelerators or at.engine.accelerator.name in advisory.accelerators
    ),
    lambda advisory, at: (
        not advisory.other_connectors or bool(at.engine.connectors & advisory.other_connectors)
    ),
    _flags,
    _packages,
)

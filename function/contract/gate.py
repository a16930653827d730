"""The version gate: whether a connector goes with an engine, and what it has there.

`check()` answers from the rows of the backend that asks; what no row covers is refused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Self

from packaging.version import Version

from function.contract import advisories, models, pairings
from function.contract.accelerators.serving import AcceleratorRow, Served, served
from function.contract.advisories import GATED, REFUSE, Advisory
from function.contract.engine import UNKNOWN_VERSION, Engine
from function.contract.models.support import FamilyRow, Support, judge
from function.contract.pairings import Alternative, Pairing
from function.contract.stock_images import holding
from function.contract.versions import (
    ceiling,
    in_words,
    known_versions,
    parse,
    releases,
    supported_range,
    undeclared_versions,
    within,
)
from function.facts import Table, document
from function.problems import Refused
from function.reasons import Reason

DECLARE = 'declare it by the annotation modelplane.ai/kv-offload-engine-version, e.g. "{example}"'


@dataclass(frozen=True)
class Feature:
    """Something of a connector that not every version has, e.g. a key of its configuration.

    `since`: the engine's first version that has it. `package`: a PEP 440 range of what the tier
    runs. "" for any.
    """

    name: str
    source: str
    since: str = ""
    package: str = ""

    @property
    def engine(self) -> str:
        """The engine's versions as a PEP 440 range, "" for any."""
        return f">={self.since}" if self.since else ""


@dataclass(frozen=True)
class Caution:
    """What works with a drawback. `engine`, `package`: PEP 440 ranges, "" for any."""

    message: str
    source: str
    engine: str = ""
    package: str = ""


@dataclass(frozen=True)
class GateRow:
    """`connector` on `engine`, from version `since` until before `until`.

    `since`: "" for the oldest supported version. `until`: "" for the newest. `connector`: the value
    of `kv_connector`, or SGLang's name for it; `Connector/variant` for a variant. `package` and
    `package_versions`: what the tier itself must run.
    """

    connector: str
    engine: str
    source: str
    since: str = ""
    until: str = ""
    package: str = ""
    package_versions: str = ""
    features: tuple[Feature, ...] = ()
    cautions: tuple[Caution, ...] = ()

    @property
    def versions(self) -> str:
        """The engine's versions as a PEP 440 range."""
        return supported_range(self.engine, self.since, self.until)

    def takes(self, version: Version, newest: str) -> bool:
        """Return whether a version is in the range; `newest`: the newest one that is accepted."""
        return within(version, supported_range(self.engine, self.since, self.until, newest))


@dataclass(frozen=True)
class Rows:
    """A backend's facts: versions, models and accelerators that its connectors go with."""

    gate: tuple[GateRow, ...] = ()
    models: tuple[FamilyRow, ...] = ()
    accelerators: tuple[AcceleratorRow, ...] = ()

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return the rows of a facts file, e.g. facts.yaml in a backend's folder."""
        kinds = {"gate": GateRow, "models": FamilyRow, "accelerators": AcceleratorRow}
        there = document(path).sections
        return cls(**{n: Table(kind, path, n).rows for n, kind in kinds.items() if n in there})

    def __add__(self, other: "Rows") -> "Rows":
        """Return these rows and then the other ones."""
        return Rows(
            self.gate + other.gate,
            self.models + other.models,
            self.accelerators + other.accelerators,
        )


@dataclass(frozen=True)
class Question:
    """What a backend asks the gate about one engine.

    `rows`: what is known of its connectors. `package_version`: of the tier's own package
    (`GateRow.package`), None when unknown. `pairings`: what the engine's image must hold, with the
    `alternatives` of the tier. `mode`: of the tier, where an accelerator or an advisory depends on
    it. `levels`: types of the tier's levels, for advisories. `notes`: what a person should know of
    this engine with the tier.
    """

    connector: str
    engine: Engine
    rows: Rows
    package_version: Version | None = None
    pairings: tuple[Pairing, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    mode: str = ""
    levels: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()

    @property
    def circumstances(self) -> tuple[str, Engine, Version | None, str, frozenset[str]]:
        """What decides which advisories apply, as `advisories` takes it."""
        return (self.connector, self.engine, self.package_version, self.mode, self.levels)

    @cached_property
    def met(self) -> list[Advisory]:
        """The advisories that the gate refuses or warns of, families aside."""
        return [a for a in advisories.applicable(*self.circumstances) if a.action in GATED]


@dataclass(frozen=True)
class Verdict:
    """What is allowed; what is not is raised. `warnings`: sentences for people.

    `features`: names of `Feature` that this engine and backend have; where a version is not known,
    those that every one of `undeclared_versions` has.
    """

    warnings: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()


def check(question: Question) -> Verdict:
    """Return what the question's connector has on its engine, in its image, with its model.

    Raise Refused with every problem: OutOfScope for an accelerator that the
    connector does not serve; EngineUnsupported where no version of the engine has the connector,
    this one has it not, or it does not serve the model; VersionMismatch where the versions exclude
    each other, or the answer needs one that nobody declared.
    """
    warnings = [_accelerator(question)]
    problems: list[Refused] = []
    features: frozenset[str] = frozenset()
    try:
        verdict = versions(question)
        warnings += verdict.warnings
        features = verdict.features
    except _VersionNeeded as refused:
        if not asks_for_version(question):
            problems.append(refused)
    except Refused as refused:
        problems.append(refused)
    for ask in (_images, _model, _advisories):
        try:
            warnings += ask(question)
        except Refused as refused:
            problems.append(refused)
    if problems:
        raise Refused.all_of(problems)
    return Verdict(tuple(dict.fromkeys(filter(None, (*warnings, *question.notes)))), features)


class _VersionNeeded(Refused):
    """Raised where the engine's version is not known, and some versions lack the connector."""


def asks_for_version(question: Question) -> bool:
    """Return whether the refusal of the engine's image asks for the engine's version as well."""
    return parse(question.engine.version) is None and any(
        pairings.asks_for_version(each, question.engine) for each in question.pairings
    )


def _needs_version(question: Question) -> bool:
    """Return whether nothing can be wired before the engine's version is known."""
    if parse(question.engine.version) is not None:
        return False
    try:
        versions(question)
        _advisories(question)
    except Refused:
        return True
    return UNKNOWN_VERSION in question.engine.identity_unknown


def _accelerator(question: Question) -> str:
    """Return a warning about the pod's accelerator, or "". Raise Refused for an unserved one."""
    engine = question.engine
    if not question.rows.accelerators:
        return ""
    answer, message = served(
        question.rows.accelerators,
        question.connector,
        engine.name,
        question.mode,
        engine.accelerator,
    )
    if answer is Served.NO:
        raise Refused(Reason.OUT_OF_SCOPE, message)
    return message.rstrip(".")


def _advisories(question: Question) -> tuple[str, ...]:
    """Return the warnings of the advisories that any model meets. Raise Refused for the others."""
    engine = question.engine
    here = [
        (advisory, advisory.message if engine.pods < 2 else advisory.message_over_pods)
        for advisory in question.met
        if not advisory.families
    ]
    refused = [
        Refused(advisory.reason, f"{message.rstrip()}{_which(engine, advisory)}")
        for advisory, message in here
        if advisory.action is REFUSE
    ]
    if refused:
        raise Refused.all_of(refused)
    return tuple(message.rstrip(". ") for _, message in here)


def _which(engine: Engine, advisory: Advisory) -> str:
    """Return the engine's version, or how to declare one that is not affected, as a sentence."""
    if parse(engine.version) is None:
        affected = advisory.engine_versions
        others = [v for v in known_versions(engine.name) if not within(Version(v), affected)]
        if not others:
            return ""
        example = DECLARE.format(example=others[-1])
        return f" Where this engine's version is not affected, {example}."
    return f" This engine is {engine.name} {engine.proven_version}."


def _images(question: Question) -> tuple[str, ...]:
    """Raise Refused for an engine's image that does not fit."""
    for pairing in question.pairings:
        pairings.check(
            pairing,
            question.engine,
            question.alternatives,
            lambda connector: _has_row(question, connector or question.connector),
            partial(_images_with_version, question),
            partial(_example_version, question),
            partial(_needs_version, question),
            partial(_not_served, question),
        )
    return ()


def _has_row(question: Question, connector: str) -> bool:
    """Return whether the engine's version, where it is known, has a connector."""
    engine, version = question.engine, parse(question.engine.version)
    return any(
        row.connector == connector
        and row.engine == engine.name
        and (version is None or row.takes(version, engine.newest))
        for row in question.rows.gate
    )


def _example_version(question: Question) -> str:
    """Return a version to declare: the engine's own, or the newest that is served; "" for none."""
    own = parse(question.engine.version)
    known = reversed(known_versions(question.engine.name))
    tried = (*((own,) if own else ()), *map(Version, known))
    return next((str(version) for version in tried if _serves(question, version)), "")


def _not_served(question: Question) -> frozenset[str]:
    """Return the releases of the engine that the connector does not serve."""
    known = (release.version for release in releases(question.engine.name))
    return frozenset(v for v in known if not _serves(question, Version(v)))


def _serves(question: Question, version: Version) -> bool:
    """Return whether the connector serves a version of the engine, image and model aside."""
    engine = replace(question.engine, version=str(version))
    rows = [row for row in question.rows.gate if row.connector == question.connector]
    rows = [r for r in rows if r.engine == engine.name and r.takes(version, engine.newest)]
    if not rows:
        return False
    try:
        _by_package(question.connector, engine, rows, question.package_version, version)
        _advisories(replace(question, engine=engine))
    except Refused:
        return False
    return True


def _images_with_version(question: Question) -> tuple[str, ...]:
    """Return public images whose engine is served, where their tags do not name its version."""
    engine = question.engine
    return holding.with_version(
        engine.image, engine.name, partial(_serves, question), needs_ray=engine.needs_ray
    )


def _model(question: Question) -> tuple[str, ...]:
    """Return the warnings about the model. Raise Refused for one that the connector does not serve.

    An unknown model is a warning: few models are not served, and most of those stop the engine at
    its start.
    """
    engine = question.engine
    support, messages = judge(
        (
            *question.rows.models,
            *advisories.family_rows(question.met, question.connector, engine),
        ),
        question.connector,
        engine.name,
        parse(engine.version),
        models.classify(engine, engine.families),
    )
    if support is Support.REFUSED:
        raise Refused(Reason.ENGINE_UNSUPPORTED, messages[0])
    return tuple(message.rstrip(". ") for message in messages)


def versions(question: Question) -> Verdict:
    """Return what the engine's and the tier's versions have, whatever the image and the model."""
    connector, engine = question.connector, question.engine
    rows = [r for r in question.rows.gate if r.connector == connector and r.engine == engine.name]
    if not rows:
        raise Refused(Reason.ENGINE_UNSUPPORTED, f"{connector} does not exist for {engine.name}")
    version, package = parse(engine.version), question.package_version
    matching = [r for r in rows if version is None or r.takes(version, engine.newest)]
    if version is None:
        _needs_no_version(connector, engine, matching)
    elif not matching:
        raise _unsupported(question, rows)
    matching = _by_package(connector, engine, matching, package, version)
    cautions = (*_beyond_ours(engine, version), *_cautions(matching, version, package))
    return Verdict(cautions, _features(matching, version, package))


def _needs_no_version(connector: str, engine: Engine, rows: Sequence[GateRow]) -> None:
    """Raise Refused where one of the versions that it may be lacks the connector."""
    may_be = undeclared_versions(engine.name)
    missing = [v for v in may_be if not any(within(Version(v), r.versions) for r in rows)]
    if missing:
        ranges = in_words(*(r.versions for r in rows))
        what = f"{engine.version!r} is no version" if engine.version else "is not known"
        raise _VersionNeeded(
            Reason.VERSION_MISMATCH,
            f"{connector} needs {engine.name} {ranges}, and this engine's version {what}; "
            f"{DECLARE.format(example=may_be[-1])}",
        )


def _unsupported(question: Question, rows: Sequence[GateRow]) -> Refused:
    connector, engine = question.connector, question.engine
    ranges = in_words(*(row.versions for row in rows))
    images = ", ".join(_images_with_version(question))
    return Refused(
        Reason.ENGINE_UNSUPPORTED,
        f"{connector} needs {engine.name} {ranges}, this engine is {engine.proven_version}; use "
        f"one of these versions{f' ({images})' if images else ''}",
    )


def _by_package(
    connector: str,
    engine: Engine,
    rows: Sequence[GateRow],
    package: Version | None,
    version: Version | None,
) -> list[GateRow]:
    """Return the rows that the tier's version fits; all must fit with an unknown engine."""
    if package is None:
        return list(rows)
    fitting = [r for r in rows if not r.package_versions or within(package, r.package_versions)]
    if not fitting or (version is None and len(fitting) < len(rows)):
        wrong = next(r for r in rows if r not in fitting)
        newest = undeclared_versions(engine.name)[-1]
        advice = "" if version else f"; or {DECLARE.format(example=newest)}"
        raise Refused(
            Reason.VERSION_MISMATCH,
            f"{connector} on {engine.name} {in_words(wrong.versions)} needs {wrong.package} "
            f"{in_words(wrong.package_versions)}, the tier runs {package}{advice}",
        )
    return fitting


def _beyond_ours(engine: Engine, version: Version | None) -> Iterator[str]:
    """Yield a warning for a version that only the step's Input accepts."""
    if version is not None and not within(version, f"<{ceiling(engine.name)}"):
        yield (
            f"{engine.name} {version} is newer than {known_versions(engine.name)[-1]}, the newest "
            "version that this function knows; acceptedVersions of the step's Input accepts it"
        )


def _cautions(
    rows: Sequence[GateRow], version: Version | None, package: Version | None
) -> tuple[str, ...]:
    messages = (
        caution.message
        for row in rows
        for caution in row.cautions
        if _known_in(version, caution.engine) and _known_in(package, caution.package)
    )
    return tuple(dict.fromkeys(messages))


def _features(
    rows: Sequence[GateRow], version: Version | None, package: Version | None
) -> frozenset[str]:
    per_row = []
    for row in rows:
        may_be = [version] if version is not None else _supported(row)
        per_row.append(
            {
                f.name
                for f in row.features
                if all(within(v, f.engine) for v in may_be) and _known_in(package, f.package)
            }
        )
    return frozenset(set.intersection(*per_row)) if per_row else frozenset()


def _supported(row: GateRow) -> list[Version]:
    return [v for v in map(Version, undeclared_versions(row.engine)) if within(v, row.versions)]


def _known_in(version: Version | None, spec: str) -> bool:
    return not spec or (version is not None and within(version, spec))

"""The version gate: whether a connector goes with an engine, and what it has there.

`check()` answers from the rows of the backend that asks; what no row covers is refused.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from packaging.version import Version

from function.contract import models, pairings
from function.contract.accelerators.serving import AcceleratorRow, Served, served
from function.contract.engine import Engine
from function.contract.image_reference import ImageReference
from function.contract.models.support import FamilyRow, Support, judge
from function.contract.pairings import Alternative, Pairing
from function.contract.versions import parse, undeclared_versions, within
from function.problems import Refused
from function.reasons import Reason

DECLARE = 'declare it by the annotation modelplane.ai/kv-offload-engine-version, e.g. "{example}"'
_CUDA = re.compile(r"(?:^|[+._-])cu(\d{2})\d\b")


@dataclass(frozen=True)
class Feature:
    """Something of a connector that not every version has, e.g. a key of its configuration.

    `engine`, `backend`: PEP 440 specifiers, "" for any.
    """

    name: str
    engine: str = ""
    backend: str = ""
    source: str = ""


@dataclass(frozen=True)
class Caution:
    """What works, but not as well as its reader would think. Specifiers as in Feature.

    `cuda`: the CUDA major of the engine's build (from `+cu129` or the image's tag), 0 for any.
    `repository`: how the image's repository must end, "" for any. `refuse`: it does not work at
    all.
    """

    message: str
    engine: str = ""
    backend: str = ""
    cuda: int = 0
    repository: str = ""
    refuse: bool = False
    source: str = ""


@dataclass(frozen=True)
class Row:
    """`connector` on `engine`, from its `versions` on, with `package`'s `package_versions`.

    `connector` is the value of `kv_connector`, or what SGLang calls it; for a variant
    `Connector/variant`. `package`: what the tier itself runs.
    """

    connector: str
    engine: str
    versions: str
    source: str
    package: str = ""
    package_versions: str = ""
    features: tuple[Feature, ...] = ()
    cautions: tuple[Caution, ...] = ()


def since(name: str, version: str, source: str) -> Feature:
    """A feature that every version of the engine has from `version` on."""
    return Feature(name, f">={version}", source=source)


@dataclass(frozen=True)
class Question:
    """What a backend asks the gate about one engine.

    `rows`: the backend's own. `package_version`: of the tier's own package (`Row.package`), None
    when it is unknown. `pairings`: what the engine's image must hold, with the `alternatives` of
    the tier. `models`, `accelerators`: what the connector serves; `mode`: of the tier, where that
    counts for an accelerator. `notes`: what a person should know of this engine with the tier.
    """

    connector: str
    engine: Engine
    rows: tuple[Row, ...]
    package_version: Version | None = None
    pairings: tuple[Pairing, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    models: tuple[FamilyRow, ...] = ()
    accelerators: tuple[AcceleratorRow, ...] = ()
    mode: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What is allowed; what is not is raised. `warnings`: sentences for people.

    `features`: names of `Feature` that this engine and backend have; where a version is not known,
    those that every one of `undeclared_versions` has.
    """

    warnings: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()


def check(question: Question) -> Verdict:
    """What the question's connector has on its engine, in its image, with its model.

    Raises Refused, with everything that stands in the way: OutOfScope for an accelerator that the
    connector does not serve; EngineUnsupported where no version of the engine has the connector,
    this one has it not, or it does not serve the model; VersionMismatch where the versions exclude
    each other, or the answer needs one that nobody declared.
    """
    warnings = [_accelerator(question)]
    problems: list[Refused] = []
    verdict = Verdict()
    for ask in (versions, _images, _model):
        try:
            found = ask(question)
        except Refused as refused:
            problems.append(refused)
            continue
        warnings += found.warnings
        verdict = replace(verdict, features=verdict.features | found.features)
    if problems:
        raise Refused.all_of(problems)
    return replace(
        verdict, warnings=tuple(dict.fromkeys(filter(None, (*warnings, *question.notes))))
    )


def _accelerator(question: Question) -> str:
    """What holds on the pod's accelerator."""
    engine = question.engine
    if not question.accelerators:
        return ""
    answer, message = served(
        question.accelerators,
        question.connector,
        engine.name,
        question.mode,
        engine.accelerator,
    )
    if answer is Served.NO:
        raise Refused(Reason.OUT_OF_SCOPE, message)
    return message.rstrip(".")


def _images(question: Question) -> Verdict:
    """What the engine's image holds, beside what the tier needs there."""
    warnings: list[str] = []
    for pairing in question.pairings:
        warnings += pairings.check(pairing, question.engine, question.alternatives)
    return Verdict(tuple(warnings))


def _model(question: Question) -> Verdict:
    """Whether the connector serves the model. What nobody can see is asked for, and no refusal:
    the models that are not served are few, and nearly all of them stop the engine at its start."""
    engine = question.engine
    answer = judge(
        question.models,
        question.connector,
        engine.name,
        parse(engine.version),
        models.classify(engine, engine.families),
    )
    if answer.support is Support.REFUSED:
        raise Refused(Reason.ENGINE_UNSUPPORTED, answer.messages[0])
    return Verdict(tuple(message.rstrip(".") for message in answer.messages))


def versions(question: Question) -> Verdict:
    """What the engine's and the tier's versions have, whatever the image and the model."""
    connector, engine = question.connector, question.engine
    rows = [r for r in question.rows if r.connector == connector and r.engine == engine.name]
    if not rows:
        raise Refused(Reason.ENGINE_UNSUPPORTED, f"{connector} does not exist for {engine.name}")
    version, package = parse(engine.version), question.package_version
    matching = [r for r in rows if version is None or within(version, r.versions)]
    if version is None:
        _needs_no_version(connector, engine, matching)
    elif not matching:
        raise _unsupported(connector, engine, rows)
    matching = _by_package(connector, engine, matching, package, version)
    cuda = cuda_major(engine)
    warnings = _cautions(matching, engine, version, package, cuda)
    return Verdict(warnings, _features(matching, version, package))


def cuda_major(engine: Engine) -> int | None:
    """The CUDA major that the engine's version or image tag names (`+cu129`, `-cu130`)."""
    for text in (engine.version or "", ImageReference.parse(engine.image).tag):
        if match := _CUDA.search(text):
            return int(match[1])
    return None


def _needs_no_version(connector: str, engine: Engine, rows: Sequence[Row]) -> None:
    """An unknown version will do only where all that it may be have the connector."""
    may_be = undeclared_versions(engine.name)
    missing = [v for v in may_be if not any(within(Version(v), r.versions) for r in rows)]
    if missing:
        ranges = " or ".join(r.versions for r in rows)
        what = f"{engine.version!r} is no version" if engine.version else "is not known"
        raise Refused(
            Reason.VERSION_MISMATCH,
            f"{connector} needs {engine.name} {ranges}, and this engine's version {what}; "
            f"{DECLARE.format(example=may_be[-1])}",
        )


def _unsupported(connector: str, engine: Engine, rows: Sequence[Row]) -> Refused:
    ranges = " or ".join(row.versions for row in rows)
    source = f" ({engine.version_source})" if engine.version_source else ""
    return Refused(
        Reason.ENGINE_UNSUPPORTED,
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
    fitting = [r for r in rows if not r.package_versions or within(package, r.package_versions)]
    if not fitting or (version is None and len(fitting) < len(rows)):
        wrong = next(r for r in rows if r not in fitting)
        newest = undeclared_versions(engine.name)[-1]
        advice = "" if version else f"; or {DECLARE.format(example=newest)}"
        raise Refused(
            Reason.VERSION_MISMATCH,
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
    messages: dict[str, None] = {}
    for caution in (c for row in rows for c in row.cautions):
        if not _applies(caution, engine, version, package, cuda):
            continue
        if caution.refuse:
            raise Refused(Reason.VERSION_MISMATCH, caution.message)
        messages[caution.message] = None
    return tuple(messages)


def _applies(
    caution: Caution,
    engine: Engine,
    version: Version | None,
    package: Version | None,
    cuda: int | None,
) -> bool:
    return (
        _known_in(version, caution.engine)
        and _known_in(package, caution.backend)
        and caution.cuda in (0, cuda)
        and ImageReference.parse(engine.image).ends_with(caution.repository)
    )


def _features(
    rows: Sequence[Row], version: Version | None, package: Version | None
) -> frozenset[str]:
    per_row = []
    for row in rows:
        may_be = [version] if version is not None else _supported(row)
        per_row.append(
            {
                f.name
                for f in row.features
                if all(within(v, f.engine) for v in may_be) and _known_in(package, f.backend)
            }
        )
    return frozenset(set.intersection(*per_row)) if per_row else frozenset()


def _supported(row: Row) -> list[Version]:
    return [v for v in map(Version, undeclared_versions(row.engine)) if within(v, row.versions)]


def _known_in(version: Version | None, spec: str) -> bool:
    return not spec or (version is not None and within(version, spec))

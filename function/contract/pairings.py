"""Pairs of packages: what an engine's image holds, and what the tier runs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from function.contract import advisories, payload
from function.contract.advisories import REFUSE
from function.contract.engine import Engine
from function.contract.image_reference import ImageReference
from function.contract.packages import DERIVED, Fact, stated
from function.contract.payload import PayloadPackage
from function.contract.stock_images import contents, holding
from function.contract.versions import in_words, parse, within_any
from function.problems import Refused
from function.reasons import Reason


@dataclass(frozen=True)
class Pairing:
    """What a connector needs of a package in the engine's image, for one setting of a tier.

    `package`: of PACKAGES. `fits`: the versions that work, a PEP 440 range (`==X.*` or `>=X,<Y`).
    `wants`: what of the tier needs them, the subject of a sentence. `why`: what happens with
    others, a clause. `known`: the tested range, "" for every version.
    """

    package: str
    fits: str
    wants: str
    why: str
    source: str
    known: str = ""

    @property
    def example(self) -> str:
        """A version that works: the first of the range."""
        return self.fits.partition(",")[0].lstrip("=>~").removesuffix(".*")


@dataclass(frozen=True)
class Alternative:
    """Another setting of the tier, its connector, and what the engine's image must hold for it."""

    setting: str
    connector: str
    pairing: Pairing

    def takes(self, engine: Engine) -> bool:
        """Return whether the image fits, and no advisory is refused."""
        found = advisories.hits(self.connector, engine)
        return fit(self.pairing, engine) is Fit.YES and all(a.action is not REFUSE for a in found)


class Fit(Enum):
    """Whether an image goes with a pairing."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


def fit(pairing: Pairing, engine: Engine) -> Fit:
    """Return whether the engine's image fits, as far as it is known."""
    fact = engine.package(pairing.package)
    fits = fact.within(pairing.fits)
    if fits:
        return Fit.YES
    return _bad(pairing, fact) if fits is False else Fit.UNKNOWN


def with_payload(
    pairings: Iterable[Pairing], engine: Engine
) -> tuple[Engine, tuple[PayloadPackage, ...]]:
    """Return the engine with what a payload brings in place of what does not fit, and its parts."""
    parts = []
    for pairing in pairings:
        found = payload.fitting(pairing.package, pairing.fits, engine)
        if found is not None and fit(pairing, engine) is not Fit.YES:
            brought = {found.package: stated("the tier's payload", found.version)}
            engine = replace(engine, packages={**engine.packages, **brought})
            parts.append(found)
    return replace(engine, has_payload=True), tuple(parts)


def asks_for_version(pairing: Pairing, engine: Engine) -> bool:
    """Return whether `check` refuses the image and says how to declare its engine's version."""
    unknown = engine.package(pairing.package).versions is None
    return (unknown or engine.needs_ray) and fit(pairing, engine) is not Fit.YES


def check(
    pairing: Pairing,
    engine: Engine,
    alternatives: Sequence[Alternative],
    in_range: Callable[[str], bool] = lambda connector: True,
    served: Callable[[], Sequence[str]] = tuple,
    example_version: Callable[[], str] = str,
    needs_version: Callable[[], bool] = bool,
    not_served: Callable[[], frozenset[str]] = frozenset,
) -> None:
    """Raise Refused for an incompatible, untested or unknown image.

    `alternatives`: settings of the tier that the message offers where they take the image.
    `in_range`: whether the engine's version has a connector, "" for the tier's own. `served`:
    public images of a version that is served. `example_version`: such a version, the engine's own
    if it is one, "" for none. `needs_version`: whether the engine's is not known and decides.
    `not_served`: the engine's releases that are not served.
    """
    fact, found = engine.package(pairing.package), fit(pairing, engine)
    if found is Fit.YES:
        return
    is_untested = found is Fit.UNKNOWN and fact.versions is not None
    effect = "this pair is untested" if is_untested else pairing.why
    refused = not_served()
    images = holding.holding(
        engine.name, pairing.package, pairing.fits, needs_ray=engine.needs_ray, without=refused
    )
    if images:
        ways = [f"Use an image that holds it ({', '.join(images)})"]
    elif engine.needs_ray:
        ways = [_add_to_image(pairing, engine, served, example_version(), refused)]
    else:
        ways = ["Use an image that holds it"]
    ways += _other_ways(pairing, engine, alternatives, in_range)
    version = example_version() if fact.versions is None and needs_version() else ""
    if fact.versions is None and (images or not engine.needs_ray):
        ways.append(_declaration(pairing, engine, version, images))
    held, wants = _held(pairing, engine, bool(version)), pairing.wants
    raise Refused(
        Reason.VERSION_MISMATCH,
        f"{held}. {wants[0].upper()}{wants[1:]} needs "
        f"{pairing.package} {in_words(pairing.fits)}: {effect}. "
        + _payload_misfit(pairing, engine)
        + "; or ".join(ways),
    )


def _add_to_image(
    pairing: Pairing,
    engine: Engine,
    served: Callable[[], Sequence[str]],
    version: str,
    refused: frozenset[str],
) -> str:
    """Return how to make an image for Ray where no public one is known to fit.

    `version`: of the engine in it, "" where no version is known to be served. `refused`: versions
    that are not served.
    """
    name, own = pairing.package, parse(engine.version)
    base = "this one"
    if own is not None and parse(version) != own:
        base = ", ".join(served()) or f"one with {engine.name} {version}".rstrip()
    elif engine.package(name).versions is None:
        base = "this one where it lacks it"
    others = holding.holding(engine.name, name, pairing.fits, without=refused)
    with_ray = f", or Ray to one that holds it ({', '.join(others)})" if others else ""
    declared = f'"{name}={pairing.example}"'
    return (
        f"No public image with Ray is known to hold it. Add {name} to {base}{with_ray}, and "
        "annotate modelplane.ai/kv-offload-"
        + (f'engine-version and -packages, e.g. "{version}" and ' if version else "packages, e.g. ")
        + f"{declared} (`kv-offload probe` reads them in the image)"
    )


def _payload_misfit(pairing: Pairing, engine: Engine) -> str:
    """Return why the tier's payload does not help, as a sentence; "" where the tier names none."""
    if not engine.has_payload or engine.package(pairing.package).versions is None:
        return ""
    nearest = _nearest(pairing, engine)
    if nearest is None:
        return f"The tier's payload holds no such {pairing.package}. "
    needs = ", ".join(
        f"{name} {in_words(spec)} (the image has {engine.package(name)})"
        for name, spec in nearest.misfits(engine).items()
    )
    return f"The tier's payload ({pairing.package} {nearest.version}) needs {needs}. "


def _to_declare(pairing: Pairing, engine: Engine) -> str:
    """Return what an image does not say and a payload needs, as an annotation's example, or ""."""
    nearest = _nearest(pairing, engine) if engine.has_payload else None
    misfits = nearest.misfits(engine) if nearest else {}
    if any(engine.package(name).versions is not None for name in misfits):
        return ""
    return ",".join(f"{n}={_lowest(n, spec)}" for n, spec in misfits.items())


def _lowest(name: str, spec: str) -> str:
    """Return a version of a payload's range as people write it: 12.0 for CUDA 12, Python 3.12."""
    return (
        spec.lstrip("=").replace("*", "0")
        if name == "cuda"
        else spec.lstrip("=").removesuffix(".*")
    )


def _nearest(pairing: Pairing, engine: Engine) -> PayloadPackage | None:
    """Return the part of a payload that lacks the least of the engine's image."""
    rows = payload.candidates(pairing.package, pairing.fits)
    return min(rows, key=lambda row: len(row.misfits(engine)), default=None)


def _bad(pairing: Pairing, fact: Fact) -> Fit:
    """Return NO for an image without the package or with a tested version, else UNKNOWN."""
    tried = not fact.versions or not pairing.known or within_any(fact.versions, pairing.known)
    return Fit.NO if tried else Fit.UNKNOWN


def _held(pairing: Pairing, engine: Engine, with_version: bool) -> str:
    """Return what the image holds, and how that is known.

    `with_version`: and that the engine's version is not known, where nothing is.
    """
    fact = engine.package(pairing.package)
    image = f"image {engine.image}" if engine.image else "the engine's image"
    if fact.versions is None:
        known = contents(engine.image)
        why = "moving tag" if known and known.moving else fact.source
        what = f"{pairing.package} version"
        what = f"{engine.name} and {what}s" if with_version else what
        return f"Unknown {what} in {image} ({why})"
    version = " or ".join(fact.versions)
    what = f"{pairing.package} {version}" if version else f"no {pairing.package}"
    return f"{image[0].upper()}{image[1:]} holds {what} ({_source(fact)})"


def _source(fact: Fact) -> str:
    """Return the source for people: a declaration's place, or the page with all sources."""
    if fact.declared:
        return fact.source
    return f"{DERIVED}, docs/images.md" if fact.known == DERIVED else "docs/images.md"


def _other_ways(
    pairing: Pairing,
    engine: Engine,
    alternatives: Sequence[Alternative],
    in_range: Callable[[str], bool],
) -> list[str]:
    """Return what helps without another image, the easiest first."""
    ways = []
    brought = payload.fitting(pairing.package, pairing.fits, engine)
    if brought and not engine.has_payload and in_range(""):
        ways.append("a tier with spec.payload (docs/payload.md)")
    ways += [
        f"a tier with {other.setting}"
        for other in alternatives
        if in_range(other.connector) and other.takes(engine)
    ]
    is_known = engine.package(pairing.package).versions is not None
    if is_known and (example := _to_declare(pairing, engine)):
        ways.append(f'annotate modelplane.ai/kv-offload-packages, e.g. "{example}"')
    return ways


def _declaration(pairing: Pairing, engine: Engine, version: str, images: Sequence[str]) -> str:
    """Return what to declare of an image of unknown contents, or how to pin it to one of `images`.

    `version`: an example, "" where the engine's need not be declared. What a stock image holds
    follows from its version.
    """
    package = f'"{pairing.package}={pairing.example}" (`kv-offload probe` reads'
    known = contents(engine.image)
    own = ImageReference.parse(engine.image)
    pinned = known and known.moving and any(own.ends_with(i.partition(":")[0]) for i in images)
    pin = "pin the image's tag to one of these, or " if pinned else ""
    annotate = f"{pin}annotate modelplane.ai/kv-offload-"
    if not version:
        return f"{annotate}packages, e.g. {package} it in the image)"
    declared = contents(engine.image, version)
    if declared and declared.package(pairing.package).within(pairing.fits):
        return (
            f'{annotate}engine-version, e.g. "{version}" (`kv-offload probe` reads it in the image)'
        )
    return (
        f'{annotate}engine-version and -packages, e.g. "{version}" and {package} them in the image)'
    )

"""What an engine's image holds beside what the tier runs: one package, two versions of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from function.contract.engine import Engine
from function.contract.packages import DERIVED, Fact
from function.contract.stock_images import contents, holding
from function.contract.versions import within_any
from function.problems import Refused
from function.reasons import Reason


@dataclass(frozen=True)
class Pairing:
    """What a connector needs of a package in the engine's image, beside one setting of a tier.

    `package`: of PACKAGES. `fits`: the versions that work, a PEP 440 range. `wants`: what of the
    tier wants them, the subject of a sentence. `why`: what becomes of others, a clause that follows
    "and". `known`: the range of which it is known whether they do, "" for every version.
    `cautions`: (range, sentence) of what works and has a catch.
    """

    package: str
    fits: str
    wants: str
    why: str
    source: str
    known: str = ""
    cautions: tuple[tuple[str, str], ...] = ()

    @property
    def example(self) -> str:
        """A version that works: the first of the range."""
        return self.fits.partition(",")[0].lstrip("=>~").removesuffix(".*")


@dataclass(frozen=True)
class Alternative:
    """Another setting of the tier, and what an engine's image must hold for it."""

    setting: str
    pairing: Pairing


class Fit(Enum):
    """Whether an image goes with a pairing."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


def fit(pairing: Pairing, engine: Engine) -> Fit:
    """Whether the engine's image goes with it, as far as anybody knows."""
    fact = engine.package(pairing.package)
    fits = fact.within(pairing.fits)
    if fits:
        return Fit.YES
    return _bad(pairing, fact) if fits is False else Fit.UNKNOWN


def check(pairing: Pairing, engine: Engine, alternatives: Sequence[Alternative]) -> tuple[str, ...]:
    """The catches of an image that goes with it; one of which that is not known raises Refused.

    `alternatives`: of them, those that would take the image are a way out.
    """
    if fit(pairing, engine) is Fit.YES:
        versions = engine.package(pairing.package).versions or ()
        return tuple(text for spec, text in pairing.cautions if within_any(versions, spec))
    unseen = engine.package(pairing.package).versions is None
    tried = unseen or fit(pairing, engine) is Fit.NO
    outcome = pairing.why if tried else "nobody tried these two together"
    raise Refused(
        Reason.VERSION_MISMATCH,
        f"{_held(pairing, engine)}, {pairing.wants} needs {pairing.package} {pairing.fits}, and "
        f"{'otherwise ' if unseen else ''}{outcome}. "
        + "; or ".join(_ways_out(pairing, engine, alternatives)),
    )


def _bad(pairing: Pairing, fact: Fact) -> Fit:
    """An image without the package never goes; of versions that nobody tried nothing is known."""
    tried = not fact.versions or not pairing.known or within_any(fact.versions, pairing.known)
    return Fit.NO if tried else Fit.UNKNOWN


def _held(pairing: Pairing, engine: Engine) -> str:
    """What the image holds, and how that is known."""
    fact = engine.package(pairing.package)
    image = f"the image {engine.image}" if engine.image else "the engine's image"
    if fact.versions is None:
        return f"nobody knows which {pairing.package} {image} holds ({fact.source})"
    version = " or ".join(fact.versions)
    what = f"{pairing.package} {version}" if version else f"no {pairing.package}"
    return f"{image} holds {what} ({_source(fact)})"


def _source(fact: Fact) -> str:
    """Who says it, for people: the page has upstream's word, a declaration its own."""
    if fact.declared:
        return fact.source
    return f"{DERIVED}, docs/images.md" if fact.known == DERIVED else "docs/images.md"


def _ways_out(pairing: Pairing, engine: Engine, alternatives: Sequence[Alternative]) -> list[str]:
    """What to do, the nearest first; a declaration only where it might be no lie."""
    ways = []
    images = holding.holding(engine.name, pairing.package, pairing.fits)
    if images:
        ways.append(f"Use an image that holds it ({', '.join(images)})")
    else:
        ways.append("Use an image that holds it")
    ways += [
        f"a tier with {other.setting}"
        for other in alternatives
        if fit(other.pairing, engine) is Fit.YES
    ]
    if engine.package(pairing.package).versions is None:
        known = contents(engine.image)
        pin = "pin the image's tag to a release, or " if known and known.moving else ""
        ways.append(
            f"{pin}say what it holds by the annotation modelplane.ai/kv-offload-packages, e.g. "
            f'"{pairing.package}={pairing.example}" (`kv-offload probe` reads it in the image)'
        )
    return ways

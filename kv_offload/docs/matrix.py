"""docs/support.md: backend x engine x version x model family x shape, asked of the gate.

Each cell is what the backend's own gate rows and conflicts say of an engine of every supported
version whose image holds what the tier wants; nothing here knows an answer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby
from typing import Any

from function.api.engines import ENGINES
from function.backends.registry import BACKENDS
from function.composers.tier_plan import TierPlan, plan
from function.contract import gate
from function.contract.accelerators.kinds import CUDA, Accelerator
from function.contract.engine import Engine
from function.contract.models.families import DENSE, FAMILIES, LAYOUTS
from function.contract.stock_images import contents, repositories
from function.contract.versions import known_versions
from function.edge.structs import encode
from function.engines.registry import kind
from function.problems import Refused
from function.workloads.model import DECODE, PREFILL, UNIFIED
from kv_offload.docs.markdown import HEADER, code, first_and_last, grouped, page, table
from kv_offload.docs.variants import kinds

Json = dict[str, Any]

YES, CAREFUL, NO = "yes", "careful", "no"

# A tier of each kind, by what its row is called.
TIERS: Mapping[str, Json] = {
    kind.says: kind.spec for name in BACKENDS.specs for kind in kinds(BACKENDS[name])
}


@dataclass(frozen=True)
class Shape:
    """How an engine lies over pods.

    `tensor`, `pipeline`: ranks that share a KV cache. `replicas`: of data parallelism, `local` of
    them in one pod. `phase`: half of a pair where it is one.
    """

    name: str
    tensor: int = 0
    pipeline: int = 0
    replicas: int = 0
    local: int = 0
    pods: int = 1
    phase: str = UNIFIED

    def of(self, usual: "Shape") -> "Shape":
        """Return this shape of a tier that takes `usual` at least: half a pair stays one."""
        if usual.phase in (self.phase, UNIFIED) or self.phase != UNIFIED:
            return self
        return replace(self, phase=usual.phase)

    def flags(self, engine: str) -> Mapping[str, str] | None:
        """Return an engine's flags for this shape; None where it has none for it."""
        ranks = kind(engine).ranks
        wanted = (
            (self.tensor, ranks.shared[:1]),
            (self.pipeline, ranks.shared[1:2]),
            (self.replicas, (ranks.replicas,)),
            (self.local, filter(None, (ranks.local,))),
        )
        found: dict[str, str] = {}
        for count, names in wanted:
            name = next(iter(names), "")
            if count and not name:
                return None
            found |= {name: str(count)} if count else {}
        if self.pods > 1 and not self.local:
            found[ranks.nodes] = str(self.pods)
        return {**found, **kind(engine).pair.get(self.phase, {})}


ONE = Shape("one pod")
HALF = Shape("prefill of a pair", phase=PREFILL)
SHAPES = (
    Shape("tensor parallel in a pod", tensor=8),
    Shape("data parallel in a pod", replicas=8),
    Shape("tensor parallel over pods", tensor=16, pods=2),
    Shape("pipeline over pods", tensor=8, pipeline=2, pods=2),
    Shape("data parallel over pods", replicas=16, local=8, pods=2),
    HALF,
    Shape("decode of a pair", phase=DECODE),
)


@dataclass(frozen=True)
class Answers:
    """The answer for one engine in each of its versions: {version: YES, CAREFUL or NO}."""

    of: Mapping[str, str] = field(default_factory=dict)

    @property
    def wired(self) -> tuple[str, ...]:
        return tuple(version for version, answer in self.of.items() if answer != NO)

    def text(self, within: Iterable[str]) -> str:
        """Return one word if all of these versions are alike, else one per run of versions.

        Refused versions are left out.
        """
        versions = list(within)
        runs = [(answer, list(run)) for answer, run in groupby(versions, lambda v: self.of[v])]
        if len(runs) == 1:
            return runs[0][0]
        return ", ".join(
            f"{code(_span(run, versions))}{'' if answer == YES else f' {answer}'}"
            for answer, run in runs
            if answer != NO
        )


def text() -> str:
    """Return the page."""
    return page(
        [
            HEADER.format(source="the gate and the backends' own refusals"),
            "# What works with what?",
            "",
            *lines(),
        ]
    )


def lines() -> list[str]:
    """Return the two tables, with what to know of them."""
    rows = [(n, e, shape) for n in TIERS for e in ENGINES if (shape := _usual(n, e))]
    asked = " and ".join(f"{e} {first_and_last(known_versions(e))}" for e in ENGINES)
    return [
        f"Computed by the gate for every version of {asked}. Cells: `{YES}`, `{NO}`, `{CAREFUL}` "
        "(wired, and the condition says what to watch), or the versions that are wired. A tier "
        "refuses an engine without a row. *Versions*: in an image with the packages that the tier "
        "needs. *Own images*: in the engine project's CUDA images. Refusals for known faults are "
        "[advisories](advisories.md).",
        "",
        "## Engines, versions and model families",
        "",
        *table(
            ("Tier", "Engine", "Versions", "Own images", *FAMILIES),
            grouped((tuple(_families(*row)) for row in rows), "; "),
        ),
        "",
        "What the families are: [models](models.md).",
        "",
        "## Shapes of engines",
        "",
        *table(
            ("Tier", "Engine", *(shape.name for shape in SHAPES)),
            grouped((tuple(_shapes(*row)) for row in rows), "; "),
        ),
    ]


def _usual(name: str, engine: str) -> Shape | None:
    """Return the plainest shape that the tier takes: one pod, or half a pair for transfers."""
    return next((s for s in (ONE, HALF) if answers(name, engine, s, DENSE).wired), None)


def _families(name: str, engine: str, shape: Shape) -> Iterable[str]:
    asked = answers(name, engine, shape, DENSE)
    stock = answers(name, engine, shape, DENSE, stock=True)
    yield from (name, engine, _versions(asked, engine), _versions(stock, engine))
    for family in FAMILIES:
        yield answers(name, engine, shape, family).text(asked.wired)


def _shapes(name: str, engine: str, usual: Shape) -> Iterable[str]:
    within = answers(name, engine, usual, DENSE).wired
    yield from (name, engine)
    for shape in SHAPES:
        known = shape.flags(engine) is not None
        yield answers(name, engine, shape.of(usual), DENSE).text(within) if known else ""


def _versions(found: Answers, engine: str) -> str:
    every = known_versions(engine)
    words = {version: YES if version in found.wired else NO for version in every}
    text = Answers(words).text(every)
    return {YES: "all"}.get(text, text) or NO


def _span(run: list[str], versions: list[str]) -> str:
    """Return a run of versions as a range."""
    after = versions.index(run[-1]) + 1
    start = f">={run[0]}" if run[0] != versions[0] else ""
    end = f"<{versions[after]}" if after < len(versions) else ""
    return ",".join(filter(None, (start, end)))


def answers(name: str, engine: str, shape: Shape, family: str, *, stock: bool = False) -> Answers:
    """Return what the tier's backend answers for the engine, version by version.

    `family`: what the model is; a use (multimodal, say) is that of a dense one. `stock`: judge the
    engine's own image of that version; else an image that holds what the tier wants.
    """
    found = {}
    for version in known_versions(engine):
        said = _said(name, engine, version, shape, family, stock)
        if said is None:
            found[version] = NO
            continue
        usual = _said(name, engine, version, ONE, DENSE, stock)
        found[version] = CAREFUL if usual is not None and said - usual else YES
    return Answers(found)


@cache
def _said(
    name: str, engine: str, version: str, shape: Shape, family: str, stock: bool
) -> frozenset[str] | None:
    """Return the condition of a wired engine; None for a refused one."""
    tier, asked = _plan(name), _engine(engine, version, shape, family, stock)
    try:
        question = tier.backend.gate(tier.tier, asked)
        verdict = gate.check(question if stock else replace(question, pairings=()))
        tier.backend.inject(tier.tier, replace(asked, features=verdict.features))
    except Refused:
        return None
    return frozenset(verdict.warnings)


def _engine(name: str, version: str, shape: Shape, family: str, stock: bool) -> Engine:
    own = repositories.own(name)
    image = f"{own.home}:v{version}" if own else ""
    held = contents(image) if stock else None
    return Engine(
        name,
        version,
        image=image,
        flags=shape.flags(name) or {},
        pods=shape.pods,
        namespace="default",
        phase=shape.phase,
        model="example/model",
        identity="0123456789ab",
        packages=held.packages if held else {},
        families=frozenset({family} if family in LAYOUTS else {DENSE, family}),
        accelerator=Accelerator(CUDA),
    )


@cache
def _plan(name: str) -> TierPlan:
    spec = {"inferenceClusterRef": {"name": "any"}, **TIERS[name]}
    found = plan("platform", "any", spec, encode(spec), BACKENDS)
    if not isinstance(found, TierPlan):
        raise ValueError(f"{name}: {'; '.join(map(str, found.problems))}")
    return found

"""docs/images.md: what is inside public images, and how that is known."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from function.api.base import present
from function.api.engines import ENGINES
from function.api.packages import PACKAGES
from function.backends.registry import BACKENDS
from function.composers import tier_plan
from function.contract import gate, pairings
from function.contract.accelerators.kinds import CUDA, Accelerator
from function.contract.engine import Engine
from function.contract.packages import DERIVED, Fact
from function.contract.stock_images import builds, contents
from function.contract.stock_images.facts import Contents
from function.contract.stock_images.repositories import REPOSITORIES, Repository
from function.contract.versions import Release, known_versions, releases
from function.edge.structs import encode
from function.problems import Refused
from kv_offload.docs import lmcache_builds
from kv_offload.docs.markdown import HEADER, about, code, grouped, page, table
from kv_offload.docs.variants import Variant, variants

_CU129 = "-cu129"
# Python is alike in all of them: a column would say one thing.
_COLUMNS = tuple(name for name in PACKAGES if name != "python")


def text() -> str:
    """Return the page."""
    return page(
        [
            HEADER.format(source="function/facts"),
            "# What is inside my image, and which tier takes it?",
            "",
            "A connector loads packages from the *engine's* image, so these tables decide about "
            "versions too. Plain: stated by an upstream file, or seen inside the image by its "
            "reporter. *Italic*: derived, as each section says. `1/2`: one of "
            "them. **?**: unknown. An image with the suffix `-cu129` and no row differs in CUDA "
            "(12.9) alone. The engines' own CUDA images, and LMCache's, have Python 3.12. We "
            "opened none of these images; each fact's source is in `function/facts`.",
            "",
            "Declare what is missing or wrong on the pod template; `kv-offload probe` reads it "
            "inside the image:",
            "",
            "```yaml",
            'modelplane.ai/kv-offload-packages: "lmcache=0.5.6,mooncake=0.3.13,nixl=none"',
            "```",
            "",
            *_takers(),
            *_by_engine(),
            *_section("Images with releases of their own", about("images"), _builds(), engine=True),
            *_native(),
            *_repositories(),
        ]
    )


_ITSELF, _PAYLOAD = "itself", "payload"


def _takers() -> list[str]:
    """Return the tiers that take a dense model in each image, as the gate decides."""
    plans = [
        (variant.says, _plan(variant))
        for backend in (BACKENDS[name] for name in BACKENDS.specs)
        for variant in variants(backend)
    ]
    suggested = [row for row in REPOSITORIES if row.suggested]
    images = [image for row in suggested for image in _images(row)]
    cells = [(image, tuple(_takes(plan, image) for _, plan in plans)) for image in images]
    rows = []
    for (_, taken), group in groupby(cells, lambda cell: (_kind(cell[0]), cell[1])):
        names = [image for image, _ in group]
        first, last = code(names[0]), code(_tag(names[-1]))
        says = [says for says, _ in plans]
        cell = "; ".join(
            f"{name} (payload)" if how is _PAYLOAD else name
            for name, how in zip(says, taken, strict=True)
            if how
        )
        rows.append((first if len(names) == 1 else f"{first} to {last}", cell))
    return [
        "## Which tier takes which image",
        "",
        "For a dense model on one NVIDIA GPU. `kv-offload explain` answers for a whole pod. No "
        "agent of LMCache serves images before 0.27: their lmcache speaks another protocol. Use "
        "`mode: InProcess` there, or Native, which needs nothing of an image and takes moving "
        "tags too. *(payload)*: with [`spec.payload`](payload.md) alone.",
        "",
        *table(("Image", "Tiers"), grouped(rows)),
        "",
    ]


def _plan(variant: Variant) -> tier_plan.TierPlan:
    spec = {"inferenceClusterRef": {"name": "any"}, **variant.spec}
    found = tier_plan.plan("any", "any", spec, encode(spec), BACKENDS)
    assert isinstance(found, tier_plan.TierPlan), found
    return found


def _takes(plan: tier_plan.TierPlan, image: str) -> str:
    """Return how a tier takes an image: as it is, with a payload, or "" for not at all."""
    held = present(contents(image))
    engine = Engine(
        held.engine,
        held.version,
        image=image,
        packages=held.packages,
        families=frozenset({"dense"}),
        accelerator=Accelerator(held.accelerator),
    )
    try:
        question = plan.backend.gate(plan.tier, engine)
    except Refused:
        return ""
    if _passes(question):
        return _ITSELF
    seen, brought = pairings.with_payload(question.pairings, engine)
    return _PAYLOAD if brought and _passes(plan.backend.gate(plan.tier, seen)) else ""


def _passes(question: gate.Question) -> bool:
    try:
        gate.check(question)
    except Refused:
        return False
    return True


def _section(
    title: str, words: Sequence[str], images: Iterable[str], engine: bool = False
) -> list[str]:
    """Return a table of one engine's images.

    `engine`: adds a column for it, where the tag is not its version.
    """
    head = ("Image", *(["Engine"] if engine else []), *_COLUMNS)
    rows = _rows(images, engine)
    return [f"## {title}", "", *words, *([""] if words else []), *table(head, rows), ""]


def _rows(images: Iterable[str], engine: bool) -> Iterable[tuple[str, ...]]:
    """Return a row per image; neighbouring images of a repository with equal contents share one."""
    known = [
        (image, found)
        for image in images
        if (found := contents(image)) and not _is_same_for_cuda_12(image, found)
    ]
    cells = [
        (_kind(image), (*([_engine(found)] if engine else []), *_packages(found)))
        for image, found in known
    ]
    for (_, row), group in groupby(zip(cells, known, strict=True), lambda pair: pair[0]):
        names = [image for _, (image, _) in group]
        first, last = code(names[0]), code(_tag(names[-1]))
        yield (first if len(names) == 1 else f"{first} to {last}", *row)


def _kind(image: str) -> tuple[str, str]:
    """Return the repository and the suffix behind the version: one series of tags."""
    repository, _, tag = image.rpartition(":")
    return repository, tag.partition("-")[2]


def _engine(found: Contents) -> str:
    version = found.version or "**?**"
    return f"{found.engine} " + (f"*{version}*" if found.version_known == DERIVED else version)


def _packages(found: Contents) -> tuple[str, ...]:
    return tuple(_fact(found.packages.get(name)) for name in _COLUMNS)


def _is_same_for_cuda_12(image: str, found: Contents) -> bool:
    """Return whether an image differs from the one without its suffix in CUDA alone."""
    plain = contents(image.removesuffix(_CU129))
    if plain is None or not image.endswith(_CU129):
        return False
    pairs = zip(_COLUMNS, _packages(found), _packages(plain), strict=True)
    return all(one == other for name, one, other in pairs if name != "cuda")


def _fact(fact: Fact | None) -> str:
    if fact is None or fact.versions is None:
        return "**?**"
    versions = "/".join(fact.versions) or "none"
    shown = f"*{versions}*" if fact.known == DERIVED else versions
    return f"{shown} ({fact.note})" if fact.note else shown


def _tag(image: str) -> str:
    return image.rpartition(":")[2]


def _images(row: Repository) -> Iterable[str]:
    """Yield the images of a repository that the page shows."""
    publisher = row.path.partition("/")[0]
    for example in row.examples:
        if "<supported>" in example or row.home:
            tags = [release.version for release in _supported(row.engine)]
        else:
            tags = list(builds.names(row.path) or builds.names(publisher))
        if "<" not in example:
            yield example
            continue
        for tag in tags:
            yield example.replace("<supported>", tag).replace("<release>", tag)


def _supported(engine: str) -> Iterable[Release]:
    """Yield the releases of supported lines."""
    rows = list(releases(engine))
    return rows[[row.version for row in rows].index(known_versions(engine)[0]) :]


def _own(engine: str, cuda: bool) -> list[str]:
    """Return images of the engine's own project, for CUDA or for other accelerators."""
    rows = (row for row in REPOSITORIES if row.home and row.engine == engine)
    return [i for row in rows if (row.accelerator == CUDA) is cuda for i in _images(row)]


def _builds() -> list[str]:
    """Return images whose tags are releases of their publisher's own."""
    return [i for row in REPOSITORIES if not row.home for i in _images(row)]


def _by_engine() -> Iterable[str]:
    for engine in ENGINES:
        if own := _own(engine, cuda=True):
            yield from _section(f"{engine}'s images", about(engine.lower()), own)
        if others := _own(engine, cuda=False):
            yield from _section(f"{engine}'s images for other accelerators", [], others)


def _native() -> list[str]:
    rows = ((wheel.lmcache, wheel.torch, wheel.cuda) for wheel in lmcache_builds.WHEELS)
    return [
        "## LMCache's native code",
        "",
        *about("lmcache_wheels"),
        "Compare torch, and CUDA's first number, of your image with the row of its lmcache.",
        "",
        *table(("LMCache", "torch", "CUDA"), grouped(rows)),
        "",
    ]


_READS = {
    "version": "engine version",
    "inside": "engine version after its name",
    "release": "own release",
    "nothing": "nothing",
}


def _repositories() -> list[str]:
    rows = (
        (
            code(row.path) + ("" if row.accelerator in ("", CUDA) else f" ({row.accelerator})"),
            row.engine,
            code(" ".join(row.entrypoint)) or "container's command",
            _READS[row.tags],
        )
        for row in REPOSITORIES
    )
    head = ("Repository", "Engine", "Starts", "Tag")
    return [
        "## Repositories",
        "",
        "An image matches by the end of its path, whatever the registry. Its packages are known "
        "only under the project's own path; a repository with the last element alone starts the "
        "same and may hold anything. A moving tag (`latest`, `nightly`) says nothing without a "
        "version and a digest.",
        "",
        *table(head, grouped(rows)),
        "",
    ]

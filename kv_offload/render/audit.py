"""List the known faults that engines fall under: workloads and tiers as documents, no cluster."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from function.api.consumer import KVOffloadTierRef
from function.api.input import Input
from function.composers import auto
from function.contract import advisories
from function.contract.advisories import ADVISORIES, Advisory, Treatment
from function.kube import access, objects
from function.names import ANNOTATION_RECORD, LABEL_FLEET
from function.pods import events, record
from function.pods.engine import engine_of
from function.pods.gang import EngineRequest
from function.pods.offload_request import OffloadRequest, find
from function.pods.siblings import SiblingResources
from function.problems import Refused
from kv_offload.render.files import InputError
from kv_offload.render.tiers import plan_of

Document = dict[str, Any]

_FILE = "the tiers"
_PROVIDER_CONFIG = ("status", "providerConfigRef", "name")
_MEANS = {
    Treatment.REFUSE: "refused today",
    Treatment.CAUTION: "wired with this warning",
    Treatment.NONE: "not visible to the function",
}


@dataclass(frozen=True)
class Audited:
    """One engine with its tier. `engine`: its gang's name, "" for the only one of a workload.

    `problem`: why it could not be judged, "" where it was; then `found` are its advisories.
    """

    workload: str
    engine: str
    tier: str
    found: tuple[Advisory, ...] = ()
    problem: str = ""

    @property
    def refused(self) -> bool:
        """Whether the gate would refuse this engine today."""
        return any(advisory.action is Treatment.REFUSE for advisory in self.found)

    def as_json(self) -> Document:
        return {
            "workload": self.workload,
            "engine": self.engine,
            "tier": self.tier,
            "problem": self.problem,
            "advisories": [
                {
                    "id": advisory.id,
                    "effect": advisory.effect.value,
                    "action": advisory.action.value,
                    "summary": advisory.summary,
                    "advice": advisory.advice or advisory.handled,
                    "fixed": advisory.fixed,
                    "references": list(advisory.references),
                }
                for advisory in self.found
            ],
        }


def audit(documents: Sequence[Document], step_input: Input) -> list[Audited]:
    """Judge every engine that names a tier, or was wired to one, in the order of the documents.

    `documents`: tiers, and workloads bare or in Objects; others are passed over.
    """
    tiers = [d for d in documents if d.get("kind") == "KVOffloadTier"]
    siblings = SiblingResources.among(objects.unwrap(d) or d for d in documents)
    found: list[Audited] = []
    for document in documents:
        request = find("audited", document, _recorded(document), step_input, "", siblings)
        if request is not None:
            found += _of_workload(request, tiers)
    return found


def _record(document: Document) -> record.Record | None:
    text = access.texts(document, "metadata", "annotations").get(ANNOTATION_RECORD, "")
    return record.load(text)[0] if text else None


def _recorded(document: Document) -> KVOffloadTierRef | None:
    """Return the tier of a workload's record: a field of its composite may have named it."""
    known = _record(document)
    namespace, _, name = known.tier.partition("/") if known else ("", "", "")
    return KVOffloadTierRef(name=name, namespace=namespace) if name else None


def _of_workload(request: OffloadRequest, tiers: Sequence[Document]) -> Iterator[Audited]:
    manifest = request.manifest
    names = (access.text(manifest, "metadata", field) for field in ("namespace", "name"))
    title = f"{manifest.get('kind')} {'/'.join(filter(None, names))}"
    ref = request.ref
    if ref is not None and auto.is_auto(ref):
        ref = auto.recorded(_record(request.resource)) or ref
    named = str(ref or "")
    tier = _serving(request, [t for t in tiers if named in _names(t)])
    if request.refused is not None or tier is None:
        missing = f"KVOffloadTier {named} is not among the documents"
        if ref is not None and auto.is_auto(ref):
            missing = f"{named} has chosen no tier yet: audit what runs, or what wire prints"
        problem = str(request.refused or missing)
        yield Audited(title, "", named, problem=problem)
        return
    for each in request.engines:
        if each.left_alone:
            continue
        engine = each.gang.name
        try:
            found = tuple(_hits(each, request, tier, tiers))
        except (Refused, InputError) as refused:
            yield Audited(title, engine, named, problem=str(refused))
        else:
            yield Audited(title, engine, named, found)


def _serving(request: OffloadRequest, called: Sequence[Document]) -> Document | None:
    """Return the tier of the workload's cluster, else the first of those with the name."""
    where = request.provider_config
    here = (t for t in called if where and access.text(t, *_PROVIDER_CONFIG) == where)
    return next(here, next(iter(called), None))


def _names(tier: Document) -> set[str]:
    """Return the names by which consumers reach a tier: its own, and its fleet's."""
    namespace = access.text(tier, "metadata", "namespace")
    fleet = access.texts(tier, "metadata", "labels").get(LABEL_FLEET, "")
    names = (access.text(tier, "metadata", "name"), fleet)
    return {f"{namespace}/{name}" for name in names if name}


def _hits(
    engine_request: EngineRequest,
    request: OffloadRequest,
    tier: Document,
    given: Sequence[Document],
) -> list[Advisory]:
    """Return the advisories of one engine, by number. Raise Refused for one that is unreadable."""
    planned, _ = plan_of(tier, _FILE, given)
    backend = planned.backend
    described = backend.describe(planned.tier)
    engine, _ = engine_of(engine_request, request, planned.tier, backend, described, "")
    assumed = backend.assumes(planned.tier, engine.name)
    seen = events.with_event_flags(planned.tier, engine, assumed)
    found = advisories.hits(*backend.gate(planned.tier, seen).circumstances)
    return sorted((a for a in found if a.action in _MEANS), key=lambda advisory: advisory.id)


def lines(audited: Audited) -> Iterator[str]:
    """Yield what people read of one engine."""
    engine = f", engine {audited.engine}" if audited.engine else ""
    mark = "✘" if audited.refused or audited.problem else "·" if audited.found else "✔"
    yield f"{mark} {audited.workload}{engine}, tier {audited.tier}"
    if audited.problem:
        yield f"  not judged: {audited.problem}"
    elif not audited.found:
        yield f"  none of {len(ADVISORIES.rows)} known faults"
    for advisory in audited.found:
        means = _MEANS[advisory.action]
        yield f"  {advisory.id} ({advisory.effect.value}, {means}): {advisory.summary}"
        if advisory.advice or advisory.handled:
            yield f"    {advisory.advice or advisory.handled}"

"""Wire manifests that Helm, kustomize or Argo CD apply, as the function wires composed ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from function import workloads
from function.api.base import present
from function.api.input import Input
from function.composers import auto, pinned, tier_names
from function.composers.admission import admits
from function.composers.consumer import companions, disaggregation
from function.composers.consumer.disaggregation import PhaseGroup
from function.composers.tier_plan import TierPlan
from function.kube import access, naming, objects
from function.names import ANNOTATION_TIER, LABEL_AUTO
from function.pods import wire
from function.pods.gang import LEFT_ALONE
from function.pods.offload_request import OffloadRequest, find, ignored_annotations_in
from function.pods.refs import Ref
from function.pods.siblings import SiblingResources
from function.problems import Refused
from function.reasons import Policy, Reason
from kv_offload.render import memory
from kv_offload.render.files import InputError
from kv_offload.render.tiers import plan_of

Document = dict[str, Any]

# They say when a manifest is applied: what its pods mount must not come later.
_ORDER = ("argocd.argoproj.io/", "helm.sh/hook")


@dataclass
class WiredManifests:
    """All documents, the wired ones in place of theirs, each behind the ConfigMap of its files.

    `refused`: why workloads that need a tier cannot be wired: then nothing may be applied. `notes`:
    what else to know. Both are (workload, text).
    """

    documents: list[Document] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class _Outcome:
    """One document: as written, in its namespace, and what was decided for its workload."""

    document: Document
    placed: Document
    title: str
    request: OffloadRequest | None = None
    plan: TierPlan | None = None
    wired: wire.Wired | None = None
    refused: str = ""
    notes: list[str] = field(default_factory=list)

    def refuse(self, refused: Refused) -> None:
        """Take a refusal as the request's policy has it."""
        self.wired, text = None, f"{refused.reason}: {refused}"
        is_optional = self.request is not None and self.request.policy is Policy.OPTIONAL
        if is_optional or refused.reason in LEFT_ALONE:
            self.notes.append(f"left unwired. {text}")
        else:
            self.refused = text


class Wirer:
    """Wires workloads to the tiers that their pods name.

    `tiers`: documents, with those that they need. `namespace`: of workloads that say none.
    """

    def __init__(self, tiers: Sequence[Document], step_input: Input, namespace: str) -> None:
        self._tiers: dict[tuple[str, str], Document] = {}
        for tier in tiers:
            _, *key = access.named(tier)
            if self._tiers.setdefault((key[0], key[1]), tier) != tier:
                raise InputError(f"KVOffloadTier {key[0]}/{key[1]} is given twice, and differs")
        self._input, self._namespace = step_input, namespace
        self._plans: dict[tuple[str, str], TierPlan] = {}

    def wire_all(self, documents: Sequence[Document]) -> WiredManifests:
        """Return the documents with every workload wired that names a tier. Raise InputError."""
        placed = [self._placed(document) for document in documents]
        siblings = SiblingResources.among(placed)
        found = [
            self._decide(document, there, siblings)
            for document, there in zip(documents, placed, strict=True)
        ]
        _refuse_disagreement(found)
        answer = WiredManifests(notes=[("", note) for note in disaggregation.notes(_groups(found))])
        if not any(outcome.request or outcome.refused for outcome in found):
            answer.notes.append(
                ("", f"No pod names a tier by {ANNOTATION_TIER}: nothing is wired.")
            )
        made = [list(_written(outcome)) for outcome in found]
        files = {access.named(each) for written in made for each in written[:-1]}
        for outcome, written in zip(found, made, strict=True):
            if access.named(outcome.placed) not in files:  # else an earlier output, wired again
                named = bool(access.text(outcome.document, "metadata", "namespace"))
                answer.documents += [each if named else _without_place(each) for each in written]
            answer.notes += [(outcome.title, note) for note in outcome.notes]
            answer.refused += [(outcome.title, outcome.refused)] * bool(outcome.refused)
        return answer

    def _placed(self, document: Document) -> Document:
        """Return the document in its namespace, by which tiers and ConfigMaps are found."""
        metadata = access.mapping(document, "metadata")
        if metadata.get("namespace") or not self._namespace:
            return document
        return {**document, "metadata": {**metadata, "namespace": self._namespace}}

    def _decide(self, document: Document, placed: Document, siblings: SiblingResources) -> _Outcome:
        outcome = _Outcome(document, placed, _title(placed))
        request = find(outcome.title, placed, None, self._input, "", siblings)
        ignored = [
            str(each)
            for each in ignored_annotations_in(outcome.title, document, self._input, request)
        ]
        outcome.request = request
        if request is None:
            outcome.refused = " ".join(ignored)  # asked for, and nothing would come of it
            return outcome
        outcome.notes += ignored
        if request.policy is Policy.OFF and request.refused is None:
            return outcome
        try:
            request = outcome.request = self._choose(request)
            outcome.plan, outcome.wired = self._wire(request)
        except Refused as refused:
            outcome.refuse(refused)
        else:
            tier = self._tiers[_key(request)]
            outcome.notes += [
                outcome.wired.summary,
                *(f"memory: {each}" for each in memory.changes(placed, outcome.wired.manifest)),
                *_not_ready(tier),
            ]
        return outcome

    def _choose(self, request: OffloadRequest) -> OffloadRequest:
        """Return the request with the first labelled tier that takes it, where it names `auto`."""
        ref = request.ref
        if request.refused is not None or ref is None or not auto.is_auto(ref):
            return request
        refused: dict[Ref, Refused] = {}
        for (namespace, name), tier in sorted(self._tiers.items()):
            if namespace != ref.namespace or not auto.is_labelled(tier):
                continue
            named = replace(request, ref=Ref(namespace, name))
            try:
                self._wire(named)
            except Refused as why:
                refused[Ref(namespace, name)] = why
            else:
                return named
        if refused:
            raise auto.none_takes(ref, refused)
        text = f"no KVOffloadTier of --tier in {ref.namespace} has the label {LABEL_AUTO}"
        raise Refused(Reason.TIER_NOT_FOUND, text)

    def _wire(self, request: OffloadRequest) -> tuple[TierPlan, wire.Wired]:
        if request.refused is not None:
            raise request.refused
        if objects.is_object(request.resource):
            text = "an Object is wired by the function's step: wire the manifest, or add the step"
            raise Refused(Reason.POD_CONFLICT, text)
        _, namespace, name = access.named(request.resource)
        if not namespace or not name:
            missing = "metadata.name" if namespace else "metadata.namespace: pass --namespace"
            raise InputError(f"{_title(request.resource)} has no {missing}")
        key = _key(request)
        tier = self._tiers.get(key)
        if tier is None:
            raise Refused(Reason.TIER_NOT_FOUND, f"KVOffloadTier {request.ref} is not in --tier")
        if access.mapping(tier, "spec", "clusterSelector"):
            text = f"KVOffloadTier {request.ref} is a fleet's: name its child on this cluster"
            raise Refused(Reason.TIER_NOT_FOUND, text)
        if not admits(tier, namespace):
            text = f"the tier's spec.allowedNamespaces does not admit namespace {namespace!r}"
            raise Refused(Reason.NAMESPACE_NOT_ALLOWED, text)
        if tier_names.is_refused(tier):
            text = f"KVOffloadTier {request.ref} is not valid: see its condition Accepted"
            raise Refused(Reason.INVALID_TIER, text)
        if key not in self._plans:
            given = list(self._tiers.values())
            self._plans[key], _ = plan_of(tier, f"KVOffloadTier {request.ref}", given)
        plan = self._plans[key]
        if text := pinned.unjudged(tier, plan):
            raise Refused(Reason.TIER_NOT_READY, f"KVOffloadTier {request.ref}: {text}")
        name = _files_name(request)
        return plan, wire.wire(request, plan.tier, plan.backend, name, namespace)


def _refuse_disagreement(outcomes: Sequence[_Outcome]) -> None:
    """Refuse engines of one tier that do not go together, such as a prefill and decode pair."""
    together: dict[tuple[str, str], list[_Outcome]] = {}
    for outcome in outcomes:
        if outcome.wired is not None:
            together.setdefault(_key(present(outcome.request)), []).append(outcome)
    for group in together.values():
        plan = present(group[0].plan)
        engines = [engine for each in group for engine in present(each.wired).engines]
        try:
            plan.backend.agree(plan.tier, engines)
        except Refused as refused:
            for outcome in group:
                outcome.refuse(refused)


def _groups(outcomes: Sequence[_Outcome]) -> Iterator[PhaseGroup]:
    for outcome in outcomes:
        if outcome.request is not None:
            yield from disaggregation.requested_groups(outcome.request)
            continue
        try:
            workload = workloads.find(outcome.placed)
        except Refused:
            continue
        if workload is not None:
            yield from disaggregation.silent_groups(outcome.title, workload)


def _written(outcome: _Outcome) -> Iterator[Document]:
    """Yield the ConfigMap of a wired workload's files and the workload, or what was written."""
    request, wired = outcome.request, outcome.wired
    if request is None or wired is None:
        yield outcome.document
        return
    made = companions.config_maps("", _files_name(request), [(request, wired.record)])
    for files in made.values():
        annotations = access.mapping(outcome.document, "metadata", "annotations")
        order = {k: v for k, v in annotations.items() if str(k).startswith(_ORDER)}
        metadata = files["metadata"] | ({"annotations": order} if order else {})
        yield {**files, "metadata": metadata}
    yield wire.put_back(request, wired.manifest, wired.record)


def _without_place(document: Document) -> Document:
    """Return a document without a namespace, as its author wrote it."""
    metadata = access.mapping(document, "metadata")
    return {**document, "metadata": {k: v for k, v in metadata.items() if k != "namespace"}}


def _files_name(request: OffloadRequest) -> str:
    kind, namespace, name = access.named(request.manifest)
    return naming.label(name, "kv-offload", unique=(kind, namespace, name), limit=63)


def _key(request: OffloadRequest) -> tuple[str, str]:
    ref = present(request.ref)
    return ref.namespace, ref.name


def _not_ready(tier: Document) -> Iterator[str]:
    """Yield a note where the tier says that it is not ready: the function would hold engines."""
    if access.objects(tier, "status", "conditions") and not tier_names.is_ready(tier):
        why = tier_names.unready(tier)
        yield f"The tier is not ready: {why} Engines that start now may start without it."


def _title(document: Document) -> str:
    kind, namespace, name = access.named(objects.unwrap(document) or document)
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"

"""Wire manifests that Helm, kustomize or Argo CD apply, as the function wires composed ones."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from function.api.input import Input
from function.composers.admission import admits
from function.composers.consumer import companions
from function.composers.tier_plan import TierPlan
from function.kube import access, naming, objects
from function.pods import wire
from function.pods.offload_request import OffloadRequest, find, ignored_annotations_in
from function.pods.siblings import SiblingResources
from function.problems import Refused
from function.reasons import Policy, Reason
from kv_offload.render import explain
from kv_offload.render.files import InputError

Document = dict[str, Any]


@dataclass
class WiredManifests:
    """All documents, the wired ones in place of theirs, each behind the ConfigMap of its files.

    `refused`: why workloads that need a tier cannot be wired: then nothing may be applied. `notes`:
    what else to know. Both are (workload, text).
    """

    documents: list[Document] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)


class Wirer:
    """Wires workloads to the tiers that their pods name.

    `tiers`: documents, with those that they need. `namespace`: of workloads that say none.
    """

    def __init__(self, tiers: Sequence[Document], step_input: Input, namespace: str) -> None:
        self._tiers = {access.named(tier)[1:]: tier for tier in tiers}
        self._given, self._input, self._namespace = tiers, step_input, namespace
        self._plans: dict[tuple[str, str], TierPlan] = {}

    def wire_all(self, documents: Sequence[Document]) -> WiredManifests:
        """Return the documents with every workload wired that names a tier. Raise InputError."""
        siblings = SiblingResources.among(documents)
        answer = WiredManifests()
        made: dict[int, list[Document]] = {}
        for number, document in enumerate(documents):
            made[number] = list(self._wire(document, siblings, answer))
        written = {access.named(each) for found in made.values() for each in found[:-1]}
        for number, document in enumerate(documents):
            if access.named(document) not in written:  # an earlier output of this, wired again
                answer.documents += made[number]
        return answer

    def _wire(
        self, document: Document, siblings: SiblingResources, answer: WiredManifests
    ) -> Iterator[Document]:
        title = _title(document)
        placed = self._placed(document)
        request = find("manifest", placed, None, self._input, "", siblings)
        ignored = ignored_annotations_in("manifest", document, self._input, request)
        answer.notes += [(title, str(each)) for each in ignored]
        if request is None or (request.policy is Policy.OFF and request.refused is None):
            yield document
            return
        _, namespace, name = access.named(placed)
        unique = (*access.named(request.manifest)[:2], name)
        files_name = naming.label(name, "kv-offload", unique=unique, limit=63)
        try:
            wired, notes = self._wire_request(request, namespace, files_name)
        except Refused as refused:
            text = f"{refused.reason}: {refused}"
            if request.policy is Policy.OPTIONAL:
                answer.notes.append((title, f"left unwired. {text}"))
            else:
                answer.refused.append((title, text))
            yield document
            return
        answer.notes += [(title, note) for note in (wired.summary, *notes)]
        files = companions.config_map(files_name, [(request, wired.record)])
        if files:
            yield files
        yield wire.put_back(request, wired.manifest, wired.record)

    def _placed(self, document: Document) -> Document:
        """Return the document with its namespace: that of its ConfigMap, which the tier admits."""
        metadata = access.mapping(document, "metadata")
        if metadata.get("namespace") or not self._namespace:
            return document
        return {**document, "metadata": {**metadata, "namespace": self._namespace}}

    def _wire_request(
        self, request: OffloadRequest, namespace: str, files_name: str
    ) -> tuple[wire.Wired, Iterable[str]]:
        if request.refused is not None or request.ref is None:
            raise request.refused or Refused(Reason.TIER_NOT_FOUND, "no tier is named")
        if not namespace:
            raise InputError(f"{_title(request.resource)} has no metadata.namespace: --namespace")
        key = (request.ref.namespace, request.ref.name)
        tier = self._tiers.get(key)
        if tier is None:
            raise Refused(Reason.TIER_NOT_FOUND, f"KVOffloadTier {request.ref} is not in --tier")
        if access.mapping(tier, "spec", "clusterSelector"):
            text = f"KVOffloadTier {request.ref} is a fleet's: name its child on this cluster"
            raise Refused(Reason.TIER_NOT_FOUND, text)
        if not admits(tier, namespace):
            text = f"the tier's spec.allowedNamespaces does not admit namespace {namespace!r}"
            raise Refused(Reason.NAMESPACE_NOT_ALLOWED, text)
        if key not in self._plans:
            self._plans[key], _ = explain.plan_of(tier, f"KVOffloadTier {request.ref}", self._given)
        plan = self._plans[key]
        wired = wire.wire(request, plan.tier, plan.backend, files_name, namespace)
        return wired, _not_ready(tier)


def _not_ready(tier: Document) -> Iterator[str]:
    """Yield a note where the tier says that it is not ready: the function would hold engines."""
    for condition in access.objects(tier, "status", "conditions"):
        if condition.get("type") == "Ready" and condition.get("status") != "True":
            why = f"{condition.get('reason', '')} {condition.get('message', '')}".strip()
            yield f"The tier is not ready ({why}): engines that start now may start without it."


def _title(document: Document) -> str:
    kind, namespace, name = access.named(objects.unwrap(document) or document)
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"

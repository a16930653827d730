"""Reconcile a composite once, in process, as `crossplane composition render` does.

Source: `internal/render/composite/render.go` and
`internal/controller/apiextensions/composite/reconciler.go` of crossplane v2.4.0. Only what a modern
(not LegacyCluster) composite needs is here.
"""

import asyncio
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crossplane.function import resource
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from function.kube import access, naming
from kv_offload.render import conditions, derive, pipeline
from kv_offload.render.derive import KEY_ANNOTATION, quote
from kv_offload.render.schemas import Schemas
from kv_offload.render.store import Store, key_of

Document = dict[str, Any]

# Where core says what it set on the composite; the function sees it so.
_RESOURCE_VERSION = "999"


class RenderError(Exception):
    """Core fails and prints only this message (exit 1)."""


@dataclass(frozen=True)
class Inputs:
    """The inputs of a render: documents as read, and the functions that run in process.

    `runners`: by the name that the steps' `functionRef` has. `schemas`: OpenAPI v3 documents.
    `context`: seeds the pipeline's context.
    """

    xr: Document
    composition: Document
    runners: Mapping[str, pipeline.Runner]
    observed: Sequence[Document] = ()
    required: Sequence[Document] = ()
    credentials: Sequence[Document] = ()
    schemas: Sequence[Document] = ()
    context: Document = field(default_factory=dict)


@dataclass
class Rendered:
    """The writes of a reconcile.

    `xr`: the composite (on a fatal: all of it, its status updated). `composed`: by key, ordered.
    `deleted`: what core would delete. `events`: what `-r` prints. `fatal`: the message of a step's
    fatal result, or "". `calls`: RunFunction calls by step. `ready`: {key: said to be ready}.
    `existing`: keys that were observed.
    """

    xr: Document
    composed: list[Document] = field(default_factory=list)
    deleted: list[Document] = field(default_factory=list)
    events: list[pipeline.Event] = field(default_factory=list)
    context: Document = field(default_factory=dict)
    fatal: str = ""
    calls: dict[str, int] = field(default_factory=dict)
    ready: dict[str, bool] = field(default_factory=dict)
    existing: frozenset[str] = frozenset()
    ttl_seconds: float = 0.0

    def documents(self) -> list[Document]:
        """Return what the CLI prints without further flags."""
        return [self.xr, *self.composed]

    def results(self) -> list[Document]:
        """Return the events as the documents that `-r` prints."""
        return [
            {
                "apiVersion": "render.crossplane.io/v1beta1",
                "kind": "Result",
                "severity": event.kind,
                "reason": event.reason,
                "message": event.message,
            }
            for event in self.events
        ]


def render(inputs: Inputs) -> Rendered:
    """Render once. Raise RenderError where core fails without output."""
    xr = _prepare(inputs)
    store = Store([xr])
    for documents in (inputs.observed, inputs.required, inputs.credentials):
        for document in documents:
            store.put(copy.deepcopy(document))
    return _Reconcile(inputs, store, key_of(xr)).run()


def _prepare(inputs: Inputs) -> Document:
    """Return the composite as core sees it: with uid, resourceVersion and references."""
    xr = copy.deepcopy(inputs.xr)
    metadata = xr.setdefault("metadata", {})
    api_version, kind, namespace, name = key_of(xr)
    metadata["uid"] = metadata.get("uid") or derive.uid(api_version, kind, namespace, name)
    metadata["resourceVersion"] = _RESOURCE_VERSION
    errors = []
    for document in inputs.observed:
        own = document.get("metadata") or {}
        owner = derive.controller(document)
        if owner is not None and owner.get("uid") != metadata["uid"]:
            errors.append(
                f"observed resource {own.get('name', '')} has a controller ref but is not"
                " controlled by the XR"
            )
        if namespace and own.get("namespace", "") != namespace:
            errors.append(
                f"observed resource {own.get('name', '')} is not in the same namespace as the XR"
            )
    if errors:
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        raise RenderError(f"invalid observed resources: {text}")
    if inputs.observed:
        refs = [derive.resource_refs([d], namespaced=bool(namespace))[0] for d in inputs.observed]
        for ref in refs:
            ref.pop("uid", None)
        _machinery(xr)["resourceRefs"] = refs
    return xr


def _machinery(xr: Document) -> Document:
    """Return `spec.crossplane`, made if missing."""
    spec = xr["spec"] = xr.get("spec") or {}
    machinery: Document = spec.get("crossplane") or {}
    spec["crossplane"] = machinery
    return machinery


class _Reconcile:
    """The state of one reconcile: the composite in memory, and the writes core would make."""

    def __init__(self, inputs: Inputs, store: Store, key: tuple[str, str, str, str]) -> None:
        self.inputs = inputs
        self.store = store
        self.key = key
        self.xr: Document = copy.deepcopy(store.get(key) or {})
        self.updated: Document | None = None  # the last Update or status update of the composite
        self.applied: Document | None = None  # the last status patch of the composite
        self.events: list[pipeline.Event] = []

    def run(self) -> Rendered:
        before = copy.deepcopy(self.xr.get("status"))
        generation = int(self.xr["metadata"].get("generation") or 0)
        conditions.put(self.xr, conditions.RESPONSIVE, generation=generation)
        self._select_composition()
        observed = self._observe()
        try:
            outcome = asyncio.run(self._pipeline(observed))
            rendered = self._apply(outcome, observed)
        except pipeline.PipelineFatal as fatal:
            return self._fatal(fatal, generation)
        except (pipeline.PipelineError, derive.DeriveError) as error:
            raise RenderError(f"reconcile failed: cannot compose resources: {error}") from error
        if before != self.xr.get("status"):
            self._update_status()
        rendered.xr = copy.deepcopy(self.updated or self.applied or self.xr)
        _fix_times(rendered)
        return rendered

    def _select_composition(self) -> None:
        """Set compositionRef in memory only, and the label by an update of the composite."""
        name = self.inputs.composition["metadata"]["name"]
        machinery = _machinery(self.xr)
        if machinery.get("compositionRef") != {"name": name}:
            message = f"Successfully selected composition: {name}"
            self.events.append(pipeline.Event("Normal", "SelectComposition", message))
        machinery["compositionRef"] = {"name": name}
        labels = self.xr["metadata"].get("labels") or {}
        if not labels.get(naming.COMPOSITE_LABEL):
            labels = labels | {naming.COMPOSITE_LABEL: self.xr["metadata"]["name"]}
            self.xr["metadata"]["labels"] = labels
            self.updated = copy.deepcopy(self.xr)
            self.store.put(self.updated)

    def _observe(self) -> dict[str, Document]:
        """Return observed resources by key, in the order of the composite's references."""
        observed = {}
        namespace = self.xr["metadata"].get("namespace") or ""
        for ref in access.objects(_machinery(self.xr), "resourceRefs"):
            api_version, kind, place, name = (
                access.text(ref, field) for field in ("apiVersion", "kind", "namespace", "name")
            )
            document = self.store.get((api_version, kind, namespace or place, name))
            if not name or document is None:
                continue
            owner = derive.controller(document)
            if owner is not None and owner.get("uid") != self.xr["metadata"].get("uid"):
                continue
            key = (document["metadata"].get("annotations") or {}).get(KEY_ANNOTATION)
            if not key:
                raise RenderError(
                    "reconcile failed: cannot compose resources: cannot get existing composed"
                    " resources: encountered composed resource without required"
                    f' "{KEY_ANNOTATION}" annotation'
                )
            observed[key] = document
        return observed

    async def _pipeline(self, observed: Mapping[str, Document]) -> pipeline.Outcome:
        around = pipeline.Surroundings(
            xr=self.xr,
            observed=observed,
            store=self.store,
            schemas=Schemas(self.inputs.schemas),
            runners=self.inputs.runners,
        )
        steps = (self.inputs.composition.get("spec") or {}).get("pipeline") or []
        return await pipeline.run(steps, around, dict(self.inputs.context))

    def _apply(self, outcome: pipeline.Outcome, observed: Mapping[str, Document]) -> Rendered:
        composed = {}
        for key in sorted(outcome.desired.resources):
            desired = resource.struct_to_dict(outcome.desired.resources[key].resource)
            composed[key] = self._composed(key, desired, observed.get(key))
        deleted = [document for key, document in observed.items() if key not in composed]
        self._patch_status(outcome, list(composed.values()))
        self._keep(outcome)
        ready = {key: outcome.desired.resources[key].ready == fnv1.READY_TRUE for key in composed}
        self._mark_ready(outcome.desired.composite.ready, ready)
        return Rendered(
            xr={},
            composed=list(composed.values()),
            deleted=copy.deepcopy(deleted),
            events=self.events,
            context=outcome.context,
            calls=outcome.calls,
            ready=ready,
            existing=frozenset(observed),
            ttl_seconds=outcome.ttl_seconds,
        )

    def _composed(self, key: str, desired: Document, existing: Document | None) -> Document:
        metadata = desired.setdefault("metadata", {})
        if existing is not None:
            for name in ("namespace", "name", "generateName"):
                value = existing["metadata"].get(name)
                if value:
                    metadata[name] = value
                else:
                    metadata.pop(name, None)
        own, theirs = self.xr["metadata"].get("namespace"), metadata.get("namespace")
        if own and theirs and own != theirs:
            message = (
                f"cannot create composed resource {quote(key)} in namespace {quote(theirs)},"
                f" using XR namespace {quote(own)} instead"
            )
            self.events.append(pipeline.Event("Warning", "NamespaceOverridden", message))
        derive.add_metadata(desired, self.xr, key)
        return desired

    def _patch_status(self, outcome: pipeline.Outcome, composed: list[Document]) -> None:
        """Replace the composite by its references, then its status by the desired one.

        In a cluster the API server answers with the whole object; the render engine keeps only the
        references, which is why the CLI prints a composite without its spec.
        """
        api_version, kind, namespace, name = key_of(self.xr)
        metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
        refs = derive.resource_refs(composed, namespaced=bool(namespace))
        stored: Document = {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": metadata,
            "spec": {"crossplane": {"resourceRefs": refs}},
        }
        pending = conditions.read(self.xr)
        desired = resource.struct_to_dict(outcome.desired.composite.resource)
        conditions.put(desired, *pending)
        self.xr = stored | {"status": desired["status"]}
        self.applied = copy.deepcopy(self.xr)
        self.store.put(self.applied)

    def _keep(self, outcome: pipeline.Outcome) -> None:
        """Keep the functions' events and conditions; system conditions are not theirs to set."""
        self.events.extend(outcome.events)
        for condition in outcome.conditions:
            if condition["type"] not in conditions.SYSTEM_TYPES:
                conditions.put(self.xr, condition)

    def _mark_ready(self, flag: int, ready: Mapping[str, bool]) -> None:
        unready = sorted(key for key, value in ready.items() if not value)
        for key in unready:
            message = f"Composed resource {quote(key)} is not yet ready"
            self.events.append(pipeline.Event("Normal", "ComposeResources", message))
        condition = conditions.AVAILABLE
        if unready:
            message = f"Unready resources: {derive.first_and_more(unready)}"
            condition = conditions.CREATING | {"message": message}
        if flag == fnv1.READY_TRUE:
            condition = conditions.AVAILABLE
        elif flag == fnv1.READY_FALSE:
            condition = conditions.CREATING
        conditions.put(self.xr, conditions.SYNCED, condition)

    def _fatal(self, fatal: pipeline.PipelineFatal, generation: int) -> Rendered:
        message = f"cannot compose resources: {fatal}"
        self.events.append(pipeline.Event("Warning", "ComposeResources", message))
        error = conditions.reconcile_error(message)
        conditions.put(self.xr, error, generation=generation)
        self._keep(fatal.outcome)
        seen = {condition["type"] for condition in fatal.outcome.conditions}
        for condition in conditions.read(self.xr):
            if condition["type"] in seen | conditions.SYSTEM_TYPES:
                continue
            unknown = condition | {
                "status": "Unknown",
                "reason": "FatalError",
                "message": "A fatal error occurred before the status of this condition could be"
                " determined.",
            }
            conditions.put(self.xr, unknown, generation=generation)
        self._update_status()
        rendered = Rendered(
            xr=copy.deepcopy(self.updated or self.xr),
            events=self.events,
            fatal=str(fatal),
            calls=fatal.outcome.calls,
        )
        _fix_times(rendered)
        return rendered

    def _update_status(self) -> None:
        stored = self.store.get(self.key) or self.xr
        self.updated = copy.deepcopy(stored) | {"status": copy.deepcopy(self.xr["status"])}
        self.store.put(self.updated)


def _fix_times(rendered: Rendered) -> None:
    for document in rendered.documents():
        conditions.fix_times(document)


def context_document(rendered: Rendered) -> Document:
    """Return the pipeline's context as the document that `-c` prints."""
    return {
        "apiVersion": "render.crossplane.io/v1beta1",
        "kind": "Context",
        "fields": rendered.context,
    }

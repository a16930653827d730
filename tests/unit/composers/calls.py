"""One RunFunction call from plain documents to a plain answer, for the tables of this folder."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from google.protobuf import struct_pb2 as structpb

from function.backends.registry import BACKENDS, Registry
from function.edge import structs
from function.fn import FunctionRunner
from function.names import CONTEXT_ASKED

Document = dict[str, Any]

READY = {"type": "Ready", "status": "True", "reason": "Available"}


@dataclass
class Outcome:
    """The response as plain data. Conditions as {type: (status, reason)}."""

    desired: dict[str, Document]
    ready: dict[str, str]
    conditions: dict[str, tuple[str, str]]
    messages: dict[str, str]
    requirements: dict[str, Document]
    schemas: dict[str, str]
    status: Document
    composite_ready: str
    ttl: int
    fatals: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def call(
    composite: Document,
    *,
    step_input: Document | None = None,
    desired: Mapping[str, Document] | None = None,
    observed: Mapping[str, Document] | None = None,
    required: Mapping[str, list[Document]] | None = None,
    schemas: Mapping[str, Document] | None = None,
    seeded: bool = False,
    backends: Registry = BACKENDS,
    now: float = 0.0,
) -> Outcome:
    """Run the function once, as `request` says it."""
    asked = request(
        composite,
        step_input=step_input,
        desired=desired,
        observed=observed,
        required=required,
        schemas=schemas,
        seeded=seeded,
    )
    return outcome(asyncio.run(FunctionRunner(backends, lambda: now).RunFunction(asked, None)))


def request(
    composite: Document,
    *,
    step_input: Document | None = None,
    desired: Mapping[str, Document] | None = None,
    observed: Mapping[str, Document] | None = None,
    required: Mapping[str, list[Document]] | None = None,
    schemas: Mapping[str, Document] | None = None,
    seeded: bool = True,
) -> fnv1.RunFunctionRequest:
    """`required`: by requirement name; a name left out is unresolved.

    `schemas`: OpenAPI schemas by requirement name. `seeded`: core brings what is required with the
    first call of a reconcile, and so watches it; otherwise with the second.
    """
    asked = fnv1.RunFunctionRequest()
    asked.observed.composite.resource.CopyFrom(_struct(composite))
    if step_input is not None:
        asked.input.CopyFrom(_struct(step_input))
    for key, document in (desired or {}).items():
        asked.desired.resources[key].resource.CopyFrom(_struct(document))
    for key, document in (observed or {}).items():
        asked.observed.resources[key].resource.CopyFrom(_struct(document))
    for name, documents in (required or {}).items():
        items = asked.required_resources[name]
        items.SetInParent()
        for document in documents:
            items.items.add().resource.CopyFrom(_struct(document))
    if required and not seeded:
        asked.context.fields[CONTEXT_ASKED].bool_value = True
    for name, schema in (schemas or {}).items():
        asked.required_schemas[name].openapi_v3.CopyFrom(_struct(schema))
    return asked


def _struct(document: Document) -> structpb.Struct:
    return structpb.Struct.FromString(structs.encode(document))


def outcome(response: fnv1.RunFunctionResponse) -> Outcome:
    resources = response.desired.resources
    return Outcome(
        desired={k: structs.decode(resources[k].resource) for k in sorted(resources)},
        ready={k: fnv1.Ready.Name(resources[k].ready)[6:] for k in sorted(resources)},
        conditions={
            c.type: (fnv1.Status.Name(c.status)[17:].title(), c.reason) for c in response.conditions
        },
        messages={c.type: c.message for c in response.conditions},
        requirements={
            name: _selector(selector)
            for name, selector in sorted(response.requirements.resources.items())
        },
        schemas={k: v.kind for k, v in sorted(response.requirements.schemas.items())},
        status=structs.decode(response.desired.composite.resource).get("status", {}),
        composite_ready=fnv1.Ready.Name(response.desired.composite.ready)[6:],
        ttl=response.meta.ttl.seconds,
        fatals=[r.message for r in response.results if r.severity == fnv1.SEVERITY_FATAL],
        warnings=[r.message for r in response.results if r.severity == fnv1.SEVERITY_WARNING],
    )


def _selector(selector: fnv1.ResourceSelector) -> Document:
    out: Document = {"kind": selector.kind}
    if selector.HasField("match_name"):
        out["name"] = selector.match_name
    if selector.HasField("match_labels"):
        out["labels"] = dict(selector.match_labels.labels)
    if selector.HasField("namespace"):
        out["namespace"] = selector.namespace
    return out


def observe(outcome: Outcome, *, ready: bool = True) -> dict[str, Document]:
    """What the next call observes when everything desired was applied (and became ready)."""
    return {key: observed(key, document, ready) for key, document in outcome.desired.items()}


def observed(key: str, document: Document, ready: bool = True) -> Document:
    """A composed resource as it is observed when it was applied (and became ready)."""
    metadata = {**document.get("metadata", {}), "name": f"composed-{key}", "uid": f"uid-{key}"}
    if not ready:
        return {**document, "metadata": metadata}
    status: Document = {"conditions": [READY]}
    if document["kind"] == "Object":
        status["atProvider"] = {"manifest": _running(document["spec"]["forProvider"]["manifest"])}
    return {**document, "metadata": metadata, "status": status}


def _running(manifest: Document) -> Document:
    """A manifest as its cluster has it once all of its pods are up."""
    if manifest["kind"] not in ("Deployment", "StatefulSet", "LeaderWorkerSet"):
        return manifest
    counts = ("replicas", "updatedReplicas", "readyReplicas")
    return {**manifest, "status": dict.fromkeys(counts, manifest["spec"].get("replicas", 1))}

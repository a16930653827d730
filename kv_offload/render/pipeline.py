"""Run a Composition's pipeline in process as Crossplane core 2.4.0 does.

Source: `internal/controller/apiextensions/composite/composition_functions.go` (the loop over steps)
and `internal/xfn/required_resources.go` (rounds of requirements).
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from crossplane.function import resource
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from kv_offload.render.derive import quote
from kv_offload.render.schemas import Schemas
from kv_offload.render.store import Store

Document = dict[str, Any]

# Core calls a function once, and up to five times more while its requirements change.
MAX_EXTRA_CALLS = 5

_CAPABILITIES = (
    fnv1.CAPABILITY_CAPABILITIES,
    fnv1.CAPABILITY_REQUIRED_RESOURCES,
    fnv1.CAPABILITY_CREDENTIALS,
    fnv1.CAPABILITY_CONDITIONS,
    fnv1.CAPABILITY_REQUIRED_SCHEMAS,
)
_STATUS = {fnv1.STATUS_CONDITION_TRUE: "True", fnv1.STATUS_CONDITION_FALSE: "False"}


class Runner(Protocol):
    """A function in process: the SDK's FunctionRunner."""

    async def RunFunction(
        self, req: fnv1.RunFunctionRequest, _: None
    ) -> fnv1.RunFunctionResponse: ...


class PipelineError(Exception):
    """The reconcile fails with this message and leaves no output."""


class PipelineFatal(PipelineError):
    """A step returned a fatal result: its conditions are kept, nothing is changed."""

    def __init__(self, step: str, message: str, outcome: "Outcome") -> None:
        super().__init__(f"pipeline step {quote(step)} returned a fatal result: {message}")
        self.outcome = outcome


@dataclass(frozen=True)
class Event:
    """One event. `kind` is Normal or Warning."""

    kind: str
    reason: str
    message: str


@dataclass
class Outcome:
    """What a pipeline left behind. `calls`: RunFunction calls per step, in order."""

    desired: fnv1.State = field(default_factory=fnv1.State)
    context: Document = field(default_factory=dict)
    conditions: list[Document] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)
    ttl_seconds: float = 0.0


@dataclass(frozen=True)
class Surroundings:
    """The parts of every request. `runners`: by the name that `functionRef` has."""

    xr: Document
    observed: Mapping[str, Document]
    store: Store
    schemas: Schemas
    runners: Mapping[str, Runner]


async def run(steps: list[Document], around: Surroundings, context: Document) -> Outcome:
    """Run every step. Raise PipelineFatal on a fatal result, PipelineError where core fails."""
    outcome = Outcome(context=context)
    for step in steps:
        request = _request(step, around, outcome)
        try:
            response = await _rounds(step, request, around, outcome)
        except PipelineError as error:
            name = quote(step["step"])
            raise PipelineError(f"cannot run Composition pipeline step {name}: {error}") from error
        _collect(step["step"], response, outcome)
    return outcome


def _request(step: Document, around: Surroundings, outcome: Outcome) -> fnv1.RunFunctionRequest:
    request = fnv1.RunFunctionRequest(desired=outcome.desired)
    request.observed.composite.resource.CopyFrom(resource.dict_to_struct(around.xr))
    for key, document in around.observed.items():
        request.observed.resources[key].resource.CopyFrom(resource.dict_to_struct(document))
    request.context.CopyFrom(resource.dict_to_struct(outcome.context))
    if step.get("input") is not None:
        request.input.CopyFrom(resource.dict_to_struct(step["input"]))
    for credential in step.get("credentials") or ():
        _add_credential(step, credential, request, around.store)
    requirements = step.get("requirements") or {}
    for required in requirements.get("requiredResources") or ():
        request.required_resources[required["requirementName"]].CopyFrom(
            _fetch(_selector(required), around.store)
        )
    for schema in requirements.get("requiredSchemas") or ():
        selector = fnv1.SchemaSelector(api_version=schema["apiVersion"], kind=schema["kind"])
        request.required_schemas[schema["requirementName"]].CopyFrom(
            _schema(selector, around.schemas)
        )
    tag = hashlib.sha256(request.SerializeToString(deterministic=True)).hexdigest()
    request.meta.tag = tag
    request.meta.capabilities.extend(_CAPABILITIES)
    return request


def _add_credential(
    step: Document, credential: Document, request: fnv1.RunFunctionRequest, store: Store
) -> None:
    ref = credential.get("secretRef")
    if credential.get("source") != "Secret" or ref is None:
        return
    secret = store.get(("v1", "Secret", ref.get("namespace", ""), ref.get("name", "")))
    if secret is None:
        raise PipelineError(
            f"cannot get Composition pipeline step {quote(step['step'])} credential"
            f' {quote(credential["name"])} from Secret: Secret "{ref.get("name", "")}" not found'
        )
    data = request.credentials[credential["name"]].credential_data.data
    for name, value in (secret.get("data") or {}).items():
        data[name] = base64.b64decode(value)


async def _rounds(
    step: Document, request: fnv1.RunFunctionRequest, around: Surroundings, outcome: Outcome
) -> fnv1.RunFunctionResponse:
    """Call the function until its requirements are those of the call before."""
    name = step["functionRef"]["name"]
    runner = around.runners.get(name)
    if runner is None:
        raise PipelineError(f"unknown function {quote(name)} - is it listed in the render input?")
    first = fnv1.RunFunctionRequest()
    first.CopyFrom(request)
    before: fnv1.Requirements | None = None
    for call in range(1 + MAX_EXTRA_CALLS):
        outcome.calls[step["step"]] = call + 1
        response = await runner.RunFunction(request, None)
        if any(result.severity == fnv1.SEVERITY_FATAL for result in response.results):
            return response
        now = response.requirements if response.HasField("requirements") else None
        if now == before:
            return response
        before = now
        request = _next_request(first, response, around)
    raise PipelineError(
        f"requirements didn't stabilize after the maximum number of iterations ({MAX_EXTRA_CALLS})"
    )


def _next_request(
    first: fnv1.RunFunctionRequest, response: fnv1.RunFunctionResponse, around: Surroundings
) -> fnv1.RunFunctionRequest:
    request = fnv1.RunFunctionRequest()
    request.CopyFrom(first)
    requirements = response.requirements
    for name, selector in requirements.extra_resources.items():
        request.extra_resources[name].CopyFrom(_fetch(selector, around.store))
    for name, selector in requirements.resources.items():
        request.required_resources[name].CopyFrom(_fetch(selector, around.store))
    for name, schema in requirements.schemas.items():
        request.required_schemas[name].CopyFrom(_schema(schema, around.schemas))
    request.ClearField("context")
    if response.HasField("context"):
        request.context.CopyFrom(response.context)
    return request


def _selector(required: Document) -> fnv1.ResourceSelector:
    """Return a `requiredResources` entry of a Composition as core's selector."""
    selector = fnv1.ResourceSelector(api_version=required["apiVersion"], kind=required["kind"])
    if required.get("namespace") is not None:
        selector.namespace = required["namespace"]
    if required.get("name") is not None:
        selector.match_name = required["name"]
    elif required.get("matchLabels") is not None:
        selector.match_labels.labels.update(required["matchLabels"])
    return selector


def _fetch(selector: fnv1.ResourceSelector, store: Store) -> fnv1.Resources:
    """Return what the selector finds; an empty list means "resolved and absent"."""
    kind = (selector.api_version, selector.kind, selector.namespace)
    if selector.WhichOneof("match") == "match_name":
        named = store.get((*kind, selector.match_name))
        documents = [] if named is None else [named]
    else:
        documents = store.select(*kind, dict(selector.match_labels.labels))
    items = [fnv1.Resource(resource=resource.dict_to_struct(document)) for document in documents]
    return fnv1.Resources(items=items)


def _schema(selector: fnv1.SchemaSelector, schemas: Schemas) -> fnv1.Schema:
    document = schemas.find(selector.api_version, selector.kind)
    return fnv1.Schema(openapi_v3=resource.dict_to_struct(document)) if document else fnv1.Schema()


def _collect(step: str, response: fnv1.RunFunctionResponse, outcome: Outcome) -> None:
    ttl = response.meta.ttl.seconds + response.meta.ttl.nanos / 1e9
    if ttl > 0 and (outcome.ttl_seconds == 0 or ttl < outcome.ttl_seconds):
        outcome.ttl_seconds = ttl
    outcome.desired = response.desired
    outcome.context = resource.struct_to_dict(response.context)
    for condition in response.conditions:
        outcome.conditions.append(
            {
                "type": condition.type,
                "status": _STATUS.get(condition.status, "Unknown"),
                "reason": condition.reason,
                "message": condition.message,
            }
        )
    where = f"Pipeline step {quote(step)}"
    for result in response.results:
        reason = result.reason or "ComposeResources"
        match result.severity:
            case fnv1.SEVERITY_FATAL:
                raise PipelineFatal(step, result.message, outcome)
            case fnv1.SEVERITY_WARNING:
                event = Event("Warning", reason, f"{where}: {result.message}")
            case fnv1.SEVERITY_NORMAL:
                event = Event("Normal", reason, f"{where}: {result.message}")
            case _:
                text = f"{where} returned a result of unknown severity (assuming warning)"
                event = Event("Warning", reason, f"{text}: {result.message}")
        outcome.events.append(event)

"""A stand-in composition function: its Input says what it answers, and it can say what it saw.

It takes the place of functions that are not ours (Modelplane's, function-auto-ready) in render
cases, and proves that the embedded engine sends the same requests as Crossplane's own. Its Input:

    resources: {KEY: {ready: "True"|"False"|Observed, resource: {...}}}   put into desired state
    remove: [KEY]                                                 taken out of desired state
    composite: {ready: "True"|"False", status: {...}}
    conditions: [{type, status, reason, message}]
    results: [{severity: Normal|Warning|Fatal, message, reason}]
    context: {...}                                                merged into the context
    require: {NAME: {apiVersion, kind, name|matchLabels, namespace}}
    requireSchemas: {NAME: {apiVersion, kind}}
    chain: N            one requirement more on each call, until there are N
    report: true        writes what the request held into the composite's status.seen
"""

import argparse
import asyncio
from typing import Any

import grpc
from crossplane.function import resource, response
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.proto.v1 import run_function_pb2_grpc as grpcv1

NAME = "function-standin"

_READY = {"True": fnv1.READY_TRUE, "False": fnv1.READY_FALSE}
_SEVERITY = {
    "Normal": fnv1.SEVERITY_NORMAL,
    "Warning": fnv1.SEVERITY_WARNING,
    "Fatal": fnv1.SEVERITY_FATAL,
}
_STATUS = {
    "True": fnv1.STATUS_CONDITION_TRUE,
    "False": fnv1.STATUS_CONDITION_FALSE,
    "Unknown": fnv1.STATUS_CONDITION_UNKNOWN,
}


class StandIn(grpcv1.FunctionRunnerServiceServicer):
    """Answers what its Input says."""

    async def RunFunction(
        self, req: fnv1.RunFunctionRequest, _: grpc.aio.ServicerContext | None
    ) -> fnv1.RunFunctionResponse:
        asked = resource.struct_to_dict(req.input) if req.HasField("input") else {}
        rsp = response.to(req)
        for key, wanted in (asked.get("resources") or {}).items():
            desired = rsp.desired.resources[key]
            resource.update(desired, wanted["resource"])
            desired.ready = _ready(wanted.get("ready", ""), req.observed.resources.get(key))
        for key in asked.get("remove") or ():
            rsp.desired.resources.pop(key, None)
        _composite(asked, req, rsp)
        for condition in asked.get("conditions") or ():
            rsp.conditions.append(
                fnv1.Condition(
                    type=condition["type"],
                    status=_STATUS[condition["status"]],
                    reason=condition.get("reason", ""),
                    message=condition.get("message"),
                )
            )
        for result in asked.get("results") or ():
            severity = _SEVERITY[result["severity"]]
            added = rsp.results.add(severity=severity, message=result["message"])
            if result.get("reason"):
                added.reason = result["reason"]
        _requirements(asked, req, rsp)
        return rsp


def _ready(wanted: str, observed: fnv1.Resource | None) -> int:
    """Observed: whether the observed resource says that it is Ready, as functions derive it."""
    if wanted != "Observed":
        return _READY.get(wanted, fnv1.READY_UNSPECIFIED)
    known = observed is not None and resource.get_condition(observed.resource, "Ready")
    return _READY["True" if known and known.status == "True" else "False"]


def _composite(asked: dict, req: fnv1.RunFunctionRequest, rsp: fnv1.RunFunctionResponse) -> None:
    composite = asked.get("composite") or {}
    status = dict(composite.get("status") or {})
    if asked.get("report"):
        status["seen"] = _seen(req)
    if status:
        before = resource.struct_to_dict(rsp.desired.composite.resource)
        before["status"] = (before.get("status") or {}) | status
        rsp.desired.composite.resource.Clear()
        resource.update(rsp.desired.composite, before)
    if composite.get("ready"):
        rsp.desired.composite.ready = _READY[composite["ready"]]
    for name, value in (asked.get("context") or {}).items():
        rsp.context[name] = value


def _requirements(asked: dict, req: fnv1.RunFunctionRequest, rsp: fnv1.RunFunctionResponse) -> None:
    for name, wanted in (asked.get("require") or {}).items():
        selector = rsp.requirements.resources[name]
        selector.api_version, selector.kind = wanted["apiVersion"], wanted["kind"]
        if wanted.get("namespace"):
            selector.namespace = wanted["namespace"]
        if wanted.get("name"):
            selector.match_name = wanted["name"]
        elif wanted.get("matchLabels"):
            selector.match_labels.labels.update(wanted["matchLabels"])
    for name, wanted in (asked.get("requireSchemas") or {}).items():
        schema = rsp.requirements.schemas[name]
        schema.api_version, schema.kind = wanted["apiVersion"], wanted["kind"]
    links = min(int(asked.get("chain") or 0), len(req.required_resources) + 1)
    for number in range(links):
        selector = rsp.requirements.resources[f"link-{number}"]
        selector.api_version, selector.kind = "v1", "ConfigMap"
        selector.match_name = f"link-{number}"


def _seen(req: fnv1.RunFunctionRequest) -> dict[str, Any]:
    """What the request held, in a form whose order does not depend on the engine."""
    xr = resource.struct_to_dict(req.observed.composite.resource)
    conditions = (xr.get("status") or {}).get("conditions") or ()
    return {
        "metadata": xr["metadata"],
        "crossplane": (xr.get("spec") or {}).get("crossplane"),
        "conditions": [f"{c['type']}={c['status']} {c['reason']}" for c in conditions],
        "observed": {
            key: resource.struct_to_dict(observed.resource)
            for key, observed in sorted(req.observed.resources.items())
        },
        "desired": sorted(req.desired.resources),
        "context": resource.struct_to_dict(req.context),
        "required": {
            name: [
                resource.struct_to_dict(item.resource)["metadata"]["name"] for item in found.items
            ]
            for name, found in sorted(req.required_resources.items())
        },
        "schemas": {
            name: sorted(resource.struct_to_dict(schema.openapi_v3).get("properties") or ())
            for name, schema in sorted(req.required_schemas.items())
        },
        "credentials": {
            name: sorted(given.credential_data.data)
            for name, given in sorted(req.credentials.items())
        },
        "capabilities": sorted(req.meta.capabilities),
        "tagged": bool(req.meta.tag),
    }


async def _serve(address: str) -> None:
    server = grpc.aio.server()
    grpcv1.add_FunctionRunnerServiceServicer_to_server(StandIn(), server)
    server.add_insecure_port(address)
    await server.start()
    await server.wait_for_termination()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--address", required=True, help="where to serve, without TLS")
    asyncio.run(_serve(parser.parse_args().address))


if __name__ == "__main__":
    main()

"""Write an Answer as a RunFunctionResponse."""

import datetime
from collections.abc import Iterable

from crossplane.function import response
from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from function.edge import structs
from function.edge.answer import FALSE, TRUE, Answer, Condition, Requirement
from function.kube import access
from function.names import CONTEXT_ASKED
from function.problems import cut
from function.redact import redacted

# Characters of one message: the limit of metav1.Condition. What it quotes can be anyone's.
LONGEST = 32768
_STATUS = {TRUE: fnv1.STATUS_CONDITION_TRUE, FALSE: fnv1.STATUS_CONDITION_FALSE}
_READY = {None: fnv1.READY_UNSPECIFIED, True: fnv1.READY_TRUE, False: fnv1.READY_FALSE}


def write(req: fnv1.RunFunctionRequest, answer: Answer) -> fnv1.RunFunctionResponse:
    """Return the response: desired and context as received, with the answer's changes."""
    rsp = response.to(req, ttl=datetime.timedelta(seconds=answer.ttl))
    desired = rsp.desired.resources
    for key, composed in answer.resources.items():
        entry = desired[key]
        entry.resource.Clear()
        entry.resource.MergeFromString(structs.encode(composed.manifest))
        entry.ready = _READY[composed.ready]
    for key, manifest in answer.patched.items():
        entry = desired[key]
        entry.resource.Clear()
        entry.resource.MergeFromString(structs.encode(manifest))
    for key in answer.removed:
        if key in desired:
            del desired[key]
    if answer.status:
        current = structs.decode(rsp.desired.composite.resource)
        status = {**access.mapping(current, "status"), **answer.status}
        rsp.desired.composite.resource.MergeFromString(
            structs.encode({**current, "status": status})
        )
    if answer.ready is not None:
        rsp.desired.composite.ready = _READY[answer.ready]
    if answer.asks_for_more:
        rsp.context.fields[CONTEXT_ASKED].bool_value = True
    for name, requirement in answer.requirements.items():
        _require(rsp, name, requirement)
    for name, (api_version, kind) in answer.schemas.items():
        response.require_schema(rsp, name, api_version, kind)
    rsp.conditions.extend(_condition(c) for c in answer.conditions)
    for message in answer.warnings:
        response.warning(rsp, said(message))
    if answer.fatal:
        response.fatal(rsp, said(answer.fatal))
    return rsp


def taken(keys: Iterable[str]) -> str:
    """Return a sentence on keys of ours under which an earlier step desires something else."""
    return (
        f"An earlier step desires another resource under {', '.join(sorted(keys))}: that is kept,"
        " and this function's own is not composed. Give it another name in the earlier step."
    )


def fatal(req: fnv1.RunFunctionRequest, message: str) -> fnv1.RunFunctionResponse:
    """Return a response that stops the pipeline and keeps everything that runs."""
    rsp = response.to(req)
    response.fatal(rsp, said(message))
    return rsp


def said(message: str) -> str:
    """Return a message as people may read it: without credentials, and not too long.

    What is no Unicode character (half of a pair, which JSON can spell) becomes a question mark.
    """
    text = message.encode(errors="replace").decode()
    return cut(redacted(cut(text, LONGEST)), LONGEST)


def _condition(condition: Condition) -> fnv1.Condition:
    return fnv1.Condition(
        type=condition.type,
        status=_STATUS.get(condition.status, fnv1.STATUS_CONDITION_UNKNOWN),
        reason=condition.reason,
        message=said(condition.message) or None,
        target=fnv1.TARGET_COMPOSITE,
    )


def _require(rsp: fnv1.RunFunctionResponse, name: str, requirement: Requirement) -> None:
    selector = rsp.requirements.resources[name]
    selector.api_version = requirement.api_version
    selector.kind = requirement.kind
    if requirement.name:
        selector.match_name = requirement.name
    else:
        selector.match_labels.labels.update(requirement.labels)
    if requirement.namespace is not None:
        selector.namespace = requirement.namespace

"""Report on Modelplane's ModelDeployment what its replicas' conditions say of their tier.

Modelplane's own function composes ModelReplicas, and each says under KVOffloadReady whether its
pods are wired; the ML team looks at the ModelDeployment. Conditions only, from what is observed:
core watches composed resources, so a replica's news arrives by itself. A replica that asks and says
nothing is called that: its Composition may lack the step that wires.

Where earlier steps desire workloads themselves, they are wired as any composite's.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from function import names
from function.api.input import Input
from function.backends.registry import Registry
from function.composers import serving
from function.composers.consumer import composer as consumer
from function.edge.answer import (
    FALSE,
    TRUE,
    TTL_SETTLED,
    TTL_WITH_REQUIREMENTS,
    UNKNOWN,
    Answer,
    Condition,
)
from function.edge.request import Call
from function.kube import access
from function.kube.access import Json
from function.reasons import Reason
from function.workloads import kinds

REPLICA = "ModelReplica"

# The worst first; of a condition that cannot be read nothing is known.
_STATUSES = (FALSE, UNKNOWN, TRUE)
# People read a condition: equal messages stand once, and a long list is cut.
_MAX_NAMES, _MAX_TEXTS, _MAX_CHARACTERS = 5, 5, 2000


@dataclass(frozen=True)
class _ReplicaReport:
    """One replica's condition."""

    name: str
    status: str
    reason: str
    message: str


def compose(call: Call, step_input: Input, backends: Registry) -> Answer:
    """Report the replicas' conditions in one; wire workloads that this step itself desires."""
    replicas = [key for key in call.desired_keys() if _is_replica(call, key)]
    if not replicas or any(_is_workload(call, key) for key in call.desired_keys()):
        return consumer.compose(call, step_input, backends)
    reports = [found for key in replicas if (found := _read_replica(call, key)) is not None]
    if not reports:
        return _nothing_asked(call)
    reports.sort(key=lambda each: _STATUSES.index(each.status))
    wired = sum(each.status == TRUE for each in reports)
    text = f"{wired} of {len(reports)} replicas are wired. {_texts(reports)}"
    worst = reports[0]
    condition = Condition(consumer.CONDITION, worst.status, worst.reason, text)
    conditions = [condition, *_whether_they_serve(call, replicas)]
    return Answer(conditions=conditions, ttl=TTL_WITH_REQUIREMENTS)


def _whether_they_serve(call: Call, replicas: Iterable[str]) -> list[Condition]:
    """Return KVOffloadServing, the worst of the replicas'; [] where none has ever had one."""
    kind = serving.CONSUMER_CONDITION
    found = {key: call.observed_whole_condition(key, kind) for key in replicas}
    reports = [
        _serving_report(each, _stale(call, key, each)) for key, each in found.items() if each
    ]
    if not reports:
        return serving.unjudged(call, kind=kind)
    return [min(reports, key=lambda it: (_STATUSES.index(it.status), it.reason, it.message))]


def _serving_report(found: Json, stale: str) -> Condition:
    """Return a replica's KVOffloadServing; one that is old, or not of our words, says nothing."""
    status, reason, message = (access.text(found, key) for key in ("status", "reason", "message"))
    if status not in _STATUSES or reason not in serving.REASONS:
        status, reason = UNKNOWN, serving.NOT_OBSERVED
    elif stale:
        status, reason, message = _report_stale(
            status, reason, message, stale, serving.NOT_OBSERVED
        )
    return Condition(serving.CONSUMER_CONDITION, status, reason, message[:_MAX_CHARACTERS])


def _read_replica(call: Call, key: str) -> _ReplicaReport | None:
    """Return what a replica reports, None where it requests nothing."""
    name = str(call.observed_value(key, "metadata", "name") or key)
    found = call.observed_whole_condition(key, consumer.CONDITION)
    asks = call.desired_mentions(key, names.KEY_PREFIX)
    if not found:
        message = "It names a tier and has no condition KVOffloadReady yet." if asks else ""
        return _ReplicaReport(name, UNKNOWN, Reason.NOT_REPORTED, message) if asks else None
    reason = access.text(found, "reason")
    if not asks and reason in (Reason.NOT_REQUESTED, Reason.WIRED):
        return None  # it was wired once, or is about to be unwired
    status, stale = access.text(found, "status"), _stale(call, key, found)
    message = access.text(found, "message")
    if status not in _STATUSES or reason not in tuple(Reason):
        status, reason = UNKNOWN, Reason.NOT_REPORTED
    elif stale:
        status, reason, message = _report_stale(status, reason, message, stale, Reason.NOT_REPORTED)
    return _ReplicaReport(name, status, reason, message[:_MAX_CHARACTERS])


def _report_stale(
    status: str, reason: str, message: str, stale: str, unknown: str
) -> tuple[str, ...]:
    """Return status, reason and message of a condition that is old: known trouble stays in sight.

    `unknown`: the reason of what is not known.
    """
    if status != FALSE or reason == Reason.NOT_REQUESTED:
        return UNKNOWN, unknown, stale
    return status, reason, f"{stale} It last said: {message}"


def _stale(call: Call, key: str, condition: Json) -> str:
    """Return why a replica's condition is not of what it is now, "" where it is.

    Core writes a generation into its own conditions, and into a function's only in some releases.
    """
    if why := call.refused_write(key):
        return f"Crossplane cannot reconcile it: {why.rstrip('.')}."
    generation = call.observed_value(key, "metadata", "generation")
    written = (condition, call.observed_whole_condition(key, "Synced"))
    is_old = any(it.get("observedGeneration") not in (None, generation) for it in written)
    return "Its newest edit is not reconciled yet." if is_old else ""


def _texts(reports: Iterable[_ReplicaReport]) -> str:
    """Join the messages, each once, behind the names of its replicas."""
    names_by_text: dict[tuple[str, str], list[str]] = {}
    for each in reports:
        names_by_text.setdefault((each.reason, each.message), []).append(each.name)
    texts = [f"{_listed(who)}: {message}" for (_, message), who in names_by_text.items()]
    more = len(texts) - _MAX_TEXTS
    return " ".join(texts[:_MAX_TEXTS]) + (f" And {more} more." if more > 0 else "")


def _listed(who: list[str]) -> str:
    more = len(who) - _MAX_NAMES
    return ", ".join(who[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def _nothing_asked(call: Call) -> Answer:
    """Clear a condition that core still keeps; a composite that never asked gets none."""
    stale = serving.unjudged(call, kind=serving.CONSUMER_CONDITION)
    if not call.composite_condition(consumer.CONDITION):
        return Answer(conditions=stale, ttl=TTL_SETTLED)
    message = "No replica of this deployment names a tier."
    condition = Condition(consumer.CONDITION, FALSE, Reason.NOT_REQUESTED, message)
    return Answer(conditions=[condition, *stale], ttl=TTL_SETTLED)


def _is_replica(call: Call, key: str) -> bool:
    group = str(call.desired_value(key, "apiVersion") or "").partition("/")[0]
    return group == names.GROUP and call.desired_value(key, "kind") == REPLICA


def _is_workload(call: Call, key: str) -> bool:
    return kinds.is_known(*call.desired_kind(key))

"""How far a workload is with its tier's wiring, and whether it may move now."""

from function import names
from function.composers import rollout, usage
from function.composers.consumer import lookup
from function.composers.rollout import Progress
from function.composers.usage import Consumer
from function.edge.answer import Requirement
from function.edge.request import Call
from function.kube import access, objects
from function.kube.access import Json
from function.pods.offload_request import OffloadRequest
from function.workloads import rolled
from function.workloads.rolled import COUNTED, is_at_rest, is_rolled_out

_SCALED = frozenset({"replicas"})


def is_turn(
    call: Call, who: Consumer, found: lookup.Found, requirements: dict[str, Requirement]
) -> bool:
    """Return whether the tier lets a consumer move now; add the lookup to `requirements`."""
    _, namespace, tier = access.named(found.document)
    turn = rollout.turn_name(tier, rollout.reference(who))
    key = f"turn/{namespace}/{tier}"
    requirements[key] = Requirement(
        names.USAGE_API_VERSION, "Usage", name=turn, namespace=namespace
    )
    return any(rollout.is_of(each, found.document) for each in call.required(key) or ())


def waits_for(found: lookup.Found, who: Consumer) -> str:
    """Return who holds up the turns of a tier, and what to do; else who says who moves now."""
    holders = access.text(found.document, "status", "wiring", "waitsFor")
    if not holders:
        return f" `kv-offload status --tier {access.named(found.document)[2]}` says who moves now."
    others = [it for it in holders.split(", ") if it != rollout.reference(who)]
    if not others:
        return " It waits for the consumer's other engines: make their pods ready."
    return (
        f" It waits for {', '.join(others)}: make its pods ready, or take its annotation"
        " crossplane.io/paused away."
    )


def progress_of_pods(call: Call, request: OffloadRequest) -> Progress:
    """Return whether the pods that were wired last are up, as far as the cluster reported.

    Until the provider has applied a new wiring, the status is that of the old pods.
    """
    done = is_ready(call, request) and _is_at_rest(call, request.key)
    return Progress.CURRENT if done else Progress.MOVING


def is_ready(call: Call, request: OffloadRequest) -> bool:
    """Return whether a workload is ready; a bare one that has no condition Ready cannot show it."""
    entry = call.observed_whole_condition(request.key, "Ready")
    shows_it = bool(entry) and str(request.manifest.get("kind")) not in COUNTED
    return entry.get("status") == "True" or (request.is_bare and not shows_it)


def _is_at_rest(call: Call, key: str) -> bool:
    """Return whether no pod of a workload is replaced any more, as far as its kind shows it."""
    seen = _seen(call, key)
    return _is_applied(call, key) and (not seen or is_at_rest(seen))


def is_up(call: Call, key: str) -> bool:
    """Return whether the pods of a workload all have its template; one that is not observed is."""
    if not call.is_observed(key):
        return True
    seen = _seen(call, key)
    # A provider creates a workload before it says so, and its write of that can fail.
    return bool(seen) and _is_applied(call, key) and is_rolled_out(seen)


def left_over(call: Call, key: str) -> str:
    """Return that pods of an earlier template run on, and what to do; "" where none does."""
    if not rolled.has_old_pods(_counts(call, key)):
        return ""  # the cheaper question
    seen = _seen(call, key)
    if not rolled.has_old_pods(seen):
        return ""
    why = rolled.waits_for(seen) or (
        "the new ones are not ready yet: if it stays so, kubectl describe pods says why, on the"
        " workload cluster"
    )
    return f"Pods of an earlier template run on and may lack this wiring; {why}."


def has_ready_pods(call: Call, key: str) -> bool:
    """Return whether a workload is observed, and has a ready new pod where its kind counts them."""
    return call.is_observed(key) and rolled.has_ready_pods(_counts(call, key))


def _is_applied(call: Call, key: str) -> bool:
    """Return whether the cluster has the pod templates; autoscalers write how many pods there are.

    Core applies what is in no Object itself.
    """
    return not _is_object(call, key) or call.is_applied(key, but=_SCALED)


def _is_object(call: Call, key: str) -> bool:
    identity = {name: call.observed_value(key, name) for name in ("apiVersion", "kind")}
    return objects.is_object(identity)


def _seen(call: Call, key: str) -> Json:
    """Return a workload as its cluster has it, {} where that is not known."""
    found = (
        call.observed_value(key, *objects.STATUS_MANIFEST)
        if _is_object(call, key)
        else call.observed(key)
    )
    return access.mapping(found)


def _counts(call: Call, key: str) -> Json:
    """Return the kind and status of a workload: all that says how many pods there are."""
    at = objects.STATUS_MANIFEST if _is_object(call, key) else ()
    return {field: call.observed_value(key, *at, field) for field in ("kind", "status")}


def unfinished(call: Call, request: OffloadRequest) -> Progress | None:
    """Return Moving while the pods of a move are not up whose tier cannot be judged now."""
    moves = Progress.MOVING in usage.said_progress(call)
    is_up = not moves or progress_of_pods(call, request) is Progress.CURRENT
    return None if is_up else Progress.MOVING

"""How far a workload is with its tier's wiring, and whether it may move now."""

from function import names
from function.composers import rollout, usage
from function.composers.consumer import lookup
from function.composers.rollout import Progress
from function.composers.usage import Consumer
from function.edge.answer import Requirement
from function.edge.request import Call
from function.kube import access, objects
from function.pods.offload_request import OffloadRequest
from function.workloads.rolled import is_counted, is_rolled_out


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


def progress_of_pods(call: Call, request: OffloadRequest) -> Progress:
    """Return whether the pods that were wired last are up, as far as the cluster reported.

    Until the provider has applied a new wiring, the status is that of the old pods.
    """
    counts = request.is_bare and is_counted(request.manifest)  # and has no condition Ready
    done = (counts or call.observed_ready(request.key)) and is_up(call, request.key)
    return Progress.CURRENT if done else Progress.MOVING


def is_up(call: Call, key: str) -> bool:
    """Return whether the pods of a workload all have its template; one that is not observed is."""
    if not call.is_observed(key):
        return True
    identity = {name: call.observed_value(key, name) for name in ("apiVersion", "kind")}
    if not objects.is_object(identity):
        return is_rolled_out(call.observed(key) or {})
    # A provider creates a workload before it says so, and its write of that can fail.
    seen = call.observed_value(key, *objects.STATUS_MANIFEST)
    return bool(seen) and call.is_applied(key) and is_rolled_out(seen)


def unfinished(call: Call, request: OffloadRequest) -> Progress | None:
    """Return Moving while the pods of a move are not up whose tier cannot be judged now."""
    moves = Progress.MOVING in usage.said_progress(call)
    is_up = not moves or progress_of_pods(call, request) is Progress.CURRENT
    return None if is_up else Progress.MOVING

"""What a tier answers that cannot be composed as its spec says: not judged yet, or refused."""

from collections.abc import Iterable

from function.composers import conditions as c
from function.composers import serving
from function.composers.needed import Needed
from function.composers.refusal import refused
from function.edge.answer import TTL_UNSETTLED, UNKNOWN, Answer, Condition
from function.edge.request import Call
from function.problems import Problem


def waiting(call: Call, needed: Needed) -> Answer:
    """Answer while what the tier needs is not looked up yet; core calls again at once.

    Never a fatal: core would look nothing up.
    """
    message = "Waiting for Crossplane to look up " + ", ".join(needed.unresolved) + "."
    conditions = [
        Condition(kind, UNKNOWN, c.REASON_RESOLVING, message) for kind in c.TIER_CONDITIONS
    ]
    conditions += serving.unjudged(call, message)
    return Answer(
        conditions=conditions,
        requirements=dict(needed.requirements),
        ready=False,
        ttl=TTL_UNSETTLED,
    )


def refuse(call: Call, problems: Iterable[Problem]) -> Answer:
    """Refuse a tier; keep its status, which says what engines run with.

    Engines may run where nothing is composed.
    """
    runs = bool(call.composite_value("status", "pinned"))
    answer = refused(call, "tier", problems, c.TIER_CONDITIONS[1:], runs=runs)
    answer.conditions += serving.unjudged(call)
    return answer


def as_it_runs(condition: Condition) -> Condition:
    """Return a condition of what runs where nothing of it is replaced."""
    if condition.reason != c.REASON_UPDATING:
        return condition
    return Condition(condition.type, condition.status, c.REASON_READY)

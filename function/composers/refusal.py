"""Answer a composite whose spec is not valid: all problems at once, and what runs stays."""

from collections.abc import Iterable

from function.composers.conditions import CONDITION_ACCEPTED, REASON_INVALID
from function.edge.answer import FALSE, UNKNOWN, Answer, Condition
from function.edge.request import Call
from function.problems import Problem

# In the message of a fatal, which core repeats.
KEPT = "is not valid; what runs is kept: "


def refused(
    call: Call,
    what: str,
    problems: Iterable[Problem],
    unknown: Iterable[str] = (),
    *,
    runs: bool = False,
) -> Answer:
    """Refuse a composite, called `what` in the message; conditions in `unknown` are not judged.

    Add a fatal where something runs, so that core keeps it. `runs`: whether
    something may that is not composed.
    """
    message = "; ".join(str(problem) for problem in sorted(problems))
    conditions = [Condition(CONDITION_ACCEPTED, FALSE, REASON_INVALID, message)]
    runs = runs or call.anything_observed
    late = f"Not looked at while the {what} is not valid: see Accepted."
    late += " What runs is kept." if runs else ""
    conditions += [Condition(condition, UNKNOWN, REASON_INVALID, late) for condition in unknown]
    kept = f"the {what} {KEPT}{message}"
    return Answer(conditions=conditions, ready=False, fatal=kept if runs else "")

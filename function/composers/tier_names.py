"""A KVOffloadTier by a name that somebody gives: the tier's own, or that of the fleet it is of."""

from collections.abc import Callable, Mapping
from typing import Any

from function import names
from function.composers.conditions import CONDITION_ACCEPTED
from function.edge.answer import FALSE, TRUE, Requirement
from function.edge.request import Call
from function.kube import access

TIER = (names.API_VERSION, "KVOffloadTier")

# Of core's own: the one is about core, the other only sums up.
_SAY_NOTHING = ("Responsive", "Ready")
_DELETION = ("metadata", "deletionTimestamp")


def requirements(key: str, children_key: str, namespace: str, name: str) -> dict[str, Requirement]:
    """Both of what the name may mean, looked up at once."""
    fleet = {names.LABEL_FLEET: name}
    return {
        key: Requirement(*TIER, name=name, namespace=namespace),
        children_key: Requirement(*TIER, labels=fleet, namespace=namespace),
    }


def is_refused(tier: Mapping[str, Any]) -> bool:
    """Whether the spec that a tier has is not the one that runs."""
    return access.condition(tier, CONDITION_ACCEPTED).get("status") == FALSE


def is_ready(tier: Mapping[str, Any]) -> bool:
    """Whether a tier is ready, by the spec that it has, and stays."""
    return not access.text(tier, *_DELETION) and _is_ready(
        lambda kind: access.condition(tier, kind).get("status", "")
    )


def is_ready_child(call: Call, key: str) -> bool:
    """The same of a tier that is composed."""
    return not call.observed_value(key, *_DELETION) and _is_ready(
        lambda kind: call.observed_condition(key, kind)
    )


def _is_ready(status: Callable[[str], str]) -> bool:
    """Core leaves Ready as it was where an edit is refused: that is of the spec before."""
    return status("Ready") == TRUE and status(CONDITION_ACCEPTED) != FALSE


def unready(tier: Mapping[str, Any]) -> str:
    """What keeps a tier from being ready: that it goes, or which of its conditions."""
    if access.text(tier, *_DELETION):
        return "it is being deleted."
    found = sorted(
        f"{each.get('type')}={each.get('status')} ({each.get('reason', '')})"
        for each in access.objects(tier, "status", "conditions")
        if each.get("status") != TRUE and each.get("type") not in _SAY_NOTHING
    )
    return "; ".join(found) or "it has just been made."

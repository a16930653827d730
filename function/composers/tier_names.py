"""A KVOffloadTier by a name that somebody gives: the tier's own, or that of the fleet it is of."""

from collections.abc import Mapping
from typing import Any

from function import names
from function.edge.answer import TRUE, Requirement
from function.kube import reading

TIER = (names.API_VERSION, "KVOffloadTier")

# Of core's own: the one is about core, the other only sums up.
_SAY_NOTHING = ("Responsive", "Ready")


def requirements(key: str, children_key: str, namespace: str, name: str) -> dict[str, Requirement]:
    """Both of what the name may mean, looked up at once."""
    fleet = {names.LABEL_FLEET: name}
    return {
        key: Requirement(*TIER, name=name, namespace=namespace),
        children_key: Requirement(*TIER, labels=fleet, namespace=namespace),
    }


def unready(tier: Mapping[str, Any]) -> str:
    """Which of its conditions keep a tier from being ready."""
    found = sorted(
        f"{each.get('type')}={each.get('status')} ({each.get('reason', '')})"
        for each in reading.objects(tier, "status", "conditions")
        if each.get("status") != TRUE and each.get("type") not in _SAY_NOTHING
    )
    return "; ".join(found) or "it has just been made."

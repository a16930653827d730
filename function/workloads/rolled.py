"""Whether the pods of a workload have its current template, by its status."""

from collections.abc import Mapping
from typing import Any

from function.kube import access

# Kinds that count what is updated, ready and there. A count of zero is left out of a status.
# LeaderWorkerSet before 0.9 writes no observedGeneration.
_COUNTS = {
    **dict.fromkeys(
        ("Deployment", "StatefulSet", "LeaderWorkerSet"),
        ("updatedReplicas", "readyReplicas", "replicas"),
    ),
    "DaemonSet": ("updatedNumberScheduled", "numberReady", "currentNumberScheduled"),
}


def is_counted(workload: Mapping[str, Any]) -> bool:
    """Return whether a kind's status says how many of its replicas are updated and ready."""
    return access.text(workload, "kind") in _COUNTS


def is_rolled_out(workload: Mapping[str, Any]) -> bool:
    """Return whether all replicas are updated and ready, and no other pod is left.

    Where a new pod comes before the old one goes, the old one is the one that is ready.

    True for kinds that do not count them: callers rely on their Ready condition.
    """
    status = access.mapping(workload, "status")
    generation = access.mapping(workload, "metadata").get("generation")
    seen = status.get("observedGeneration", generation)
    if _number(seen) < _number(generation):
        return False
    counts = _COUNTS.get(access.text(workload, "kind"))
    if counts is None:
        return True
    # A DaemonSet has as many as there are nodes for it.
    replicas = access.mapping(workload, "spec").get("replicas", 1)
    wanted = _number(status.get("desiredNumberScheduled", replicas))
    updated, ready, there = (_number(status.get(field)) for field in counts)
    return updated >= wanted and ready >= wanted and there <= updated


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) else 0

"""Whether the pods of a workload have its current template, by its status."""

from collections.abc import Mapping
from typing import Any

from function.kube import access

# Kinds that count their updated and ready replicas. A count of zero is left out of a status.
_COUNTING = ("Deployment", "StatefulSet", "LeaderWorkerSet")


def is_rolled_out(workload: Mapping[str, Any]) -> bool:
    """Return whether all replicas are updated and ready, and no other pod is left.

    Where a new pod comes before the old one goes, the old one is the one that is ready.

    True for kinds that do not count them: callers rely on their Ready condition.
    """
    if access.text(workload, "kind") not in _COUNTING:
        return True
    status = access.mapping(workload, "status")
    generation = access.mapping(workload, "metadata").get("generation")
    seen = status.get("observedGeneration", generation)
    if _number(seen) < _number(generation):
        return False
    wanted = _number(access.mapping(workload, "spec").get("replicas", 1))
    updated, ready, there = (
        _number(status.get(field)) for field in ("updatedReplicas", "readyReplicas", "replicas")
    )
    return updated >= wanted and ready >= wanted and there <= updated


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) else 0

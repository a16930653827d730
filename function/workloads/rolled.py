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
# Where a StatefulSet or LeaderWorkerSet says how many of its pods an update leaves out.
_PARTITIONS = (
    ("updateStrategy", "rollingUpdate", "partition"),
    ("rolloutStrategy", "rollingUpdateConfiguration", "partition"),
)


def is_counted(workload: Mapping[str, Any]) -> bool:
    """Return whether a kind's status says how many of its replicas are updated and ready."""
    return access.text(workload, "kind") in _COUNTS


def is_rolled_out(workload: Mapping[str, Any], *, kept: float = 0) -> bool:
    """Return whether all replicas are updated and ready, and no other pod is left.

    Where a new pod comes before the old one goes, the old one is the one that is ready. `kept`: how
    many pods may have another template.

    True for kinds that do not count them: callers rely on their Ready condition.
    """
    if not _is_seen(workload):
        return False
    status = access.mapping(workload, "status")
    counts = _COUNTS.get(access.text(workload, "kind"))
    if counts is None:
        return True
    # A DaemonSet has as many as there are nodes for it.
    replicas = access.mapping(workload, "spec").get("replicas", 1)
    wanted = _number(status.get("desiredNumberScheduled", replicas))
    updated, ready, there = (_number(status.get(field)) for field in counts)
    return updated + kept >= wanted and ready >= wanted and there <= updated + kept


def has_earlier_pods(workload: Mapping[str, Any]) -> bool:
    """Return whether pods of an earlier template are left, as far as the kind counts them."""
    status = access.mapping(workload, "status")
    updated, _, there = _COUNTS.get(access.text(workload, "kind"), ("", "", ""))
    return _number(status.get(there)) > _number(status.get(updated))


def has_ready_pods(workload: Mapping[str, Any]) -> bool:
    """Return whether one pod is ready; True for kinds that do not count them."""
    _, ready, _ = _COUNTS.get(access.text(workload, "kind"), ("", "", ""))
    return not ready or _number(access.at(workload, "status", ready)) > 0


def is_at_rest(workload: Mapping[str, Any]) -> bool:
    """Return whether its controller replaces no more pods: see `waits_for` for those that stay."""
    if waits_for(workload) and not _partition(workload):
        return _is_seen(workload)
    return is_rolled_out(workload, kept=_partition(workload))


def waits_for(workload: Mapping[str, Any]) -> str:
    """Return what keeps pods on an earlier template until somebody acts, "" for nothing."""
    spec = access.mapping(workload, "spec")
    if access.text(workload, "kind") not in _COUNTS:
        return ""
    if access.text(spec, "updateStrategy", "type") == "OnDelete":
        return "spec.updateStrategy.type is OnDelete: delete them"
    if spec.get("paused") is True:
        return "spec.paused is true: resume it"
    return "a partition keeps them: lower it" if _partition(workload) else ""


def _partition(workload: Mapping[str, Any]) -> float:
    """Return how many pods the update strategy leaves as they are."""
    return max(_number(access.at(workload, "spec", *path)) for path in _PARTITIONS)


def _is_seen(workload: Mapping[str, Any]) -> bool:
    """Return whether the controller has seen the newest spec, as far as it says what it has seen.

    Some kinds declare the field as text; those that never fill it in may show 0.
    """
    seen = access.at(workload, "status", "observedGeneration")
    seen = float(seen) if isinstance(seen, str) and seen.isdecimal() else seen
    return not _number(seen) or _number(seen) >= _number(
        access.at(workload, "metadata", "generation")
    )


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) else 0

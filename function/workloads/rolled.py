"""Whether the pods of a workload have its current template, by its status."""

from collections.abc import Mapping
from typing import Any, NamedTuple

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
# Kinds whose status says how many of their replicas are updated and ready.
COUNTED = frozenset(_COUNTS)
# Where a StatefulSet or LeaderWorkerSet says how many of its pods an update leaves out.
_PARTITIONS = (
    ("updateStrategy", "rollingUpdate", "partition"),
    ("rolloutStrategy", "rollingUpdateConfiguration", "partition"),
)


def is_rolled_out(workload: Mapping[str, Any], *, kept: float = 0) -> bool:
    """Return whether all replicas are updated and ready, and no other pod is left.

    Where a new pod comes before the old one goes, the old one is the one that is ready. `kept`: how
    many pods may have another template.

    True for kinds that do not count them: callers rely on their Ready condition.
    """
    pods = _pods(workload)
    if not _is_seen(workload) or pods is None:
        return _is_seen(workload)
    return (
        pods.updated + kept >= pods.wanted
        and pods.ready >= pods.wanted
        and pods.there <= pods.updated + kept
    )


def has_ready_pods(workload: Mapping[str, Any]) -> bool:
    """Return whether one pod of the newest template is ready, as far as the status shows it.

    True for kinds that do not count them.
    """
    pods = _pods(workload)
    if pods is None:
        return True
    old = pods.there - pods.updated if has_old_pods(workload) else 0
    return pods.ready > old


def is_at_rest(workload: Mapping[str, Any]) -> bool:
    """Return whether its controller replaces no more pods: see `waits_for` for those that stay.

    No status says which pods are not ready: once one is new, all must be. Until then a node that is
    down shows nothing about the new template.
    """
    pods = _pods(workload)
    if pods is None or not waits_for(workload) or _partition(workload):
        return is_rolled_out(workload, kept=_partition(workload))
    complete = pods.ready if pods.updated else pods.there
    return _is_seen(workload) and complete >= max(pods.wanted, pods.there)


def has_old_pods(workload: Mapping[str, Any]) -> bool:
    """Return whether a pod runs that has another template, as far as the status shows it.

    A StatefulSet counts a pod that ends, and a LeaderWorkerSet one that starts, as not updated.
    """
    pods, status = _pods(workload), access.mapping(workload, "status")
    if pods is None or not _is_seen(workload) or pods.there <= pods.updated:
        return False
    revision = status.get("currentRevision")
    is_first = access.at(workload, "metadata", "generation") == 1
    return not is_first and (revision is None or revision != status.get("updateRevision"))


class _Pods(NamedTuple):
    wanted: float
    updated: float
    ready: float
    there: float


def _pods(workload: Mapping[str, Any]) -> _Pods | None:
    """Return how many replicas a workload has, None for kinds that do not count them."""
    fields = _COUNTS.get(access.text(workload, "kind"))
    if fields is None:
        return None
    status = access.mapping(workload, "status")
    replicas = access.mapping(workload, "spec").get("replicas", 1)
    # A DaemonSet has as many as there are nodes for it.
    wanted = status.get("desiredNumberScheduled", replicas)
    return _Pods(*map(_number, (wanted, *(status.get(field) for field in fields))))


def waits_for(workload: Mapping[str, Any]) -> str:
    """Return what keeps pods on an earlier template until somebody acts, "" for nothing."""
    spec = access.mapping(workload, "spec")
    if access.text(workload, "kind") not in COUNTED:
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

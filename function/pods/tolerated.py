"""Taints that an engine's pod tolerates and the tier's agents do not.

Node lists are on the workload cluster, where no function looks: such a taint is noted, and nothing
is refused. Wired pods require the agents' own labels (patch/scheduling.py).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from function.api.placement import Toleration
from function.kube import access

Json = Mapping[str, Any]

# PreferNoSchedule keeps nothing away.
_HARD = ("NoSchedule", "NoExecute")
# The DaemonSet controller lets agents tolerate these taints of Kubernetes' own.
_OF_KUBERNETES = "node.kubernetes.io/"
_MAX_NAMES = 5


def notes(pods: Iterable[Json], agents: Sequence[Toleration]) -> tuple[str, ...]:
    """Return a note where an engine's pods tolerate taints that the agents do not."""
    found = list(dict.fromkeys(taint for spec in pods for taint in _beyond(spec, agents)))
    if not found:
        return ()
    more = len(found) - _MAX_NAMES
    taints = ", ".join(found[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
    return (
        f"the pods tolerate {taints}, and the tier's agents do not: on a node with such a taint an"
        " engine would start without an agent, and fail; add the toleration to the tier's"
        " spec.nodes.tolerations, or take it from the pods",
    )


def _beyond(spec: Json, agents: Sequence[Toleration]) -> Iterator[str]:
    for own in access.objects(spec, "tolerations"):
        key, effect = access.text(own, "key"), access.text(own, "effect")
        if key.startswith(_OF_KUBERNETES):
            continue
        hard = [e for e in _HARD if effect in ("", e)]
        uncovered = [e for e in hard if not any(_covers(one, own, e) for one in agents)]
        if uncovered:
            yield _taint(own, "" if uncovered == list(_HARD) else uncovered[0])


def _covers(agents: Toleration, own: Json, effect: str) -> bool:
    """Whether agents tolerate every taint of that effect that the pod's own toleration matches."""
    if agents.effect not in (None, effect):
        return False
    if agents.operator == "Exists":
        return agents.key is None or agents.key == own.get("key")
    exists = own.get("operator") == "Exists"
    same = (agents.key, agents.value or "") == (own.get("key"), access.text(own, "value"))
    return same and not exists


def _taint(own: Json, effect: str) -> str:
    key, value = access.text(own, "key"), access.text(own, "value")
    said = key if own.get("operator") == "Exists" or not value else f"{key}={value}"
    said = said if key else "every taint"
    return f"{said}:{effect}" if effect else said

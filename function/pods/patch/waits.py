"""Init containers that wait for what an engine cannot start without.

They run the engine's own image, which is there anyway and has Python; the record names addresses
and a time, never a program.
"""

from collections.abc import Iterable

import programs
from function.kube import access
from function.kube import manifests as k
from function.kube.access import Json
from function.pods.patch.draft import Draft, conflict, items

_LEAST_CPU, _MEMORY = "10m", "64Mi"
# What Pod Security `restricted` asks of a container where its pod does not say it.
_USER = ("runAsNonRoot", "runAsUser", "runAsGroup", "seccompProfile")


def merge(draft: Draft, waits: Iterable[Json]) -> None:
    """Add the missing ones after the user's own.

    Raise PodConflict where an init container of that name does something else.
    """
    for wait in waits:
        add(draft, _container(draft, wait), "waits for its store")


def add(draft: Draft, wanted: Json, what: str) -> None:
    """Add an init container; `what` it does, for the PodConflict with another of its name."""
    there = items(draft.spec, "initContainers")
    same = [other for other in there if other.get("name") == wanted["name"]]
    if not same:
        there.append(wanted)
    elif same[0] != wanted:
        raise conflict(
            f"the name is the tier's, for an init container that {what}; rename it",
            f"spec.initContainers[{wanted['name']}]",
        )


def _container(draft: Draft, wait: Json) -> Json:
    found: Json = {"name": wait["name"], "image": draft.container.get("image", "")}
    if draft.container.get("imagePullPolicy"):
        found["imagePullPolicy"] = draft.container["imagePullPolicy"]
    return found | {
        "command": ["python3", "-c", k.literal(programs.text("wait_for.py"))],
        "args": [str(wait["seconds"]), *wait["addresses"]],
        **hardened(draft),
    }


def hardened(draft: Draft) -> Json:
    """Return resources and security of an init container, as the serving container's user."""
    own = draft.container.get("securityContext") or {}
    return {
        "resources": _resources(access.mapping(draft.container, "resources")),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            **{name: own[name] for name in _USER if name in own},
        },
        # What it says last is the pod's own status then.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _resources(serving: Json) -> Json:
    """Return little memory, and the CPU of the serving container.

    A pod needs the larger of both, so this adds nothing. It keeps a Guaranteed pod Guaranteed, and
    admitted where a ResourceQuota counts CPU limits.
    """
    limit = access.mapping(serving, "limits").get("cpu")
    request = access.mapping(serving, "requests").get("cpu", limit)
    limits = {"memory": _MEMORY} if limit is None else {"cpu": limit, "memory": _MEMORY}
    return {
        "requests": {"cpu": _LEAST_CPU if request is None else request, "memory": _MEMORY},
        "limits": limits,
    }

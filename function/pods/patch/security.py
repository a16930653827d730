"""Capabilities of the serving container: added to what is there; a user's drop by name stands."""

from collections.abc import Mapping, Sequence
from typing import Any

from function.pods.patch.draft import Draft, child, conflict, items


def merge(draft: Draft, capabilities: Sequence[str]) -> None:
    """Add capabilities (`IPC_LOCK`), except to a privileged container, which has them all."""
    have = draft.container.get("securityContext") or {}
    if not capabilities or have.get("privileged"):
        return
    own = have.get("capabilities") or {}
    for name in capabilities:
        if name in (own.get("drop") or ()):
            raise conflict(
                f"the pod drops {name}, which the tier needs; remove it from drop",
                draft.at("securityContext.capabilities.drop"),
            )
    added = own.get("add") or ()
    missing = [c for c in capabilities if c not in added and "ALL" not in added]
    if missing:
        context = child(draft.container, "securityContext")
        items(child(context, "capabilities"), "add").extend(missing)


def is_non_root(pod_spec: Mapping[str, Any], container: Mapping[str, Any]) -> bool:
    """Return whether the container surely runs as another user than root.

    A capability that is added to it has no effect then.
    """
    contexts = [holder.get("securityContext") or {} for holder in (container, pod_spec)]
    if any(context.get("privileged") for context in contexts):
        return False
    for context in contexts:
        if isinstance(user := context.get("runAsUser"), int):
            return user != 0
    return any(context.get("runAsNonRoot") is True for context in contexts)


def is_root(pod_spec: Mapping[str, Any], container: Mapping[str, Any]) -> bool:
    """Return whether the container says that it runs as root.

    Without a word the user is the image's, or what the cluster assigns.
    """
    contexts = (holder.get("securityContext") or {} for holder in (container, pod_spec))
    users = (context.get("runAsUser") for context in contexts)
    return next((user == 0 for user in users if isinstance(user, int)), False)

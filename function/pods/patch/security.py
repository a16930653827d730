"""Capabilities of the serving container: added to what is there; a user's drop by name stands."""

from collections.abc import Sequence

from function.pods.patch.draft import Draft, child, conflict, items


def merge(draft: Draft, capabilities: Sequence[str]) -> None:
    """Add capabilities (`IPC_LOCK`). A privileged container has them all."""
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

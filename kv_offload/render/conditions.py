"""Conditions of a composite as core keeps them: in order of first setting, one per type."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

Condition = dict[str, Any]

# The time `crossplane composition render` writes everywhere, so that output never changes.
FIXED_TIME = "2024-01-01T00:00:00Z"
# The same in seconds since 1970: renders never outlast a time.
NOW = datetime.fromisoformat(FIXED_TIME).timestamp()
SYSTEM_TYPES = frozenset({"Ready", "Synced", "Healthy", "UpToDate", "Responsive"})

RESPONSIVE = {"type": "Responsive", "status": "True", "reason": "WatchCircuitClosed"}
SYNCED = {"type": "Synced", "status": "True", "reason": "ReconcileSuccess"}
AVAILABLE = {"type": "Ready", "status": "True", "reason": "Available"}
CREATING = {"type": "Ready", "status": "False", "reason": "Creating"}

_FIELDS = ("lastTransitionTime", "message", "observedGeneration", "reason", "status", "type")
_REQUIRED = ("lastTransitionTime", "reason", "status", "type")


def reconcile_error(message: str) -> Condition:
    return {"type": "Synced", "status": "False", "reason": "ReconcileError", "message": message}


def read(document: Mapping[str, Any]) -> list[Condition]:
    """Return `status.conditions` through core's type: unknown fields drop, required ones appear."""
    conditions = (document.get("status") or {}).get("conditions") or ()
    return [_typed(condition) for condition in conditions]


def put(document: dict[str, Any], *conditions: Condition, generation: int = 0) -> None:
    """Set conditions in place; an equal one (times aside) is kept as it is."""
    current = read(document)
    for condition in conditions:
        new = _typed({"lastTransitionTime": FIXED_TIME} | condition, generation=generation)
        place = next((i for i, c in enumerate(current) if c["type"] == new["type"]), None)
        if place is None:
            current.append(new)
        elif not _equal(current[place], new):
            current[place] = new
    document["status"] = (document.get("status") or {}) | {"conditions": current}


def fix_times(document: dict[str, Any]) -> None:
    """Set every condition to the fixed time, in place, as the CLI prints them."""
    status = document.get("status")
    if not isinstance(status, dict):
        return
    conditions = [c | {"lastTransitionTime": FIXED_TIME} for c in read(document)]
    status["conditions"] = conditions or None


def _typed(condition: Mapping[str, Any], *, generation: int = 0) -> Condition:
    typed = {name: condition[name] for name in _FIELDS if condition.get(name)}
    if generation:
        typed["observedGeneration"] = generation
    return dict.fromkeys(_REQUIRED, "") | typed


def _equal(old: Condition, new: Condition) -> bool:
    generations = (old.get("observedGeneration"), new.get("observedGeneration"))
    if all(generations) and generations[0] != generations[1]:
        return False
    return all(old.get(name) == new.get(name) for name in ("type", "status", "reason", "message"))

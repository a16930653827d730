"""Phases and sizes of a gang, by role names, labels and counts."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from function.workloads.model import DECODE, LEADER, PREFILL, STANDALONE, UNIFIED, WORKER, Slot

# The pod label that llm-d's endpoint picker, and so Modelplane and KServe, reads.
ROLE_LABEL = "llm-d.ai/role"
_PHASES = (("prefill", PREFILL), ("decode", DECODE))


def phase_by_name(name: object) -> str:
    """Return the phase in a role's name.

    Names are free text, so only `prefill` and `decode` count.
    """
    lowered = str(name or "").lower()
    return next((phase for word, phase in _PHASES if word in lowered), UNIFIED)


def phase_by_label(body: Mapping[str, Any]) -> str:
    """Return the phase in a pod template's own label, Unified without one."""
    labels = (body.get("metadata") or {}).get("labels") or {}
    role = labels.get(ROLE_LABEL) if isinstance(labels, dict) else None
    return dict(_PHASES).get(str(role), UNIFIED)


def count(value: object, default: int = 1) -> int:
    """Return a replica count, `default` for anything but a whole number.

    A protobuf Struct holds doubles.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return default
    return int(value) if abs(value) < 2**53 and value == int(value) else default


def leader_and_workers(
    leader: Slot, worker: Slot, workers: int, phase: str, gang: str
) -> Iterable[Slot]:
    """Yield a leader and its workers as a gang; a lone leader is standalone."""
    role = LEADER if workers else STANDALONE
    yield replace(leader, role=role, phase=phase, gang=gang)
    yield replace(worker, role=WORKER, pods=workers, phase=phase, gang=gang)

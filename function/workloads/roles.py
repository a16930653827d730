"""What role names and sizes say about a gang."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from function.workloads.model import DECODE, LEADER, PREFILL, STANDALONE, UNIFIED, WORKER, Slot

# The pod label by which llm-d's endpoint picker, and so Modelplane and KServe, tells the two.
ROLE_LABEL = "llm-d.ai/role"
_PHASES = (("prefill", PREFILL), ("decode", DECODE))


def phase_of(name: object) -> str:
    """The phase that a role's name announces: names are free text, so only two words count."""
    lowered = str(name or "").lower()
    return next((phase for word, phase in _PHASES if word in lowered), UNIFIED)


def phase_of_labels(body: Mapping[str, Any]) -> str:
    """The phase that a pod template's own label says; Unified without one."""
    labels = (body.get("metadata") or {}).get("labels") or {}
    role = labels.get(ROLE_LABEL) if isinstance(labels, dict) else None
    return dict(_PHASES).get(str(role), UNIFIED)


def count(value: object, default: int = 1) -> int:
    """A replica count; absent or not a number means `default`. A protobuf Struct holds doubles."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        return default
    return int(value)


def leader_and_workers(
    leader: Slot, worker: Slot, workers: int, phase: str, gang: str
) -> Iterable[Slot]:
    """One leader pod and its workers as a gang; alone, the leader is a standalone pod."""
    role = LEADER if workers else STANDALONE
    yield replace(leader, role=role, phase=phase, gang=gang)
    yield replace(worker, role=WORKER, pods=workers, phase=phase, gang=gang)

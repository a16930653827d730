"""Note a prefill and decode pair of which only one phase names a tier.

Blocks pass from one engine to the other without the tier. What the silent one computes is not
kept and never found again, which is easily forgotten and seldom meant.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from function.pods.offload_request import OffloadRequest
from function.reasons import Policy
from function.workloads.model import DECODE, PREFILL, UNIFIED, Gang, Workload
from function.workloads.roles import phase_by_label

_OTHER = {PREFILL: DECODE, DECODE: PREFILL}


@dataclass(frozen=True)
class PhaseGroup:
    """An engine that does one phase only. `name`: its resource's key, and its own where it has one.

    `asks`: for a tier. `silent`: it says nothing of one; policy Off says something.
    """

    name: str
    phase: str
    asks: bool
    silent: bool


def requested_groups(request: OffloadRequest) -> list[PhaseGroup]:
    """Return the phases of a workload of which some engine names a tier, or did."""
    off = request.policy is Policy.OFF
    named = {engine.gang.name for engine in request.engines} if request.ref is not None else set()
    return [
        PhaseGroup(
            _name(request.key, gang), phase, gang.name in named and not off, gang.name not in named
        )
        for gang in request.workload.engines
        if (phase := _phase(gang)) != UNIFIED
    ]


def silent_groups(key: str, workload: Workload) -> list[PhaseGroup]:
    """Return the phases of a workload that names no tier."""
    engines = [(gang, _phase(gang)) for gang in workload.engines]
    return [
        PhaseGroup(_name(key, gang), phase, False, True)
        for gang, phase in engines
        if phase in _OTHER
    ]


def notes(disaggregation: Iterable[PhaseGroup]) -> list[str]:
    """Return a sentence for each phase that names a tier while the other one says nothing."""
    disaggregation = list(disaggregation)
    said = []
    for phase, other in _OTHER.items():
        request = [group.name for group in disaggregation if group.phase == phase and group.asks]
        others = [group for group in disaggregation if group.phase == other]
        if request and others and all(group.silent for group in others):
            said.append(
                f"Note: {_listed(request)} ({phase}) names a tier and"
                f" {_listed(group.name for group in others)} ({other}) does not: what that half"
                " computes is kept nowhere. Annotate its pod template too, or say there"
                ' modelplane.ai/kv-offload-policy: "Off" if it is meant.'
            )
    return said


def _phase(gang: Gang) -> str:
    for template in gang.templates:
        for phase in (template.phase, phase_by_label(template.body)):
            if phase != UNIFIED:
                return phase
    return UNIFIED


def _name(key: str, gang: Gang) -> str:
    return f"{key} ({gang.name})" if gang.name else key


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)

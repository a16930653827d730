"""PodCliqueSet (grove.io/v1alpha1, as Modelplane composes it for Dynamo): cliques of alike pods.

A clique holds a PodSpec under `spec.podSpec`; Grove gives its pods the labels and annotations that
stand beside it. On its own each pod of it is an engine. The cliques of a scaling group are one
engine over several pods, the first in order its leader, as Modelplane and Dynamo write them; where
their names tell prefill from decode, they only scale together.
"""

from collections.abc import Iterable
from typing import Any

from function.problems import field_path
from function.workloads import fieldpaths
from function.workloads.fieldpaths import Steps
from function.workloads.model import LEADER, MEMBER, STANDALONE, UNIFIED, WORKER, Slot
from function.workloads.roles import count, phase_of
from function.workloads.views import Beside

Json = dict[str, Any]

_TEMPLATE: Steps = ("spec", "template")


def clique_set(manifest: Json) -> Iterable[Slot]:
    """The slots of a PodCliqueSet, a gang per scaling group and per clique of none."""
    cliques = fieldpaths.objects(manifest, (*_TEMPLATE, "cliques"))
    groups: dict[object, str] = {}
    for i, group in fieldpaths.objects(manifest, (*_TEMPLATE, "podCliqueScalingGroups")):
        members = group.get("cliqueNames")
        for member in members if isinstance(members, list) else ():
            if isinstance(member, str):
                groups[member] = str(group.get("name", i))
    gangs: dict[tuple[str, str], list[tuple[int, Json]]] = {}
    for i, clique in cliques:
        name = _name(clique, i)
        key = ("group", groups[name]) if name in groups else ("clique", name)
        gangs.setdefault(key, []).append((i, clique))
    for (kind, name), members in gangs.items():
        phases = {_phase(clique) for _, clique in members}
        if kind == "clique" or len(phases) > 1:
            for i, clique in members:
                yield _slot(i, STANDALONE, 1, _phase(clique), _name(clique, i))
        else:
            yield from _gang(members, phases.pop(), name)


def _gang(members: list[tuple[int, Json]], phase: str, name: str) -> Iterable[Slot]:
    pods = [_replicas(clique) for _, clique in members]
    alone = STANDALONE if sum(pods) == 1 else MEMBER
    for number, (i, _) in enumerate(members):
        role = alone if len(members) == 1 else WORKER if number else LEADER
        yield _slot(i, role, pods[number] if number else max(pods[number], 1), phase, name)


def _slot(i: int, role: str, pods: int, phase: str, gang: str) -> Slot:
    at: Steps = (*_TEMPLATE, "cliques", i)
    view = Beside(at, ("spec", "podSpec"))
    return Slot(f"{field_path(at)}.spec.podSpec", view, role, pods, phase, gang)


def _replicas(clique: Json) -> int:
    return count(fieldpaths.get(clique, ("spec", "replicas")))


def _phase(clique: Json) -> str:
    """By its name, or by the role that it says it has."""
    phases = (phase_of(clique.get("name")), phase_of(fieldpaths.get(clique, ("spec", "roleName"))))
    return next((phase for phase in phases if phase != UNIFIED), UNIFIED)


def _name(clique: Json, i: int) -> str:
    return str(clique.get("name", i))

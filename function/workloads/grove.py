"""PodCliqueSet (grove.io/v1alpha1, as Modelplane composes it for Dynamo).

A clique holds a PodSpec under `spec.podSpec`; Grove gives its pods the labels and annotations of
the clique. Outside a scaling group each pod of a clique is an engine. The cliques of a scaling
group are one engine over several pods, the first in order its leader, as Modelplane and Dynamo
write them; where their names distinguish prefill from decode, they only scale together.
"""

from collections.abc import Iterable

from function.kube.access import Json
from function.problems import field_path
from function.workloads import fieldpaths
from function.workloads.fieldpaths import Steps
from function.workloads.model import LEADER, MEMBER, STANDALONE, UNIFIED, WORKER, Slot
from function.workloads.roles import count, phase_by_name
from function.workloads.views import PodSpecBelow

_TEMPLATE: Steps = ("spec", "template")


def slots(manifest: Json) -> Iterable[Slot]:
    """Yield a PodCliqueSet's slots, one gang per scaling group or lone clique."""
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
    view = PodSpecBelow(at, ("spec", "podSpec"))
    return Slot(f"{field_path(at)}.spec.podSpec", view, role, pods, phase, gang)


def _replicas(clique: Json) -> int:
    return count(fieldpaths.get(clique, ("spec", "replicas")))


def _phase(clique: Json) -> str:
    """Return the phase by the clique's name, or else by its `roleName`."""
    names = (clique.get("name"), fieldpaths.get(clique, ("spec", "roleName")))
    phases = (phase_by_name(name) for name in names)
    return next((phase for phase in phases if phase != UNIFIED), UNIFIED)


def _name(clique: Json, i: int) -> str:
    return str(clique.get("name", i))

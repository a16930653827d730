"""The container of a pod template that serves the model: by name or by proof."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from function import names
from function.contract.image_reference import ImageReference
from function.facts import Table
from function.kube import access
from function.kube.access import Json
from function.problems import Refused
from function.reasons import Reason


@dataclass(frozen=True)
class _Containers:
    """Containers by their names, and by the last element of their image's repository."""

    names: tuple[str, ...]
    source: str
    images: tuple[str, ...] = ()


_ENGINES = Table(_Containers, "containers", "engines")
_SIDECARS = Table(_Containers, "containers", "sidecars")


@cache
def _engine_names() -> tuple[str, ...]:
    """Return names of containers that serve a model, the most specific first."""
    return tuple(name for row in _ENGINES for name in row.names)


@cache
def _sidecars() -> tuple[frozenset[str], frozenset[str]]:
    """Return the names and the images of known sidecars."""
    names_ = frozenset(name for row in _SIDECARS for name in row.names)
    return names_, frozenset(image for row in _SIDECARS for image in row.images)


def find_engine_container(
    pod_spec: Json, *, name: str = "", proves: Callable[[Json], bool] = lambda container: False
) -> int:
    """Return the index of the engine's container in `pod_spec["containers"]`.

    `name`: the step Input's `container`, which wins where a container has that name. `proves`:
    whether a container's argv (or image) shows that it starts an engine. Native sidecars are in
    `initContainers`, which are not searched. Raise Refused(EngineContainerMissing) when there is
    none, or more than one.
    """
    containers = pod_spec.get("containers")
    if not isinstance(containers, list) or not all(isinstance(c, dict) for c in containers):
        raise _missing("The pod has no list of containers", ())
    for i, container in enumerate(containers):
        if name and container.get("name") == name:
            return i
    candidates = [i for i, c in enumerate(containers) if not is_sidecar(c)]
    proven = [i for i in candidates if proves(containers[i])]
    named = [i for i in candidates if containers[i].get("name") in _engine_names()]
    # Proof beats a name; among several proven or named ones, the most specific name decides.
    for group in (proven,) if proven else (named, candidates):
        if len(group) == 1:
            return group[0]
    for specific in _engine_names():
        for i in proven or named:
            if containers[i].get("name") == specific:
                return i
    if not candidates:
        raise _missing("Every container is a known sidecar", containers)
    raise _missing("Several containers could be the engine", containers)


def is_sidecar(container: Json) -> bool:
    """Return whether a container's name or image is that of a known sidecar."""
    known, images = _sidecars()
    image = ImageReference.parse(str(container.get("image") or "")).name
    return container.get("name") in known or image in images


def _missing(why: str, containers: Sequence[Json]) -> Refused:
    listed = ", ".join(str(c.get("name", "?")) for c in containers) or "none"
    return Refused(
        Reason.ENGINE_CONTAINER_MISSING,
        f"{why} (containers: {listed}). Name the engine's container `engine`, or set `container` "
        "in the step's Input. If none is an engine, remove the annotation "
        f"{names.ANNOTATION_TIER}.",
        "spec.containers",
    )


def asks_for_device(template: Mapping[str, Any]) -> bool:
    """Return whether a pod asks for an extended resource or a claim, in whichever container."""
    spec = access.mapping(template, "spec")
    places = [spec, *access.objects(spec, "containers"), *access.objects(spec, "initContainers")]
    return bool(access.objects(spec, "resourceClaims")) or any(
        "/" in name and str(amount) not in ("0", "", "None")
        for each in places
        for kind in ("limits", "requests")
        for name, amount in access.mapping(each, "resources", kind).items()
    )


def gpus(template: Mapping[str, Any]) -> int:
    """Return how many GPUs KubeRay tells Ray of by itself: limits of names that end in `gpu`."""
    found = 0
    for container in access.objects(access.mapping(template, "spec"), "containers"):
        for name, amount in access.mapping(container, "resources", "limits").items():
            if name.endswith("gpu") and str(amount).isdecimal() and len(str(amount)) < 5:
                found += int(amount)
    return found

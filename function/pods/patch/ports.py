"""Ports of the serving container: those of the tier that it does not declare yet."""

from collections.abc import Iterable, Iterator

from function.kube.access import Json
from function.pods.patch.draft import Draft, conflict, items


def merge(draft: Draft, ports: Iterable[Json]) -> None:
    """Add core/v1 ContainerPorts.

    Raise PodConflict where a name or a number is taken; a number also by another container, since
    all of a pod share one address.
    """
    for port in ports:
        declared = items(draft.container, "ports")
        if any(port.items() <= other.items() for other in declared):
            continue
        for other in declared:
            for field in ("name", "containerPort"):
                if port.get(field) is not None and other.get(field) == port[field]:
                    raise conflict(
                        f"the port {port[field]!r} is declared with another meaning, and the tier "
                        f"needs {port}; rename or remove it",
                        draft.at(f"ports[{other.get('name') or other.get('containerPort')}]"),
                    )
        for where, other in _other_ports(draft):
            if other.get("containerPort") == port.get("containerPort"):
                raise conflict(
                    f"the port {port['containerPort']} is another container's, and the tier needs "
                    f"it for {port.get('name')}; give one of them another",
                    f"{where}.ports[{other.get('name') or other.get('containerPort')}]",
                )
        declared.append(dict(port))


def _other_ports(draft: Draft) -> Iterator[tuple[str, Json]]:
    """Yield (path of another running container, a port that it declares)."""
    sidecars = [c for c in draft.spec.get("initContainers") or () if c.get("restartPolicy")]
    running = {"containers": draft.spec["containers"], "initContainers": sidecars}
    for kind, containers in running.items():
        for container in containers:
            if container is not draft.container:
                for port in container.get("ports") or ():
                    yield f"spec.{kind}[{container.get('name')}]", port

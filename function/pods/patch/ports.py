"""Ports of the serving container: those of the tier that it does not declare yet."""

from collections.abc import Iterable
from typing import Any

from function.pods.patch.draft import Draft, conflict, items

Json = dict[str, Any]


def merge(draft: Draft, ports: Iterable[Json]) -> None:
    """Add core/v1 ContainerPorts. Raises Refused(PodConflict) where a name or a number is taken."""
    for port in ports:
        declared = items(draft.container, "ports")
        if any(_same(port, other) for other in declared):
            continue
        for other in declared:
            for field in ("name", "containerPort"):
                if port.get(field) is not None and other.get(field) == port[field]:
                    raise conflict(
                        f"the port {port[field]!r} is declared with another meaning, and the tier "
                        f"needs {port}; rename or remove it",
                        draft.at(f"ports[{other.get('name') or other.get('containerPort')}]"),
                    )
        declared.append(dict(port))


def _same(port: Json, other: Json) -> bool:
    return all(other.get(key) == value for key, value in port.items())

"""What wiring adds to the memory of pods, by field."""

from dataclasses import dataclass
from typing import Any

from function import workloads
from function.kube import access


@dataclass(frozen=True)
class MemoryChange:
    """A quantity of memory that wiring changes. `field`: where; `before`: "" for none."""

    field: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.field}: {self.before or 'none'} → {self.after}"


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[MemoryChange]:
    """Return what differs in requests, limits and volumes in memory, in the fields' order."""
    old, new = _quantities(before), _quantities(after)
    return [
        MemoryChange(field, old.get(field, ""), quantity)
        for field, quantity in sorted(new.items())
        if old.get(field, "") != quantity
    ]


def _quantities(manifest: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    workload = workloads.find(manifest)
    for template in workload.templates if workload else ():
        spec = access.mapping(template.body, "spec")
        place = "" if manifest.get("kind") == "Pod" else f"{template.path}: "
        for container in access.objects(spec, "containers"):
            for kind in ("requests", "limits"):
                if quantity := access.at(container, "resources", kind, "memory"):
                    name = container.get("name", "")
                    found[f"{place}{kind}.memory of {name}"] = str(quantity)
        for volume in access.objects(spec, "volumes"):
            if access.at(volume, "emptyDir", "medium") == "Memory":
                limit = access.at(volume, "emptyDir", "sizeLimit")
                found[f"{place}volume {volume.get('name')}"] = str(limit or "unlimited")
    return found

"""A pod template being wired: a private copy, its serving container, and where things stand.

The concerns of this package edit a `Draft` in place; the caller's template is never touched.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from function import names
from function.problems import Refused
from function.reasons import Reason
from function.workloads import pod_shape

Json = dict[str, Any]

# What wiring added to quantities that the user set, so that wiring again adds nothing:
# "memory=1073741824,hugepages-2Mi=536870912" in bytes.
ADDED = names.ANNOTATION_ADDED


@dataclass
class Draft:
    """`template`: a PodTemplateSpec. `index`: the serving container's place in `containers`."""

    template: Json
    index: int

    @classmethod
    def of(cls, template: Json, index: int) -> "Draft":
        """A copy to edit. Raises Refused(PodConflict) for what is no PodTemplateSpec."""
        path, wrong = pod_shape.find_template_problem(template)
        if wrong:
            raise conflict(wrong, path)
        return cls(deepcopy(dict(template)), index)

    @property
    def spec(self) -> Json:
        return child(self.template, "spec")

    @property
    def container(self) -> Json:
        container: Json = self.spec["containers"][self.index]
        return container

    def at(self, field: str = "") -> str:
        """The path of a field of the serving container, as people read it."""
        name = self.container.get("name") or str(self.index)
        return f"spec.containers[{name}]" + (f".{field}" if field else "")


def child(parent: Json, key: str) -> Json:
    """The object at `key`, made when it is absent or null."""
    value = parent.get(key)
    if value is None:
        value = parent[key] = {}
    return value


def items(parent: Json, key: str) -> list[Any]:
    """The list at `key`, made when it is absent or null."""
    value = parent.get(key)
    if value is None:
        value = parent[key] = []
    return value


def conflict(message: str, path: str) -> Refused:
    return Refused(Reason.POD_CONFLICT, message, path)

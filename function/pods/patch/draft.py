"""The pod template that this package edits in place; the caller's stays as it is."""

from copy import deepcopy
from typing import Any

from function import names
from function.kube.access import Json
from function.problems import Refused
from function.reasons import Reason

# What wiring added to quantities that the user set, so that wiring again adds nothing:
# "memory=1073741824,hugepages-2Mi=536870912" in bytes.
ADDED = names.ANNOTATION_ADDED


class Draft:
    """A private copy of a PodTemplateSpec of valid shape, and its serving container.

    `template`, `spec` and `container` are parts of one document: edit them in place.
    """

    def __init__(self, template: Json, index: int) -> None:
        """Copy the template; `index` is the serving container's place in `containers`."""
        self.template: Json = deepcopy(dict(template))
        self.spec: Json = self.template["spec"]
        self.container: Json = self.spec["containers"][index]
        self._index = index

    def at(self, field: str = "") -> str:
        """Return the path of a field of the serving container for a message."""
        name = self.container.get("name") or str(self._index)
        return f"spec.containers[{name}]" + (f".{field}" if field else "")


def child(parent: Json, key: str) -> Json:
    """Return the object at `key`; create it when it is absent or null."""
    value = parent.get(key)
    if value is None:
        value = parent[key] = {}
    return value


def items(parent: Json, key: str) -> list[Any]:
    """Return the list at `key`; create it when it is absent or null."""
    value = parent.get(key)
    if value is None:
        value = parent[key] = []
    return value


def conflict(message: str, path: str) -> Refused:
    """Return a PodConflict at a path of the template."""
    return Refused(Reason.POD_CONFLICT, message, path)

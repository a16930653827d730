"""A pod template being wired: a private copy, its serving container, and where things stand.

The concerns of this package edit a `Draft` in place; the caller's template is never touched.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from function.problems import Refused

Json = dict[str, Any]

# What wiring added to quantities that the user set, so that wiring again adds nothing:
# "memory=1073741824,hugepages-2Mi=536870912" in bytes.
ADDED = "modelplane.ai/kv-offload-added"


@dataclass
class Draft:
    """`template`: a PodTemplateSpec. `index`: the serving container's place in `containers`."""

    template: Json
    index: int

    @classmethod
    def of(cls, template: Json, index: int) -> "Draft":
        """A copy to edit. Raises Refused(PodConflict) for what is no PodTemplateSpec."""
        _check(template, _TEMPLATE, "")
        _check(template["spec"]["containers"][index], _CONTAINER, f"spec.containers[{index}]")
        return cls(deepcopy(dict(template)), index)

    @property
    def spec(self) -> Json:
        return child(self.template, "spec")

    @property
    def container(self) -> Json:
        return self.spec["containers"][self.index]

    def at(self, field: str = "") -> str:
        """The path of a field of the serving container, as people read it."""
        name = self.container.get("name") or str(self.index)
        return f"spec.containers[{name}]" + (f".{field}" if field else "")


# What is relied on of core/v1, field by field: an object, a list of objects with that field, or a
# list of anything. The API server would refuse the pod as well, with less to go by.
_LIST = object()
_TEMPLATE: Json = {
    "metadata": {"labels": {}, "annotations": {}},
    "spec": {
        "containers": "",
        "volumes": "name",
        "resourceClaims": "name",
        "nodeSelector": {},
        "resources": {"requests": {}, "limits": {}},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": ""}
            }
        },
    },
}
_CONTAINER: Json = {
    "env": "name",
    "volumeMounts": "name",
    "resources": {"requests": {}, "limits": {}, "claims": "name"},
    "securityContext": {"capabilities": {"add": _LIST, "drop": _LIST}},
}


def _check(node: Any, shape: Any, path: str) -> None:
    if node is None:
        return
    if isinstance(shape, dict):
        if not isinstance(node, dict):
            raise conflict("this is not an object", path)
        for key, inner in shape.items():
            _check(node.get(key), inner, f"{path}.{key}" if path else key)
    elif not isinstance(node, list):
        raise conflict("this is not a list", path)
    elif isinstance(shape, str):
        for i, item in enumerate(node):
            if not isinstance(item, dict) or (shape and not isinstance(item.get(shape), str)):
                raise conflict(f"this is not an object with a {shape or 'content'}", f"{path}[{i}]")


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
    return Refused("PodConflict", message, path)

"""The shape of a pod template that wiring relies on, checked once before all else.

Workloads come from other steps and may be anything; the API server would refuse a malformed pod
with less detail. Fields that are not listed here do not matter.
"""

from collections.abc import Mapping
from typing import Any

# A shape is an object's fields ("!" marks a required one, "*" matches every key), a list of one
# shape, `str`, or SCALAR. Other fields may be absent or null.
SCALAR = object()

_TEXTS = {"*": SCALAR}
_CONTAINER = {
    "name": str,
    "image": str,
    "workingDir": str,
    "env": [{"name!": str, "value": SCALAR, "valueFrom": {"*": {}}}],
    "envFrom": [{}],
    "ports": [{"name": str, "containerPort": SCALAR}],
    "volumeMounts": [
        {"name!": str, "mountPath!": str, "subPath": str, "subPathExpr": str, "readOnly": SCALAR}
    ],
    "resources": {
        "requests": _TEXTS,
        "limits": _TEXTS,
        "claims": [{"name!": str, "request": str}],
    },
    "securityContext": {"capabilities": {"add": [str], "drop": [str]}, "privileged": SCALAR},
}
_REQUIREMENT = {"key!": str, "operator!": str, "values": [str]}
_TEMPLATE = {
    "metadata": {"labels": _TEXTS, "annotations": _TEXTS},
    "spec!": {
        "containers!": [_CONTAINER],
        "initContainers": [{"name": str, "restartPolicy": str, "ports": _CONTAINER["ports"]}],
        "volumes": [
            {
                "name!": str,
                "emptyDir": {"medium": str, "sizeLimit": SCALAR},
                "hostPath": {"path": str},
                "persistentVolumeClaim": {"claimName": str},
                "image": {"reference": str},
                "nfs": {"server": str, "path": str},
                "configMap": {},
                "secret": {},
                "projected": {},
                "downwardAPI": {},
            }
        ],
        "resourceClaims": [{"name!": str}],
        "resources": {"requests": _TEXTS, "limits": _TEXTS},
        "nodeSelector": {"*": str},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [_REQUIREMENT], "matchFields": [_REQUIREMENT]}
                    ]
                }
            }
        },
    },
}
# An LLMConfig of Ray Serve LLM.
_SERVE = {
    "model_loading_config": {"model_id": str},
    "engine_kwargs": {},
    "runtime_env": {"env_vars": _TEXTS},
}


def find_template_problem(body: Any) -> tuple[str, str]:
    """Return (path, problem) of a PodTemplateSpec, ("", "") of a valid one."""
    return _problem(body, _TEMPLATE, "", required=True)


def find_serve_problem(body: Any) -> tuple[str, str]:
    """Return (path, problem) of an `llm_configs` entry, ("", "") of a valid one."""
    return _problem(body, _SERVE, "", required=True)


def _problem(node: Any, shape: Any, path: str, required: bool = False) -> tuple[str, str]:
    """Return (path, problem) of a node; plain values are judged without a call of their own."""
    if node is None:
        return (path, "This field is required.") if required else ("", "")
    if isinstance(shape, list):
        if not isinstance(node, list):
            return path, "This is not a list."
        inner = [(item, shape[0], f"{path}[{i}]", True) for i, item in enumerate(node)]
    elif not isinstance(node, Mapping):
        return path, "This is not an object."
    else:
        inner = _fields(node, shape, path)
    for value, wanted, place, needed in inner:
        if wanted is str and value is not None:
            found = ("", "") if isinstance(value, str) else (place, "This is not a string.")
        elif wanted is SCALAR and value is not None:
            plain = not isinstance(value, dict | list)
            found = ("", "") if plain else (place, "This is not a plain value.")
        elif value is not None or needed:
            found = _problem(value, wanted, place, needed)
        else:
            continue
        if found[1]:
            return found
    return "", ""


def _fields(
    node: Mapping[str, Any], shape: Mapping[str, Any], path: str
) -> list[tuple[Any, Any, str, bool]]:
    found = []
    for key, inner in shape.items():
        name = key.removesuffix("!")
        for field in node if key == "*" else (name,):
            place = f"{path}.{field}" if path else field
            found.append((node.get(field), inner, place, name != key))
    return found

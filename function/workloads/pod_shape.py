"""The shape of a pod template that wiring relies on, checked once before all else.

Workloads come from other steps and may be anything; the API server would refuse a malformed pod
with less detail. pod_shape.yaml has the fields that matter.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

_SHAPES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
_TEXT, _PLAIN = "text", "plain"


def find_template_problem(body: Any) -> tuple[str, str]:
    """Return (path, problem) of a PodTemplateSpec, ("", "") of a valid one."""
    return _problem(body, _SHAPES["template"], "", required=True)


def find_owner_problem(resource: Any) -> tuple[str, str]:
    """Return (path, problem) of the metadata beside a pod template or of an Object."""
    return _problem(resource, _SHAPES["owner"], "", required=True)


def find_serve_problem(body: Any) -> tuple[str, str]:
    """Return (path, problem) of an `llm_configs` entry, ("", "") of a valid one."""
    return _problem(body, _SHAPES["serve"], "", required=True)


def _problem(node: Any, shape: Any, path: str, required: bool = False) -> tuple[str, str]:
    """Return (path, problem) of a node; plain values are judged without a call of their own."""
    if node is None:
        return (path, "This field is required.") if required else ("", "")
    if isinstance(shape, list):
        if not isinstance(node, list):
            return path, "This is not a list."
        inner: Iterable[tuple[Any, Any, str, bool]] = (
            (item, shape[0], f"{path}[{i}]", True) for i, item in enumerate(node)
        )
    elif not isinstance(node, Mapping):
        return path, "This is not an object."
    else:
        inner = _fields(node, shape, path)
    for value, wanted, place, needed in inner:
        if wanted == _TEXT and value is not None:
            found = ("", "") if isinstance(value, str) else (place, "This is not a string.")
        elif wanted == _PLAIN and value is not None:
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
) -> Iterator[tuple[Any, Any, str, bool]]:
    for key, inner in shape.items():
        name = key.removesuffix("!")
        for field in node if key == "*" else (name,):
            place = f"{path}.{field}" if path else field
            yield node.get(field), inner, place, name != key

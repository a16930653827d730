"""Field paths in manifests: `spec.roles[0].template`, `[*]` for every list item.

A key that itself contains dots or slashes is bracketed and quoted: `annotations["a.b/c"]`.
"""

import re
from typing import Any

from function.kube.access import Json

Steps = tuple[str | int, ...]

EVERY = "*"

_STEP = re.compile(r'\.?([A-Za-z_$][-\w$]*)|\[(\d+|\*)\]|\["([^"]+)"\]')


def parse(path: str) -> Steps:
    """Return the steps of a path. Raise ValueError for a malformed one."""
    steps: list[str | int] = []
    position = 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None or (match[0][0] == ".") != (position > 0 and path[position] == "."):
            raise ValueError(f"{path!r} is not a field path, such as spec.roles[0].template")
        key, index, quoted = match.groups()
        if index is not None:
            steps.append(EVERY if index == "*" else int(index))
        else:
            steps.append(quoted if quoted is not None else key)
        position = match.end()
    if not steps:
        raise ValueError("an empty field path names nothing")
    return tuple(steps)


def get(node: Any, steps: Steps) -> Any:
    """Return the value at `steps`, None where there is none."""
    for step in steps:
        if isinstance(step, int):
            node = node[step] if isinstance(node, list) and step < len(node) else None
        else:
            node = node.get(step) if isinstance(node, dict) else None
    return node


def get_object(node: Any, *steps: str | int) -> Json:
    """Return the object at `steps`, {} for anything else."""
    value = get(node, steps)
    return value if isinstance(value, dict) else {}


def objects(node: Any, steps: Steps) -> list[tuple[int, Json]]:
    """Return the objects in the list at `steps`, with their indexes."""
    value = get(node, steps)
    if not isinstance(value, list):
        return []
    return [(i, item) for i, item in enumerate(value) if isinstance(item, dict)]


def put(document: Json, steps: Steps, value: Any) -> Json:
    """Return a copy of `document` with `value` at `steps`; unchanged parts are shared.

    Missing objects on the way are created; lists are never lengthened.
    """
    changed: Json = _put(document, steps, value)
    return changed


def _put(node: Any, steps: Steps, value: Any) -> Any:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(step, int):
        items = list(node)
        items[step] = _put(items[step], rest, value)
        return items
    fields = dict(node or {})
    fields[step] = _put(fields.get(step), rest, value)
    return fields


def expand(node: Any, steps: Steps) -> list[Steps]:
    """Return the concrete paths that a path with `[*]` matches, in document order."""
    for i, step in enumerate(steps):
        if step == EVERY:
            value = get(node, steps[:i])
            count = len(value) if isinstance(value, list) else 0
            return [
                path
                for k in range(count)
                for path in expand(node, (*steps[:i], k, *steps[i + 1 :]))
            ]
    return [steps]

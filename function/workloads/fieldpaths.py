"""Field paths in manifests: `spec.roles[0].template`, and `[*]` for every item of a list.

A key that itself contains dots or slashes stands in brackets and quotes: `annotations["a.b/c"]`.
"""

import re
from typing import Any

Json = dict[str, Any]
Steps = tuple[str | int, ...]

EVERY = "*"

_STEP = re.compile(r'\.?([A-Za-z_$][-\w$]*)|\[(\d+|\*)\]|\["([^"]+)"\]')


def parse(path: str) -> Steps:
    """The steps of a path; raises ValueError for text that is none."""
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
    """The value at `steps`, or None where there is none."""
    for step in steps:
        if isinstance(step, int):
            node = node[step] if isinstance(node, list) and step < len(node) else None
        else:
            node = node.get(step) if isinstance(node, dict) else None
    return node


def get_object(node: Any, *steps: str | int) -> Json:
    """The object at `steps`; {} where there is none, or something else."""
    value = get(node, steps)
    return value if isinstance(value, dict) else {}


def objects(node: Any, steps: Steps) -> list[tuple[int, Json]]:
    """The objects in the list at `steps`, with their indexes; anything else is passed over."""
    value = get(node, steps)
    if not isinstance(value, list):
        return []
    return [(i, item) for i, item in enumerate(value) if isinstance(item, dict)]


def put(document: Json, steps: Steps, value: Any) -> Json:
    """A copy of `document` with `value` at `steps`; everything beside the path is shared.

    Objects on the way are made where they are absent; lists are never lengthened.
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
    """The concrete paths that a path with `[*]` stands for in `node`, in document order."""
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

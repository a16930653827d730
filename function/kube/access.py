"""Read values of untrusted documents, whose types need not match their schema."""

from collections.abc import Container, Iterable, Mapping
from datetime import datetime
from typing import Any

from function.kube import quantity

# A document, or an object in one.
Json = dict[str, Any]

# The types in a document of the API server, and in what tiers, clusters and Usages say of
# themselves. "*" is any key. Any other field may have any type.
FOREIGN: Json = {
    "apiVersion": str,
    "kind": str,
    "metadata": {
        "name": str,
        "namespace": str,
        "uid": str,
        "resourceVersion": str,
        "deletionTimestamp": str,
        "generation": int,
        "labels": {"*": str},
        "annotations": {"*": str},
    },
    "spec": {
        "inferenceClusterRef": {"name": str},
        "providerConfigRef": {"name": str},
        "by": {"apiVersion": str, "kind": str, "resourceRef": {"name": str}},
    },
    "status": {
        "conditions": [{"type": str, "status": str, "reason": str, "message": str}],
        "providerConfigRef": {"name": str},
        "agents": {"desired": int, "ready": int},
        "capacityGiB": int,
        "closedNamespaces": [str],
        "usage": str,
        "pinned": {"*": str},
        "quarantine": [{"namespace": str, "name": str, "number": int, "open": bool}],
        "atProvider": {"manifest": {"status": {"readyReplicas": int}}},
    },
}
# A composite's own spec is judged by whoever composes it.
COMPOSITE = {key: shape for key, shape in FOREIGN.items() if key != "spec"}


def typed(value: Any, shape: Any = FOREIGN, *path: str | int) -> Any:
    """Return a value without what has another type than its shape says; itself where all fits.

    `path`: where the value stands in a document of that shape. None for a value of another type.
    """
    for step in path:
        if isinstance(shape, list):
            shape = shape[0]
        else:
            shape = shape.get(step, shape.get("*")) if isinstance(shape, dict) else None
    if shape is None:
        return value
    if isinstance(shape, type):
        return value if type(value) is shape else None
    if isinstance(shape, list):
        if not isinstance(value, list):
            return None
        items = [typed(item, shape[0]) for item in value]
        fits = all(item is given for item, given in zip(items, value, strict=True))
        return value if fits and None not in items else [i for i in items if i is not None]
    if not isinstance(value, dict):
        return None
    keys = value if "*" in shape else shape.keys() & value.keys()
    inner = {}
    for key in keys:
        item, wanted = value[key], shape.get(key, shape.get("*"))
        if isinstance(wanted, type):  # without a call: most values of a document are plain
            inner[key] = item if type(item) is wanted else None
        else:
            inner[key] = typed(item, wanted)
    if all(item is not None and item is value[key] for key, item in inner.items()):
        return value
    found = {**value, **inner}
    return {key: item for key, item in found.items() if item is not None or key not in inner}


def at(document: Any, *path: str) -> Any:
    """Return the value at a path of keys, None where the path ends early."""
    for step in path:
        # A plain dict first: asking whether it is a Mapping takes five times as long.
        if not isinstance(document, dict) and not isinstance(document, Mapping):
            return None
        document = document.get(step)
    return document


def holds(
    whole: Any, part: Any, *, is_quantity: bool = False, but: Container[str] = frozenset()
) -> bool:
    """Return whether an API server's document has all that was written: lists item by item.

    It leaves out what is empty, gives null a default, and writes 1024Mi as 1Gi. `but`: fields at
    any depth that others may have written since.
    """
    if part is None or whole is None:
        return _is_empty(part)
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            holds(whole.get(key), value, is_quantity=is_quantity or key in quantity.FIELDS, but=but)
            for key, value in part.items()
            if key not in but
        )
    if isinstance(part, list):
        same = isinstance(whole, list) and len(whole) == len(part)
        return same and all(holds(*pair, but=but) for pair in zip(whole, part, strict=True))
    return bool(whole == part) or (is_quantity and quantity.is_same(whole, part))


def _is_empty(value: Any) -> bool:
    """Return whether a value says nothing, at any depth: an API server may leave it out."""
    return all(map(_is_empty, value.values())) if isinstance(value, dict) else not value


def moment(time: object) -> float | None:
    """Return a timestamp of a document in seconds since 1970, None for what is none."""
    try:
        return datetime.fromisoformat(str(time)).timestamp()
    except ValueError:
        return None


def latest(times: Iterable[object]) -> float:
    """Return the latest of timestamps in seconds since 1970, 0.0 where there is none."""
    return max([0.0, *filter(None, map(moment, times))])


def first_difference(one: Any, other: Any) -> str:
    """Return the path of the first field in which two documents differ, "" for equal ones."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return ""
    for key in sorted({*one, *other}):
        if one.get(key) != other.get(key):
            below = first_difference(one.get(key), other.get(key))
            return f"{key}.{below}" if below else key
    return ""


def text(document: Any, *path: str) -> str:
    """Return the string at a path, "" for anything else."""
    found = at(document, *path)
    return found if isinstance(found, str) else ""


def named(document: Any) -> tuple[str, str, str]:
    """Return kind, namespace and name of an object, "" for what is no string."""
    metadata = mapping(document, "metadata")
    found = document.get("kind"), metadata.get("namespace"), metadata.get("name")
    kind, namespace, name = (value if isinstance(value, str) else "" for value in found)
    return kind, namespace, name


def controller(owners: Any) -> str:
    """Return the uid of the composite among `metadata.ownerReferences`, "" where there is none."""
    rows = owners if isinstance(owners, list) else []
    found = (each for each in rows if isinstance(each, dict) and each.get("controller") is True)
    return next((str(each.get("uid")) for each in found), "")


def mapping(document: Any, *path: str) -> Json:
    """Return the object at a path, {} for anything else."""
    found = at(document, *path)
    return found if isinstance(found, dict) else {}


def texts(document: Any, *path: str) -> dict[str, str]:
    """Return the labels or annotations at a path, without values that are no strings."""
    return {k: v for k, v in mapping(document, *path).items() if isinstance(v, str)}


def objects(document: Any, *path: str) -> list[Json]:
    """Return the objects in the list at a path."""
    found = at(document, *path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def can_both_match(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Return whether one thing can match two label selectors: no label has two values."""
    return all(other.get(key, value) == value for key, value in one.items())


def condition(document: Any, kind: str) -> Json:
    """Return the status condition of a type, {} where there is none."""
    found = (c for c in objects(document, "status", "conditions") if c.get("type") == kind)
    return next(found, {})

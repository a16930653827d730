"""Merge a fleet's `clusterOverrides` into its spec, for one cluster.

Objects and maps merge by key, lists of named items by name; everything else is replaced, and null
removes. An object that sets another `type`, `source` or `mode` is replaced whole: what belongs to
the old one does not fit. Of several overrides that match, later ones win.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from function.api.walk import ModelField, fields
from function.kube import access
from function.kube.access import Json
from function.problems import Problem

FIELD = "clusterOverrides"

# What an override may hold, in addition to the settings of the tier's backend.
_ALLOWED = ("gpuVisibility", "image", "nodes", "rdma", "readiness", "startupTimeoutSeconds")
_TAGS = ("mode", "source", "type")


def matching(spec: Mapping[str, Any], labels: Mapping[str, str]) -> tuple[int, ...]:
    """Return the positions of the overrides that match a cluster's labels."""
    found = enumerate(access.objects(spec, FIELD))
    return tuple(i for i, it in found if access.texts(it, "matchLabels").items() <= labels.items())


def merged(model: type[BaseModel], spec: Mapping[str, Any], positions: Sequence[int]) -> Json:
    """Return a fleet's spec with these of its overrides; the list itself stays."""
    rows = access.objects(spec, FIELD)
    out: Json = dict(spec)
    for position in positions:
        out = _object(model, out, access.mapping(rows[position], "spec"))
    return out


def misplaced(spec: Mapping[str, Any], settings: str) -> Iterator[Problem]:
    """Yield what an override may not hold. `settings`: the field of the backend's settings."""
    allowed = sorted({*_ALLOWED, settings})
    for position, row in enumerate(access.objects(spec, FIELD)):
        for key in sorted(access.mapping(row, "spec").keys() - set(allowed)):
            said = f"cannot differ by cluster; an override may set {', '.join(allowed)}"
            yield Problem(f"{path(position)}.{key}", said)


def path(position: int) -> str:
    """Return the field path of an override's spec."""
    return f"spec.{FIELD}[{position}].spec"


def _object(model: type[BaseModel], base: Mapping[str, Any], over: Mapping[str, Any]) -> Json:
    known = fields(model)
    tags = {tag: known[tag].info.default for tag in _TAGS if tag in over and tag in known}
    if base and any((base.get(tag) or it) != (over[tag] or it) for tag, it in tags.items()):
        base = {}
    out = dict(base)
    for key, value in over.items():
        if value is None and key in known:
            out.pop(key, None)
        else:
            out[key] = _value(known.get(key), out.get(key), value)
    return out


def _value(field: ModelField | None, base: Any, over: Any) -> Any:
    if field is None:  # parsing refuses it, except for a null
        return {} if over is None else over
    if field.container is None and field.model and isinstance(over, dict):
        return _object(field.model, access.mapping(base), over)
    if field.container is dict and isinstance(over, dict):
        return {k: v for k, v in {**access.mapping(base), **over}.items() if v is not None}
    if field.model and isinstance(over, list):
        before = base if field.keys and isinstance(base, list) else []
        return _items(field.model, field.keys, before, over)
    return over


def _items(
    model: type[BaseModel], keys: Sequence[str], base: list[Any], over: list[Any]
) -> list[Any]:
    """Merge items that agree in `keys`, and append the others; without keys none agree."""

    def name(number: int, item: Any) -> tuple[object, ...]:
        return tuple(str(access.mapping(item).get(key)) for key in keys) or (number,)

    by_name = {name(number, item): item for number, item in enumerate(base)}
    for number, item in enumerate(over):
        before = access.mapping(by_name.get(name(number, item)))
        merged = _object(model, before, item) if isinstance(item, dict) else item
        by_name[name(number, item)] = merged
    return list(by_name.values())

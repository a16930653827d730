"""A document seen through its model's types, also where parts of it are wrong.

pydantic builds an object only when all of it is valid; the rules must be checked on the rest of a
document too, or a user meets one problem after the other.
"""

import types
from collections.abc import Iterator
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Loc = tuple[str | int, ...]


class Unknown(Exception):
    """A rule read a field whose own value is wrong: the rule has nothing to say."""


def model_of(annotation: Any) -> type[BaseModel] | None:
    """The model behind an annotation: itself, optional, or in a list, a tuple or a map."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, types.UnionType, list, tuple, dict) or hasattr(
        annotation, "__metadata__"
    ):
        for argument in get_args(annotation):
            if model := model_of(argument):
                return model
    return None


def by_alias(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The model's fields by the name users write."""
    return {info.alias or name: info for name, info in model.model_fields.items()}


class View:
    """One object of a document: attributes are its fields, defaults filled in.

    Reading a field that is in `bad`, or missing though required, raises Unknown.
    """

    def __init__(self, model: type[BaseModel], raw: Any, loc: Loc, bad: frozenset[Loc]) -> None:
        self.model = model
        self.loc = loc
        self._raw = raw if isinstance(raw, dict) else {}
        self._bad = bad

    def __getattr__(self, name: str) -> Any:
        info = self.model.model_fields.get(name)
        if info is None:
            raise AttributeError(name)
        alias = info.alias or name
        loc = (*self.loc, alias)
        if loc in self._bad or self.loc in self._bad:
            raise Unknown(loc)
        if alias not in self._raw:
            if info.is_required():
                raise Unknown(loc)
            return info.get_default(call_default_factory=True)
        return self._wrap(info, self._raw[alias], loc)

    def _wrap(self, info: FieldInfo, value: Any, loc: Loc) -> Any:
        """A value with Views for the objects in it, where it has the shape its type wants."""
        model = model_of(info.annotation)
        container = container_of(info.annotation)
        if model is None:
            return value
        if container is list and isinstance(value, list):
            return [View(model, item, (*loc, i), self._bad) for i, item in enumerate(value)]
        if container is dict and isinstance(value, dict):
            return {key: View(model, item, (*loc, key), self._bad) for key, item in value.items()}
        return View(model, value if container is None else {}, loc, self._bad)

    def children(self) -> Iterator["View"]:
        """The nested objects that the document itself holds."""
        for alias, info in by_alias(self.model).items():
            if alias not in self._raw or not model_of(info.annotation):
                continue
            value = self._wrap(info, self._raw[alias], (*self.loc, alias))
            if isinstance(value, View):
                yield value
            else:
                yield from value.values() if isinstance(value, dict) else value

    def duplicates(self) -> Iterator[tuple[Loc, str]]:
        """(place, message) of every item of a list of type map whose key is used before it."""
        for alias, info in by_alias(self.model).items():
            keys = _map_keys(info)
            items = self._raw.get(alias)
            if not keys or not isinstance(items, list):
                continue
            seen: dict[tuple[Any, ...], int] = {}
            for i, item in enumerate(items):
                if not isinstance(item, dict) or any(key not in item for key in keys):
                    continue
                key = tuple(str(item[name]) for name in keys)
                first = seen.setdefault(key, i)
                if first != i:
                    said = ", ".join(f'{n} "{v}"' for n, v in zip(keys, key, strict=True))
                    yield (*self.loc, alias, i), f"{said} is used by {alias}[{first}] already"


def _map_keys(info: FieldInfo) -> list[str]:
    extra = info.json_schema_extra
    keys = extra.get("x-kubernetes-list-map-keys", []) if isinstance(extra, dict) else []
    return [str(key) for key in keys] if isinstance(keys, list) else []


def container_of(annotation: Any) -> type | None:
    """`list` for lists and tuples, `dict` for maps, None for a value that stands alone."""
    origin = get_origin(annotation)
    if origin in (list, tuple):
        return list
    if origin is dict:
        return dict
    if origin in (Union, types.UnionType) or hasattr(annotation, "__metadata__"):
        containers = (container_of(argument) for argument in get_args(annotation))
        return next((container for container in containers if container), None)
    return None


def nested(view: View) -> Iterator[View]:
    """The view and all below it, outermost first."""
    yield view
    for child in view.children():
        yield from nested(child)

"""A document read through its model's types, even where parts of it are invalid.

pydantic builds an object only when all of it is valid. The rules must hold for the rest of a
document too, so that a user sees all problems at once.
"""

import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Loc = tuple[str | int, ...]


class UnreadableField(Exception):
    """A rule read a field with an invalid value, so it cannot be evaluated."""


@dataclass(frozen=True)
class ModelField:
    """A field of a model by its types.

    `model`: of the objects in it, None for plain values. `container`: `list` for lists and tuples,
    `dict` for maps, None for other annotations. `keys`: of a list of type map.
    """

    info: FieldInfo
    model: type[BaseModel] | None
    container: type | None
    keys: tuple[str, ...]


@cache
def fields(model: type[BaseModel]) -> dict[str, ModelField]:
    """Return the model's fields by the name that users write."""
    return {
        info.alias or name: ModelField(
            info, find_model(info.annotation), _container_type(info.annotation), _map_keys(info)
        )
        for name, info in model.model_fields.items()
    }


def find_model(annotation: Any) -> type[BaseModel] | None:
    """Return the model behind an annotation: optional, or in a list, tuple or map."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, types.UnionType, list, tuple, dict) or hasattr(
        annotation, "__metadata__"
    ):
        for argument in get_args(annotation):
            if model := find_model(argument):
                return model
    return None


def _container_type(annotation: Any) -> type | None:
    origin = get_origin(annotation)
    if origin in (list, tuple):
        return list
    if origin is dict:
        return dict
    if origin in (Union, types.UnionType) or hasattr(annotation, "__metadata__"):
        containers = (_container_type(argument) for argument in get_args(annotation))
        return next((container for container in containers if container), None)
    return None


def _map_keys(info: FieldInfo) -> tuple[str, ...]:
    extra = info.json_schema_extra
    keys = extra.get("x-kubernetes-list-map-keys", []) if isinstance(extra, dict) else []
    return tuple(str(key) for key in keys) if isinstance(keys, list) else ()


class DocumentView:
    """One object of a document: its items are its fields, None where absent.

    Defaults are filled in. Reading a field in `bad`, or a required one that is missing, raises
    UnreadableField.
    """

    def __init__(self, model: type[BaseModel], raw: Any, loc: Loc, bad: frozenset[Loc]) -> None:
        self.model = model
        self.loc = loc
        self._raw = raw if isinstance(raw, dict) else {}
        self._bad = bad

    def __getitem__(self, name: str) -> Any:
        loc = (*self.loc, name)
        if name not in fields(self.model):  # an object where a list belongs is iterated
            raise UnreadableField(loc)
        field = fields(self.model)[name]
        if self._bad and (loc in self._bad or self.loc in self._bad):
            raise UnreadableField(loc)
        if name in self._raw:
            return self._wrap(field, self._raw[name], loc)
        if field.info.is_required():
            raise UnreadableField(loc)
        default = field.info.get_default(call_default_factory=True)
        if isinstance(default, BaseModel):
            default = default.model_dump(by_alias=True, exclude_none=True)
        return self._wrap(field, default, loc) if default is not None else None

    def _wrap(self, field: ModelField, value: Any, loc: Loc) -> Any:
        """Return a value with views for its objects, if its shape is valid."""
        model = field.model
        if model is None:
            return value
        if field.container is list and isinstance(value, list):
            return [DocumentView(model, item, (*loc, i), self._bad) for i, item in enumerate(value)]
        if field.container is dict and isinstance(value, dict):
            return {
                key: DocumentView(model, item, (*loc, key), self._bad)
                for key, item in value.items()
            }
        return DocumentView(model, value if field.container is None else {}, loc, self._bad)

    def children(self) -> Iterator["DocumentView"]:
        """Yield the nested objects in the document."""
        for name, field in fields(self.model).items():
            if name not in self._raw or field.model is None:
                continue
            value = self._wrap(field, self._raw[name], (*self.loc, name))
            if isinstance(value, DocumentView):
                yield value
            else:
                yield from value.values() if isinstance(value, dict) else value

    def duplicates(self) -> Iterator[tuple[Loc, str]]:
        """Yield (place, message) of each list item whose map key is repeated."""
        for name, field in fields(self.model).items():
            items = self._raw.get(name)
            if not field.keys or not isinstance(items, list):
                continue
            seen: dict[tuple[Any, ...], int] = {}
            for i, item in enumerate(items):
                if not isinstance(item, dict) or any(key not in item for key in field.keys):
                    continue
                key = tuple(str(item[part]) for part in field.keys)
                first = seen.setdefault(key, i)
                if first != i:
                    values = ", ".join(f'{n} "{v}"' for n, v in zip(field.keys, key, strict=True))
                    yield (*self.loc, name, i), f"{values} is already used by {name}[{first}]"


def walk_objects(view: DocumentView) -> Iterator[DocumentView]:
    """Yield the view and all views below it, outermost first."""
    yield view
    for child in view.children():
        yield from walk_objects(child)

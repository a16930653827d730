"""The base of every type that users write: closed objects, rules written once, every problem said.

One definition per field: type, default, bounds, unit and description live in the pydantic model;
XRDs, the Input's CRD and the reference tables are generated from it (`make generate`). A rule over
several fields is one `Rule` row in CEL. The XRD holds it, and the function checks it itself: it
also sees documents that no API server has validated (a local render, an older XRD).
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from function.api.cel import predicate
from function.api.messages import explain
from function.api.walk import Loc, Unknown, View, nested
from function.problems import Problem, field_path

# Units and acronyms that keep their own spelling inside a camelCase name.
_SPELLING = {"gib": "GiB", "mib": "MiB"}


def camel(name: str) -> str:
    """`size_gib` -> `sizeGiB`; a trailing underscore (Python's keywords) is dropped."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(_SPELLING.get(word, word.capitalize()) for word in rest)


@dataclass(frozen=True)
class Rule:
    """A rule over the fields of an object, as CEL over `self`.

    `message`: names the fields and says what must be. `field`: the camelCase field to blame, "" for
    the object.
    """

    cel: str
    message: str
    field: str = ""

    @cached_property
    def holds(self) -> Callable[[View], bool] | None:
        """Return the rule in Python; None for one that only an API server can check."""
        return None if "oldSelf" in self.cel else predicate(self.cel)


def union(
    discriminator: str, members: Mapping[str, str], optional: tuple[str, ...] = ()
) -> tuple[Rule, ...]:
    """The rules of a discriminated union: the object that the discriminator names, and no other.

    `members`: value -> snake_case field. `optional`: values whose object may be left out.
    """
    rules: list[Rule] = []
    tag = camel(discriminator)

    for value, field in members.items():
        name = camel(field)
        if value not in optional:
            rules.append(
                Rule(
                    f"self.{tag} != '{value}' || has(self.{name})",
                    f"{name} must be set when {tag} is {value}",
                )
            )
        rules.append(
            Rule(
                f"self.{tag} == '{value}' || !has(self.{name})",
                f"{name} may only be set when {tag} is {value}",
                name,
            )
        )
    return tuple(rules)


def exactly_one(*fields: str) -> Rule:
    """Exactly one of the optional fields is set."""
    names = [camel(field) for field in fields]
    return Rule(
        "[" + ", ".join(f"has(self.{name})" for name in names) + "].exists_one(x, x)",
        f"exactly one of {', '.join(names[:-1])} and {names[-1]} must be set",
    )


def immutable(field: str, why: str) -> Rule:
    """A field that cannot change after creation (checked by the API server alone)."""
    name = camel(field)
    cel = escape(name)
    return Rule(f"self.{cel} == oldSelf.{cel}", f"{name} cannot be changed: {why}", name)


@dataclass(frozen=True)
class ForbiddenField:
    """A field that every tier has and that a backend does not use: set, it is refused.

    `why`: ends the sentence "FIELD may not be set: ...". `when`: CEL over the tier (`self`) that
    narrows it down to some settings of the backend, "" for all.
    """

    field: str
    why: str
    when: str = ""

    def rule(self, backend: str) -> Rule:
        """Return the rule on a tier of this backend."""
        narrowed = f" || !({self.when})" if self.when else ""
        return Rule(
            f"self.backend != '{backend}'{narrowed} || !({_SET[self.field]})",
            f"{self.field} may not be set: {self.why}",
            self.field,
        )


# Some fields have a default that says nothing; an API server fills it in before it checks rules.
_SET = {
    "gpuVisibility": "has(self.gpuVisibility)",
    "monitoring": "has(self.monitoring)",
    "nodes": "size(self.nodes.selector) > 0 || has(self.nodes.tolerations)"
    " || has(self.nodes.priorityClassName)",
    "rdma": "self.rdma.source != 'None'",
}


# Field names that are words of the CEL grammar are escaped by the API server.
_CEL_WORDS = frozenset(
    {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function"}
    | {"if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while"}
)


def escape(name: str) -> str:
    """A field's name as CEL must spell it (`namespace` -> `__namespace__`)."""
    return f"__{name}__" if name in _CEL_WORDS else name


class ApiModel(BaseModel):
    """A closed object with camelCase field names, frozen so that it can be memoised.

    `rules`: the class's own rules; those of its bases hold too. `machinery`: keys that the host
    puts beside the user's fields (a composite's `spec.crossplane`), skipped by `parse`. `forbids`,
    of a backend's settings: fields of every tier that the backend does not use. `elsewhere`: fields
    that people look for here, and what to use instead.
    """

    model_config = ConfigDict(
        alias_generator=camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        use_enum_values=True,
        validate_default=False,
    )

    rules: ClassVar[tuple[Rule, ...]] = ()
    machinery: ClassVar[frozenset[str]] = frozenset()
    forbids: ClassVar[tuple[ForbiddenField, ...]] = ()
    elsewhere: ClassVar[Mapping[str, str]] = MappingProxyType({})

    def dump(self) -> dict[str, Any]:
        """The object as users write it: camelCase, without absent fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core_schema))
        rows = [
            {"rule": rule.cel, "message": rule.message}
            | ({"fieldPath": f".{rule.field}"} if rule.field else {})
            for rule in _rules(cls)
        ]
        if rows:
            schema["x-kubernetes-validations"] = rows
        return schema


def _rules(model: type[BaseModel]) -> Iterator[Rule]:
    """The rules of a model's bases, then its own."""
    for base in reversed(model.__mro__):
        yield from vars(base).get("rules", ())


Model = TypeVar("Model", bound=ApiModel)
Field = TypeVar("Field")


def present(value: Field | None) -> Field:
    """The member of a union that its discriminator promises: the rules have seen to it."""
    assert value is not None
    return value


# Beyond this a float no longer holds every integer.
_EXACT = 2**53


def normalise(value: Any) -> Any:
    """A document as the API server would see it: whole floats are integers, nulls are absent.

    Numbers that went through protobuf's Struct are all floats; a null in an object is what the
    API server prunes.
    """
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= _EXACT else value
    if isinstance(value, dict):
        return {key: normalise(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [normalise(item) for item in value]
    return value


def parse(model: type[Model], document: Any, root: str = "") -> tuple[Model | None, list[Problem]]:
    """The document as `model`, or None and everything wrong with it, sorted by path.

    `document`: plain data (dicts, lists, scalars). `root`: the path of the document, e.g. "spec".
    Pure: the same document gives the same answer, so callers may memoise by content.
    """
    raw = normalise(document)
    if isinstance(raw, dict) and model.machinery:
        raw = {key: item for key, item in raw.items() if key not in model.machinery}
    parsed: Model | None = None
    problems: set[Problem] = set()
    bad: set[Loc] = set()
    try:
        # As JSON, because only then does strictness let a list be a tuple.
        parsed = model.model_validate_json(
            json.dumps(raw), strict=True, by_alias=True, by_name=False
        )
    except ValidationError as error:
        for item in error.errors(include_url=False):
            loc, message = explain(model, raw, item)
            bad.add(loc)
            problems.add(Problem(field_path((*filter(None, [root]), *loc)), message))
    for loc, message in broken(model, raw, frozenset(bad)):
        problems.add(Problem(field_path((*filter(None, [root]), *loc)), message))
    return (None if problems else parsed), sorted(problems)


def broken(model: type[ApiModel], raw: Any, bad: frozenset[Loc]) -> Iterator[tuple[Loc, str]]:
    """(place, message) of every rule that a document breaks, at any depth.

    Rules that read a field which is itself in `bad` are left out: that field's own problem is
    said already, and what follows from it is noise.
    """
    for view in nested(View(model, raw, (), bad)):
        yield from view.duplicates()
        for rule in _rules(view.model):
            try:
                broken = rule.holds is not None and not rule.holds(view)
            except Unknown:
                continue
            if broken:
                yield (*view.loc, *([rule.field] if rule.field else [])), rule.message

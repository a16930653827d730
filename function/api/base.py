"""The base of all types that users write: closed objects, and rules written once.

One definition per field: type, default and bounds are in the pydantic model, what it means in
`descriptions/NAME.yaml` beside it (or a string below the field); XRDs, the Input's CRD and the
reference tables are generated from both (`make generate`), and a call reads no description. A rule
over several fields is one `FieldRule` in CEL, in the YAML file beside the model. The XRD holds it,
and the function checks it too: it also sees documents that no API server has validated (a local
render, an older XRD).
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from function.api.cel import predicate
from function.api.messages import describe_error
from function.api.walk import DocumentView, Loc, UnreadableField, walk_objects
from function.facts import Fact, Table
from function.problems import Problem, field_path

# Units and acronyms that keep their own spelling inside a camelCase name.
_SPELLING = {"gib": "GiB", "mib": "MiB"}


def camel(name: str) -> str:
    """Return the field name in documents: `size_gib` -> `sizeGiB`, `from_` -> `from`."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(_SPELLING.get(word, word.capitalize()) for word in rest)


@dataclass(frozen=True)
class FieldRule:
    """A rule over the fields of an object, as CEL over `self`.

    `message`: names the fields and says what must hold. `field`: the camelCase field to report, ""
    for the object.
    """

    cel: str
    message: str
    field: str = ""

    @cached_property
    def holds(self) -> Callable[[DocumentView], bool] | None:
        """Return the rule in Python; None for one that only an API server can check."""
        return None if "oldSelf" in self.cel else predicate(self.cel)


def union(
    discriminator: str, members: Mapping[str, str], optional: tuple[str, ...] = ()
) -> tuple[FieldRule, ...]:
    """Return the rules of a discriminated union: only the object that matches is set.

    `members`: value -> snake_case field. `optional`: values whose object may be absent.
    """
    rules: list[FieldRule] = []
    tag = camel(discriminator)

    for value, field in members.items():
        name = camel(field)
        if value not in optional:
            rules.append(
                FieldRule(
                    f"self.{tag} != '{value}' || has(self.{name})",
                    f"{name} must be set when {tag} is {value}",
                )
            )
        rules.append(
            FieldRule(
                f"self.{tag} == '{value}' || !has(self.{name})",
                f"{name} may only be set when {tag} is {value}",
                name,
            )
        )
    return tuple(rules)


def exactly_one(*fields: str) -> FieldRule:
    """Return the rule that exactly one of the optional fields is set."""
    names = [camel(field) for field in fields]
    return FieldRule(
        "[" + ", ".join(f"has(self.{name})" for name in names) + "].exists_one(x, x)",
        f"exactly one of {', '.join(names[:-1])} and {names[-1]} must be set",
    )


def immutable(field: str, why: str) -> FieldRule:
    """Return the rule that a field cannot change after creation.

    Only the API server checks it.
    """
    name = camel(field)
    cel = escape(name)
    return FieldRule(f"self.{cel} == oldSelf.{cel}", f"{name} cannot be changed: {why}", name)


@dataclass(frozen=True)
class ForbiddenField:
    """A field of every tier that a backend does not use, and refuses when it is set.

    `why`: ends the sentence "FIELD may not be set: ...". `when`: CEL over the tier (`self`) that
    limits it to some settings of the backend, "" for all.
    """

    field: str
    why: str
    when: str = ""

    def rule(self, backend: str) -> FieldRule:
        """Return the rule on a tier of this backend."""
        narrowed = f" || !({self.when})" if self.when else ""
        return FieldRule(
            f"self.backend != '{backend}'{narrowed} || !({_SET[self.field]})",
            f"{self.field} may not be set: {self.why}",
            self.field,
        )


# An API server fills in defaults before it checks rules: a default does not count as set.
_SET = {
    "gpuVisibility": "has(self.gpuVisibility)",
    "monitoring": "has(self.monitoring)",
    "nodes": "size(self.nodes.selector) > 0 || has(self.nodes.tolerations)"
    " || has(self.nodes.priorityClassName)",
    "payload": "has(self.payload)",
    "rdma": "self.rdma.source != 'None'",
}


def rows(kind: type[Fact], module: str, section: str) -> Table[Fact]:
    """Return a section of the YAML file beside a module, whose `__file__` is given."""
    return Table(kind, Path(module).with_suffix(".yaml"), section)


# The API server escapes field names that are words of the CEL grammar.
_CEL_WORDS = frozenset(
    {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function"}
    | {"if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while"}
)


def escape(name: str) -> str:
    """Return a field name as CEL spells it (`namespace` -> `__namespace__`)."""
    return f"__{name}__" if name in _CEL_WORDS else name


class ApiModel(BaseModel):
    """A closed object with camelCase field names, frozen so that it can be memoised.

    `rules`: the class's own rules; those of its bases hold too. `ignored_keys`: keys that the host
    adds to the user's fields (a composite's `spec.crossplane`). `forbids`: fields of every tier
    that a backend does not use. `field_hints`: fields that users look for here, and what to use
    instead.
    """

    model_config = ConfigDict(
        alias_generator=camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        use_enum_values=True,
        validate_default=False,
        defer_build=True,
    )

    rules: ClassVar[Sequence[FieldRule]] = ()
    ignored_keys: ClassVar[frozenset[str]] = frozenset()
    forbids: ClassVar[Sequence[ForbiddenField]] = ()
    field_hints: ClassVar[Mapping[str, str]] = MappingProxyType({})

    def dump(self) -> dict[str, Any]:
        """Return the object as users write it: camelCase, without absent fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def rules_of(model: type[BaseModel]) -> Iterator[FieldRule]:
    """Yield the rules of a model's bases, then its own."""
    for base in reversed(model.__mro__):
        yield from vars(base).get("rules", ())


Model = TypeVar("Model", bound=ApiModel)
Field = TypeVar("Field")


def present(value: Field | None) -> Field:
    """Return a union's member whose presence the rules guarantee."""
    assert value is not None
    return value


# Beyond this a float no longer holds every integer.
_EXACT = 2**53


def normalise(value: Any) -> Any:
    """Return a document as the API server stores it.

    Whole floats become integers (protobuf's Struct holds floats only); nulls in objects are
    dropped.
    """
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= _EXACT else value
    if isinstance(value, dict):
        return {key: normalise(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [normalise(item) for item in value]
    return value


def parse(model: type[Model], document: Any, root: str = "") -> tuple[Model | None, list[Problem]]:
    """Return the document as `model`, or None and all problems, sorted by path.

    `document`: plain data (dicts, lists, scalars). `root`: the path of the document, e.g. "spec".
    The result depends on the document alone, so callers may memoise by content.
    """
    raw = normalise(document)
    if isinstance(raw, dict) and model.ignored_keys:
        raw = {key: item for key, item in raw.items() if key not in model.ignored_keys}
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
            loc, message = describe_error(model, raw, item)
            bad.add(loc)
            problems.add(Problem(field_path((*filter(None, [root]), *loc)), message))
    for loc, message in broken_rules(model, raw, frozenset(bad)):
        problems.add(Problem(field_path((*filter(None, [root]), *loc)), message))
    return (None if problems else parsed), sorted(problems)


def broken_rules(model: type[ApiModel], raw: Any, bad: frozenset[Loc]) -> Iterator[tuple[Loc, str]]:
    """Yield (place, message) of every rule that a document breaks, at any depth.

    Rules that read a field in `bad` are skipped: that field's own problem is already reported.
    """
    for view in walk_objects(DocumentView(model, raw, (), bad)):
        yield from view.duplicates()
        for rule in rules_of(view.model):
            try:
                broken = rule.holds is not None and not rule.holds(view)
            except UnreadableField:
                continue
            if broken:
                yield (*view.loc, *([rule.field] if rule.field else [])), rule.message

"""Sentences for pydantic's errors: what is wrong with a value."""

import difflib
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from function.api.fields import COUNT_OR_PERCENT, PATTERNS
from function.api.walk import Loc, fields

_JSON_TYPES = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    list: "a list",
    dict: "an object",
}


def _show(value: Any) -> str:
    """Return a value for a message: short scalars verbatim, else their type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str) and len(value) <= 64:
        return f'"{value}"'
    return next((name for kind, name in _JSON_TYPES.items() if isinstance(value, kind)), "this")


def _must_be(kind: str) -> Callable[[dict[str, Any], Any], str]:
    return lambda ctx, value: f"must be {kind}, not {_show(value)}"


def _string(ctx: dict[str, Any], value: Any) -> str:
    quote = "; write it in quotes" if isinstance(value, bool | int | float) else ""
    return f"must be a string, not {_show(value)}{quote}"


def _must_have(bound: str, noun: str) -> Callable[[dict[str, Any], Any], str]:
    def say(ctx: dict[str, Any], value: Any) -> str:
        limit = ctx.get("max_length", ctx.get("min_length"))
        plural = noun if limit != 1 else noun.removesuffix("s")
        return f"must have {bound} {limit} {plural}" + (
            f", not {ctx['actual_length']}" if "actual_length" in ctx else ""
        )

    return say


def _choice(ctx: dict[str, Any], value: Any) -> str:
    names = [part.strip("'") for part in ctx["expected"].replace(" or ", ", ").split(", ")]
    near = _closest(value, names) if isinstance(value, str) else None
    hint = f"; did you mean {near}?" if near else unquoted_off(value, names)
    if len(names) == 1:
        return f"must be {names[0]}, not {_show(value)}{hint}"
    return f"must be one of {', '.join(names)}, not {_show(value)}{hint}"


def unquoted_off(value: Any, names: Sequence[str]) -> str:
    """Return the hint for an `Off` that YAML has read as false; "" for any other value."""
    is_false = value is False or (isinstance(value, str) and value.lower() == "false")
    return '; write "Off" in quotes: YAML reads Off as false' if is_false and "Off" in names else ""


def _pattern(ctx: dict[str, Any], value: Any) -> str:
    says = PATTERNS.get(ctx["pattern"], f"something that matches {ctx['pattern']}")
    return f"must be {says}, not {_show(value)}"


# pydantic's error type -> sentence over the error's context and the value.
_SENTENCES: dict[str, Callable[[dict[str, Any], Any], str]] = {
    "missing": lambda ctx, value: "must be set",
    "greater_than": lambda ctx, value: f"must be greater than {ctx['gt']}, not {_show(value)}",
    "greater_than_equal": lambda ctx, value: f"must be at least {ctx['ge']}, not {_show(value)}",
    "less_than": lambda ctx, value: f"must be less than {ctx['lt']}, not {_show(value)}",
    "less_than_equal": lambda ctx, value: f"must be at most {ctx['le']}, not {_show(value)}",
    "multiple_of": lambda ctx, value: (
        f"must be a multiple of {ctx['multiple_of']}, not {_show(value)}"
    ),
    "string_too_short": _must_have("at least", "characters"),
    "string_too_long": _must_have("at most", "characters"),
    "too_short": _must_have("at least", "items"),
    "too_long": _must_have("at most", "items"),
    "string_pattern_mismatch": _pattern,
    "literal_error": _choice,
    "enum": _choice,
    "count_or_percent": _must_be(COUNT_OR_PERCENT),
    "int_type": _must_be("an integer"),
    "int_from_float": _must_be("an integer"),
    "float_type": _must_be("a number"),
    "string_type": _string,
    "bool_type": _must_be("true or false"),
    "list_type": _must_be("a list"),
    "dict_type": _must_be("an object"),
    "model_type": _must_be("an object"),
    "model_attributes_type": _must_be("an object"),
}


def describe_error(model: type[BaseModel], raw: Any, error: ErrorDetails) -> tuple[Loc, str]:
    """Return (place, sentence) of one pydantic error over the document `raw`."""
    loc: Loc = _place(model, raw, error["loc"])
    kind, ctx, value = error["type"], error.get("ctx", {}), error.get("input")
    if kind == "extra_forbidden":
        return loc, _unknown(model, loc)
    sentence = _SENTENCES.get(kind)
    return loc, sentence(ctx, value) if sentence else error["msg"]


def _place(model: type[BaseModel], raw: Any, loc: Loc) -> Loc:
    """Return the part of pydantic's location that is in the document.

    Unions of scalars add the branch's name, and keys of maps the mark `[key]`; the user wrote
    neither. A missing field is the last part, though the document lacks it.
    """
    place: list[str | int] = []
    here = raw
    for i, part in enumerate(loc):
        last = i == len(loc) - 1
        if isinstance(here, dict) and (part in here or (last and part != "[key]")):
            place.append(part)
            here = here.get(part)
        elif isinstance(here, list) and isinstance(part, int):
            place.append(part)
            here = here[part]
        else:
            break
    return tuple(place)


def _unknown(model: type[BaseModel], loc: Loc) -> str:
    holder, name = _model_at(model, loc[:-1]), str(loc[-1])
    other = getattr(holder, "field_hints", {}).get(name)
    if other:
        return f"unknown field: {other}"
    names = list(fields(holder))
    near = _closest(name, names)
    if near:
        return f"unknown field; did you mean {near}?"
    return f"unknown field; known here: {', '.join(sorted(names))}"


def _model_at(model: type[BaseModel], loc: Loc) -> type[BaseModel]:
    """Return the type of the object at a location."""
    here: type[BaseModel] = model
    for part in loc:
        field = fields(here).get(part) if isinstance(part, str) else None
        if field is not None and field.model is not None:
            here = field.model
    return here


def _closest(word: str, known: list[str]) -> str | None:
    """Return the known word closest to a misspelt one, ignoring case and underscores."""
    flat = {name.lower(): name for name in known}
    nearest = difflib.get_close_matches(word.replace("_", "").lower(), flat, n=1, cutoff=0.6)
    return flat[nearest[0]] if nearest else None

"""docs/api: every field that users write or read, one page per kind, from the schemas."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from kv_offload.crds.schema import Schema

_HEADER = "<!-- Generated from function/api by `make generate`; edit the types, not this file. -->"
# What makes two objects equal; a description is the field's own.
_COMPARED = ("properties", "required", "x-kubernetes-validations")
# A rule that an object goes with the value of a field that has its name: the introduction says it.
_CHOSEN = re.compile(r"(\w+) must be set when \w+ is (\w+)")
_INTRO = """\
Each entry is a field: its type and bounds, then *required*, its default, or nothing if it may be
left out. Bounds of a list or map count its items. An object named like a value of `backend`,
`type`, `mode`, `plugin` or `source` is set with that value, and only then. Other rules are below
their object, *in italics*; the function reports every violation at once, with path and reason.
"""


@dataclass(frozen=True)
class Page:
    """One page of the reference.

    `parts`: the objects described, by path (`spec`, `status`, or "" for the whole document).
    `linked`: the paths that another page describes -> a sentence that links to it.
    """

    file: str
    title: str
    about: str
    parts: tuple[tuple[str, Schema], ...]
    linked: dict[str, str]


def reference(pages: Iterable[Page]) -> dict[str, str]:
    """Return the index and every page: path below the repository's root -> content."""
    pages = list(pages)
    writer = _Writer()
    files = {f"docs/api/{page.file}": writer.page(page) for page in pages}
    rows = (f"- [{page.title}](api/{page.file}): {page.about}" for page in pages)
    index = "\n".join((_HEADER, "# API reference", "", _INTRO, *rows, ""))
    return {"docs/api.md": index, **files}


class _Writer:
    """Writes pages one after another; an object of several fields is described once."""

    def __init__(self) -> None:
        self._described: dict[str, tuple[Page, str]] = {}

    def page(self, page: Page) -> str:
        head = (
            _HEADER,
            f"# {page.title}",
            "",
            page.about,
            "[Legend](../api.md).",
        )
        sections = (self._section(path, schema, page) for path, schema in page.parts)
        return "\n".join((*head, *chain.from_iterable(sections), ""))

    def _section(self, path: str, schema: Schema, page: Page) -> Iterator[str]:
        """Yield the object at `path`; objects directly below a page's part have headings."""
        if path:
            yield from ("", f"## `{path}`")
        yield ""
        below = []
        required = schema.get("required", [])
        for name, field in schema["properties"].items():
            inner, end = _object(field)
            place = f"{path}.{name}{end}".lstrip(".")
            about = f"{_about(name, field, required)}: {_text(field)}"
            if place in page.linked:
                yield f"- `{name}`{about} {page.linked[place]}"
            elif inner and path in dict(page.parts):
                link = re.sub(r"[^a-z0-9_-]", "", place.lower())
                yield f"- [`{name}`](#{link}){about}"
                below.append((place, inner))
            else:
                yield from self._field(place, field, f"`{name}`{about}", page, "")
        yield from _rules(schema, "")
        for place, inner in below:
            if elsewhere := self._elsewhere(place, inner, page):
                yield from ("", f"## `{place}`", "", elsewhere)
            else:
                yield from self._section(place, inner, page)

    def _field(
        self, place: str, field: Schema, about: str, page: Page, indent: str
    ) -> Iterator[str]:
        """Yield one entry of a list, and below it the fields of the object behind it."""
        inner, _ = _object(field)
        elsewhere = self._elsewhere(place, inner, page) if inner else ""
        yield f"{indent}- {about}{elsewhere and f' {elsewhere}'}"
        if inner is None or elsewhere:
            return
        deeper = f"{indent}    "
        for each, nested in inner["properties"].items():
            said = f"`{each}`{_about(each, nested, inner.get('required', []))}: {_text(nested)}"
            end = _object(nested)[1]
            yield from self._field(f"{place}.{each}{end}", nested, said, page, deeper)
        yield from _rules(inner, deeper)

    def _elsewhere(self, place: str, schema: Schema, page: Page) -> str:
        """Return where an equal object of three or more fields is described already, else ""."""
        fields = {key: schema[key] for key in _COMPARED if key in schema}
        if len(schema["properties"]) < 3:
            return ""
        found, at = self._described.setdefault(json.dumps(fields, sort_keys=True), (page, place))
        if (found, at) == (page, place):
            return ""
        where = "" if found is page else f" ([{found.title}]({found.file}))"
        return f"Fields as in `{at}`{where}."


def _rules(schema: Schema, indent: str) -> Iterator[str]:
    """Yield the rules over several fields; a demand and its converse share a line."""
    rules = schema.get("x-kubernetes-validations", ())
    messages = _demands(rule["message"] for rule in rules)
    pairs = {text: text.replace(" must be set ", " may only be set ") for text in messages}
    both = {text: only for text, only in pairs.items() if only != text and only in pairs}
    for text in messages:
        found = _CHOSEN.fullmatch(text)
        named = text in both and found and found[1].lower() == found[2].lower()
        if text not in both.values() and not named:
            yield f"{indent}- *{text}{', and only then' if text in both else ''}*"


def _demands(messages: Iterable[str]) -> list[str]:
    """Return the demands without their reasons, which a refusal says; several of one are joined."""
    reasons: dict[str, dict[str, None]] = {}
    for message in messages:
        demand, _, why = message.partition(": ")
        reasons.setdefault(demand, {}).setdefault(why)
    return [
        f"{demand}: {'; or '.join(whys)}" if len(whys) > 1 else demand
        for demand, whys in reasons.items()
    ]


def _object(field: Schema) -> tuple[Schema | None, str]:
    """Return the object behind a field, a list's item or a map's value, and its path's ending."""
    for key, suffix in (("items", "[]"), ("additionalProperties", ".KEY")):
        if key in field:
            field, end = field[key], suffix
            break
    else:
        end = ""
    return (field, end) if "properties" in field else (None, "")


def _about(name: str, field: Schema, required: list[str]) -> str:
    """Return type, bounds and default of a field; an empty default says nothing."""
    said = [_type(field)]
    if name in required:
        said.append("required")
    elif field.get("default", {}) not in ({}, []):
        own = {k: v["default"] for k, v in field.get("properties", {}).items() if "default" in v}
        if field["default"] != own:
            said.append(f"default `{json.dumps(field['default'])}`")
    return f" ({', '.join(said)})" if said != ["object"] else ""


def _type(field: Schema) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind: str = field["type"]
    if "items" in field:
        kind = f"list of {_type(field['items'])}"
    elif "additionalProperties" in field:
        kind = f"map of {_type(field['additionalProperties'])}"
    elif "enum" in field:
        kind = ", ".join(f"`{value}`" for value in field["enum"])
    bounds = [
        *_bound(field.get("minimum"), field.get("maximum"), bool(field.get("exclusiveMinimum"))),
        *_bound(field.get("minItems"), field.get("maxItems")),
        *_bound(field.get("minProperties"), field.get("maxProperties")),
    ]
    if "multipleOf" in field:
        bounds.append(f"a multiple of {field['multipleOf']}")
    return ", ".join([kind, *bounds])


def _bound(least: object, most: object, exclusive: bool = False) -> list[str]:
    low = "above" if exclusive else "at least"
    if least is not None and most is not None and not exclusive:
        return [f"{least} to {most}"]
    ends = ((least, f"{low} {least}"), (most, f"at most {most}"))
    return [said for bound, said in ends if bound is not None]


def _text(field: Schema) -> str:
    return str(field.get("description", ""))

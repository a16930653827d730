"""docs/api: every field that users write or read, one page per kind, from the schemas."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kv_offload.crds.schema import Schema

_HEADER = "<!-- Generated from function/api by `make generate`; edit the types, not this file. -->"
_INTRO = """\
Each entry is a field: its type and bounds, then *required*, its default, or nothing if it may be
left out. Bounds of a list or map count its items. Rules (*in italics*) stand below the object that
they concern; the function reports every violation at once, with paths.
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
    files = {"docs/api.md": "", **{f"docs/api/{page.file}": _page(page) for page in pages}}
    rows = (f"- [{page.title}](api/{page.file}): {page.about}" for page in pages)
    files["docs/api.md"] = "\n".join((_HEADER, "# API reference", "", _INTRO, *rows, ""))
    return files


def _page(page: Page) -> str:
    out = [_HEADER, f"# {page.title}", "", page.about, "How to read a field: [api.md](../api.md)."]
    for path, schema in page.parts:
        out += _section(path, schema, page)
    return "\n".join((*out, ""))


def _section(path: str, schema: Schema, page: Page) -> Iterator[str]:
    """Yield the object at `path`; objects directly below a page's part have headings."""
    if path:
        yield from ("", f"## `{path}`")
    yield ""
    below = []
    required = schema.get("required", [])
    for name, field in schema["properties"].items():
        inner, end = _object(field)
        place = f"{path}.{name}{end}".lstrip(".")
        if place in page.linked:
            about = f"{_text(field)} {page.linked[place]}"
            yield f"- `{name}`{_about(name, field, required)}: {about}"
        elif inner and path in dict(page.parts):
            link = re.sub(r"[^a-z0-9_-]", "", place.lower())
            yield f"- [`{name}`](#{link}){_about(name, field, required)}: {_text(field)}"
            below.append((place, inner))
        else:
            yield from _field(name, field, required, "")
    yield from _rules(schema, "")
    for place, inner in below:
        yield from _section(place, inner, page)


def _field(name: str, field: Schema, required: list[str], indent: str) -> Iterator[str]:
    """Yield one entry of a list, and below it the fields of the object behind it."""
    yield f"{indent}- `{name}`{_about(name, field, required)}: {_text(field)}"
    inner, _ = _object(field)
    if inner is None:
        return
    deeper = f"{indent}    "
    for each, nested in inner["properties"].items():
        yield from _field(each, nested, inner.get("required", []), deeper)
    yield from _rules(inner, deeper)


def _rules(schema: Schema, indent: str) -> Iterator[str]:
    """Yield the rules over several fields; a demand and its converse share a line."""
    messages = [rule["message"] for rule in schema.get("x-kubernetes-validations", ())]
    pairs = {text: text.replace(" must be set ", " may only be set ") for text in messages}
    both = {text: only for text, only in pairs.items() if only != text and only in pairs}
    for text in messages:
        if text not in both.values():
            yield f"{indent}- *{text}{', and only then' if text in both else ''}*"


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

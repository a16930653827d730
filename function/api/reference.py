"""docs/api.md: every field that users write or read, as tables, from the schemas."""

import json
from collections.abc import Iterator

from function.api.schema import Schema

# (kind, apiVersion, scope, spec, status)
KindSchemas = tuple[str, str, str, Schema, Schema]

_INTRO = """<!-- Generated from function/api by `make generate`; edit the types, not this file. -->
# API reference

Fields without a default and not marked required may be left out. A bound holds for the field
itself; "at most 8" of a list or a map is its number of items. Rules over several fields stand
below the table of the object they are about; the function reports them all at once, with paths.
"""

# Where the same object was described before: (kind, path) -> what to say instead.
_ELSEWHERE = {
    (
        "InferenceCluster",
        "spec.kvOffloadTiers[]",
    ): "As the spec of a KVOffloadTier, with a `name` and without `inferenceClusterRef` and "
    "`clusterSelector`.",
}


def reference(kinds: list[KindSchemas], step: tuple[str, str, Schema]) -> str:
    """The page: a chapter for each kind, and one for the Input of the step."""
    parts = [_INTRO]
    for kind, version, scope, spec, status in kinds:
        parts.append(f"## {kind}\n\n`{version}`, {_scope(scope)}. {spec['description']}\n")
        parts += _sections(kind, "spec", spec)
        parts += _sections(kind, "status", status)
    name, version, schema = step
    parts.append(f"## {name}\n\n`{version}`. {schema['description']}\n")
    parts += _sections(name, "", schema)
    return "\n".join(parts)


def _scope(scope: str) -> str:
    return "namespaced" if scope == "Namespaced" else "cluster-scoped"


def _sections(kind: str, path: str, schema: Schema) -> Iterator[str]:
    """A table for the object at `path`, then one for each object below it."""
    if path:
        yield f"### {kind}: `{path}`\n"
    if said := _ELSEWHERE.get((kind, path)):
        yield f"{said}\n"
        return
    if path not in ("", "spec", "status"):
        yield f"{schema['description']}\n"
    yield "| Field | Type | Default | Description |\n|-|-|-|-|"
    required = schema.get("required", [])
    for name, field in schema["properties"].items():
        cells = (f"`{name}`", _type(field), _default(name, field, required), _text(field))
        yield "| " + " | ".join(cells) + " |"
    yield ""
    if rules := schema.get("x-kubernetes-validations"):
        yield "\n".join(f"- {rule['message']}" for rule in rules) + "\n"
    for name, field in schema["properties"].items():
        below, suffix = _object(field)
        if below:
            place = f"{path}.{name}{suffix}" if path else f"{name}{suffix}"
            yield from _sections(kind, place, below)


def _object(field: Schema) -> tuple[Schema | None, str]:
    """The object behind a field, a list's item or a map's value, and how its path ends."""
    for key, suffix in (("items", "[]"), ("additionalProperties", ".KEY")):
        if key in field:
            field, end = field[key], suffix
            break
    else:
        end = ""
    return (field, end) if "properties" in field else (None, "")


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
        f"{word} {field[key]}"
        for key, word in (
            ("minimum", "above" if field.get("exclusiveMinimum") else "at least"),
            ("maximum", "below" if field.get("exclusiveMaximum") else "at most"),
            ("multipleOf", "a multiple of"),
            ("minItems", "at least"),
            ("maxItems", "at most"),
            ("minProperties", "at least"),
            ("maxProperties", "at most"),
        )
        if key in field
    ]
    return ", ".join([kind, *bounds])


def _default(name: str, field: Schema, required: list[str]) -> str:
    if name in required:
        return "required"
    return f"`{json.dumps(field['default'])}`" if "default" in field else ""


def _text(field: Schema) -> str:
    return str(field.get("description", "")).replace("|", "\\|")

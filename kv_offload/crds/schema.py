"""Turn a model into a structural OpenAPI v3 schema for Kubernetes.

pydantic writes JSON Schema 2020-12; a CustomResourceDefinition takes a small part of OpenAPI v3:
no references, no unions, no closed objects, exclusive bounds as booleans, keys of maps by CEL only.
"""

import ast
import inspect
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import ModelSchema

from function.api.base import ApiModel, camel, normalise, rules_of
from function.api.fields import PATTERNS

Schema = dict[str, Any]

# The order in which a schema's keys are written.
_ORDER = (
    *("type", "description", "default", "enum", "pattern", "minLength", "maxLength"),
    *("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"),
    *("minItems", "maxItems", "minProperties", "maxProperties"),
    *("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-validations"),
    *("required", "properties", "additionalProperties", "items"),
)

_RULE = ("rule", "message", "fieldPath")

_DROPPED = frozenset({"title", "$defs"})


def structural(model: type[ApiModel]) -> Schema:
    """Return the structural schema of a model, everything inlined.

    Raise ValueError for a model that has none.
    """
    raw = model.model_json_schema(by_alias=True, mode="validation", schema_generator=_Generator)
    return _convert(raw, raw.get("$defs", {}), model.__name__)


class _Generator(GenerateJsonSchema):
    """pydantic's schema of a model, with its rules and the strings below its fields."""

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        made, model = super().model_schema(schema), schema["cls"]
        for base in filter(lambda base: issubclass(base, ApiModel), reversed(model.__mro__)):
            for name, text in _descriptions(base.__module__).get(base.__name__, {}).items():
                made["properties"][camel(name)]["description"] = text
        rows = [
            {"rule": rule.cel, "message": rule.message}
            | ({"fieldPath": f".{rule.field}"} if rule.field else {})
            for rule in rules_of(model)
        ]
        return made | ({"x-kubernetes-validations": rows} if rows else {})


@cache
def _descriptions(module: str) -> dict[str, dict[str, str]]:
    """Return what the fields of a module's classes mean, by class and field.

    It stands in descriptions/NAME.yaml beside the module, or as a string below the field.
    """
    source = Path(inspect.getfile(sys.modules[module]))
    written = source.parent / "descriptions" / f"{source.stem}.yaml"
    found: dict[str, dict[str, str]] = (
        yaml.safe_load(written.read_text()) if written.is_file() else {}
    )
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.ClassDef):
            texts = found.setdefault(node.name, {})
            for field, below in pairwise(node.body):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(str(text))):
                        texts[name] = text
    return found


def _convert(node: Schema, defs: dict[str, Schema], path: str) -> Schema:
    node = _keys(_inline(node, defs))
    out: Schema = {}
    for key, value in node.items():
        if key in _DROPPED or (key == "default" and value is None):
            continue
        if key == "description":
            out[key] = " ".join(value.split())
        elif key == "properties":
            out[key] = {n: _convert(v, defs, f"{path}.{n}") for n, v in value.items()}
        elif key == "items":
            out[key] = _convert(value, defs, f"{path}[]")
        elif key == "additionalProperties":
            out |= _additional(value, defs, path)
        elif key == "default":
            out[key] = normalise(value)
        elif key == "x-kubernetes-validations":
            out[key] = [{k: row[k] for k in _RULE if k in row} for row in value]
        elif key == "const":
            out["enum"] = [value]
        elif key in ("exclusiveMinimum", "exclusiveMaximum"):
            out |= {key: True, "minimum" if key.endswith("Minimum") else "maximum": value}
        elif key != "propertyNames":
            out[key] = value
    if names := node.get("propertyNames"):
        out.setdefault("x-kubernetes-validations", []).extend(_key_rules(names))
    if unknown := sorted(set(out) - set(_ORDER)):
        raise ValueError(f"{path}: {', '.join(unknown)} has no place in a structural schema")
    return {key: out[key] for key in _ORDER if key in out}


def _inline(node: Schema, defs: dict[str, Schema]) -> Schema:
    """Return the node with its reference and its `or null` replaced by their targets.

    A field's own description and default win over those of the reference.
    """
    if "$ref" in node:
        target = defs[node["$ref"].rpartition("/")[2]]
        return _inline(target | {k: v for k, v in node.items() if k != "$ref"}, defs)
    if branches := node.get("anyOf"):
        real = [branch for branch in branches if branch.get("type") != "null"]
        if len(real) == 1:
            rest = {key: value for key, value in node.items() if key != "anyOf"}
            return _inline(real[0] | rest, defs)
    return node


def _keys(node: Schema) -> Schema:
    """Return a map whose keys have a pattern, with the pattern moved to `propertyNames`."""
    if "patternProperties" not in node:
        return node
    [(pattern, value)] = node["patternProperties"].items()
    names = node.get("propertyNames", {}) | {"pattern": pattern}
    rest = {key: item for key, item in node.items() if key != "patternProperties"}
    return rest | {"additionalProperties": value, "propertyNames": names}


def _additional(value: Any, defs: dict[str, Schema], path: str) -> Schema:
    if value is False:
        return {}
    if value is True or value == {}:
        return {"x-kubernetes-preserve-unknown-fields": True}
    return {"additionalProperties": _convert(value, defs, f"{path}{{}}")}


def _key_rules(names: Schema) -> list[Schema]:
    """Return CEL rules for the keys of a map; a structural schema has no other way."""
    rules = []
    if longest := names.get("maxLength"):
        rules.append(
            {
                "rule": f"self.all(k, size(k) <= {longest})",
                "message": f"keys must have at most {longest} characters",
            }
        )
    if pattern := names.get("pattern"):
        quoted = pattern.replace("\\", "\\\\").replace("'", "\\'")
        rules.append(
            {
                "rule": f"self.all(k, k.matches('{quoted}'))",
                "message": f"each key must be {PATTERNS.get(pattern, f'a match of {pattern}')}",
            }
        )
    return rules

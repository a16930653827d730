"""The generated schemas are structural, bounded and in step with the types."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import Field

from function.api.base import ApiModel, FieldRule, escape, parse
from function.api.input import API_VERSION, KIND, Input
from kv_offload.crds.generate import KINDS, drift, input_crd, outputs, xrd
from kv_offload.crds.schema import Schema, structural

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = {kind.path: xrd(kind) for kind in KINDS} | {"input": input_crd()}
SCHEMAS: dict[str, Schema] = {
    path: document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for path, document in DOCUMENTS.items()
}

_OBJECT = {"properties", "additionalProperties", "required", "minProperties", "maxProperties"}
_ARRAY = {"items", "minItems", "maxItems", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"}
_STRING = {"pattern", "minLength", "maxLength"}
_NUMBER = {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"}
_ANY = {"type", "description", "default", "enum", "x-kubernetes-validations"}
_ALLOWED = {
    "object": _ANY | _OBJECT | {"x-kubernetes-preserve-unknown-fields"},
    "array": _ANY | _ARRAY,
    "string": _ANY | _STRING,
    "integer": _ANY | _NUMBER,
    "number": _ANY | _NUMBER,
    "boolean": _ANY,
}
_PYTHON = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


def violations(schema: Schema, path: str = "") -> Iterator[str]:
    """What breaks Kubernetes' rules for structural schemas, or our own on bounds."""
    if schema.get("x-kubernetes-int-or-string"):
        allowed = (_ANY | _STRING | _NUMBER | {"x-kubernetes-int-or-string"}) - {"type"}
        if extra := set(schema) - allowed:
            yield f"{path}: int-or-string with {sorted(extra)}"
        return
    kind = schema.get("type")
    if kind not in _ALLOWED:
        yield f"{path}: type {kind!r}"
        return
    if extra := set(schema) - _ALLOWED[kind]:
        yield f"{path}: {sorted(extra)} on {kind}"
    if "properties" in schema and "additionalProperties" in schema:
        yield f"{path}: properties and additionalProperties exclude each other"
    if missing := set(schema.get("required", [])) - set(schema.get("properties", {})):
        yield f"{path}: requires {sorted(missing)}, which it does not have"
    open_ = schema.get("x-kubernetes-preserve-unknown-fields") or path == ".metadata"
    if kind == "object" and not (_OBJECT & set(schema) or open_):
        yield f"{path}: an object whose fields would all be pruned"
    if kind == "array":
        if "items" not in schema or "maxItems" not in schema:
            yield f"{path}: a list needs items and maxItems"
        yield from _list_type(schema, path)
    if "additionalProperties" in schema and "maxProperties" not in schema:
        yield f"{path}: a map needs maxProperties"
    bounded = {"enum", "maxLength"} & set(schema) or path in (".apiVersion", ".kind")
    if kind == "string" and not bounded:
        yield f"{path}: a string needs maxLength"
    if "default" in schema and not isinstance(schema["default"], _PYTHON[kind]):
        yield f"{path}: default {schema['default']!r} is no {kind}"
    for name, field in schema.get("properties", {}).items():
        yield from violations(field, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from violations(schema[key], f"{path}[]")


def _list_type(schema: Schema, path: str) -> Iterator[str]:
    if schema.get("x-kubernetes-list-type") not in ("atomic", "map", "set"):
        yield f"{path}: a list needs a list type"
    items = schema.get("items", {})
    for key in schema.get("x-kubernetes-list-map-keys", []):
        if key not in items.get("properties", {}) or key not in items.get("required", []):
            yield f"{path}: key {key} is not a required field of its items"


def objects(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from objects(field, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from objects(schema[key], f"{path}[]")


@pytest.mark.parametrize("path", SCHEMAS)
def test_schemas_are_structural_and_bounded(path: str) -> None:
    assert list(violations(SCHEMAS[path])) == []


BROKEN: list[tuple[Schema, str]] = [
    ({"type": "object", "properties": {"a": {"$ref": "#/b"}}}, ".a: type None"),
    ({"type": "array", "items": {"type": "boolean"}}, ": a list needs items and maxItems"),
    ({"type": "string"}, ": a string needs maxLength"),
    ({"type": "boolean", "nullable": True}, ": ['nullable'] on boolean"),
    ({"type": "object", "properties": {}, "required": ["x"]}, ": requires ['x'], which it"),
    ({"type": "integer", "default": "1"}, ": default '1' is no integer"),
]


@pytest.mark.parametrize(("schema", "wanted"), BROKEN)
def test_checker_finds_each_violation(schema: Schema, wanted: str) -> None:
    assert any(said.startswith(wanted) for said in violations(schema))


@pytest.mark.parametrize("path", SCHEMAS)
def test_every_field_has_a_description(path: str) -> None:
    bare = [
        place
        for place, schema in objects(SCHEMAS[path])
        if "description" not in schema
        and not place.endswith("[]")
        and place not in ("", ".apiVersion", ".kind", ".metadata")
    ]
    assert bare == []


@pytest.mark.parametrize("path", SCHEMAS)
def test_rules_read_fields_that_exist(path: str) -> None:
    for place, schema in objects(SCHEMAS[path]):
        for row in schema.get("x-kubernetes-validations", []):
            read = set(re.findall(r"(?:self|oldSelf)\.(\w+)(?!\w*\()", row["rule"]))
            names = {escape(name) for name in schema.get("properties", {})}
            assert read - {"all"} <= names, f"{place}: {row['rule']}"
            if "fieldPath" in row:
                assert row["fieldPath"].removeprefix(".") in schema["properties"]


@pytest.mark.parametrize("path", SCHEMAS)
def test_defaults_break_no_rule_and_are_complete(path: str) -> None:
    """The API server fills a default in before it checks: one that is invalid blocks everything."""
    for place, schema in objects(SCHEMAS[path]):
        default, fields = schema.get("default"), schema.get("properties")
        if isinstance(default, dict) and fields:
            assert set(schema.get("required", [])) <= set(default), place
            inner = {name for name, field in fields.items() if "default" in field}
            assert inner <= set(default), f"{place} does not write all its defaults out"


def test_printer_columns_read_fields_that_exist() -> None:
    for kind in KINDS:
        schema = SCHEMAS[kind.path]
        for name, _, path in kind.columns:
            here = schema
            for part in re.findall(r"\w+", path):
                here = here.get("items", here)["properties"][part]
            assert here["type"] in ("string", "integer"), name


def test_generated_files_are_up_to_date() -> None:
    assert drift(ROOT) == [], "run make generate"


def test_generation_is_deterministic() -> None:
    assert outputs() == outputs()


def test_drift_names_what_differs(tmp_path: Path) -> None:
    for path, content in outputs().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    assert drift(tmp_path) == []
    (tmp_path / "docs/api.md").unlink()
    (tmp_path / "xrd/kvoffloadtier.yaml").write_text("")
    assert drift(tmp_path) == ["xrd/kvoffloadtier.yaml", "docs/api.md"]


def test_reference_names_every_field_and_rule() -> None:
    text = "\n".join(content for path, content in outputs().items() if path.startswith("docs/"))
    for kind in KINDS:
        for schema in _objects(SCHEMAS[kind.path]["properties"]["spec"]):
            for name, field in schema["properties"].items():
                assert f"`{name}`" in text and field.get("description", "") in text, name
            rules = [rule["message"] for rule in schema.get("x-kubernetes-validations", ())]
            assert [rule for rule in rules if not _is_named(rule, rules, text)] == []


def _objects(schema: Schema) -> Iterator[Schema]:
    """Yield every object with fields, but the inline tiers that KVOffloadTier's pages describe."""
    if "properties" in schema:
        yield schema
        for name, field in schema["properties"].items():
            if name != "kvOffloadTiers":
                yield from _objects(field)
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from _objects(schema[key])


def _is_named(rule: str, rules: list[str], text: str) -> bool:
    """Return whether the page has a rule's demand, or its introduction says it of every union."""
    chosen = re.fullmatch(r"(\w+) (?:must|may only) be set when \w+ is (\w+)", rule)
    if chosen and chosen[1].lower() == chosen[2].lower():
        return True
    demand, _, why = _merged(rule, rules).partition(": ")
    starts = (f"*{demand}*", f"*{demand}, and only then*")
    return any(
        any(start in line for start in starts) or (f"*{demand}: " in line and why in line)
        for line in text.splitlines()
    )


def _merged(rule: str, rules: list[str]) -> str:
    """Return how the page says a rule: a demand and its converse share a line."""
    demand = rule.replace(" may only be set ", " must be set ")
    demands = {each.partition(": ")[0] for each in rules}
    return demand if demand.partition(": ")[0] in demands else rule


def test_compositions_call_the_function_for_kinds_that_exist() -> None:
    kinds = {kind.kind: kind for kind in KINDS}
    name = yaml.safe_load((ROOT / "package/crossplane.yaml").read_text())["metadata"]["name"]
    seen = set()
    for path in sorted((ROOT / "compositions").rglob("*.yaml")):
        document = yaml.safe_load(path.read_text())
        kind = kinds[document["spec"]["compositeTypeRef"]["kind"]]
        seen.add(kind.kind)
        assert document["metadata"]["name"] == xrd(kind)["spec"]["defaultCompositionRef"]["name"]
        [step] = document["spec"]["pipeline"]
        assert step["functionRef"] == {"name": name}
        if given := step.get("input"):
            assert (given["apiVersion"], given["kind"]) == (API_VERSION, KIND)
            assert parse(Input, given)[1] == []
    assert seen == set(kinds)


def test_packages_have_their_metadata() -> None:
    for path in sorted((ROOT / "package").glob("**/crossplane.yaml")):
        document: dict[str, Any] = yaml.safe_load(path.read_text())
        assert document["spec"]["crossplane"] == {"version": ">=v2.3.0-0"}
        annotations = document["metadata"]["annotations"]
        for key in ("maintainer", "license", "description", "readme"):
            assert annotations[f"meta.crossplane.io/{key}"].strip(), path
        assert "meta.crossplane.io/source" not in annotations, "another organisation's"
    function = yaml.safe_load((ROOT / "package/crossplane.yaml").read_text())
    assert function["spec"]["capabilities"] == ["composition"]


def test_a_model_becomes_a_structural_schema() -> None:
    class Leaf(ApiModel):
        """A leaf."""

        rules = (FieldRule("self.size > 0", "size must be positive", "size"),)
        size: int = Field(default=1, gt=0, lt=9)

    class Root(ApiModel):
        """What  a schema
        may hold."""

        leaf: Leaf | None = Field(default=None, description="One.")
        leaves: dict[str, Leaf] = Field(default={}, max_length=2)
        any_: dict[str, Any] = Field(default={"a": None, "b": 1.0})

    leaf = {
        "type": "object",
        "description": "A leaf.",
        "x-kubernetes-validations": [
            {"rule": "self.size > 0", "message": "size must be positive", "fieldPath": ".size"}
        ],
        "properties": {
            "size": {
                "type": "integer",
                "default": 1,
                "minimum": 0,
                "exclusiveMinimum": True,
                "maximum": 9,
                "exclusiveMaximum": True,
            }
        },
    }
    assert structural(Root) == {
        "type": "object",
        "description": "What a schema may hold.",
        "properties": {
            "leaf": leaf | {"description": "One."},
            "leaves": {
                "type": "object",
                "default": {},
                "maxProperties": 2,
                "additionalProperties": leaf,
            },
            "any": {
                "type": "object",
                "default": {"b": 1},
                "x-kubernetes-preserve-unknown-fields": True,
            },
        },
    }


def test_a_union_of_two_types_has_no_structural_schema() -> None:
    class Either(ApiModel):
        value: int | str

    with pytest.raises(ValueError, match=r"Either\.value: anyOf has no place"):
        structural(Either)

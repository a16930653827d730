"""A KVOffloadTier under an XRD that another package installed."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.composers import documents as d
from tests.unit.composers.calls import Outcome, call

ROOT = Path(__file__).parents[3]
REQUIRED = {"cluster": [d.cluster()], "usages": []}
TEXT = {"type": "string"}
AGENTS = {"type": "object", "properties": {"desired": {"type": "integer"}, "ready": TEXT}}


def status(**fields: Any) -> dict[str, Any]:
    return {"properties": {"status": {"type": "object", "properties": fields}}}


def answer(schema: dict[str, Any] | None = None, *, version: str = "7", **spec: Any) -> Outcome:
    document = d.tier(**spec)
    if version:
        document["metadata"]["resourceVersion"] = version
    schemas = {} if schema is None else {"kvoffloadtier": schema}
    return call(document, required=REQUIRED, schemas=schemas)


def test_tier_without_our_defaults_requires_its_schema() -> None:
    assert answer().schemas == {"kvoffloadtier": "KVOffloadTier"}
    assert answer(version="").schemas == {}
    assert answer(startupTimeoutSeconds=300).schemas == {}


# name: (the schema, what stays of the status, what the condition names)
SCHEMAS: dict[str, tuple[dict[str, Any], set[str], list[str]]] = {
    "not there": ({}, {"agents", "cluster", "endpoints", "pinned"}, []),
    "everything goes": (
        status() | {"x": 1},
        set(),
        ["status.agents", "status.cluster", "status.endpoints", "status.pinned"],
    ),
    "some": (status(cluster=TEXT), {"cluster"}, ["status.agents", "status.pinned"]),
    "another type": (status(agents=TEXT, cluster=TEXT), {"cluster"}, ["status.agents"]),
    "deep": (
        status(agents=AGENTS, endpoints={"type": "object", "additionalProperties": TEXT}),
        {"agents", "endpoints"},
        ["status.agents.ready", "status.agents.summary", "status.cluster"],
    ),
    "anything": (
        {"properties": {"status": {"x-kubernetes-preserve-unknown-fields": True}}},
        {"agents", "cluster", "endpoints", "pinned"},
        [],
    ),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_status_has_only_declared_fields(name: str) -> None:
    schema, stays, lacking = SCHEMAS[name]
    got = answer(schema)
    assert set(got.status) & {"agents", "cluster", "endpoints", "pinned"} == stays
    assert got.conditions["Accepted"] == ("True", "Valid")
    for path in lacking:
        assert f"{path}," in got.messages["Accepted"] or f"{path}: left" in got.messages["Accepted"]
    assert ("another package" in got.messages["Accepted"]) == bool(lacking)
    assert "daemonset-agent" in got.desired


def test_our_own_schema_accepts_every_status_field() -> None:
    definition = yaml.safe_load((ROOT / "xrd/kvoffloadtier.yaml").read_text())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    whole = answer(version="")
    got = answer(schema)
    assert (got.status, got.messages) == (whole.status, whole.messages)

"""Fit a tier's status to the schema of an XRD that another package installed.

Two packages cannot own one XRD, and Modelplane may bring this very kind one day (docs/handover.md).
An undeclared status field would make core fail the whole status apply, so what the schema lacks is
left out and named.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from function import names
from function.edge.answer import Answer
from function.edge.request import Call

REQUIRED_SCHEMA = "kvoffloadtier"

# A field that this project's XRD defaults: a stored tier without it has another's XRD.
_OURS = ("spec", "startupTimeoutSeconds")
_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": Mapping,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}


def is_ours(call: Call) -> bool:
    """Return whether this project's XRD declares the tier, as far as it is stored at all."""
    stored = call.composite_value("metadata", "resourceVersion")
    return not stored or call.composite_value(*_OURS) is not None


def fitted(call: Call, answer: Answer) -> Answer:
    """Return the answer without what an external XRD's schema does not declare."""
    if is_ours(call):
        return answer
    answer.schemas[REQUIRED_SCHEMA] = (names.API_VERSION, "KVOffloadTier")
    schema = call.required_schema(REQUIRED_SCHEMA)
    if schema is None:
        return answer
    lacking: list[str] = []
    declared = schema.get("properties", {}).get("status", {})
    answer.status = _fit(answer.status, declared, "status", lacking)
    if lacking and answer.conditions:
        said = (
            "KVOffloadTier is defined by another package here, which does not declare "
            f"{', '.join(sorted(lacking))}: left out."
        )
        accepted = answer.conditions[0]
        message = f"{accepted.message} {said}".strip()
        answer.conditions[0] = replace(accepted, message=message)
    return answer


def _fit(value: Any, schema: Mapping[str, Any], path: str, lacking: list[str]) -> Any:
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return value
    if isinstance(value, list):
        items = schema.get("items", {})
        return [_fit(item, items, f"{path}[]", lacking) for item in value]
    if not isinstance(value, Mapping):
        return value
    others, out = schema.get("additionalProperties"), {}
    for key, item in value.items():
        inner = schema.get("properties", {}).get(key, others)
        kind = inner.get("type", "") if isinstance(inner, Mapping) else None
        if kind is None or not isinstance(item, _TYPES.get(kind, object)):
            if f"{path}.{key}" not in lacking:
                lacking.append(f"{path}.{key}")
        else:
            out[key] = _fit(item, inner, f"{path}.{key}", lacking)
    return out

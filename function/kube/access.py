"""Read values of untrusted documents, whose types need not match their schema."""

from collections.abc import Mapping
from typing import Any


def at(document: Any, *path: str) -> Any:
    """Return the value at a path of keys, None where the path ends early."""
    for step in path:
        document = document.get(step) if isinstance(document, Mapping) else None
    return document


def text(document: Any, *path: str) -> str:
    """Return the string at a path, "" for anything else."""
    found = at(document, *path)
    return found if isinstance(found, str) else ""


def mapping(document: Any, *path: str) -> dict[str, Any]:
    """Return the object at a path, {} for anything else."""
    found = at(document, *path)
    return found if isinstance(found, dict) else {}


def texts(document: Any, *path: str) -> dict[str, str]:
    """Return the labels or annotations at a path, without values that are no strings."""
    return {k: v for k, v in mapping(document, *path).items() if isinstance(v, str)}


def objects(document: Any, *path: str) -> list[dict[str, Any]]:
    """Return the objects in the list at a path."""
    found = at(document, *path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def condition(document: Any, kind: str) -> dict[str, Any]:
    """Return the status condition of a type, {} where there is none."""
    found = (c for c in objects(document, "status", "conditions") if c.get("type") == kind)
    return next(found, {})


def is_true(document: Any, kind: str) -> bool:
    """Return whether a condition has the status True."""
    return condition(document, kind).get("status") == "True"

"""Reading documents that come from outside: nothing in them need be what its schema says."""

from collections.abc import Mapping
from typing import Any


def at(document: Any, *path: str) -> Any:
    """The value at a path of keys, None where it leads nowhere."""
    for step in path:
        document = document.get(step) if isinstance(document, Mapping) else None
    return document


def text(document: Any, *path: str) -> str:
    """The text at a path, "" where there is none."""
    found = at(document, *path)
    return found if isinstance(found, str) else ""


def mapping(document: Any, *path: str) -> dict[str, Any]:
    """The object at a path, {} where there is none."""
    found = at(document, *path)
    return found if isinstance(found, dict) else {}


def texts(document: Any, *path: str) -> dict[str, str]:
    """The labels or annotations at a path, without what is no text."""
    return {k: v for k, v in mapping(document, *path).items() if isinstance(v, str)}


def objects(document: Any, *path: str) -> list[dict[str, Any]]:
    """The objects in the list at a path."""
    found = at(document, *path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def condition(document: Any, kind: str) -> dict[str, Any]:
    """A condition of `status.conditions`, {} where there is none of that type."""
    found = (c for c in objects(document, "status", "conditions") if c.get("type") == kind)
    return next(found, {})


def is_true(document: Any, kind: str) -> bool:
    """Whether a condition is True."""
    return condition(document, kind).get("status") == "True"

"""Tiers of each backend, as pages and people compare them: variants.yaml in its folder."""

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from function.contract.backend import AnyBackend


@dataclass(frozen=True)
class Variant:
    """A tier of a backend that takes other engines than its other variants.

    `says`: its settings, for people; `spec`: as small as it may be, without the cluster.
    """

    says: str
    spec: dict[str, Any]


def variants(backend: AnyBackend) -> tuple[Variant, ...]:
    """Return its tiers by which engines they take, the default first; none that keeps no blocks."""
    return tuple(Variant(**row) for row in _document(backend).get("variants", ()))


def kinds(backend: AnyBackend) -> tuple[Variant, ...]:
    """Return its tiers that have a row of their own in docs/support.md, in the rows' order."""
    found = tuple(Variant(**row) for row in _document(backend).get("kinds", ()))
    return found or variants(backend)


def _document(backend: AnyBackend) -> dict[str, Any]:
    file = Path(inspect.getfile(type(backend))).with_name("variants.yaml")
    return dict(yaml.safe_load(file.read_text()))

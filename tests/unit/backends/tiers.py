"""Tiers of a backend out of specs as users write them; each backend's tests fix the backend."""

from typing import Any

from function.api.base import parse
from function.api.tier import KVOffloadTierSpec
from function.contract.backend import Tier
from function.problems import Problem


def read(backend: str, document: dict[str, Any]) -> tuple[Tier | None, list[Problem]]:
    """A tier of a spec as users write it, or what its schema finds wrong."""
    whole = {"inferenceClusterRef": {"name": "gke"}, "backend": backend} | document
    spec, problems = parse(KVOffloadTierSpec, whole, "spec")
    if spec is None:
        return None, problems
    return Tier("chat", "modelplane-system", "chat-3f9ab", spec, spec.settings), []


def tier(backend: str, document: dict[str, Any]) -> Tier:
    """A tier of a spec that its schema accepts."""
    found, problems = read(backend, document)
    assert found is not None, [str(p) for p in problems]
    return found

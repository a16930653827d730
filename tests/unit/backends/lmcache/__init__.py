"""Tiers and engines for the tests of the LMCache backend."""

from typing import Any

from function.api.base import parse
from function.api.tier import KVOffloadTierSpec
from function.contract.backend import Tier
from function.problems import Problem

CLUSTER = {"inferenceClusterRef": {"name": "gke"}, "backend": "LMCache"}


def read(document: dict[str, Any]) -> tuple[Tier | None, list[Problem]]:
    """A tier of a spec as users write it, or what its schema finds wrong."""
    spec, problems = parse(KVOffloadTierSpec, CLUSTER | document, "spec")
    if spec is None:
        return None, problems
    return Tier("chat", "modelplane-system", "chat-3f9ab", spec, spec.settings), []


def tier(document: dict[str, Any]) -> Tier:
    """A tier of a spec that its schema accepts."""
    found, problems = read(document)
    assert found is not None, [str(p) for p in problems]
    return found


def server(*levels: dict[str, Any], **settings: Any) -> Tier:
    """A NodeServer tier: l2 levels, and further fields of spec.lmcache (`spec` for the rest)."""
    rest = settings.pop("spec", {})
    return tier({"lmcache": {"l1": {"sizeGiB": 16}, "l2": list(levels)} | settings, **rest})

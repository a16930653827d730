"""Tiers and engines for the tests of the Mooncake backend."""

from typing import Any

from function.api.base import parse
from function.api.tier import KVOffloadTierSpec
from function.contract.backend import Tier
from function.contract.engine import SGLANG, VLLM, Engine
from function.problems import Problem

CLUSTER = {"inferenceClusterRef": {"name": "gke"}, "backend": "Mooncake"}
STORE: dict[str, Any] = {"sizeGiB": 200}
RDMA = {"source": "DevicePlugin", "devicePlugin": {"resourceName": "rdma/hca"}}
FEATURES = frozenset({"cache_prefix", "load_async", "tenant_id", "standalone-store"})
IDENTITY = "0123456789ab"


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


def pool(spec: dict[str, Any] | None = None, **settings: Any) -> Tier:
    """A tier with a store of 200 GiB: fields of spec.mooncake, and `spec` for the rest."""
    return tier({"mooncake": {"store": STORE} | settings, **(spec or {})})


def vllm(**facts: Any) -> Engine:
    """A vLLM engine with a known identity."""
    known: dict[str, Any] = {"version": "0.33.0", "identity": IDENTITY, "features": FEATURES}
    return Engine(VLLM, **(known | facts))


def sglang(**facts: Any) -> Engine:
    """An SGLang engine with a known identity."""
    return Engine(SGLANG, **({"version": "0.5.23", "identity": IDENTITY} | facts))

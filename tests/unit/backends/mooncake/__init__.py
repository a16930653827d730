"""Tiers and engines for the tests of the Mooncake backend."""

import functools
from typing import Any

from function.api.engines import SGLANG, VLLM
from function.backends.hierarchy_rows import SMALL_POOL
from function.contract.backend import Tier
from function.contract.engine import Engine
from tests.unit.backends import tiers

read = functools.partial(tiers.read, "Mooncake")
tier = functools.partial(tiers.tier, "Mooncake")
STORE: dict[str, Any] = {"sizeGiB": 200}
RDMA = {"source": "DevicePlugin", "devicePlugin": {"resourceName": "rdma/hca"}}
FEATURES = frozenset(
    {"cache_prefix", "fixed-seed", "load_async", "lookup_async", "tenant_id", "standalone-store"}
)
IDENTITY = "0123456789ab"


def pool(spec: dict[str, Any] | None = None, **settings: Any) -> Tier:
    """A tier with a store of 200 GiB: fields of spec.mooncake, and `spec` for the rest."""
    return tier({"mooncake": {"store": STORE} | settings, **(spec or {})})


def vllm(**facts: Any) -> Engine:
    """A vLLM engine with a known identity."""
    known: dict[str, Any] = {"version": "0.33.0", "identity": IDENTITY, "features": FEATURES}
    return Engine(VLLM, **(known | facts))


def sglang(**facts: Any) -> Engine:
    """An SGLang engine with a known identity."""
    known: dict[str, Any] = {"version": "0.5.23", "identity": IDENTITY}
    return Engine(SGLANG, **(known | {"features": frozenset({SMALL_POOL})} | facts))

"""Tiers and engines for the tests of the NIXL backend."""

import functools
from typing import Any

from function.api.engines import SGLANG, VLLM
from function.backends.nixl import BACKEND
from function.contract.backend import Tier
from function.contract.engine import Engine
from function.contract.gate import versions
from tests.unit.backends import tiers

read = functools.partial(tiers.read, "NIXL")
tier = functools.partial(tiers.tier, "NIXL")
NEWEST = {VLLM: "0.33.0", SGLANG: "0.5.23"}


def nixl(spec: dict[str, Any] | None = None, **settings: Any) -> Tier:
    """A tier: fields of spec.nixl, and `spec` for the rest."""
    return tier({"nixl": settings, **(spec or {})})


def engine(name: str = VLLM, **facts: Any) -> Engine:
    """A prefill engine of the newest version, with what its version has.

    SGLang listens for its own pod alone where nobody says otherwise.
    """
    flags = {**({"--host": "0.0.0.0"} if name == SGLANG else {}), **facts.pop("flags", {})}
    known = Engine(name, **{"version": NEWEST[name], "phase": "Prefill", "flags": flags, **facts})
    features = versions(BACKEND.gate(nixl(), known)).features
    return Engine(**{**known.__dict__, "features": features})

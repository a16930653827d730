"""Tiers and engines for the tests of the HiCache backend."""

import functools
from dataclasses import replace
from typing import Any

from function.api.engines import SGLANG, VLLM
from function.backends.hicache import BACKEND
from function.contract import gate
from function.contract.backend import Tier
from function.contract.engine import Engine
from tests.unit.backends import tiers

read = functools.partial(tiers.read, "HiCache")
IDENTITY = "0123456789ab"
HOST: dict[str, Any] = {"sizeGiB": 100}
RDMA = {"source": "DevicePlugin", "devicePlugin": {"resourceName": "rdma/hca"}}


def pool(name: str = "pool", **spec: Any) -> dict[str, Any]:
    """A Mooncake tier as core finds it."""
    body = {
        "inferenceClusterRef": {"name": "gke"},
        "backend": "Mooncake",
        "mooncake": {"store": {"sizeGiB": 200}},
    }
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "KVOffloadTier",
        "metadata": {"name": name, "namespace": "modelplane-system"},
        "spec": body | spec,
    }


def tier(document: dict[str, Any], needed: dict[str, Any] | None = None) -> Tier:
    """A tier of a spec; the Mooncake tier that it names is there."""
    found = tiers.tier("HiCache", document)
    names = {need.name for need in BACKEND.needs(found)}
    return replace(found, needed=dict.fromkeys(names, needed or pool()))


def cache(spec: dict[str, Any] | None = None, **settings: Any) -> Tier:
    """A tier with 100 GiB for each rank: fields of spec.hicache, and `spec` for the rest."""
    return tier({"hicache": {"host": HOST} | settings, **(spec or {})})


def stored(type_: str, storage: dict[str, Any] | None = None, **settings: Any) -> Tier:
    """A tier with a storage of that type."""
    return cache(storage={"type": type_, type_.lower(): settings, **(storage or {})})


def sglang(of: Tier | None = None, **facts: Any) -> Engine:
    """An SGLang engine with a known identity, and the features that the gate sees in it."""
    engine = Engine(SGLANG, **({"version": "0.5.23", "identity": IDENTITY} | facts))
    verdict = gate.versions(BACKEND.gate(of or cache(), engine))
    return replace(engine, features=verdict.features)


def vllm() -> Engine:
    """A vLLM engine."""
    return Engine(VLLM, version="0.33.0", identity=IDENTITY)

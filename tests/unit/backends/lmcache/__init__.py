"""Tiers and engines for the tests of the LMCache backend."""

import functools
from typing import Any

from function.backends.lmcache import BACKEND
from function.contract.backend import Manifest, Tier
from tests.unit.backends import tiers

read = functools.partial(tiers.read, "LMCache")
tier = functools.partial(tiers.tier, "LMCache")


def server(*levels: dict[str, Any], **settings: Any) -> Tier:
    """A NodeServer tier: l2 levels, and further fields of spec.lmcache (`spec` for the rest)."""
    rest = settings.pop("spec", {})
    return tier({"lmcache": {"l1": {"sizeGiB": 16}, "l2": list(levels)} | settings, **rest})


def agents_pod(spec: dict[str, Any]) -> Manifest:
    """The pod of a tier's agents."""
    (found,) = (p.manifest for p in BACKEND.parts(tier(spec)) if p.key == "daemonset-agent")
    pod: Manifest = found["spec"]["template"]["spec"]
    return pod

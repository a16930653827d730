"""Conflicts of an engine pod with Mooncake: the cases of facts.yaml."""

import re
from pathlib import Path

from packaging.version import Version

from function.backends import seeds
from function.backends.hierarchy import plugins_without_ours
from function.backends.mooncake import facts
from function.backends.mooncake.facts import TENANT, Tier
from function.contract.conflicts import Conflicts, expandable_segments, unknown_identity
from function.contract.engine import Engine
from function.contract.image import parse_version

_FACTS = Path(__file__).with_name("facts.yaml")
# Image names with Mooncake's version: vllm:0.33.0-mooncake0.3.12, sglang-mooncake-v0.3.13:x
_IN_IMAGE = re.compile(r"mooncake[-_.]?v?([0-9]+\.[0-9]+\.[0-9]+)")
CLIENT_VERSION = "MOONCAKE_VERSION"


def client_version(engine: Engine) -> Version | None:
    """Return Mooncake's version in an engine's image, by its tag or the pod's env."""
    declared = engine.env.get(CLIENT_VERSION)
    if declared:
        return parse_version(declared)
    match = _IN_IMAGE.search(engine.image.partition("@")[0])
    return parse_version(match[1]) if match else None


def _other_line(tier: Tier, engine: Engine) -> str | None:
    store, client = facts.image(tier).version, client_version(engine)
    if store is None or client is None or facts.line(store) == facts.line(client):
        return None
    return f"{client}, the tier runs {store}"


def _untenanted(_: Tier, engine: Engine) -> str | None:
    """Return the tenant of an engine whose version cannot send one."""
    return engine.tenant if engine.tenant and TENANT not in engine.features else None


def _own_seed(_: Tier, engine: Engine) -> str | None:
    """Return "" for a pod with its own seed; the tier's is accepted: it may be wired again."""
    ours = seeds.seed_from_identity(engine.identity)
    return None if engine.env.get(seeds.SEED, ours) == ours else ""


_CASES = (_other_line, _own_seed, _untenanted, expandable_segments, unknown_identity)
# Of every engine that uses the pool, also as a HiCache tier's storage.
CONFLICTS = Conflicts(_FACTS, *_CASES)
# Of the engines of Mooncake tiers.
TIER_CONFLICTS = Conflicts(
    _FACTS, *_CASES, plugins_without_ours, sections=("tier_conflicts", "conflicts")
)

"""Conflicts of an engine pod with LMCache: the cases of facts.yaml."""

from pathlib import Path

from function.api.engines import SGLANG, VLLM
from function.backends.lmcache import facts, inprocess, modules
from function.backends.lmcache.facts import Tier
from function.backends.modules import plugins_without
from function.contract.conflicts import Conflicts, expandable_segments, unknown_identity
from function.contract.engine import Engine
from function.engines import ranks
from function.problems import cut

_BLOCK = {VLLM: "--block-size", SGLANG: "--page-size"}


def _spans_pods(_: Tier, engine: Engine) -> str | None:
    if ranks.is_node_local(engine):
        return None
    by_ray = " (Ray chooses the pods of its scheduler and of its ranks, even of a single one)"
    return f"{engine.pods} pods{by_ray if engine.needs_ray else ''}"


def _block_size(tier: Tier, engine: Engine) -> str | None:
    """Return the flag of a block or a page that a chunk does not hold a whole number of."""
    name, chunk = _BLOCK[engine.name], tier.settings.chunk_tokens
    value = engine.flag(name) or ""
    size = int(value) if value.isdecimal() and len(value) < 10 else None
    if not value.isdecimal() or (size and chunk % size == 0):
        return None
    return f"{name} {cut(value, 20)} (spec.lmcache.chunkTokens is {chunk})"


def _lacks_identity(tier: Tier, engine: Engine) -> str | None:
    shared = tier.settings.mode == facts.NODE_SERVER or inprocess.shares_blocks(tier)
    return unknown_identity(tier, engine) if shared else None


def _plugins_without_ours(_: Tier, engine: Engine) -> str | None:
    return plugins_without(modules.SGLANG_NAME, engine)


def _disaggregated(_: Tier, engine: Engine) -> str | None:
    return engine.phase if engine.phase != "Unified" else None


CONFLICTS = Conflicts(
    Path(__file__).with_name("facts.yaml"),
    _block_size,
    _disaggregated,
    _lacks_identity,
    _plugins_without_ours,
    _spans_pods,
    expandable_segments,
)

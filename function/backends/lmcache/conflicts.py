"""Conflicts of an engine pod with LMCache: one row each.

Sources: LMCache 0.5.6 and vLLM 0.33 (reasons in docs/lmcache.md); the version gate decides which
versions go together. A value that is not static (`valueFrom`, an expansion) cannot be checked, and
passes.
"""

from collections.abc import Callable

from function.api.engines import SGLANG, VLLM
from function.api.lmcache import LMCacheSpec
from function.backends import conflict_texts
from function.backends.lmcache import facts, inprocess, modules
from function.backends.lmcache.facts import Tier
from function.contract import conflicts
from function.contract.conflicts import Row
from function.contract.engine import Engine
from function.engines import ranks
from function.reasons import Reason


def _spans_pods(_: Tier, engine: Engine) -> str | None:
    return None if ranks.is_node_local(engine) else str(engine.pods)


def _single_process(_: Tier, engine: Engine) -> str | None:
    return "0" if engine.env.get("VLLM_ENABLE_V1_MULTIPROCESSING") == "0" else None


def _isolated(tier: Tier, _: Engine) -> str | None:
    return facts.ISOLATED if tier.settings.ipc == facts.ISOLATED else None


def _block_size(*names: str) -> Callable[[Tier, Engine], str | None]:
    def holds(tier: Tier, engine: Engine) -> str | None:
        chunk = tier.settings.chunk_tokens
        for name in names:
            value = engine.flag(name) or ""
            if value.isdecimal() and (int(value) == 0 or chunk % int(value)):
                return f"{name} {value} (spec.lmcache.chunkTokens is {chunk})"
        return None

    return holds


def _in_mode(
    mode: str, holds: Callable[[Tier, Engine], str | None]
) -> Callable[[Tier, Engine], str | None]:
    """Return `holds` limited to tiers of this mode."""
    return lambda tier, engine: holds(tier, engine) if tier.settings.mode == mode else None


def _lacks_identity(tier: Tier, engine: Engine) -> str | None:
    shared = tier.settings.mode == facts.NODE_SERVER or inprocess.shares_blocks(tier)
    return (engine.model or "unknown") if shared and not engine.identity else None


def _plugins_without_ours(_: Tier, engine: Engine) -> str | None:
    plugins = engine.env.get("SGLANG_PLUGINS")
    names = {name.strip() for name in (plugins or "").split(",")}
    return plugins if plugins and modules.SGLANG_NAME not in names else None


def _disaggregated(_: Tier, engine: Engine) -> str | None:
    return engine.phase if engine.phase != "Unified" else None


ROWS: tuple[Row[LMCacheSpec], ...] = (
    Row(
        Reason.ENGINE_UNSUPPORTED,
        "The engine spans {found} pods, but with LMCache's NodeServer every lookup needs all its "
        "workers on one agent: no lookup would hit. Run whole data-parallel replicas in each pod "
        "(--data-parallel-size-local), or use spec.lmcache.mode InProcess or another backend.",
        _in_mode(facts.NODE_SERVER, _spans_pods),
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found} sets expandable_segments:True: vLLM then does not start with a connector, and an "
        "agent cannot share that memory. Remove it.",
        conflicts.expandable_segments,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found} puts the KV cache into memory that LMCache's agent cannot share. Remove the flag.",
        _in_mode(
            facts.NODE_SERVER, conflicts.flags("--enable-sleep-mode", "--enable-memory-saver")
        ),
    ),
    Row(
        Reason.ENGINE_UNSUPPORTED,
        "VLLM_ENABLE_V1_MULTIPROCESSING={found} makes the worker process 1 of its container. So is "
        "the agent, and LMCache distinguishes them by that number. Remove it.",
        _in_mode(facts.NODE_SERVER, _single_process),
        engine=VLLM,
    ),
    Row(
        Reason.CACHE_IDENTITY_CONFLICT,
        conflict_texts.UNKNOWN_MODEL,
        _lacks_identity,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "SGLANG_PLUGINS is {found}, without kv-offload-lmcache, which adds the cache identity to "
        "SGLang's keys: the engine would not start. Add that name.",
        _in_mode(facts.NODE_SERVER, _plugins_without_ours),
        engine=SGLANG,
    ),
    Row(
        Reason.CACHE_IDENTITY_CONFLICT,
        "{found}: the keys of SGLang's LMCache client do not contain the adapter, so one adapter "
        "could read another's blocks. Run LoRA adapters without this tier.",
        conflicts.flags("--enable-lora", "--lora-paths"),
        engine=SGLANG,
    ),
    Row(
        Reason.CACHE_IDENTITY_CONFLICT,
        "{found}: the keys of LMCache inside the engine do not contain the adapter, so one adapter "
        "could read another's blocks. Use spec.lmcache.mode NodeServer, or run LoRA adapters "
        "without this tier.",
        _in_mode(facts.IN_PROCESS, conflicts.flags("--enable-lora", "--lora-modules")),
        engine=VLLM,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found}: a chunk must hold whole blocks. Choose a block size that divides "
        "spec.lmcache.chunkTokens, or change the tier's.",
        _block_size("--block-size"),
        engine=VLLM,
    ),
    Row(
        Reason.ENGINE_UNSUPPORTED,
        "SGLang cannot use a tier with spec.lmcache.ipc {found}. Give it another tier with ipc "
        "SharedMemory.",
        _in_mode(facts.NODE_SERVER, _isolated),
        engine=SGLANG,
    ),
    Row(
        Reason.ENGINE_UNSUPPORTED,
        "{found}: SGLang does not combine LMCache with disaggregated prefill. Use backend HiCache.",
        _disaggregated,
        engine=SGLANG,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found}: a chunk must hold whole pages. Choose a page size that divides "
        "spec.lmcache.chunkTokens, or change the tier's.",
        _block_size("--page-size"),
        engine=SGLANG,
    ),
)

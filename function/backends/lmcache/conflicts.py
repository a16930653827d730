"""What in an engine pod cannot go with LMCache: one row for each thing, read in order.

Sources: LMCache 0.5.6 and vLLM 0.33 (why each, in docs/lmcache.md); which versions go together in
detail is the version gate's. A value that is not static (`valueFrom`, an expansion) is nobody's to
judge and passes.
"""

from collections.abc import Callable

from function.api.engines import SGLANG, VLLM
from function.api.lmcache import LMCacheSpec
from function.backends.lmcache import facts, inprocess, modules
from function.backends.lmcache.facts import Tier
from function.contract import conflicts
from function.contract.conflicts import Row
from function.contract.engine import Engine
from function.engines import ranks
from function.reasons import Reason


def check(tier: Tier, engine: Engine) -> None:
    """Raise Refused with every row that holds."""
    conflicts.check(ROWS, tier, engine)


def _several_pods(_: Tier, engine: Engine) -> str | None:
    return None if ranks.is_node_local(engine) else str(engine.pods)


def _one_process(_: Tier, engine: Engine) -> str | None:
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


def _in(
    mode: str, holds: Callable[[Tier, Engine], str | None]
) -> Callable[[Tier, Engine], str | None]:
    """`holds`, of tiers of this mode."""
    return lambda tier, engine: holds(tier, engine) if tier.settings.mode == mode else None


def _no_identity(tier: Tier, engine: Engine) -> str | None:
    shared = tier.settings.mode == facts.NODE_SERVER or inprocess.shares(tier)
    return (engine.model or "unknown") if shared and not engine.identity else None


def _left_out(_: Tier, engine: Engine) -> str | None:
    wanted = engine.env.get("SGLANG_PLUGINS")
    names = {name.strip() for name in (wanted or "").split(",")}
    return wanted if wanted and modules.SGLANG_NAME not in names else None


def _disaggregated(_: Tier, engine: Engine) -> str | None:
    return engine.phase if engine.phase != "Unified" else None


ROWS: tuple[Row[LMCacheSpec], ...] = (
    Row(
        Reason.ENGINE_UNSUPPORTED,
        "the engine spans {found} pods, and with LMCache's NodeServer every lookup needs all its "
        "workers on one agent: nothing would ever be found. Run it by data parallelism with whole "
        "replicas in each pod (--data-parallel-size-local), or use a tier with spec.lmcache.mode "
        "InProcess, or one of another backend.",
        _in(facts.NODE_SERVER, _several_pods),
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found} has expandable_segments:True: vLLM does not start with it and a connector, and "
        "memory of that allocator cannot be shared with an agent. Remove it.",
        conflicts.expandable_segments,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found} puts the KV cache into memory that cannot be shared with LMCache's agent. Remove "
        "the flag.",
        _in(facts.NODE_SERVER, conflicts.flags("--enable-sleep-mode", "--enable-memory-saver")),
    ),
    Row(
        Reason.ENGINE_UNSUPPORTED,
        "VLLM_ENABLE_V1_MULTIPROCESSING={found} makes the worker process 1 of its container, as "
        "the agent is of its own, and LMCache tells the two apart by that number. Remove it.",
        _in(facts.NODE_SERVER, _one_process),
        engine=VLLM,
    ),
    Row(
        Reason.CACHE_IDENTITY_CONFLICT,
        "what stands behind the model argument ({found}) is not known, and without it engines with "
        "other weights under one name would read each other's blocks. Declare it by the annotation "
        "modelplane.ai/kv-offload-cache-identity.",
        _no_identity,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "SGLANG_PLUGINS is {found} and leaves out kv-offload-lmcache, the plugin by which SGLang's "
        "keys hold the cache identity: the engine would not start. Add that name to it.",
        _in(facts.NODE_SERVER, _left_out),
        engine=SGLANG,
    ),
    Row(
        Reason.CACHE_IDENTITY_CONFLICT,
        "{found}: SGLang's client of LMCache has no place for the adapter in its keys, so an "
        "answer of one could be computed from blocks of another. Run LoRA adapters without this "
        "tier.",
        conflicts.flags("--enable-lora", "--lora-paths"),
        engine=SGLANG,
    ),
    Row(
        Reason.CACHE_IDENTITY_CONFLICT,
        "{found}: LMCache inside the engine does not hold the adapter in its keys, so an answer of "
        "one could be computed from blocks of another. Use a tier with spec.lmcache.mode "
        "NodeServer, or run LoRA adapters without this tier.",
        _in(facts.IN_PROCESS, conflicts.flags("--enable-lora", "--lora-modules")),
        engine=VLLM,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found}: a chunk must hold whole blocks. Choose a block size that divides "
        "spec.lmcache.chunkTokens, or change that of the tier.",
        _block_size("--block-size"),
        engine=VLLM,
    ),
    Row(
        Reason.ENGINE_UNSUPPORTED,
        "SGLang cannot use a tier with spec.lmcache.ipc {found}. Give it a tier of its own with "
        "ipc SharedMemory: one agent has one way.",
        _in(facts.NODE_SERVER, _isolated),
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
        "spec.lmcache.chunkTokens, or change that of the tier.",
        _block_size("--page-size"),
        engine=SGLANG,
    ),
)

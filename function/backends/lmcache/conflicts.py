"""What in an engine pod cannot go with LMCache: one row for each thing, read in order.

Sources: LMCache 0.5.6 and vLLM 0.33 (why each, in docs/lmcache.md); which versions go together in
detail is the version gate's. A value that is not static (`valueFrom`, an expansion) is nobody's to
judge and passes.
"""

from collections.abc import Callable
from dataclasses import dataclass

from packaging.version import Version

from function.backends.lmcache import facts
from function.contract.backend import Tier
from function.contract.engine import SGLANG, VLLM, Engine
from function.contract.image import parse_version
from function.problems import Refused

_OWN_IMAGES = ("lmcache/vllm-openai", "lmcache/sglang")
_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")


@dataclass(frozen=True)
class Row:
    """`holds` says whether the row's case is there; then wiring stops with reason and message.

    `engine`, `mode`: "" for every one. `message` may use {found}, what `holds` returned.
    """

    reason: str
    message: str
    holds: Callable[[Tier, Engine], str | None]
    engine: str = ""
    mode: str = ""


def check(tier: Tier, engine: Engine) -> None:
    """Raise Refused for the first row that holds."""
    mode = tier.spec.backend_spec.mode
    for row in ROWS:
        if row.engine in ("", engine.name) and row.mode in ("", mode):
            found = row.holds(tier, engine)
            if found is not None:
                raise Refused(row.reason, row.message.format(found=found))


def _flags(*names: str) -> Callable[[Tier, Engine], str | None]:
    return lambda _, engine: next((name for name in names if engine.has(name)), None)


def _several_pods(_: Tier, engine: Engine) -> str | None:
    return str(engine.pods) if engine.pods > 1 else None


def _expandable_segments(_: Tier, engine: Engine) -> str | None:
    for name in _ALLOCATOR:
        settings = (engine.env.get(name) or "").replace(" ", "").lower().split(",")
        if "expandable_segments:true" in settings:
            return name
    return None


def _one_process(_: Tier, engine: Engine) -> str | None:
    return "0" if engine.env.get("VLLM_ENABLE_V1_MULTIPROCESSING") == "0" else None


def _older_client(tier: Tier, engine: Engine) -> str | None:
    client = client_version(engine)
    if client is None or tier.spec.backend_spec.ipc != facts.ISOLATED:
        return None
    return str(client) if client < facts.SINCE["ipc Isolated"] else None


def client_version(engine: Engine) -> Version | None:
    """LMCache's version in an engine's image, where it is one of LMCache's own."""
    name, _, tag = engine.image.partition("@")[0].rpartition(":")
    own = "/".join(name.split("/")[-2:]) in _OWN_IMAGES
    return parse_version(tag) if own else None


def _isolated(tier: Tier, _: Engine) -> str | None:
    return facts.ISOLATED if tier.spec.backend_spec.ipc == facts.ISOLATED else None


def _block_size(*names: str) -> Callable[[Tier, Engine], str | None]:
    def holds(tier: Tier, engine: Engine) -> str | None:
        chunk = tier.spec.backend_spec.chunk_tokens
        for name in names:
            value = engine.flag(name) or ""
            if value.isdecimal() and (int(value) == 0 or chunk % int(value)):
                return f"{name} {value} (spec.lmcache.chunkTokens is {chunk})"
        return None

    return holds


def _more_than_one(*names: str) -> Callable[[Tier, Engine], str | None]:
    def holds(_: Tier, engine: Engine) -> str | None:
        for name in names:
            value = engine.flag(name) or ""
            if value.isdecimal() and int(value) > 1:
                return f"{name} {value}"
        return None

    return holds


def _disaggregated(_: Tier, engine: Engine) -> str | None:
    mode = engine.flag("--disaggregation-mode") or "null"
    if mode != "null":
        return f"--disaggregation-mode {mode}"
    return engine.phase if engine.phase != "Unified" else None


ROWS: tuple[Row, ...] = (
    Row(
        "EngineUnsupported",
        "the engine spans {found} pods, and with LMCache's NodeServer every lookup needs all its "
        "workers on one agent: nothing would ever be found. Use a tier with spec.lmcache.mode "
        "InProcess, or one of another backend.",
        _several_pods,
        mode=facts.NODE_SERVER,
    ),
    Row(
        "VersionMismatch",
        "the engine's image has LMCache {found}, which ignores isolated IPC (0.5.5 is the first "
        "that knows it). Use a newer image, or a tier with spec.lmcache.ipc SharedMemory.",
        _older_client,
        mode=facts.NODE_SERVER,
    ),
    Row(
        "ConnectorConflict",
        "{found} has expandable_segments:True: vLLM does not start with it and a connector, and "
        "memory of that allocator cannot be shared with an agent. Remove it.",
        _expandable_segments,
    ),
    Row(
        "ConnectorConflict",
        "{found} puts the KV cache into memory that cannot be shared with LMCache's agent. Remove "
        "the flag.",
        _flags("--enable-sleep-mode", "--enable-memory-saver"),
        mode=facts.NODE_SERVER,
    ),
    Row(
        "EngineUnsupported",
        "VLLM_ENABLE_V1_MULTIPROCESSING={found} makes the worker process 1 of its container, as "
        "the agent is of its own, and LMCache tells the two apart by that number. Remove it.",
        _one_process,
        engine=VLLM,
        mode=facts.NODE_SERVER,
    ),
    Row(
        "CacheIdentityConflict",
        "{found}: LMCache's key does not hold the adapter, so an answer of one could be computed "
        "from blocks of another. Run LoRA adapters without this tier.",
        _flags("--enable-lora", "--lora-modules", "--lora-paths"),
    ),
    Row(
        "ConnectorConflict",
        "{found}: a chunk must hold whole blocks. Choose a block size that divides "
        "spec.lmcache.chunkTokens, or change that of the tier.",
        _block_size("--block-size"),
        engine=VLLM,
    ),
    Row(
        "EngineUnsupported",
        "SGLang has no connector for LMCache inside the engine (it is a client of an agent only). "
        "Use a tier with spec.lmcache.mode NodeServer and ipc SharedMemory, or backend HiCache.",
        lambda tier, _: tier.spec.backend_spec.mode,
        engine=SGLANG,
        mode=facts.IN_PROCESS,
    ),
    Row(
        "EngineUnsupported",
        "SGLang cannot use a tier with spec.lmcache.ipc {found}. Give it a tier of its own with "
        "ipc SharedMemory: one agent has one way.",
        _isolated,
        engine=SGLANG,
        mode=facts.NODE_SERVER,
    ),
    Row(
        "ConnectorConflict",
        "{found}: SGLang does not start with it and --enable-lmcache together. Remove one.",
        _flags(
            "--speculative-algorithm",
            "--enable-dp-attention",
            "--enable-hierarchical-cache",
            "--disable-radix-cache",
        ),
        engine=SGLANG,
    ),
    Row(
        "ConnectorConflict",
        "{found}: SGLang does not start with it and --enable-lmcache together. Remove one.",
        _more_than_one("--dcp-size", "--decode-context-parallel-size"),
        engine=SGLANG,
    ),
    Row(
        "EngineUnsupported",
        "{found}: SGLang does not combine LMCache with disaggregated prefill. Use backend HiCache.",
        _disaggregated,
        engine=SGLANG,
    ),
    Row(
        "ConnectorConflict",
        "{found}: a chunk must hold whole pages. Choose a page size that divides "
        "spec.lmcache.chunkTokens, or change that of the tier.",
        _block_size("--page-size"),
        engine=SGLANG,
    ),
)

"""Conflicts of an engine pod with HiCache: one row each.

Conflicts between SGLang's own flags are in `engines/sglang/rules.py`. Sources: SGLang's wheels from
0.5.5 to 0.5.23. A value that is not static cannot be checked.
"""

from collections.abc import Callable

from function.api.hicache import HiCacheSpec
from function.backends import hierarchy_rows
from function.backends.hicache import facts
from function.backends.hicache.facts import Tier
from function.contract import conflicts
from function.contract.conflicts import Row
from function.contract.engine import Engine
from function.reasons import Reason

_Holds = Callable[[Tier, Engine], str | None]

# What gives SGLang a store of the pod's own, or another place in it; some win over flags.
_STORES = (
    "MOONCAKE_CLIENT",
    "MOONCAKE_MASTER",
    "SGLANG_HICACHE_FILE_BACKEND_MAX_SIZE",
    "SGLANG_HICACHE_FILE_BACKEND_STORAGE_DIR",
    "SGLANG_HICACHE_HF3FS_CONFIG_PATH",
    "SGLANG_HICACHE_MOONCAKE_CONFIG_PATH",
    "SGLANG_HICACHE_NIXL_BACKEND_PLUGIN",
    "SGLANG_HICACHE_NIXL_BACKEND_STORAGE_DIR",
)


def check(tier: Tier, engine: Engine) -> None:
    """Raise Refused with every row that holds."""
    conflicts.check(ROWS, tier, engine)


def _stored(holds: _Holds) -> _Holds:
    """Return `holds` limited to tiers with a storage."""
    return lambda tier, engine: holds(tier, engine) if tier.settings.storage else None


def _left(tier: Tier, engine: Engine) -> str | None:
    leaves = tier.settings.decode == "Leave"
    return "decode" if leaves and facts.is_plain_decode(engine) else None


def _cannot_offload(tier: Tier, engine: Engine) -> str | None:
    lacks = hierarchy_rows.DECODE_OFFLOAD not in engine.features
    return engine.version or "unknown" if lacks and facts.is_plain_decode(engine) else None


def _no_buffers(tier: Tier, engine: Engine) -> str | None:
    lacks = hierarchy_rows.BUFFER_ONLY not in engine.features
    return engine.version or "unknown" if lacks and tier.settings.host.buffer_only else None


def _fa3(tier: Tier, engine: Engine) -> str | None:
    flag = "--decode-attention-backend"
    if tier.settings.io_backend != "kernel" or hierarchy_rows.FA3 in engine.features:
        return None
    return f"{flag} fa3" if engine.flag(flag) == "fa3" else None


def _pipeline(tier: Tier, engine: Engine) -> str | None:
    value = engine.flag("--pp-size")
    if value in (None, "1") or hierarchy_rows.PIPELINE in engine.features:
        return None
    return f"--pp-size {value}"


def _pods_apart(tier: Tier, engine: Engine) -> str | None:
    storage = tier.settings.storage
    own = storage is not None and storage.file is not None and storage.file.claim is None
    return str(engine.pods) if own and engine.pods > 1 else None


def _unbounded(tier: Tier, engine: Engine) -> str | None:
    storage = tier.settings.storage
    files = storage is not None and storage.nixl is not None and storage.nixl.posix is not None
    return conflicts.without("l3_cleaner_enabled")(tier, engine) if files else None


def _no_identity(_: Tier, engine: Engine) -> str | None:
    return None if engine.identity else engine.model or "unknown"


def _of_nobody(tier: Tier, engine: Engine) -> str | None:
    storage = tier.settings.storage
    unsaid = storage is not None and storage.identity is None
    return engine.identity if unsaid and facts.holds_one_identity(tier) else None


def _of_another(tier: Tier, engine: Engine) -> str | None:
    storage = tier.settings.storage
    if storage is None or not facts.holds_one_identity(tier) or storage.identity == engine.identity:
        return None
    return f"{storage.identity}, and this engine's is {engine.identity}"


def _token_pages(_: Tier, engine: Engine) -> str | None:
    return engine.flag("--page-size") if engine.flag("--page-size") == "1" else None


def _elsewhere(tier: Tier, engine: Engine) -> str | None:
    evictor = tier.settings.storage.evictor if tier.settings.storage is not None else None
    if evictor is None or engine.namespace in ("", evictor.namespace):
        return None
    return (
        f"the tier's files are bounded on the claim of namespace {evictor.namespace}, and the"
        f" engine's pods are in {engine.namespace}"
    )


ROWS: tuple[Row[HiCacheSpec], ...] = (
    Row(
        Reason.OUT_OF_SCOPE,
        "A {found} engine gets its blocks from the prefill engine. Remove its tier annotation, or "
        "set its policy to Off. To store generated tokens, set spec.hicache.decode Offload and a "
        "storage. For its own hierarchy, add --disaggregation-decode-enable-radix-cache.",
        _left,
    ),
    Row(
        Reason.POD_CONFLICT,
        "{found}. Set spec.hicache.storage.evictor.namespace to theirs, or give each namespace a "
        "tier of its own.",
        _elsewhere,
    ),
    Row(
        Reason.VERSION_MISMATCH,
        "SGLang {found} cannot offload from a decode engine to a storage that has a configuration "
        "(0.5.10 is the first that can). Use a newer SGLang, declare its version by the annotation "
        "modelplane.ai/kv-offload-engine-version, or use a tier with spec.hicache.decode Leave.",
        _cannot_offload,
    ),
    Row(
        Reason.VERSION_MISMATCH,
        "SGLang {found} has no --hicache-host-memory-mode (0.5.19 is the first that has it). Use a "
        "newer SGLang, declare its version by the annotation "
        "modelplane.ai/kv-offload-engine-version, or use a tier without "
        "spec.hicache.host.bufferOnly.",
        _no_buffers,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found}: before 0.5.14 SGLang changes the tier's io backend for it without a word. Remove "
        "it, or use a tier with spec.hicache.ioBackend direct.",
        _fa3,
    ),
    Row(
        Reason.ENGINE_UNSUPPORTED,
        "{found}: the ranks of a pipeline would keep different layers under one name. Use a tier "
        "with another spec.hicache.storage.type (Mooncake and File tell them apart), a newer "
        "SGLang where that is the reason (docs/versions.md), or tensor parallelism alone.",
        _pipeline,
    ),
    Row(
        Reason.ENGINE_UNSUPPORTED,
        "the engine spans {found} pods, and each would keep pages in a directory of its own. Give "
        "the tier a claim (spec.hicache.storage.file.claim) that all of them mount.",
        _pods_apart,
    ),
    Row(
        Reason.VERSION_MISMATCH,
        "SGLang {found} does not bound what NIXL keeps in files (0.5.15 is the first that does). "
        "Use a newer SGLang, or declare its version by the annotation "
        "modelplane.ai/kv-offload-engine-version.",
        _unbounded,
    ),
    Row(
        Reason.CACHE_IDENTITY_CONFLICT,
        "what stands behind the model argument ({found}) is not known, and SGLang's storages key "
        "pages by the served name: engines with other weights would read each other's. Declare it "
        "by the annotation modelplane.ai/kv-offload-cache-identity.",
        _stored(_no_identity),
    ),
    Row(
        Reason.CACHE_IDENTITY_CONFLICT,
        "{found}: adapters are told apart by their names only, which say nothing of their "
        "weights. Run LoRA adapters without this tier.",
        _stored(conflicts.flags("--enable-lora", "--lora-paths")),
    ),
    Row(
        Reason.CACHE_IDENTITY_CONFLICT,
        "the keys of this tier's storage have no place for an identity, so it holds that of one "
        "model only, and nobody says which. For this engine's set spec.hicache.storage.identity to "
        "{found}.",
        _of_nobody,
    ),
    Row(
        Reason.CACHE_IDENTITY_CONFLICT,
        "this tier's storage holds pages of cache identity {found}: they would be mixed up. Use a "
        "tier with a store of its own for each, or one whose storage keeps identities apart "
        "(Mooncake, File, NIXL with POSIX).",
        _of_another,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found} gives SGLang a store beside the tier's. Remove it.",
        _stored(conflicts.env(*_STORES)),
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "--page-size {found} makes a block of every token. Remove it (spec.hicache.pageTokens is "
        "then used), or choose a larger one.",
        _token_pages,
    ),
)

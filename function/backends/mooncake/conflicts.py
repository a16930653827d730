"""Conflicts of an engine pod with Mooncake: one row each.

A value that is not static (`valueFrom`, an expansion) cannot be checked, and passes.
"""

import re

from packaging.version import Version

from function.api.engines import SGLANG, VLLM
from function.api.mooncake import MooncakeSpec
from function.backends import conflict_texts, seeds
from function.backends.hierarchy_rows import DECODE_RADIX
from function.backends.mooncake import facts
from function.backends.mooncake.facts import TENANT, Tier
from function.contract import conflicts
from function.contract.conflicts import Row
from function.contract.engine import Engine
from function.contract.image import parse_version
from function.reasons import Reason

# Image names with Mooncake's version: vllm:0.33.0-mooncake0.3.12, sglang-mooncake-v0.3.13:x
_IN_IMAGE = re.compile(r"mooncake[-_.]?v?([0-9]+\.[0-9]+\.[0-9]+)")
CLIENT_VERSION = "MOONCAKE_VERSION"


def check(tier: Tier, engine: Engine) -> None:
    """Raise Refused with every row that holds for an engine of a Mooncake tier."""
    conflicts.check((*_TIER_ROWS, *ROWS), tier, engine)


def check_storage(tier: Tier, engine: Engine) -> None:
    """Raise Refused with every row that holds where the pool is a tier's storage."""
    conflicts.check(ROWS, tier, engine)


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


def _lacks_identity(_: Tier, engine: Engine) -> str | None:
    return None if engine.identity else engine.model or "unknown"


def _untenanted(_: Tier, engine: Engine) -> str | None:
    """Return the tenant of an engine whose version cannot send one."""
    return engine.tenant if engine.tenant and TENANT not in engine.features else None


def _own_seed(_: Tier, engine: Engine) -> str | None:
    """Return the version of an engine with its own seed and no place for the identity.

    A seed of the tier is accepted: a pod may be wired a second time.
    """
    own = "cache_prefix" not in engine.features and seeds.SEED in engine.env
    if not own or engine.env[seeds.SEED] == seeds.seed_from_identity(engine.identity):
        return None
    return engine.version or "unknown"


def _token_pages(_: Tier, engine: Engine) -> str | None:
    return engine.flag("--page-size") if engine.flag("--page-size") == "1" else None


def _plain_decode(_: Tier, engine: Engine) -> str | None:
    mode = engine.flag("--disaggregation-mode")
    return mode if mode == "decode" and not engine.has(DECODE_RADIX) else None


# For Mooncake tiers only: HiCache may offload from such an engine to the pool.
_TIER_ROWS: tuple[Row[MooncakeSpec], ...] = (
    Row(
        Reason.OUT_OF_SCOPE,
        "A {found} engine gets its blocks from the prefill engine, and SGLang gives it no store "
        "without --disaggregation-decode-enable-radix-cache. Add that flag, remove the engine's "
        "tier annotation, or set its policy to Off.",
        _plain_decode,
        engine=SGLANG,
    ),
)
ROWS: tuple[Row[MooncakeSpec], ...] = (
    Row(
        Reason.VERSION_MISMATCH,
        "Namespace {found} has its own share (spec.mooncake.tenants.quotas), but this engine "
        "version cannot send a tenant: its blocks would count as others'. Use vLLM 0.28, SGLang "
        "0.5.17 or newer, or have the platform team remove the namespace from the quotas.",
        _untenanted,
    ),
    Row(
        Reason.VERSION_MISMATCH,
        "The engine's image has Mooncake {found}: two release lines connect, then every write "
        "fails. Use an image of the tier's line (docs/images.md), or build one and set the "
        "variable MOONCAKE_VERSION.",
        _other_line,
    ),
    Row(
        Reason.CACHE_IDENTITY_CONFLICT,
        conflict_texts.UNKNOWN_MODEL,
        _lacks_identity,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "PYTHONHASHSEED is set in the pod, but vLLM {found} has no other place for the cache "
        "identity. Without it, engines with other weights under one name read each other's blocks. "
        "Remove the variable, or use vLLM 0.24 or newer.",
        _own_seed,
        engine=VLLM,
    ),
    Row(
        Reason.CACHE_IDENTITY_CONFLICT,
        conflict_texts.LORA,
        conflicts.flags("--enable-lora", "--lora-modules", "--lora-paths"),
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        conflict_texts.EXPANDABLE_SEGMENTS,
        conflicts.expandable_segments,
        engine=VLLM,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found}: vLLM's Mooncake connector registers memory that sleep mode frees. Remove the "
        "flag.",
        conflicts.flags("--enable-sleep-mode"),
        engine=VLLM,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found} sets another host or protocol than the tier's. Remove it.",
        conflicts.env("MC_FORCE_TCP", "MOONCAKE_PREFERRED_SEGMENT"),
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found} gives the engine its own Mooncake store, which the tier's would silently replace. "
        "Remove it, or the annotation for the tier.",
        conflicts.env(
            "MOONCAKE_MASTER",
            "MOONCAKE_CLIENT",
            "MOONCAKE_CONFIG_PATH",
            "SGLANG_HICACHE_MOONCAKE_CONFIG_PATH",
        ),
        engine=SGLANG,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "--page-size {found} stores every token as a block. Remove it for the default of 64, or "
        "choose a larger one.",
        _token_pages,
        engine=SGLANG,
    ),
)

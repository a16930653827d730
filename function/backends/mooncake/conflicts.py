"""What in an engine pod cannot go with Mooncake: one row for each thing, read in order.

A value that is not static (`valueFrom`, an expansion) is nobody's to judge and passes.
"""

import re

from packaging.version import Version

from function.api.engines import SGLANG, VLLM
from function.api.mooncake import MooncakeSpec
from function.backends import seeds
from function.backends.hierarchy_rows import DECODE_RADIX
from function.backends.mooncake import facts
from function.backends.mooncake.facts import TENANT, Tier
from function.contract import conflicts
from function.contract.conflicts import Row
from function.contract.engine import Engine
from function.contract.image import parse_version
from function.reasons import Reason

# An image that says which Mooncake it has: vllm:0.33.0-mooncake0.3.12, sglang-mooncake-v0.3.13:x
_IN_IMAGE = re.compile(r"mooncake[-_.]?v?([0-9]+\.[0-9]+\.[0-9]+)")
CLIENT_VERSION = "MOONCAKE_VERSION"


def check(tier: Tier, engine: Engine) -> None:
    """Raise Refused with every row that holds, of an engine of a Mooncake tier."""
    conflicts.check((*_OWN, *ROWS), tier, engine)


def check_storage(tier: Tier, engine: Engine) -> None:
    """The same where the pool is another tier's storage."""
    conflicts.check(ROWS, tier, engine)


def client_version(engine: Engine) -> Version | None:
    """Mooncake's version in an engine's image, where the image or the pod says it."""
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


def _no_identity(_: Tier, engine: Engine) -> str | None:
    return None if engine.identity else engine.model or "unknown"


def _no_tenant(_: Tier, engine: Engine) -> str | None:
    """Its namespace has a share of its own, and its version cannot say so."""
    return engine.tenant if engine.tenant and TENANT not in engine.features else None


def _own_seed(_: Tier, engine: Engine) -> str | None:
    """The seed is the user's, and the engine's version has no other place for the identity.

    Ours comes back where a pod is wired once more, by a second step say.
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


# Of Mooncake's own tiers: HiCache may offload from such an engine to the pool.
_OWN: tuple[Row[MooncakeSpec], ...] = (
    Row(
        Reason.OUT_OF_SCOPE,
        "a {found} engine is left as it is: its blocks come from the prefill engine, which may use "
        "the tier, and SGLang gives it no store without --disaggregation-decode-enable-radix-cache."
        " Add that, or take the request off it, or set its policy to Off.",
        _plain_decode,
        engine=SGLANG,
    ),
)
ROWS: tuple[Row[MooncakeSpec], ...] = (
    Row(
        Reason.VERSION_MISMATCH,
        "namespace {found} has a share of its own (spec.mooncake.tenants.quotas), and this version "
        "of the engine cannot say whose blocks it writes: they would count as others'. Use vLLM "
        "0.28 or SGLang 0.5.17 or newer; or the platform team takes the namespace out of the "
        "quotas, and it shares othersSizeGiB.",
        _no_tenant,
    ),
    Row(
        Reason.VERSION_MISMATCH,
        "the engine's image has Mooncake {found}: releases of two lines shake hands, and then "
        "every write fails. Use an image of the tier's line (docs/images.md says which hold it), "
        "or build one and say what it holds by the variable MOONCAKE_VERSION.",
        _other_line,
    ),
    Row(
        Reason.CACHE_IDENTITY_CONFLICT,
        "what stands behind the model argument ({found}) is not known, and Mooncake's key holds "
        "only the last part of its name: engines with other weights would read each other's "
        "blocks. Declare it by the annotation modelplane.ai/kv-offload-cache-identity.",
        _no_identity,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "PYTHONHASHSEED is set in the pod, and vLLM {found} has no other place for the cache "
        "identity, without which engines with other weights under one name read each other's "
        "blocks. Remove it, or use vLLM 0.24 or newer.",
        _own_seed,
        engine=VLLM,
    ),
    Row(
        Reason.CACHE_IDENTITY_CONFLICT,
        "{found}: adapters are told apart by their names only, which say nothing of their "
        "weights. Run LoRA adapters without this tier.",
        conflicts.flags("--enable-lora", "--lora-modules", "--lora-paths"),
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found} has expandable_segments:True: vLLM does not start with it and a connector. "
        "Remove it.",
        conflicts.expandable_segments,
        engine=VLLM,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found}: vLLM's Mooncake connector registers the memory that sleep mode gives back. "
        "Remove the flag.",
        conflicts.flags("--enable-sleep-mode"),
        engine=VLLM,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found} gives the engine another place or protocol than the tier's. Remove it.",
        conflicts.env("MC_FORCE_TCP", "MOONCAKE_PREFERRED_SEGMENT"),
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found} gives the engine a Mooncake store of its own, which the tier's would replace "
        "without a word. Remove it, or the request for a tier.",
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
        "--page-size {found} makes a block of every token. Remove it (64 is then used), or choose "
        "a larger one.",
        _token_pages,
        engine=SGLANG,
    ),
)

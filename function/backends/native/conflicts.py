"""Conflicts of an engine pod with a Native tier: one row each."""

from collections.abc import Callable

from function.api.native import NativeSpec
from function.backends import conflict_texts, seeds
from function.backends.native import facts
from function.backends.native.facts import Tier
from function.contract import conflicts
from function.contract.conflicts import Row
from function.contract.engine import Engine
from function.engines import events, ranks
from function.reasons import Reason


def _if_shared(
    holds: Callable[[Tier, Engine], str | None],
) -> Callable[[Tier, Engine], str | None]:
    """Return `holds` limited to tiers with levels that engines share."""
    return lambda tier, engine: holds(tier, engine) if tier.settings.secondary else None


def _spans_pods(_: Tier, engine: Engine) -> str | None:
    return str(engine.pods) if ranks.sharing(engine) > ranks.workers(engine) else None


def _in_other_namespace(tier: Tier, engine: Engine) -> str | None:
    for level, files in facts.file_systems(tier):
        if engine.namespace and files.claim.namespace != engine.namespace:
            return (
                f"Level {level.name} is a volume of namespace {files.claim.namespace}, but the "
                f"engine's pods are in {engine.namespace}"
            )
    return None


def _lacks_identity(_: Tier, engine: Engine) -> str | None:
    return None if engine.identity else engine.model or "unknown"


def _other_seed(tier: Tier, engine: Engine) -> str | None:
    seed = facts.seed(tier, engine)
    own = engine.env.get(seeds.SEED, seed)
    return None if own == seed else f"{own or 'not a plain value'} in the pod and {seed}"


def _lacks(feature: str, needs: Callable[[Tier], object]) -> Callable[[Tier, Engine], str | None]:
    """Return a predicate for the version of an engine without a needed feature."""

    def holds(tier: Tier, engine: Engine) -> str | None:
        if not needs(tier) or feature in engine.features:
            return None
        return engine.version or "of an unknown version"

    return holds


def _on_disk(tier: Tier) -> bool:
    simple = tier.settings.simple
    return simple is not None and simple.disk is not None


def _in_bucket(tier: Tier) -> bool:
    return any(level.bucket is not None for level in tier.settings.secondary)


def _peers_port_taken(tier: Tier, engine: Engine) -> str | None:
    peers = facts.peers(tier)
    served = events.serving(engine)
    ranks = engine.number("--data-parallel-size")
    if peers is None or not peers.port <= served < peers.port + ranks:
        return None
    return str(served)


ROWS: tuple[Row[NativeSpec], ...] = (
    Row(
        Reason.ENGINE_UNSUPPORTED,
        "The engine's tensor or pipeline parallelism spans {found} pods: vLLM's levels below the "
        "memory then return wrong blocks without an error. Use a tier without "
        "spec.native.secondary, or of backend Mooncake.",
        _if_shared(_spans_pods),
    ),
    Row(
        Reason.POD_CONFLICT,
        "{found}. Set spec.native.secondary[].fileSystem.claim.namespace to it, or give each "
        "namespace its own tier.",
        _in_other_namespace,
    ),
    Row(
        Reason.VERSION_MISMATCH,
        "spec.native.blocksPerChunk needs vLLM 0.26 or newer; this engine is {found}. Use a newer "
        "vLLM, set the annotation modelplane.ai/kv-offload-engine-version, or remove the field.",
        _lacks("blocks_per_chunk", lambda tier: tier.settings.blocks_per_chunk is not None),
    ),
    Row(
        Reason.VERSION_MISMATCH,
        "spec.native.simple.disk needs vLLM 0.28 or newer; this engine is {found}. Use a newer "
        "vLLM, set the annotation modelplane.ai/kv-offload-engine-version, or use a tier with "
        "spec.native.cpu.",
        _lacks("kv_offload_backend", _on_disk),
    ),
    Row(
        Reason.VERSION_MISMATCH,
        "A level of type Peers needs vLLM 0.27 or newer; this engine is {found}. Use a newer vLLM, "
        "set the annotation modelplane.ai/kv-offload-engine-version, or use a tier without that "
        "level.",
        _lacks("p2p", facts.peers),
    ),
    Row(
        Reason.VERSION_MISMATCH,
        "A level of type Bucket needs vLLM 0.26 or newer; this engine is {found}. Use a newer "
        "vLLM, set the annotation modelplane.ai/kv-offload-engine-version, or use a tier without "
        "that level.",
        _lacks("obj", _in_bucket),
    ),
    Row(
        Reason.POD_CONFLICT,
        "Port {found} is both the engine's own (--port) and one for its peers "
        "(spec.native.secondary[].peers.port, one for each data-parallel rank). Change one of "
        "them.",
        _peers_port_taken,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        conflict_texts.EXPANDABLE_SEGMENTS,
        conflicts.expandable_segments,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found}: without prefix caching vLLM offloads nothing. Remove the flag.",
        conflicts.flags("--no-enable-prefix-caching"),
    ),
    Row(
        Reason.CACHE_IDENTITY_CONFLICT,
        f"{conflict_texts.UNKNOWN_MODEL} Or use a tier without spec.native.secondary.",
        _if_shared(_lacks_identity),
    ),
    Row(
        Reason.CACHE_IDENTITY_CONFLICT,
        f"{conflict_texts.LORA} Or use a tier without spec.native.secondary.",
        _if_shared(conflicts.flags("--enable-lora", "--lora-modules")),
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "PYTHONHASHSEED is {found} in the tier: engines with different seeds may not find each "
        "other's blocks. Remove it from the pod.",
        _if_shared(_other_seed),
    ),
)

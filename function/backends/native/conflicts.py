"""What in an engine pod cannot go with a Native tier: one row for each thing, read in order."""

from collections.abc import Callable

from function.api.native import NativeSpec
from function.backends import seeds
from function.backends.native import facts
from function.backends.native.facts import Tier
from function.contract import conflicts
from function.contract.conflicts import Row
from function.contract.engine import Engine
from function.engines import events, ranks
from function.reasons import Reason


def check(tier: Tier, engine: Engine) -> None:
    """Raise Refused for the first row that holds."""
    conflicts.check(ROWS, tier, engine)


def _shared(
    holds: Callable[[Tier, Engine], str | None],
) -> Callable[[Tier, Engine], str | None]:
    """`holds`, of tiers with levels that engines share."""
    return lambda tier, engine: holds(tier, engine) if tier.settings.secondary else None


def _spans_pods(_: Tier, engine: Engine) -> str | None:
    return str(engine.pods) if ranks.sharing(engine) > ranks.workers(engine) else None


def _elsewhere(tier: Tier, engine: Engine) -> str | None:
    for level, files in facts.file_systems(tier):
        if engine.namespace and files.claim.namespace != engine.namespace:
            return (
                f"the level {level.name} is a volume of namespace {files.claim.namespace}, and the"
                f" engine's pods are in {engine.namespace}"
            )
    return None


def _chunks(tier: Tier, engine: Engine) -> str | None:
    if tier.settings.blocks_per_chunk is None or "blocks_per_chunk" in engine.features:
        return None
    return engine.version or "of a version that nobody declares"


def _no_identity(_: Tier, engine: Engine) -> str | None:
    return None if engine.identity else engine.model or "unknown"


def _other_seed(tier: Tier, engine: Engine) -> str | None:
    wanted = facts.seed(tier, engine)
    given = engine.env.get(seeds.SEED, wanted)
    if given == wanted:
        return None
    return f"{given or 'not a plain value'} in the pod and {wanted}"


def _lacks(feature: str, asked: Callable[[Tier], object]) -> Callable[[Tier, Engine], str | None]:
    """The tier asks for what the engine's version has not got: the version."""

    def holds(tier: Tier, engine: Engine) -> str | None:
        if not asked(tier) or feature in engine.features:
            return None
        return engine.version or "of a version that nobody declares"

    return holds


def _on_disk(tier: Tier) -> bool:
    simple = tier.settings.simple
    return simple is not None and simple.disk is not None


def _in_bucket(tier: Tier) -> bool:
    return any(level.bucket is not None for level in tier.settings.secondary)


def _nowhere(tier: Tier, engine: Engine) -> str | None:
    peers = facts.peers(tier)
    served = events.serving(engine)
    ranks = facts.count(engine, "--data-parallel-size")
    if peers is None or not peers.port <= served < peers.port + ranks:
        return None
    return str(served)


ROWS: tuple[Row[NativeSpec], ...] = (
    Row(
        Reason.ENGINE_UNSUPPORTED,
        "the engine's tensor or pipeline parallelism spans {found} pods, and vLLM's levels below "
        "the memory then give back wrong blocks, without an error. Use a tier without "
        "spec.native.secondary, or one of backend Mooncake.",
        _shared(_spans_pods),
    ),
    Row(
        Reason.POD_CONFLICT,
        "{found}. Set spec.native.secondary[].fileSystem.claim.namespace to theirs, or give each "
        "namespace a tier of its own.",
        _elsewhere,
    ),
    Row(
        Reason.VERSION_MISMATCH,
        "spec.native.blocksPerChunk needs vLLM 0.26 or newer, this engine is {found}. Use a newer "
        "vLLM, declare its version by the annotation modelplane.ai/kv-offload-engine-version, or "
        "leave the field out.",
        _chunks,
    ),
    Row(
        Reason.VERSION_MISMATCH,
        "spec.native.simple.disk needs vLLM 0.28 or newer, this engine is {found}. Use a newer "
        "vLLM, declare its version by the annotation modelplane.ai/kv-offload-engine-version, or "
        "use a tier with spec.native.cpu.",
        _lacks("kv_offload_backend", _on_disk),
    ),
    Row(
        Reason.VERSION_MISMATCH,
        "a level of type Peers needs vLLM 0.27 or newer, this engine is {found}. Use a newer vLLM, "
        "declare its version by the annotation modelplane.ai/kv-offload-engine-version, or use a "
        "tier without that level.",
        _lacks("p2p", facts.peers),
    ),
    Row(
        Reason.VERSION_MISMATCH,
        "a level of type Bucket needs vLLM 0.26 or newer, this engine is {found}. Use a newer vLLM,"
        " declare its version by the annotation modelplane.ai/kv-offload-engine-version, or use a "
        "tier without that level.",
        _lacks("obj", _in_bucket),
    ),
    Row(
        Reason.POD_CONFLICT,
        "port {found} is the engine's own (--port) and one of its peers' "
        "(spec.native.secondary[].peers.port, one for each rank of data parallelism). Give one of "
        "them another.",
        _nowhere,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found} has expandable_segments:True: vLLM does not start with it and a connector. "
        "Remove it.",
        conflicts.expandable_segments,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found}: without prefix caching no block has a name, and nothing is offloaded. Remove the "
        "flag.",
        conflicts.flags("--no-enable-prefix-caching"),
    ),
    Row(
        Reason.CACHE_IDENTITY_CONFLICT,
        "what stands behind the model argument ({found}) is not known, and vLLM's files hold its "
        "name only: engines with other weights would read each other's blocks. Declare it by the "
        "annotation modelplane.ai/kv-offload-cache-identity, or use a tier without "
        "spec.native.secondary.",
        _shared(_no_identity),
    ),
    Row(
        Reason.CACHE_IDENTITY_CONFLICT,
        "{found}: adapters are told apart by their names only, which say nothing of their "
        "weights. Run LoRA adapters with a tier without spec.native.secondary.",
        _shared(conflicts.flags("--enable-lora", "--lora-modules")),
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "PYTHONHASHSEED is {found} in the tier: engines with different seeds may "
        "not find each other's blocks. Remove it from the pod.",
        _shared(_other_seed),
    ),
)

"""Compatibility of the engines of a tier, among each other and over time."""

from collections.abc import Sequence

from function.backends.hicache import facts
from function.backends.hicache.facts import DECODE, PREFILL, Tier
from function.contract.backend import Pinned
from function.contract.engine import Engine
from function.problems import Refused
from function.reasons import Reason

_NONE = "none"


def check(tier: Tier, engines: Sequence[Engine]) -> None:
    """Raise Refused where no prefill engine finds what decode engines offload."""
    if tier.settings.decode != "Offload":
        return
    prefill = [engine for engine in engines if facts.phase(engine) == PREFILL]
    decode = [engine for engine in engines if facts.phase(engine) == DECODE]
    found = {engine.identity for engine in prefill}
    lost = {engine.identity for engine in decode} - found
    if lost and found:
        raise Refused(
            Reason.CACHE_IDENTITY_CONFLICT,
            f"what the decode engine offloads (cache identity {', '.join(sorted(lost))}) is never"
            f" found by the prefill engine ({', '.join(sorted(found))}): their weights,"
            " page size, parallelism and attention backend must be equal. Make them so, or use a"
            " tier with spec.hicache.decode Leave",
        )
    names = {_served(engine) for engine in prefill}
    missed = {_served(engine) for engine in decode} - names - {""}
    if missed and names and "" not in names:
        raise Refused(
            Reason.CONNECTOR_CONFLICT,
            f"the decode engine serves the model as {', '.join(sorted(missed))}"
            f" (--served-model-name) and the prefill engine as {', '.join(sorted(names))}: SGLang"
            " puts it into the names of pages, and what decode offloads is never found. Make them"
            " equal, or use a tier with spec.hicache.decode Leave",
        )


def _served(engine: Engine) -> str:
    """Return the served model name, "" where it is unknown."""
    name = "--served-model-name"
    return (engine.flag(name) or "") if engine.has(name) else engine.model


def pinned(tier: Tier) -> tuple[Pinned, ...]:
    """Return the settings that stored pages depend on.

    They are the pool, the bounded claim, and what a store's keys do not contain.
    """
    storage, spec = tier.settings.storage, tier.settings
    pool = storage.mooncake.storage_tier_ref if storage and storage.mooncake else None
    held = "engines that run keep their pages there, and nobody else holds that tier for them"
    rows = [
        Pinned(
            f"{facts.SPEC}.storage.mooncake.storageTierRef",
            pool.name if pool else _NONE,
            held,
            unset=_NONE,
        )
    ]
    if storage is not None and storage.evictor is not None:
        bounded = f"{storage.evictor.namespace}/{facts.claim(tier)}"
        stay = "engines that run keep their pages there, and nothing would bound them"
        rows.append(Pinned(f"{facts.SPEC}.storage.evictor", bounded, stay))
    one = storage is not None and facts.holds_one_identity(tier)
    identity = (storage.identity if storage and one else None) or _NONE
    why = "the store's keys do not hold it, and what is there was written with it"
    rows.append(Pinned(f"{facts.SPEC}.storage.identity", identity, why, one, unset=_NONE))
    if storage is None or identity == _NONE:  # no engine is let in, so nothing is in the store
        return tuple(rows)
    found = [
        (f"{facts.SPEC}.memoryLayout", spec.memory_layout),
        (f"{facts.SPEC}.pageTokens", str(spec.page_tokens)),
    ]
    if storage.hf3fs is not None:
        found.append((f"{facts.SPEC}.storage.hf3fs.fileSizeGiB", str(storage.hf3fs.file_size_gib)))
    return (*rows, *(Pinned(path, value, why, always=True) for path, value in found))

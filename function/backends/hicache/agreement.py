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
            f"The decode engine's cache identity is {', '.join(sorted(lost))}, the prefill "
            f"engine's {', '.join(sorted(found))}: prefill finds no page that "
            "decode offloads. Make weights, page size, parallelism and attention backend equal, or "
            "use a tier with spec.hicache.decode Leave.",
        )
    names = {_served(engine) for engine in prefill}
    missed = {_served(engine) for engine in decode} - names - {""}
    if missed and names and "" not in names:
        raise Refused(
            Reason.CONNECTOR_CONFLICT,
            f"The decode engine serves the model as {', '.join(sorted(missed))} "
            f"(--served-model-name), the prefill engine as {', '.join(sorted(names))}: the name is "
            "in SGLang's page names, so prefill finds no page that decode offloads. Make them "
            "equal, or use a tier with spec.hicache.decode Leave.",
        )


def _served(engine: Engine) -> str:
    """Return the served model name, "" where it is unknown."""
    name = "--served-model-name"
    return (engine.flag(name) or "") if engine.has(name) else engine.model


def pinned(tier: Tier) -> tuple[Pinned, ...]:
    """Return the settings that stored pages depend on.

    They are the pool, the bounded claim, and what a store's keys do not contain.
    """
    storage, spec, where = tier.settings.storage, tier.settings, f"{facts.SPEC}.storage"
    pool = storage.mooncake.storage_tier_ref if storage and storage.mooncake else None
    name = pool.name if pool else _NONE
    used = "running engines keep their pages there, and nothing would prevent that tier's deletion"
    rows = [Pinned(f"{where}.mooncake.storageTierRef", name, used, unset=_NONE)]
    if storage is not None and storage.evictor is not None:
        bounded = f"{storage.evictor.namespace}/{facts.claim(tier)}"
        stay = "running engines keep their pages there, and nothing would bound them"
        rows.append(Pinned(f"{where}.evictor", bounded, stay))
    one = storage is not None and facts.holds_one_identity(tier)
    identity = (storage.identity if storage and one else None) or _NONE
    why = "the store's keys do not contain it, and stored pages were written with it"
    rows.append(Pinned(f"{where}.identity", identity, why, one, unset=_NONE))
    if storage is None or identity == _NONE:  # every engine is refused: the store is empty
        return tuple(rows)
    found = [
        (f"{facts.SPEC}.memoryLayout", spec.memory_layout),
        (f"{facts.SPEC}.pageTokens", str(spec.page_tokens)),
    ]
    if storage.hf3fs is not None:
        found.append((f"{where}.hf3fs.fileSizeGiB", str(storage.hf3fs.file_size_gib)))
    return (*rows, *(Pinned(path, value, why, always=True) for path, value in found))

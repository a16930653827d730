"""What engines of a tier must have in common, side by side and over time."""

from collections.abc import Sequence

from function.backends.hicache import facts
from function.backends.hicache.facts import DECODE, PREFILL, Tier
from function.contract.backend import Pinned
from function.contract.engine import Engine
from function.problems import Refused
from function.reasons import Reason


def check(tier: Tier, engines: Sequence[Engine]) -> None:
    """Raise Refused where decode engines offload what no prefill engine beside them ever finds."""
    found = {
        phase: {engine.identity for engine in engines if facts.phase(engine) == phase}
        for phase in (PREFILL, DECODE)
    }
    lost = found[DECODE] - found[PREFILL]
    if tier.settings.decode == "Offload" and lost and found[PREFILL]:
        raise Refused(
            Reason.CACHE_IDENTITY_CONFLICT,
            f"what the decode engine offloads (cache identity {', '.join(sorted(lost))}) is never"
            f" found by the prefill engine ({', '.join(sorted(found[PREFILL]))}): their weights,"
            " page size, parallelism and attention backend must be equal. Make them so, or use a"
            " tier with spec.hicache.decode Leave",
        )


def pinned(tier: Tier) -> tuple[Pinned, ...]:
    """Settings that a store's keys do not hold: whatever is in it was written with them."""
    storage = tier.settings.storage
    if storage is None or not facts.holds_one_identity(tier):
        return ()
    spec = tier.settings
    why = "the store's keys do not hold it, and what is there was written with it"
    rows = [
        (f"{facts.SPEC}.memoryLayout", spec.memory_layout),
        (f"{facts.SPEC}.pageTokens", str(spec.page_tokens)),
    ]
    if storage.identity is not None:
        rows.append((f"{facts.SPEC}.storage.identity", storage.identity))
    if storage.hf3fs is not None:
        rows.append((f"{facts.SPEC}.storage.hf3fs.fileSizeGiB", str(storage.hf3fs.file_size_gib)))
    return tuple(Pinned(path, value, why, always=True) for path, value in rows)

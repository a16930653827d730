"""Judge one engine from what its counters say, round by round: a pure function.

States: Hitting (blocks come from the tier), Storing (traffic, nothing read yet), Idle (no traffic
that could hit), Silent (traffic, and nothing is looked up or written: the connector is off),
NeverRead (written and looked up, never found, though prompts repeat), Failing (loads or stores
fail), Unreachable (the engine is ready and its metrics cannot be read). WrongBlocks is said by the
canary alone: counters do not show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .pages import Page

HITTING, STORING, IDLE = "Hitting", "Storing", "Idle"
SILENT, NEVER_READ, FAILING, UNREACHABLE = "Silent", "NeverRead", "Failing", "Unreachable"
WRONG_BLOCKS = "WrongBlocks"
# The hardest first.
STATES = (WRONG_BLOCKS, FAILING, SILENT, NEVER_READ, UNREACHABLE, HITTING, STORING, IDLE)
BAD = STATES[:5]

# Causes, where one is known: the function has a sentence for each.
NOT_CACHING = "PrefixCachingOff"  # nothing is looked up or written, and prefix caching is off
NO_LOOKUPS = "NoLookups"  # prompts were computed, and none was looked up in the tier
NO_WRITES = "NoWrites"  # looked up, and nothing written
NO_TRANSFERS = "NoTransfers"  # a pair of prefill and decode hands nothing over
HITS_STOPPED = "HitsStopped"  # it had hits, and has none any more
NO_METRICS = "NoMetrics"  # it answers, without metrics of an engine

TRAFFIC = 2_000  # tokens after which an engine that looks nothing up is silent
LOOKED_UP = 20_000  # tokens looked up without a hit, at least
TURNS = 3  # times that the engine's own cache must have been filled anew meanwhile
REPEATS = 1_000  # tokens found in the engine's own cache that show that prompts repeat
FIRST_HIT = 45.0  # seconds of traffic that the first hit may take
NEXT_HIT = 1_800.0  # seconds with traffic in which an engine with hits has another one
LATE = 600.0  # seconds in which a prompt is computed; vLLM counts its lookup before, itself after
QUIET = 3_600.0  # seconds without traffic after which an engine is idle
FAILURES = 0.05  # share of the keys or requests of a round above which they count as failing
FAILS = 2  # rounds with failures, one after another, that make an engine fail
HEALED = 600.0  # seconds without a failure after which it is well again
MISSED = 3  # rounds without an answer


@dataclass(frozen=True)
class Memory:
    """What is remembered of an engine. Numbers count since its own start, times are seconds.

    `restored`: state and cause are of the document that an observer before this one wrote.
    `looked_up`, `repeated`: tokens since the last hit (or the start). `unasked`: tokens computed
    without a lookup. `unwritten`: tokens looked up since the last write. `active`: seconds with
    traffic since the last hit. `seen`, `asked`: the last page, the last lookup.
    """

    state: str = IDLE
    cause: str = ""
    restored: bool = False
    numbers: tuple[tuple[str, float], ...] = ()
    looked_up: float = 0.0
    repeated: float = 0.0
    unasked: float = 0.0
    unwritten: float = 0.0
    active: float = 0.0
    seen: float = -1.0
    asked: float = -1.0
    traffic: float = -1.0
    hit: float = -1.0
    written: bool = False
    failed: float = -1e9
    failing: int = 0
    missed: int = 0


def judge(
    before: Memory,
    page: Page | None,
    now: float,
    tier_writes: bool | None = None,
    pairs: bool = False,
    hides_hits: bool = False,
) -> Memory:
    """Return what is known of an engine after one more round.

    `page`: None where it did not answer. `tier_writes`: whether the tier's own processes count
    writes, for engines that count none themselves; None: nobody counts. `pairs`: the tier moves
    blocks from prefill to decode engines, so that many of them never have a hit. `hides_hits`:
    SGLang counts its hits with those of the device, in some releases.
    """
    if page is None or not page.is_engine:
        missed = min(before.missed + 1, MISSED)
        if missed < MISSED:
            return replace(before, missed=missed)
        cause = NO_METRICS if page is not None else ""
        return replace(before, missed=missed, state=UNREACHABLE, cause=cause)
    memory, grown = _counted(before, page, now)
    if tier_writes and "writes" not in page.numbers:
        memory = replace(memory, written=True, unwritten=0.0)
    known = "writes" in page.numbers or tier_writes is not None
    uncounted = hides_hits and page.kind == "SGLang" and memory.hit < 0
    state, cause = _state(memory, page, now, grown, known and not pairs, pairs or uncounted)
    return replace(memory, state=state, cause=cause, missed=0)


def transfer_nothing(memories: Sequence[Memory]) -> bool:
    """Return whether the engines of a model that pair prefill and decode hand nothing over.

    One alone does not show it: only decode engines count what they take, and prefill engines look
    up as they do.
    """
    counting = [memory for memory in memories if "writes" in dict(memory.numbers)]
    looked_up = sum(memory.unwritten for memory in counting)
    known = bool(counting) and all(memory.state in (STORING, IDLE) for memory in memories)
    is_new = not any(memory.written or memory.hit >= 0 for memory in memories)
    return known and is_new and looked_up >= LOOKED_UP


def _counted(before: Memory, page: Page, now: float) -> tuple[Memory, dict[str, float]]:
    """Add what the counters grew by; an engine whose counters fell was restarted."""
    before, last = _base(before, page.numbers, now)
    numbers = last | page.numbers  # a counter that is missing once has not fallen
    is_new = not before.numbers
    grown = {name: value - last.get(name, 0.0) for name, value in numbers.items()}
    computed = max(0.0, grown.get("prompt", 0.0) - grown.get("device", 0.0))
    asked = grown.get("lookups", computed if page.kind == "SGLang" else 0.0)
    hits, writes = grown.get("hits", 0.0), grown.get("writes", 0.0)
    busy = grown.get("prompt", 0.0) > 0
    is_unasked = before.asked < 0 or now - before.asked >= LATE
    passed = now - before.seen if busy and before.seen >= 0 and not before.missed else 0.0
    memory = replace(
        before,
        restored=False,
        numbers=tuple(sorted(numbers.items())),
        looked_up=0.0 if hits else before.looked_up + asked,
        repeated=0.0 if hits else before.repeated + grown.get("device", 0.0),
        unasked=0.0 if asked else before.unasked + (computed if is_unasked else 0.0),
        unwritten=0.0 if writes or hits else before.unwritten + asked,
        active=0.0 if hits else before.active + passed,
        seen=now,
        asked=now if asked else before.asked,
        traffic=now if busy else before.traffic,
        hit=now if hits else before.hit,
        written=before.written or writes > 0,
    )
    # Failures of before the first look are history.
    if not is_new and _fails(grown):
        memory = replace(memory, failing=before.failing + 1, failed=now)
    elif busy:
        memory = replace(memory, failing=0)
    return memory, grown


def _fails(grown: dict[str, float]) -> bool:
    """Return whether loads or stores fail: any, or more than a few of those that are counted."""
    shares = (("failed_gets", "gets"), ("failed_puts", "puts"), ("failed_requests", "requests"))
    return grown.get("failures", 0.0) > 0 or any(
        grown.get(failed, 0.0) > FAILURES * grown.get(every, 0.0) for failed, every in shares
    )


def _base(before: Memory, numbers: dict[str, float], now: float) -> tuple[Memory, dict[str, float]]:
    """Return the memory and the numbers from which an engine's counters grow.

    Hits that nobody saw grow say nothing of now: neither those of a restarted engine, whose page
    may lack a process only, nor those of one that the last document calls idle or without hits.
    """
    last, hits = dict(before.numbers), {"hits": numbers.get("hits", 0.0)}
    if any(numbers.get(name, value) < value for name, value in last.items()):
        return Memory(before.state, before.cause, seen=before.seen), hits
    if before.restored and before.state == IDLE:
        return replace(before, asked=now if numbers.get("lookups") else -1.0), numbers
    if before.restored and before.cause == HITS_STOPPED:
        return replace(before, hit=now, active=NEXT_HIT), hits
    return before, last


def _state(
    memory: Memory, page: Page, now: float, grown: dict[str, float], writes: bool, never_hits: bool
) -> tuple[str, str]:
    was_failing = memory.state == FAILING
    if memory.failing >= FAILS or (was_failing and now - memory.failed < HEALED):
        return FAILING, ""
    if grown.get("hits", 0.0) > 0:
        return HITTING, ""
    # Most connectors look up without prefix caching too.
    uncached = page.is_uncached and not never_hits
    if memory.unasked >= TRAFFIC:
        return SILENT, NOT_CACHING if uncached else NO_LOOKUPS
    writes_nothing = not memory.written and memory.hit < 0 and memory.unwritten >= LOOKED_UP
    if writes_nothing and (writes or uncached):
        return SILENT, NOT_CACHING if uncached else NO_WRITES
    if not never_hits and _is_never_read(memory, page):
        return NEVER_READ, HITS_STOPPED if memory.hit >= 0 else ""
    if memory.traffic < 0 or now - memory.traffic >= QUIET:
        return IDLE, ""
    return HITTING if memory.hit >= 0 else STORING, ""


def _is_never_read(memory: Memory, page: Page) -> bool:
    """Return whether blocks should have been found: prompts repeat, and the device forgot them.

    Nobody knows what it forgot where its size is unknown.

    An engine's first hit comes soon or never; one that has had hits may pause.
    """
    patience = NEXT_HIT if memory.hit >= 0 else FIRST_HIT
    return (
        memory.looked_up >= max(LOOKED_UP, TURNS * page.device_tokens)
        and page.device_tokens > 0
        and memory.repeated >= REPEATS
        and memory.active >= patience
    )

"""A day of bursty traffic on engines with caches that work, and on one whose tier is broken.

Conversations come in bursts with pauses, grow turn by turn, share system prompts, and go to any
engine; a night is quiet and engines restart. The caches are least recently used, in blocks.
"""

import random
from collections import OrderedDict
from collections.abc import Iterator

import pytest

from programs.observer.judge import BAD, Memory, judge
from programs.observer.pages import Page
from programs.observer.report import Engine, report, text
from tests.unit.programs.observer import vllm

BLOCK = 256  # tokens
ROUND = 15.0  # seconds
DAY = 86_400.0


class LRU:
    def __init__(self, size: int):
        self.size, self.kept = size, OrderedDict()

    def found(self, blocks: list) -> int:
        """How many blocks from the first one on are there."""
        for number, block in enumerate(blocks):
            if block not in self.kept:
                return number
            self.kept.move_to_end(block)
        return len(blocks)

    def add(self, blocks: list) -> None:
        for block in blocks:
            self.kept[block] = None
            self.kept.move_to_end(block)
            if len(self.kept) > self.size:
                self.kept.popitem(last=False)


class CachingEngine:
    """An engine that counts as vLLM does. `reads`: whether it finds what is in the tier."""

    def __init__(self, device: int, tier: LRU, reads: bool = True):
        self.size, self.tier, self.reads = device, tier, reads
        self.restart()

    def restart(self) -> None:
        self.device = LRU(self.size)
        self.counts = dict.fromkeys(("prompt", "device", "lookups", "hits", "writes"), 0)

    def ask(self, blocks: list) -> None:
        local = self.device.found(blocks)
        there = self.tier.found(blocks[local:]) if self.reads else 0
        self.counts["prompt"] += len(blocks) * BLOCK
        self.counts["device"] += local * BLOCK
        self.counts["lookups"] += (len(blocks) - local) * BLOCK
        self.counts["hits"] += there * BLOCK
        new = blocks[local + there :]
        self.counts["writes"] += len(new)
        self.device.add(blocks)
        self.tier.add(new)

    def page(self) -> str:
        return vllm(**self.counts, blocks=self.size * BLOCK // 64)


def arrivals(draw: random.Random, a_day: int) -> Iterator[tuple[float, list]]:
    """Turns of conversations, by time: bursts of an hour, pauses, a night."""
    turns = []
    for number in range(a_day):
        hour = draw.choice((8, 9, 9, 10, 10, 11, 13, 14, 14, 15, 16, 20))
        at = hour * 3_600 + draw.random() * 3_600
        system = draw.randrange(5)
        blocks = [("system", system, i) for i in range(4)]
        for turn in range(draw.randrange(1, 9)):
            blocks = [*blocks, *((number, turn, i) for i in range(draw.randrange(1, 12)))]
            turns.append((at, blocks))
            at += draw.expovariate(1 / 120)
    return iter(sorted(turns, key=lambda turn: turn[0]))


def day(engines: list[CachingEngine], a_day: int, seed: int) -> tuple[list[set], int, int]:
    """The states that each engine had, the documents that were written, and their bytes."""
    draw = random.Random(seed)
    turns = arrivals(draw, a_day)
    turn = next(turns, None)
    memories = [Memory() for _ in engines]
    seen: list[set] = [set() for _ in engines]
    document, written, wrote, writes, size = {}, "", -1e9, 0, 0
    for number in range(int(DAY / ROUND)):
        now = number * ROUND
        while turn is not None and turn[0] < now:
            engines[draw.randrange(len(engines))].ask(turn[1])
            turn = next(turns, None)
        if draw.random() < 1 / 2_000:
            engines[draw.randrange(len(engines))].restart()
        for i, engine in enumerate(engines):
            memories[i] = judge(memories[i], Page(engine.page()), now)
            seen[i].add(memories[i].state)
        rows = [Engine("default", f"10.0.0.{i}", "vLLM", "m", m) for i, m in enumerate(memories)]
        document = report(rows, document, {})
        if text(document) != written and now - wrote >= 60:
            written, wrote, writes, size = text(document), now, writes + 1, size + len(written)
    return seen, writes, size


@pytest.mark.parametrize(
    ("a_day", "device", "count"), [(2_000, 300, 3), (150, 300, 2), (600, 40, 2), (600, 100_000, 2)]
)
def test_no_engine_of_a_working_tier_is_called_bad(a_day: int, device: int, count: int) -> None:
    """Much and little traffic, a small cache on the device and one that holds everything."""
    for seed in range(2):
        tier = LRU(50_000)
        seen, writes, _ = day([CachingEngine(device, tier) for _ in range(count)], a_day, seed)
        assert not set().union(*seen) & set(BAD)
        assert writes < 100


def test_an_engine_that_cannot_read_is_found() -> None:
    tier = LRU(50_000)
    engines = [CachingEngine(300, tier), CachingEngine(300, tier, reads=False)]
    seen, writes, _ = day(engines, 2_000, 7)
    assert "NeverRead" in seen[1] and not seen[0] & set(BAD)
    assert writes < 100

"""Faults of stores that keep no checksum: the canary accuses within five minutes.

Two real engines serve a model that copies (copying.py), and share a tier. A fault changes each
block between its being stored and its being read. The observer's own canary asks, with rounds every
sixty seconds. Its clock leaps over the pauses, and counts whole seconds for each request, as the
observer looks once a second.
"""

import math
import os
import random
import time
from collections.abc import Set
from statistics import median

import pytest

from programs.observer import main as observer
from programs.observer import turns
from programs.observer.turns import BEAT, Canary, Heard, Request, Target
from tests.serve import author, copying
from tests.serve.engine import SGLang
from tests.serve.faults import FAULTS, Fault
from tests.serve.fleet import Fleet
from tests.serve.stores import STORES, Store
from tests.unit.programs.observer.modelled import at_once

POD = author.Pod(claim="copying", dtype="float32")
EVERY, TOKENS = 60, 512  # spec.observe.canary
PATIENCE = 300  # seconds of the canary's clock
SEEDS = int(os.environ.get("FAULT_SEEDS", "16"))  # of each fault in each store: 336 in all
CLEAN = 7200  # seconds of the canary's clock without a fault
LAST = 0.4  # seconds without a further block, after which all are stored


class Between:
    """Changes blocks between their being stored and their being read. `fault`: how, if at all."""

    def __init__(self, store: Store, fault: Fault | None, seed: str, others: list[bytes]):
        self.store, self.fault, self.draw = store, fault, random.Random(seed)
        self.before = self.known = store.names()
        self.others = others  # of the prompt before
        self.prompt, self.is_new = "", False

    def ask(self, request: Request) -> Heard:
        """Ask as the observer does; a prompt that is asked for the first time will be stored."""
        self.is_new = request.prompt != self.prompt
        self.prompt = request.prompt
        return observer.ask(request)

    def change(self) -> None:
        """Change what was stored of the last prompt, if that was its first request."""
        if not self.is_new:
            return
        new = self._stored()
        blocks = {name: self.store.read(name) for name in sorted(new)}
        if self.fault is not None:
            for name, block in blocks.items():
                other = self.draw.choice([each for each in self.others if len(each) == len(block)])
                self.store.write(name, self.fault(self.draw, block, other))
        self.others = list(blocks.values())
        self.known |= new
        self.store.forget()

    def _stored(self) -> Set[str]:
        begun = since = time.monotonic()
        found: Set[str] = set()
        while not found or time.monotonic() - since < LAST:
            assert time.monotonic() - begun < 60, "nothing was stored"
            time.sleep(0.05)
            now = self.store.names() - self.known
            if now != found:
                found, since = now, time.monotonic()
        return found

    def close(self) -> None:
        for name in self.known - self.before:
            self.store.remove(name)


def accused(targets: list[Target], between: Between, seed: str, seconds: float) -> float | None:
    """The seconds after which an engine is accused."""
    canary, now = Canary(EVERY, TOKENS, seed, between.ask), 0.0
    while now < seconds and not canary.accused:
        if canary.until is not None and canary.until > now:
            between.change()
            now = canary.until
        begun = time.monotonic()
        canary.step(now, targets, {})
        now += BEAT * math.ceil((time.monotonic() - begun) / BEAT)
    assert between.fault is not None or canary.compared, canary.failed
    return now if canary.accused and now <= seconds else None


@pytest.mark.long
@pytest.mark.pairs(*STORES)
def test_faults_are_found_within_five_minutes(
    fleet: Fleet, proof, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "_in_thread", at_once)
    monkeypatch.setattr(observer, "LAG", 0.05)  # answers say themselves where tokens came from
    copying.write_copying_model(fleet.site.node.volume("claim", POD.claim))
    wired = fleet.wired({"main": POD})
    _ = fleet.tier
    kind = "SGLang" if fleet.pair.speaks is SGLang else "vLLM"
    targets = []
    for name in ("first", "second"):
        engine = fleet.run(name, wired)
        place = ("team-a", engine.pod.address)
        targets.append(Target(place, author.PORT, kind, author.SERVED, 0, 0, 0))
        engine.wait()
    store = STORES[fleet.pair.name](fleet)

    between = Between(store, None, "", [])
    assert accused(targets, between, "clean", CLEAN) is None
    between.close()
    found: dict[str, list[float]] = {name: [] for name in FAULTS}
    for seed in range(SEEDS):
        for name, fault in FAULTS.items():
            begun = time.monotonic()
            between = Between(store, fault, f"{name} {seed}", between.others)
            seconds = accused(targets, between, f"{name} {seed}", PATIENCE)
            between.close()
            print(f"{name} {seed}: {seconds}; {time.monotonic() - begun:.1f} s")
            if seconds is not None:
                found[name].append(seconds)
    counts = {name: len(times) for name, times in found.items()}
    made, total = SEEDS * len(FAULTS), sum(counts.values())
    assert total >= 0.99 * made, counts
    usual = median(seconds for times in found.values() for seconds in times)
    proof("faults of its blocks", made=made, found=total, seconds_of_the_clock=round(usual))

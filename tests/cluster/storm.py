"""`make storm`: what one act costs a tier with many consumers, for each number of them.

Core 2.4 calls every composite that requires what has changed, so an act may cost as many calls as
the tier has consumers, and a chain of acts many times that. Each act is done at rest, and counted
until everything is Ready and no call comes for some seconds: calls of the function, watch events of
core's circuit breakers and their openings, and writes to the control plane's API server. Core runs
with its default breaker: once that is open it drops events, and an act costs less than it would.
RIG_CORE=core-oldest measures the oldest core.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.documents import API, FIRST, changed, deployment, tier
from tests.cluster.expect import Fleet
from tests.cluster.rig import fleet
from tests.cluster.rig.crossplane import FLEET_FLAGS
from tests.cluster.rig.functions import CHECKOUT
from tests.cluster.rig.kube import Manifest, condition, is_true
from tests.cluster.rig.metrics import scrape, writes
from tests.cluster.rig.up import Rig
from tests.tools.find import CORE

LIMIT = 300
# Longer than the TTL of what is not settled: on core 2.3 that is how news arrives.
QUIET_SECONDS = 12
AT_ONCE = 20
FLAPS = 10
_POD = "spec.template.spec.engines.0.members.0.template.spec.containers.0"


@dataclass(frozen=True)
class Cost:
    """What an act cost. `seconds`: until everything was Ready."""

    calls: int
    events: int
    opened: int
    writes: int
    seconds: float


def a_tier(name: str) -> Manifest:
    small = {"memoryOverheadGiB": 1, "cpuCores": 1}
    return changed(tier(name), "spec.lmcache", {"l1": {"sizeGiB": 1}, "resources": small})


def a_consumer(name: str, of: Manifest) -> Manifest:
    made = deployment(name, of["metadata"]["name"], model=f"models/{name}")
    return changed(made, f"{_POD}.resources", {})


class Storm:
    """A tier with consumers on a rig, and what acts on them cost."""

    def __init__(self, world: Fleet, consumers: int) -> None:
        self.world, self.number = world, consumers
        self.tier = a_tier(f"storm-{consumers}")
        self.consumers: dict[str, Manifest] = {}
        self.costs: dict[str, Cost] = {}

    def documents(self) -> list[Manifest]:
        return [self.tier, *self.consumers.values()]

    def name(self, number: int) -> str:
        return f"s{self.number}-{number:03}"

    def come(self, *numbers: int) -> None:
        for name in map(self.name, numbers):
            self.consumers[name] = a_consumer(name, self.tier)
            self.world.api.apply(self.consumers[name])

    def change(self, number: int) -> None:
        name = self.name(number)
        model = f"models/{name}-b"
        edited = changed(self.consumers[name], f"{_POD}.args.0", f"--model={model}")
        self.consumers[name] = edited
        self.world.api.apply(edited)

    def go(self, number: int) -> None:
        gone = self.consumers.pop(self.name(number))
        self.world.remove(gone, limit=LIMIT)

    def edit(self, path: str, value: object) -> None:
        self.tier = changed(self.tier, path, value)
        self.world.api.apply(self.tier)

    def flap(self) -> None:
        """One agent's pod is deleted, and its DaemonSet makes another, ten times."""
        api = self.world.rig.workload(FIRST).api
        for _ in range(FLAPS):
            api.delete(self.world.agents(FIRST, self.tier)[0], at_once=True)
            time.sleep(2)

    def ready(self) -> bool:
        found = {
            (each["kind"], each["metadata"]["name"]): each
            for kind in ("KVOffloadTier", "ModelDeployment")
            for each in self.world.api.list(API, kind)
        }
        wanted = [found.get((d["kind"], d["metadata"]["name"]), {}) for d in self.documents()]
        return all(
            is_true(each, "Ready")
            and condition(each, "Ready").get("observedGeneration")
            == each["metadata"].get("generation")
            for each in wanted
        )

    def rest(self) -> float:
        """Wait until all is Ready and no call comes; when it was Ready, of the monotonic clock."""
        ready_at, calls, still_since = 0.0, -1, time.monotonic()
        deadline = time.monotonic() + LIMIT
        while True:
            self.world.rig.parts.tend()
            now, there = time.monotonic(), self.ready()
            ready_at = (ready_at or now) if there else 0.0
            if (made := self.world.calls()) != calls:
                calls, still_since = made, now
            if there and now - still_since >= QUIET_SECONDS:
                return ready_at
            if now > deadline:
                raise TimeoutError(f"not at rest after {LIMIT} s, ready: {there}")
            time.sleep(0.25)

    def act(self, name: str, do: Callable[[], object]) -> None:
        before, began = counts(self.world), time.monotonic()
        do()
        seconds = self.rest() - began
        now = counts(self.world)
        spent = {key: now[key] - before[key] for key in before}
        self.costs[name] = Cost(**spent, seconds=round(seconds, 1))
        print(f"N={self.number} {name}: {self.costs[name]}", flush=True)

    def acts(self) -> None:
        everybody = range(self.number)
        self.act("tier and consumers, all at once", lambda: self.begin(everybody))
        self.act("one more consumer", lambda: self.come(self.number))
        self.act("an edit of a consumer", lambda: self.change(0))
        self.act("a consumer goes", lambda: self.go(0))
        self.act("a label on the tier", lambda: self.edit("metadata.labels", {"a": "b"}))
        self.act("a size edit of the tier", lambda: self.edit("spec.lmcache.l1.sizeGiB", 2))
        self.act(f"an agent flaps {FLAPS} times", self.flap)
        more = range(self.number + 1, self.number + 1 + AT_ONCE)
        self.act(f"{AT_ONCE} consumers at once", lambda: self.come(*more))
        self.act("a minute at rest", lambda: time.sleep(60))

    def begin(self, everybody: range) -> None:
        self.world.api.apply(self.tier)
        self.come(*everybody)


def counts(world: Fleet) -> dict[str, int]:
    port = world.rig.core.metrics_port
    named = [(name, value) for name, _, value in scrape(port)]
    return {
        "calls": world.calls(),
        "events": int(sum(v for n, v in named if n == "circuit_breaker_events_total")),
        "opened": int(sum(v for n, v in named if n == "circuit_breaker_opens_total")),
        "writes": writes(world.api),
    }


def table(found: dict[int, dict[str, Cost]]) -> str:
    """A Markdown table: a row per act, a column per number of consumers."""
    numbers = sorted(found)
    head = " | ".join(f"N = {n}" for n in numbers)
    lines = [
        f"| act: calls / events / openings / writes, s | {head} |",
        "|---" * len(numbers) + "|---|",
    ]
    for act in found[numbers[0]]:
        cells = (found[n].get(act) for n in numbers)
        texts = (
            f"{c.calls} / {c.events} / {c.opened} / {c.writes}, {c.seconds}" if c else ""
            for c in cells
        )
        lines.append(f"| {act} | {' | '.join(texts)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--consumers", type=int, nargs="+", default=[10, 50])
    parser.add_argument("--run", type=Path, default=CHECKOUT / ".run" / "storm")
    parser.add_argument("--fleet", action="store_true", help="core with a fleet's breaker")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    given = parser.parse_args()
    found: dict[int, dict[str, Cost]] = {}
    flags = FLEET_FLAGS if given.fleet else ()
    with Rig(given.run, core_flags=flags, with_lws=False) as rig:
        fleet.declare(rig)
        for number in given.consumers:
            storm = Storm(Fleet(rig), number)
            found[number] = storm.costs
            storm.acts()
            for document in reversed(storm.documents()):
                storm.world.remove(document, limit=LIMIT)
    print(f"\n{CORE}\n{table(found)}")
    if given.json:
        rows = {n: {act: vars(cost) for act, cost in costs.items()} for n, costs in found.items()}
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

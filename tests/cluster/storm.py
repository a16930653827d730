"""`make storm`: what one act costs a tier with many consumers, for each number of them.

Core 2.4 calls every composite that requires what has changed, so an act may cost as many calls as
the tier has consumers, and a chain of acts many times that. Each act is done at rest, and counted
until everything is Ready and no call comes for some seconds: calls of the function, reconciles of
composites, watch events of core's circuit breakers and their openings, and writes to the control
plane's API server by who makes them. Core runs with its default breaker: once that is open it drops
events, and an act costs less than it would. RIG_CORE=core-oldest measures the oldest core.
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
from tests.cluster.rig.apiserver import AUDIT_LOG
from tests.cluster.rig.crossplane import FLEET_FLAGS
from tests.cluster.rig.functions import CHECKOUT
from tests.cluster.rig.kube import Manifest, condition, is_true
from tests.cluster.rig.metrics import scrape, writers, writes
from tests.cluster.rig.up import Rig
from tests.tools.find import CORE

LIMIT = 300
# Longer than the TTL of what is not settled: on core 2.3 that is how news arrives.
QUIET_SECONDS = 12
AT_ONCE = 20
FLAPS = 10
# Names of two workload clusters, as clusters of their own: an API server each would need more
# memory than a small machine has.
CLUSTERS = 6
LABEL = "example.org/storm"
_POD = "spec.template.spec.engines.0.members.0.template.spec.containers.0"


@dataclass(frozen=True)
class Cost:
    """What an act cost. `seconds`: until everything was Ready.

    `tier_events`: those of the events that the tiers' breakers counted. `writers`: writes by
    program and kind.
    """

    calls: int
    reconciles: int
    events: int
    tier_events: int
    opened: int
    writes: int
    seconds: float
    writers: dict[str, int]

    def __str__(self) -> str:
        return (
            f"{self.calls} calls, {self.reconciles} reconciles, {self.events} events"
            f" ({self.tier_events} of tiers), {self.opened} opened, {self.writes} writes,"
            f" {self.seconds} s"
        )


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
        self.audit = world.rig.control.folder / AUDIT_LOG

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
            time.sleep(0.25 if self.number <= AT_ONCE else 1)

    def act(self, name: str, do: Callable[[], object]) -> None:
        before, began = counts(self.world), time.monotonic()
        end = self.audit.stat().st_size if self.audit.exists() else None
        do()
        seconds = self.rest() - began
        now = counts(self.world)
        spent = {key: now[key] - before[key] for key in before}
        wrote = {} if end is None else writers(self.audit, end)
        by = {f"{program} {kind}": count for (program, kind), count in sorted(wrote.items())}
        self.costs[name] = Cost(**spent, seconds=round(seconds, 1), writers=by)
        print(f"N={self.number} {name}: {self.costs[name]}", flush=True)

    def first_act(self) -> None:
        self.act("tier and consumers, all at once", lambda: self.begin(range(self.number)))

    def acts(self, rest: int, slow: bool) -> None:
        """Do every act. `rest`: seconds at rest; `slow`: also what takes a minute and more."""
        self.first_act()
        self.act("one more consumer", lambda: self.come(self.number))
        self.act("an edit of a consumer", lambda: self.change(0))
        self.act("a consumer goes", lambda: self.go(0))
        self.act("a label on the tier", lambda: self.edit("metadata.labels", {"a": "b"}))
        self.act("a size edit of the tier", lambda: self.edit("spec.lmcache.l1.sizeGiB", 2))
        self.act(f"an agent flaps {FLAPS} times", self.flap)
        more = range(self.number + 1, self.number + 1 + AT_ONCE)
        self.act(f"{AT_ONCE} consumers at once", lambda: self.come(*more))
        self.act(f"{rest} s at rest", lambda: time.sleep(rest))
        rolling = {"update": "Rolling", "maxUnavailable": "10%"}
        self.act("Rolling is set", lambda: self.edit("spec.wiring", rolling))
        self.act("an edit of a consumer, Rolling", lambda: self.change(1))
        if slow:
            self.act("a roll of all", lambda: self.edit("spec.startupTimeoutSeconds", 900))

    def fleet_acts(self) -> None:
        """Do what concerns a fleet tier: clusters come and go, and its edit."""
        api = self.world.api
        places = [self.world.rig.workload(name) for name in self.world.rig.workloads]
        for number in range(CLUSTERS + 1):
            secret, cluster = fleet.inference_cluster(places[number % len(places)])
            cluster["metadata"] = {"name": f"storm-{number}", "labels": {LABEL: "yes"}}
            if number == CLUSTERS:
                cluster["metadata"]["labels"] = {}
            for each in (secret, cluster):
                api.apply(each)
            self.world.until_ready(cluster, LIMIT)
        last = cluster
        self.tier = changed(a_tier("wide"), "spec.clusterSelector", {"matchLabels": {LABEL: "yes"}})
        del self.tier["spec"]["inferenceClusterRef"]
        self.act(f"a fleet tier on {CLUSTERS} clusters", lambda: api.apply(self.tier))
        join = {"metadata": {"labels": {LABEL: "yes"}}}
        self.act("a cluster joins", lambda: api.patch(last, join))
        self.act("a size edit of the fleet", lambda: self.edit("spec.lmcache.l1.sizeGiB", 2))
        leave = {"metadata": {"labels": {LABEL: None}}}
        self.act("a cluster leaves", lambda: api.patch(last, leave))

    def begin(self, everybody: range) -> None:
        self.world.api.apply(self.tier)
        self.come(*everybody)


def counts(world: Fleet) -> dict[str, int]:
    port = world.rig.core.metrics_port
    found = [(name, labels.get("controller", ""), v) for name, labels, v in scrape(port)]

    def total(name: str, of: str) -> int:
        return int(sum(v for each, whose, v in found if each == name and of in whose))

    return {
        "calls": world.calls(),
        "reconciles": total("controller_runtime_reconcile_total", "composite/"),
        "events": total("circuit_breaker_events_total", ""),
        "tier_events": total("circuit_breaker_events_total", "kvoffloadtiers"),
        "opened": total("circuit_breaker_opens_total", ""),
        "writes": writes(world.api),
    }


def table(found: dict[int, dict[str, Cost]]) -> str:
    """A Markdown table: a row per act, a column per number of consumers."""
    numbers = sorted(found)
    head = " | ".join(f"N = {n}" for n in numbers)
    lines = [
        f"| act: calls / reconciles / events (of tiers) / openings / writes, s | {head} |",
        "|---" * len(numbers) + "|---|",
    ]
    for act in found[numbers[0]]:
        cells = (found[n].get(act) for n in numbers)
        texts = (
            f"{c.calls} / {c.reconciles} / {c.events} ({c.tier_events}) / {c.opened} / {c.writes},"
            f" {c.seconds}"
            if c
            else ""
            for c in cells
        )
        lines.append(f"| {act} | {' | '.join(texts)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--consumers", type=int, nargs="+", default=[0, 10, 50], help="0: a fleet tier's acts"
    )
    parser.add_argument("--run", type=Path, default=CHECKOUT / ".run" / "storm")
    parser.add_argument("--fleet", action="store_true", help="core with a fleet's breaker")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--rest", type=int, default=60, help="seconds at rest")
    parser.add_argument("--first", action="store_true", help="only the tier and its consumers")
    parser.add_argument("--slow", action="store_true", help="also a roll of all consumers")
    given = parser.parse_args()
    found: dict[int, dict[str, Cost]] = {}
    flags = FLEET_FLAGS if given.fleet else ()
    for number in given.consumers:
        with Rig(given.run, core_flags=flags, with_lws=False, audited=True) as rig:
            fleet.declare(rig)
            storm = Storm(Fleet(rig), number)
            found[number] = storm.costs
            if not number:
                storm.fleet_acts()
            elif given.first:
                storm.first_act()
            else:
                storm.acts(given.rest, given.slow)
    tables = [table({n: found[n]}) for n in sorted(found) if not n]
    tables += [table({n: costs for n, costs in found.items() if n})] if any(found) else []
    print(f"\n{CORE}", *tables, sep="\n")
    if given.json:
        rows = {n: {act: vars(cost) for act, cost in costs.items()} for n, costs in found.items()}
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

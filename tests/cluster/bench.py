"""`make bench-cluster`: as many tiers and consumers as this machine carries in a few minutes.

Waves of tiers with one consumer each are applied until the time is up; each wave must be Ready
before the next. Reports time to Ready, function calls per XR, and CPU and memory per process.
"""

import argparse
import statistics
import time
from pathlib import Path

from tests.cluster.documents import deployment, tier
from tests.cluster.expect import Fleet
from tests.cluster.rig import fleet
from tests.cluster.rig.crossplane import FLEET_FLAGS
from tests.cluster.rig.functions import CHECKOUT
from tests.cluster.rig.kube import Manifest, is_true
from tests.cluster.rig.metrics import cpu_seconds, resident_mib
from tests.cluster.rig.up import Rig

_LIMIT = 240


def wave(world: Fleet, number: int, size: int) -> list[float]:
    """Apply a wave; the seconds from its apply until each composite was Ready."""
    documents: list[Manifest] = []
    for each in range(size):
        name = f"w{number:02}-{each:02}"
        cluster = world.rig.workloads[each % len(world.rig.workloads)]
        document = tier(name, cluster)
        # Small, so that the nodes hold many.
        small = {"memoryOverheadGiB": 1, "cpuCores": 1}
        document["spec"]["lmcache"] |= {"l1": {"sizeGiB": 1}, "resources": small}
        consumer = deployment(name, name, cluster, model=f"models/{name}")
        container = consumer["spec"]["template"]["spec"]["engines"][0]["members"][0]
        container["template"]["spec"]["containers"][0]["resources"] = {}
        documents += [document, consumer]
    began = time.monotonic()
    for document in documents:
        world.api.apply(document)
    seconds: list[float] = []
    waiting = {(d["kind"], d["metadata"]["name"]) for d in documents}
    while waiting:
        if time.monotonic() - began > _LIMIT:
            raise TimeoutError(f"wave {number}: not Ready after {_LIMIT} s: {sorted(waiting)[:5]}")
        for kind in ("KVOffloadTier", "ModelDeployment"):
            for found in world.api.list("modelplane.ai/v1alpha1", kind):
                key = (kind, found["metadata"]["name"])
                if key in waiting and is_true(found, "Ready"):
                    waiting.discard(key)
                    seconds.append(time.monotonic() - began)
        world.rig.parts.tend()
        time.sleep(0.5)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--wave", type=int, default=25, help="tiers, and consumers, of a wave")
    parser.add_argument("--run", type=Path, default=CHECKOUT / ".run" / "bench")
    given = parser.parse_args()
    with Rig(given.run, core_flags=FLEET_FLAGS, with_lws=False) as rig:
        fleet.declare(rig)
        world = Fleet(rig)
        before = {name: cpu_seconds(part) for name, part in rig.parts.parts.items()}
        calls, began, number = world.calls(), time.monotonic(), 0
        print(f"{'wave':>4}{'composites':>12}{'p50 s':>8}{'max s':>8}", flush=True)
        while time.monotonic() - began < given.minutes * 60:
            seconds = wave(world, number, given.wave)
            number += 1
            total = 2 * given.wave * number
            median = statistics.median(seconds)
            print(f"{number:>4}{total:>12}{median:>8.1f}{max(seconds):>8.1f}", flush=True)
        report(rig, before, world.calls() - calls, 2 * given.wave * number)


def report(rig: Rig, before: dict[str, float], calls: int, composites: int) -> None:
    print(f"\n{composites} composites (half tiers, half consumers) are Ready.")
    print(f"{calls / composites:.1f} calls of the function for each.\n")
    print(f"{'process':<28}{'CPU s':>8}{'MiB':>8}")
    for name, part in rig.parts.parts.items():
        used = cpu_seconds(part) - before[name]
        print(f"{name:<28}{used:>8.1f}{resident_mib(part):>8.0f}")


if __name__ == "__main__":
    main()

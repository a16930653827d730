"""`make latency`: how long news takes from one composite to another that requires it.

Core 2.4 watches what functions require; on 2.3 the response's TTL is the longest wait, up to five
minutes. RIG_CORE=core-oldest measures the oldest core. Each line is measured once, at rest.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from tests.cluster.documents import API, FIRST, SECOND, USAGE, changed, deployment, tier
from tests.cluster.expect import Fleet
from tests.cluster.rig import fleet
from tests.cluster.rig.crossplane import FLEET_FLAGS
from tests.cluster.rig.functions import CHECKOUT
from tests.cluster.rig.kube import Manifest, is_true
from tests.cluster.rig.up import Rig
from tests.tools.find import CORE

# More than the longest TTL of a settled composite.
LIMIT = 420
REST_SECONDS = 15
LABEL = "example.org/news"
NAMES = ("team-a", "team-b")
ALONE = tier("alone", allowedNamespaces={"from": "Names", "names": list(NAMES)})
HELD = deployment("held", "alone")
WIDE = changed(tier("wide"), "spec.clusterSelector", {"matchLabels": {LABEL: "yes"}})


class Clock:
    """Measures on one fleet. `found`: seconds by what was measured."""

    def __init__(self, world: Fleet) -> None:
        self.world = world
        self.found: dict[str, float] = {}

    def until(self, what: str, probe: Callable[[], object], rest: float = REST_SECONDS) -> None:
        began = time.monotonic()
        self.world.rig.until(probe, what, LIMIT, every=0.05)
        self.found[what] = time.monotonic() - began
        print(f"{self.found[what]:7.1f} s  {what}", flush=True)
        time.sleep(rest)

    def child(self, cluster: str) -> Manifest | None:
        """Return the child of the fleet tier on a cluster."""
        for each in self.world.api.list(API, "KVOffloadTier"):
            fleet_name = each["metadata"].get("labels", {}).get("modelplane.ai/kv-offload-fleet")
            place = each["spec"].get("inferenceClusterRef", {}).get("name")
            if (fleet_name, place) == ("wide", cluster):
                return each
        return None

    def is_going(self, cluster: str) -> bool:
        child = self.child(cluster)
        return child is None or "deletionTimestamp" in child["metadata"]

    def label(self, cluster: str, value: str | None) -> None:
        found = self.world.api.get(API, "InferenceCluster", cluster)
        assert found is not None
        self.world.api.patch(found, {"metadata": {"labels": {LABEL: value}}})

    def says(self, reason: str) -> bool:
        return self.world.condition(HELD, "KVOffloadReady")[1] == reason

    def measure(self) -> None:
        world = self.world
        world.api.apply(HELD)
        world.until_condition(HELD, "KVOffloadReady", ("False", "TierNotFound"))
        time.sleep(REST_SECONDS)
        world.api.apply(ALONE)
        world.rig.until(lambda: is_true(world.api.again(ALONE), "Ready"), "the tier is Ready", 60)
        self.until("tier Ready to held-back engine composed", lambda: world.objects(HELD))
        world.until_ready(HELD, 60)
        world.api.apply(changed(ALONE, "spec.allowedNamespaces.names", ["team-b"]))
        closed = "tier's edit to its consumer's condition"
        self.until(closed, lambda: self.says("NamespaceNotAllowed"))
        world.api.apply(ALONE)
        self.until("tier opened again to its consumer wired", lambda: self.says("Wired"))
        world.remove(HELD, LIMIT)
        self.until("consumer gone to its Usage gone", lambda: not world.api.list(USAGE, "Usage"))
        self.label(FIRST, "yes")
        del WIDE["spec"]["inferenceClusterRef"]
        world.api.apply(WIDE)
        world.until_ready(WIDE, 60)
        time.sleep(REST_SECONDS)
        self.label(SECOND, "yes")
        self.until("cluster labelled to child there", lambda: self.child(SECOND))
        world.until_ready(WIDE, LIMIT)
        self.label(SECOND, None)
        self.until("label removed to child going", lambda: self.is_going(SECOND), rest=0)
        self.until("child going to child gone", lambda: not self.child(SECOND))
        for document in (WIDE, ALONE):
            world.remove(document, LIMIT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, default=CHECKOUT / ".run" / "latency")
    given = parser.parse_args()
    with Rig(given.run, core_flags=FLEET_FLAGS, with_lws=False, audited=True) as rig:
        fleet.declare(rig)
        clock = Clock(Fleet(rig))
        clock.measure()
    rows = "\n".join(f"| {what} | {seconds:.1f} |" for what, seconds in clock.found.items())
    print(f"\n| {CORE}: from, to | s |\n|---|---|\n{rows}")


if __name__ == "__main__":
    main()

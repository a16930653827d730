"""A window of time in which nothing may happen: opened once, looked at when it is over.

Another group with a control plane of its own runs meanwhile (test_80_rbac.py), to save minutes.
"""

import time
from dataclasses import dataclass

from kv_offload.render.effects import differing
from tests.cluster.documents import API, OBJECT, USAGE, deployment, tier
from tests.cluster.expect import Fleet
from tests.cluster.rig.kube import Manifest, is_true

SETTLING_SECONDS = 5
TIERS = [tier("still"), tier("still-eks", "eks-h200")]
DEPLOYMENTS = [deployment("quiet", "still"), deployment("quiet-eks", "still-eks", "eks-h200")]


@dataclass(frozen=True)
class Window:
    """What there was when the window opened."""

    opened: float
    versions: dict[str, str]
    events: dict[str, int]
    calls: int

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.opened


def open_window(world: Fleet) -> Window:
    """Wait until everything is Ready and has settled, then look."""
    for document in (*TIERS, *DEPLOYMENTS):
        world.until_ready(document, limit=60)
    until_settled(world)
    return Window(time.monotonic(), versions(world), events(world), world.calls())


def until_settled(world: Fleet) -> None:
    world.rig.until(
        lambda: all(is_true(o, "Ready") for o in world.api.list(OBJECT, "Object")),
        "every Object is Ready: one whose thing was there already takes its poll of 30 s",
        60,
    )
    time.sleep(SETTLING_SECONDS)


def everything(world: Fleet) -> dict[str, Manifest]:
    """Everything that is ours, on both sides."""
    ours = [
        *world.api.list(API, "KVOffloadTier"),
        *world.api.list(API, "ModelDeployment"),
        *world.api.list(API, "InferenceCluster"),
        *world.api.list(OBJECT, "Object"),
        *world.api.list(USAGE, "Usage"),
    ]
    for cluster in world.rig.workloads:
        ours += world.remote(cluster).values()
    return {
        f"{m['kind']} {m['metadata'].get('namespace', '')}/{m['metadata']['name']}": m for m in ours
    }


def versions(world: Fleet) -> dict[str, str]:
    """The resourceVersion of everything that is ours, on both sides."""
    return {key: m["metadata"]["resourceVersion"] for key, m in everything(world).items()}


def written(before: dict[str, Manifest], after: dict[str, Manifest]) -> dict[str, list[str]]:
    """Where what was written meanwhile differs; [] for a write that changed nothing."""
    return {
        key: list(differing(_without_version(before.get(key, {})), _without_version(now)))
        for key, now in after.items()
        if before.get(key, {}).get("metadata", {}).get("resourceVersion")
        != now["metadata"]["resourceVersion"]
    }


def _without_version(document: Manifest) -> Manifest:
    hidden = ("resourceVersion", "managedFields")
    metadata = {k: v for k, v in document.get("metadata", {}).items() if k not in hidden}
    return {**document, "metadata": metadata}


def events(world: Fleet) -> dict[str, int]:
    """Events about our composites, with their counts: a repeated event is one too."""
    kinds = ("KVOffloadTier", "ModelDeployment", "InferenceCluster", "Object", "Usage")
    return {
        e["metadata"]["name"]: e.get("count") or 1
        for e in world.api.list("v1", "Event")
        if e["involvedObject"].get("kind") in kinds
    }

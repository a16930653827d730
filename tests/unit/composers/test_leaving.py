"""A fleet tier leaves a deleted cluster in any order of reconciles, and frees its name."""

from collections.abc import Callable
from itertools import product

import pytest

from function.kube import objects
from tests.unit.composers import documents as d
from tests.unit.composers.plane import Composite, Plane, condition, key_of

HERE, THERE = "gpu", "gpu2"
FLEET = ("KVOffloadTier", "modelplane-system", "wide")
TURNS = 20


def fleet_on_both(agents: int) -> Plane:
    """A fleet tier on two clusters, of whose two agents so many are ready."""
    plane = Plane()
    for name in (HERE, THERE):
        declare(plane, name)
        plane.nodes[name] = (2, agents)
    document = d.tier("wide", clusterSelector={"matchLabels": {"fleet": "prod"}})
    del document["spec"]["inferenceClusterRef"]
    plane.composites[FLEET] = Composite(document)
    plane.settle(TURNS)
    assert children(plane) == {HERE, THERE}
    return plane


def declare(plane: Plane, name: str) -> None:
    """A cluster, or another one of that name."""
    cluster = d.cluster(name, provider_config=name)
    cluster["metadata"]["uid"] = plane.next_uid()
    plane.clusters[name] = cluster
    plane.lost.discard(name)


def children(plane: Plane) -> set[str]:
    return {
        it.document["spec"]["inferenceClusterRef"]["name"]
        for key, it in plane.composites.items()
        if key != FLEET
    }


def select(plane: Plane, value: str) -> None:
    spec = plane.composites[FLEET].document["spec"]
    spec["clusterSelector"] = {"matchLabels": {"fleet": value}}


def removed(plane: Plane) -> None:
    select(plane, "other")
    plane.composites[FLEET].document["spec"]["removal"] = "Remove"


def going(plane: Plane) -> list[str]:
    """What was told to go and did not."""
    found = [document for document in plane.documents() if "Timestamp" in str(document["metadata"])]
    return [*map(str, map(key_of, found)), *plane.going]


def look(plane: Plane) -> None:
    it = plane.composites[FLEET]
    plane.reconcile(it)


# Who does something next: the fleet tier's call, the garbage collectors, the provider.
MOVES: dict[str, Callable[[Plane], None]] = {
    "look": look,
    "collect": Plane.collect,
    "provide": Plane.provide,
}
ORDERS = list(product(MOVES, repeat=2))

Act = Callable[[Plane], None]


def deleted(*, foreground: bool) -> Act:
    return lambda plane: plane.unregister(THERE, foreground=foreground)


def declared_again(plane: Plane) -> None:
    if THERE not in plane.clusters:  # a name is taken until it is free
        declare(plane, THERE)


# name: (agents that are ready, what happens, what happens in the midst of it, does THERE stay?)
PROGRAMS: dict[str, tuple[int, Act, Act | None, bool]] = {
    "foreground": (2, deleted(foreground=True), None, False),
    "background": (2, deleted(foreground=False), None, False),
    "while it starts": (0, deleted(foreground=True), None, False),
    "declared again": (2, deleted(foreground=False), declared_again, True),
    "deleted in the foreground, declared again": (
        2, deleted(foreground=True), declared_again, True,
    ),
    "no longer selected, then deleted": (
        2, lambda plane: select(plane, "other"), deleted(foreground=True), False,
    ),
    "deleted, then no longer selected": (
        2, deleted(foreground=True), lambda plane: select(plane, "other"), False,
    ),
    "removed, then deleted": (2, removed, deleted(foreground=True), False),
    "deleted, then removed": (2, deleted(foreground=True), removed, False),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_fleet_tier_leaves_a_cluster_without_deadlock(name: str) -> None:
    agents, first, second, stays = PROGRAMS[name]
    for order in ORDERS:
        plane = fleet_on_both(agents)
        before = plane.clusters[THERE]["metadata"]["uid"]
        first(plane)
        for move in order:
            MOVES[move](plane)
        if second is not None:
            second(plane)
        plane.settle(TURNS)
        if stays and THERE not in plane.clusters:
            declare(plane, THERE)
            plane.settle(TURNS)
        assert going(plane) == [], order
        fleet = plane.composites[FLEET]
        emptied = fleet.document["spec"].get("removal") == "Remove"
        assert children(plane) == (set() if emptied else {HERE, *([THERE] if stays else [])})
        assert not any(key.startswith("hold-") for key in fleet.composed), order
        configs = {objects.provider_config(o) for o in plane.documents() if objects.is_object(o)}
        assert configs == children(plane)
        if stays:
            assert plane.clusters[THERE]["metadata"]["uid"] != before
            assert condition(fleet.document, "Ready")[0] == "True", order

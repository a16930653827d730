"""Every order of acts on the membership of a fleet: three clusters, a consumer on each.

Clusters match, match no longer, or are gone; `spec.removal` changes; consumers mark the child on
their cluster with a Usage, and leave; children that go take their time. The whole function answers
each call, so there is no copy of its rules. `tests/world/model.py` explores it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from tests.unit.composers import documents as d
from tests.unit.composers.calls import Document, call, observe
from tests.unit.composers.test_waves import SELECTOR

CLUSTERS = "abc"
IN_USE = {"crossplane.io/in-use": "true"}
# How a cluster is, and how its child is.
MATCHES, OTHER, NO_CLUSTER = "matches", "matches no longer", "is gone"
NO_CHILD, THERE, GOES = "", "there", "goes"


@dataclass(frozen=True)
class Fleet:
    """One state.

    `guards`: clusters whose ProviderConfig is guarded, as the provider has observed. `marked`: the
    fleet's own Usage protects it.
    """

    clusters: tuple[str, ...] = (MATCHES,) * 3
    children: tuple[str, ...] = (THERE,) * 3
    users: frozenset[int] = frozenset()
    guards: frozenset[int] = frozenset()
    marked: bool = False
    removes: bool = False


def _tier(*, removes: bool, marked: bool) -> Document:
    made = d.tier(**SELECTOR, removal="Remove" if removes else "Keep")
    made["metadata"]["labels"] = IN_USE if marked else {}
    return made


@lru_cache
def _composed() -> dict[str, Document]:
    """Return all that the fleet may compose, by key, as it is observed when it works."""
    every = [d.cluster(name) for name in CLUSTERS]
    found = observe(call(_tier(removes=True, marked=False), required={"clusters": every}))
    for child in found.values():
        child["metadata"]["ownerReferences"] = [{"uid": "uid-chat", "controller": True}]
        child["status"]["providerConfigRef"] = {"name": "gpu"}
    leaves = call(_tier(removes=True, marked=True), required={"clusters": []}, observed=found)
    return {**observe(leaves), **found}


def _child(number: int, *, used: bool = False, goes: bool = False) -> Document:
    child = _composed()[f"tier-{CLUSTERS[number]}"]
    metadata = {**child["metadata"]}
    if used:
        metadata["labels"] = metadata["labels"] | IN_USE
    if goes:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {**child, "metadata": metadata}


def _seen(fleet: Fleet) -> tuple[dict[str, Document], dict[str, list[Document]]]:
    """Return what the function observes, and what it gets of what it requires."""
    there = {
        n: _child(n, used=n in fleet.users) for n, it in enumerate(fleet.children) if it == THERE
    }
    going = [_child(n, goes=True) for n, it in enumerate(fleet.children) if it == GOES]
    seen = {f"tier-{CLUSTERS[n]}": child for n, child in there.items()}
    seen |= {f"hold-{CLUSTERS[n]}": _guard(n) for n in fleet.guards}
    if fleet.marked:
        seen["usage-fleet"] = _composed()["usage-fleet"]
    known = {n: d.cluster(CLUSTERS[n]) for n, it in enumerate(fleet.clusters) if it != NO_CLUSTER}
    required = {
        f"cluster/{name}": [known[n]] if n in known else [] for n, name in enumerate(CLUSTERS)
    }
    matching = [known[n] for n, it in enumerate(fleet.clusters) if it == MATCHES]
    required |= {"clusters": matching, "children": [*there.values(), *going]}
    return seen, required


def _guard(number: int) -> Document:
    guard = _composed()[f"hold-{CLUSTERS[number]}"]
    synced = {"type": "Synced", "status": "True", "reason": "ReconcileSuccess"}
    return {**guard, "status": {"conditions": [synced]}}


@lru_cache(maxsize=1 << 18)
def called(fleet: Fleet) -> Fleet:
    """Return the state after a call of the function, and after core has applied its answer."""
    seen, required = _seen(fleet)
    tier = _tier(removes=fleet.removes, marked=fleet.marked)
    got = call(tier, observed=seen, required=required)
    assert not got.fatals, got.fatals
    children = list(fleet.children)
    for n, name in enumerate(CLUSTERS):
        wanted, is_there = f"tier-{name}" in got.desired, children[n] == THERE
        if is_there and not wanted:
            kept = fleet.clusters[n] == OTHER and not fleet.removes
            assert n not in fleet.users, f"{name} is dropped, and it is used"
            assert not kept, f"{name} is dropped, and spec.removal is Keep"
            assert n in fleet.guards and fleet.marked, f"{name} goes without a guard"
            assert f"hold-{name}" in got.desired, f"{name} goes, and its guard with it"
            children[n] = GOES
        if children[n] == GOES:
            assert f"hold-{name}" in got.desired, f"the guard goes before {name}"
        if children[n] == NO_CHILD and wanted:
            assert fleet.clusters[n] == MATCHES, f"{name} gets a child, and does not match"
            children[n] = THERE
    guards = frozenset(n for n, name in enumerate(CLUSTERS) if f"hold-{name}" in got.desired)
    return replace(
        fleet, children=tuple(children), guards=guards, marked="usage-fleet" in got.desired
    )


# What must hold ---------------------------------------------------------------------------------


def all_go_in_the_end(fleet: Fleet, most: int) -> bool:
    """From every state: once nobody uses what is left, children are where clusters match."""
    here = replace(fleet, users=frozenset(), removes=True)
    for _ in range(12):
        gone = tuple(NO_CHILD if it == GOES else it for it in here.children)
        here = called(replace(here, children=gone))
    want = tuple(THERE if it == MATCHES else NO_CHILD for it in here.clusters)
    return here.children == want and not here.guards and not here.marked


def what_is_used_protects_the_fleet(fleet: Fleet, most: int) -> bool:
    """After a call, a fleet with a child in use has a Usage of its own."""
    return not fleet.users or called(fleet).marked


RULES: tuple[Callable[[Fleet, int], bool], ...] = (
    all_go_in_the_end,
    what_is_used_protects_the_fleet,
)


def acts(fleet: Fleet, most: int) -> Iterator[tuple[str, Any]]:
    """Yield everything that can happen next."""
    yield "call", called(fleet)
    yield "removal", replace(fleet, removes=not fleet.removes)
    for n, name in enumerate(CLUSTERS):
        for word in (MATCHES, OTHER, NO_CLUSTER):
            # One that is declared again is another cluster.
            if word != fleet.clusters[n] != NO_CLUSTER:
                clusters = (*fleet.clusters[:n], word, *fleet.clusters[n + 1 :])
                yield f"{name} {word}", replace(fleet, clusters=clusters)
        if fleet.children[n] == GOES:
            children = (*fleet.children[:n], NO_CHILD, *fleet.children[n + 1 :])
            yield f"{name} went", replace(fleet, children=children)
        if n in fleet.users:
            yield f"{name} is left", replace(fleet, users=fleet.users - {n})
        elif fleet.children[n] == THERE:
            yield f"{name} is used", replace(fleet, users=fleet.users | {n})

"""A tier's edit reaches running engines one after another, or not at all (spec.wiring)."""

import json
from collections.abc import Iterator

import pytest

from tests.cluster.documents import CONTAINER, USAGE, changed, requesting, tier
from tests.cluster.expect import Fleet, begun_and_done, engine, flag, identity, workload
from tests.cluster.rig.kube import Manifest

TURNS = tier("turns", wiring={"update": "Rolling", "maxUnavailable": 1})
PINNED = tier("pinned", wiring={"update": "Pinned"})
ROLLED = [requesting(f"turn-{name}", "turns") for name in "abc"]
STAYS = requesting("stays", "pinned")
NEW = 900  # of spec.startupTimeoutSeconds: how long an engine waits for its agent


@pytest.fixture(scope="module", autouse=True)
def running(world: Fleet, standin: None) -> Iterator[None]:
    documents = (TURNS, PINNED, *ROLLED, STAYS)
    with world.applied(*documents):
        for document in documents:
            world.until_ready(document, limit=60)
        yield


def waits(found: Manifest) -> int:
    """What the wiring of its pods says of the edit."""
    config = json.loads(flag(engine(found), "--kv-transfer-config"))
    return int(config["kv_connector_extra_config"]["lmcache.mp.mq_timeout"])


def until_seen(world: Fleet, document: Manifest) -> None:
    """It has seen the tier's edit: it keeps what it has, or has had its turn already."""

    def is_seen() -> bool:
        world.touch(document)
        is_behind = "It keeps wiring" in world.message(document, "KVOffloadReady")
        return is_behind or waits(workload(world, document)) == NEW

    explain = lambda: world.explain(document)  # noqa: E731
    name = document["metadata"]["name"]
    world.rig.until(is_seen, f"{name} has seen the edit", 30, every=1, explain=explain)
    assert world.condition(document, "KVOffloadReady") == ("True", "Wired")


def turns(world: Fleet) -> list[str]:
    """Who may move: the tier composes a Usage of itself for each; one that goes is no turn."""
    world.touch(TURNS)
    usages = world.composed(TURNS, USAGE, "Usage")
    found = [u["spec"]["reason"] for u in usages if "deletionTimestamp" not in u["metadata"]]
    return [reason for reason in found if "may move" in reason]


def unmark(world: Fleet, document: Manifest) -> None:
    """Delete a consumer's Usage by hand: it stays, deleted, until the engine goes."""
    (usage,) = world.composed(document, USAGE, "Usage")
    world.api.delete(usage)
    assert "deletionTimestamp" in world.get(usage)["metadata"]


def test_consumers_move_one_after_another(world: Fleet):
    unmark(world, ROLLED[1])
    world.api.apply(changed(TURNS, "spec.startupTimeoutSeconds", NEW))
    world.until_ready(TURNS, limit=60)
    for document in ROLLED:
        until_seen(world, document)
    seen: list[list[str]] = []

    def rolled() -> bool:
        seen.append(turns(world))
        for document in ROLLED:
            world.touch(document)
        return {waits(workload(world, document)) for document in ROLLED} == {NEW}

    explain = lambda: "\n".join([str(seen[-3:]), *map(world.explain, ROLLED)])  # noqa: E731
    world.rig.until(rolled, "all have the new wiring", 90, every=1, explain=explain)
    over = lambda: world.get(TURNS)["status"]["wiring"] == {"remaining": "0"}  # noqa: E731
    world.rig.until(over, "the roll is over", 60, every=1)
    assert turns(world) == []
    (usage,) = world.composed(ROLLED[1], USAGE, "Usage")
    assert "deletionTimestamp" in usage["metadata"]
    assert any(seen) and all(len(given) <= 1 for given in seen), seen
    # Who has seen the edit first goes first.
    times = sorted(begun_and_done(world, workload(world, document)) for document in ROLLED)
    flat = [time for pair in times for time in pair]
    assert flat == sorted(flat), f"each begins when the one before it is up: {times}"


def test_pinned_consumer_keeps_its_wiring(world: Fleet):
    before = identity(workload(world, STAYS))
    world.api.apply(changed(PINNED, "spec.startupTimeoutSeconds", NEW))
    world.until_ready(PINNED, limit=60)
    until_seen(world, STAYS)
    assert "when spec.wiring.update" in world.message(STAYS, "KVOffloadReady")
    assert identity(workload(world, STAYS)) == before
    # So it does where somebody replaces the composite, and with it the list of what it composes.
    world.api.patch(STAYS, {"spec": {"crossplane": {"resourceRefs": None}}})
    listed = lambda: world.get(STAYS)["spec"]["crossplane"].get("resourceRefs")  # noqa: E731
    world.rig.until(listed, "core composes it again")
    world.until_condition(STAYS, "KVOffloadReady", ("True", "Wired"))
    assert waits(workload(world, STAYS)) == 300
    assert identity(workload(world, STAYS)) == before
    # Its own edit rolls it, with the wiring that it had.
    args = [f"--model=some/{STAYS['metadata']['name']}", "--port=8000", "--max-num-seqs=8"]
    world.api.apply(changed(STAYS, f"spec.{CONTAINER}.args", args))
    world.rig.until(
        lambda: "--max-num-seqs=8" in engine(workload(world, STAYS))["args"], "it runs its edit"
    )
    assert waits(workload(world, STAYS)) == 300

"""Engines that ask for any tier get one for good, and leave wrong blocks behind in turns."""

import json
from collections.abc import Iterator

import pytest

from tests.cluster.documents import (
    CONTAINER,
    changed,
    in_process_tier,
    requesting,
    tier,
)
from tests.cluster.expect import Fleet, begun_and_done, engine, flag, identity, workload
from tests.cluster.observed import write
from tests.cluster.rig.kube import Manifest

AUTO = {"modelplane.ai/kv-offload-auto": "true"}
MODEL = "some/shared"
SPEC = {
    "observe": {"canary": {"onWrongBlocks": "Quarantine"}},
    "wiring": {"update": "Rolling", "maxUnavailable": 1},
}


def labelled(document: Manifest) -> Manifest:
    return document | {"metadata": document["metadata"] | {"labels": AUTO}}


GUARDED = labelled(tier("guarded", **SPEC))
# The first by name, had it been there in time.
EARLY = labelled(in_process_tier("early"))
ROLLED = [
    changed(requesting(f"guard-{name}", "auto"), f"spec.{CONTAINER}.args.0", f"--model={MODEL}")
    for name in "ab"
]


@pytest.fixture(scope="module", autouse=True)
def running(world: Fleet, standin: None) -> Iterator[None]:
    documents = (GUARDED, *ROLLED)
    with world.applied(*documents):
        for document in documents:
            world.until_ready(document, limit=60)
        yield


def key(world: Fleet, of: Manifest) -> str:
    """What stands behind the model's name in the key of its pods' blocks."""
    config = json.loads(flag(engine(workload(world, of)), "--kv-transfer-config"))
    return json.dumps(config["kv_connector_extra_config"], sort_keys=True)


def row(world: Fleet) -> tuple[int, bool] | None:
    rows = world.get(GUARDED)["status"].get("quarantine")
    return (rows[0]["number"], rows[0]["open"]) if rows else None


def until_row(world: Fleet, want: tuple[int, bool]) -> None:
    world.rig.until(lambda: row(world) == want, f"the quarantine is {want}", 30, every=1)


def test_a_tier_is_chosen_and_one_that_comes_later_moves_nothing(world: Fleet) -> None:
    for document in ROLLED:
        said = world.message(document, "KVOffloadReady")
        assert "Chosen by modelplane-system/auto" in said
        assert "tier modelplane-system/guarded:" in said
    before = [identity(workload(world, document)) for document in ROLLED]
    with world.applied(EARLY):
        world.until_ready(EARLY, limit=60)
        for document in ROLLED:
            world.touch(document)
            world.until_condition(document, "KVOffloadReady", ("True", "Wired"))
    assert [identity(workload(world, document)) for document in ROLLED] == before


def test_wrong_blocks_are_left_behind_in_turns(world: Fleet) -> None:
    write(world, GUARDED, "Hitting", model=MODEL)
    world.until_condition(GUARDED, "Serving", ("True", "Hitting"))
    assert row(world) is None
    before = [key(world, document) for document in ROLLED]
    write(world, GUARDED, "WrongBlocks", model=MODEL)
    world.until_condition(GUARDED, "Serving", ("False", "WrongBlocks"))
    until_row(world, (1, True))

    def moved() -> bool:
        world.touch(GUARDED)
        for document in ROLLED:
            world.touch(document)
        return not set(before) & {key(world, document) for document in ROLLED}

    explain = lambda: "\n".join(map(world.explain, ROLLED))  # noqa: E731
    world.rig.until(moved, "both have another identity", 90, every=1, explain=explain)
    over = lambda: world.get(GUARDED)["status"]["wiring"] == {"remaining": "0"}  # noqa: E731
    world.rig.until(over, "the roll is over", 60, every=1)
    assert len({key(world, document) for document in ROLLED}) == 1
    times = sorted(begun_and_done(world, workload(world, document)) for document in ROLLED)
    flat = [time for pair in times for time in pair]
    assert flat == sorted(flat), f"each begins when the one before it is up: {times}"


def test_one_accusation_moves_nothing_twice(world: Fleet) -> None:
    before = [identity(workload(world, document)) for document in ROLLED]
    write(world, GUARDED, "WrongBlocks", model=MODEL, hits="25")
    world.rig.until(
        lambda: world.get(GUARDED)["status"]["serving"].get("hits") == "25%+", "it is read", 30
    )
    assert row(world) == (1, True)
    write(world, GUARDED, "Hitting", model=MODEL)
    world.until_condition(GUARDED, "Serving", ("True", "Hitting"))
    until_row(world, (1, False))
    for document in ROLLED:
        world.touch(document)
        world.until_condition(document, "KVOffloadReady", ("True", "Wired"))
    assert [identity(workload(world, document)) for document in ROLLED] == before

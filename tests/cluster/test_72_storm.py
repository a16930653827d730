"""An act of one consumer wakes as few composites beside fifteen others as beside five.

Core 2.4 calls every composite that requires what has changed; on 2.3 nothing is watched, and this
is not run. Both events and calls must have grown to fail: who is woken costs one of each, a TTL
costs a call alone, and one run had 8 more events with 1 more call.
"""

from collections.abc import Iterator

import pytest

from tests.cluster.expect import Fleet
from tests.cluster.groups import Summary
from tests.cluster.storm import Storm

FEW, MORE = 5, 10
# Half of what waking each further consumer once would cost.
MOST_GROWTH = MORE // 2
ACTS = ("comes", "edits", "goes")
ROLLING = {"update": "Rolling", "maxUnavailable": 1}


@pytest.fixture(scope="module")
def storm(world: Fleet) -> Iterator[Storm]:
    storm = Storm(world, FEW)
    yield storm
    for consumer in storm.consumers.values():  # together: each waits for the provider's poll
        world.api.delete(consumer)
    for document in reversed(storm.documents()):
        world.remove(document, limit=120)


def test_one_consumers_acts_wake_neither_the_others_nor_the_tier(storm: Storm, summary: Summary):
    storm.act("a tier and consumers", lambda: storm.begin(range(FEW)))
    acts_of_one(storm, "few", 100)
    storm.act("more consumers", lambda: storm.come(*range(10, 10 + MORE)))
    acts_of_one(storm, "many", 200)
    counted = {act: (cost.events, cost.calls) for act, cost in storm.costs.items()}
    summary.note(f"events, calls beside {FEW} and {FEW + MORE} consumers of a tier: {counted}")
    for act in ACTS:
        many, few = storm.costs[f"many: {act}"], storm.costs[f"few: {act}"]
        assert min(many.events - few.events, many.calls - few.calls) <= MOST_GROWTH, counted
        assert many.tier_events <= 2, "a tier in use does not follow its Usages"
        assert many.opened == few.opened == 0


def test_one_consumers_edit_wakes_nobody_while_its_tier_is_rolling(storm: Storm, summary: Summary):
    storm.act("Rolling is set", lambda: storm.edit("spec.wiring", ROLLING))
    storm.act("edits, Rolling", lambda: storm.change(11))
    cost, plain = storm.costs["edits, Rolling"], storm.costs["many: edits"]
    summary.note(f"an edit of one of {FEW + MORE}: {cost}; without Rolling: {plain}")
    # It says that it moves, and then that it is done: 5 to 12 more calls of its own and its tier's.
    # Waking each of the 14 others once would add 14 to these.
    assert cost.calls - plain.calls <= FEW + MORE


def acts_of_one(storm: Storm, how_many: str, number: int) -> None:
    """A consumer comes, is edited and goes."""
    storm.act(f"{how_many}: comes", lambda: storm.come(number))
    storm.act(f"{how_many}: edits", lambda: storm.change(number))
    storm.act(f"{how_many}: goes", lambda: storm.go(number))

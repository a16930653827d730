"""Consumers of one tier change their cache identity: in every order they end wired, or say why not.

Each consumer sees the others through their Usages only, as they were after their last call.
"""

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.composers import documents as d
from tests.unit.composers.calls import Outcome, call, observe
from tests.unit.composers.conftest import by_string

Document = dict[str, Any]

KEY = "model-serving-main"
# What the author adds on the command line of an SGLang engine.
OLD: list[str] = []
NEW = ["--dtype=float16"]
OTHER = ["--dtype=bfloat16", "--kv-cache-dtype=fp8_e5m2"]
UNKNOWN = ["--revision=$(REVISION)"]  # of a Secret, say
TIER = d.ready_tier(allowedNamespaces={"from": "All"}, **d.BY_STRING)

WIRED, CONFLICT = ("True", "Wired"), ("False", "CacheIdentityConflict")
Said = tuple[tuple[str, str], list[str]]


@pytest.fixture(scope="module", autouse=True)
def keys_without_identity() -> Iterator[None]:
    """As of a backend whose keys have no place for it."""
    with by_string():
        yield


@dataclass
class Consumer:
    """One composite on its control plane. `parent`: the uid of what composes it."""

    name: str
    args: list[str] = field(default_factory=lambda: OLD)
    parent: str = ""
    tier: Document = field(default_factory=lambda: TIER)
    observed: dict[str, Document] = field(default_factory=dict)
    last: Outcome | None = None

    def reconcile(self, usages: Iterable[Document]) -> None:
        composite = d.replica(self.name)
        if self.parent:
            owner = {"kind": "ModelDeployment", "uid": self.parent, "controller": True}
            composite["metadata"]["ownerReferences"] = [owner]
        engine = d.engine_by_string(*self.args)
        secret = {"secretKeyRef": {"name": "model", "key": "revision"}}
        revision = {"name": "REVISION", "valueFrom": secret}
        d.wired_pod(engine)["spec"]["containers"][0]["env"] = [revision]
        self.last = call(
            composite,
            desired={KEY: engine},
            observed=self.observed,
            required=d.requirements(self.tier, users=tuple(usages)),
        )
        self.observed = observe(self.last)

    @property
    def usages(self) -> list[Document]:
        return [
            {**document, "metadata": {**document["metadata"], "namespace": "team-a"}}
            for key, document in self.observed.items()
            if key.startswith("usage-")
        ]

    @property
    def rows(self) -> list[list[Any]]:
        """What its Usage says that it shares."""
        text = [
            u["metadata"]["annotations"]["modelplane.ai/kv-offload-shares"] for u in self.usages
        ]
        return [row for each in text for row in json.loads(each)]

    @property
    def said(self) -> Said:
        """Its condition, and the engine's own words on its command line as it runs; [] unwired."""
        assert self.last is not None
        condition = self.last.conditions["KVOffloadReady"]
        if KEY not in self.observed:
            return condition, []
        container = d.wired_pod(self.observed[KEY])["spec"]["containers"][0]
        words = [*container["command"], *container["args"]]
        begin = words.index("--model-path") + 2
        return condition, words[begin : words.index("--enable-lmcache")]


def settle(consumers: list[Consumer], rounds: int = 4) -> None:
    """Reconcile all of them in this order, again and again."""
    for _ in range(rounds):
        for one in consumers:
            one.reconcile(u for other in consumers if other is not one for u in other.usages)


def running(*names: str, parent: str = "") -> list[Consumer]:
    """Consumers that are wired with the same identity."""
    found = [Consumer(name, parent=parent) for name in names]
    settle(found)
    assert [c.said for c in found] == [(WIRED, OLD)] * len(found)
    return found


def all_said(consumers: list[Consumer]) -> dict[str, Said]:
    return {c.name: c.said for c in consumers}


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
@pytest.mark.parametrize("parent", ["", "uid-parent"])
def test_what_changes_together_gets_there_in_any_order(parent: str, order: tuple[str, ...]) -> None:
    consumers = running("a", "b", "c", parent=parent)
    for one in consumers:
        one.args = NEW
    settle(sorted(consumers, key=lambda c: order.index(c.name)))
    assert all_said(consumers) == dict.fromkeys("abc", (WIRED, NEW))
    identities = {row[1] for c in consumers for row in c.rows}
    assert len(identities) == 1
    assert all(is_wired for c in consumers for *_, is_wired in c.rows)


def test_a_neighbour_that_goes_alone_waits_and_says_what_it_will_be() -> None:
    first, second = consumers = running("a", "b")
    old = first.rows[0][1]
    first.args = NEW
    settle(consumers)
    assert all_said(consumers) == {"a": (CONFLICT, OLD), "b": (WIRED, OLD)}
    assert "ModelReplica team-a/b" in first.last.messages["KVOffloadReady"]
    wanted = next(identity for _, identity, is_wired in first.rows if not is_wired)
    assert first.rows == sorted([[d.MODEL, old, True], [d.MODEL, wanted, False]])
    assert first.last.ttl == 10
    second.args = NEW
    settle(consumers)
    assert [c.rows for c in consumers] == [[[d.MODEL, wanted, True]]] * 2


def test_a_neighbour_that_gives_up_is_as_before() -> None:
    first, second = consumers = running("a", "b")
    before = first.rows
    first.args = NEW
    settle(consumers)
    first.args = OLD
    settle(consumers)
    assert all_said(consumers) == {"a": (WIRED, OLD), "b": (WIRED, OLD)}
    assert [first.rows, second.rows] == [before, before]


def test_neighbours_that_contradict_each_other_stay_as_they_run() -> None:
    first, second = consumers = running("a", "b")
    first.args, second.args = NEW, OTHER
    settle(consumers)
    assert all_said(consumers) == {"a": (CONFLICT, OLD), "b": (CONFLICT, OLD)}


def test_a_newcomer_is_compared_with_what_runs_and_with_what_will() -> None:
    consumers = running("a", "b")
    consumers[0].args = NEW
    settle(consumers)
    old, new = Consumer("c"), Consumer("d", args=NEW)
    settle([*consumers, old, new])
    assert old.said == (WIRED, OLD)
    assert new.said == (CONFLICT, [])


def test_one_of_a_parents_replicas_goes_first_and_all_say_so_until_they_are_alike() -> None:
    first, second = consumers = running("a", "b", parent="uid-parent")
    first.args = NEW
    settle(consumers)
    assert all_said(consumers) == {"a": (CONFLICT, NEW), "b": (CONFLICT, OLD)}
    for one, other in (consumers, consumers[::-1]):
        message = one.last.messages["KVOffloadReady"]
        assert f"ModelReplica team-a/{other.name} of the same parent" in message
        assert one.last.ttl == 10
    second.args = NEW
    settle(consumers)
    assert all_said(consumers) == {"a": (WIRED, NEW), "b": (WIRED, NEW)}


def test_a_parent_may_change_its_mind_in_the_middle() -> None:
    first, second = consumers = running("a", "b", parent="uid-parent")
    first.args = NEW
    settle(consumers)
    first.args = OTHER
    settle(consumers)
    assert first.said == (CONFLICT, OTHER)
    second.args = OTHER
    settle(consumers)
    assert all_said(consumers) == {"a": (WIRED, OTHER), "b": (WIRED, OTHER)}


def test_a_parent_scales_up_in_the_same_edit() -> None:
    consumers = running("a", "b", parent="uid-parent")
    for one in consumers:
        one.args = NEW
    third = Consumer("c", args=NEW, parent="uid-parent")
    settle([third, *consumers])
    assert all_said([*consumers, third]) == dict.fromkeys("abc", (WIRED, NEW))


def test_a_new_child_of_another_template_is_not_let_in_for_its_parents_sake() -> None:
    consumers = running("a", "b", parent="uid-parent")
    third = Consumer("c", args=NEW, parent="uid-parent")
    settle([*consumers, third])
    assert third.said == (CONFLICT, [])
    assert all_said(consumers) == {"a": (WIRED, OLD), "b": (WIRED, OLD)}


def test_children_of_two_parents_are_neighbours() -> None:
    (first,) = running("a", parent="uid-parent")
    second = Consumer("b", parent="uid-other-parent")
    settle([first, second])
    first.args = NEW
    settle([first, second])
    assert first.said == (CONFLICT, OLD)


def test_a_parents_uid_counts_in_its_namespace_only() -> None:
    """It is no secret: a stranger's Usage that names it makes nobody a sibling."""
    first, second = running("a", "b", parent="uid-parent")
    said = {"namespace": "team-b", "kind": "ModelReplica", "name": "z", "owner": "uid-parent"}
    (stranger,) = second.usages
    annotations = {
        **stranger["metadata"]["annotations"],
        "modelplane.ai/kv-offload-consumer": json.dumps(said),
    }
    metadata = {**stranger["metadata"], "namespace": "team-b", "annotations": annotations}
    first.args = NEW
    first.reconcile([{**stranger, "metadata": metadata}])
    assert first.said == (CONFLICT, OLD)


def test_an_identity_that_cannot_be_known_waits_even_among_siblings() -> None:
    consumers = running("a", "b", parent="uid-parent")
    for one in consumers:
        one.args = UNKNOWN
    settle(consumers)
    assert all_said(consumers) == {"a": (CONFLICT, OLD), "b": (CONFLICT, OLD)}


def test_two_that_were_wired_at_once_say_that_they_are_mixed_up() -> None:
    """Neither saw the other's Usage: what runs stays, and is called what it is."""
    first, second = Consumer("a"), Consumer("b", args=NEW)
    first.reconcile([])
    second.reconcile([])
    assert [first.said, second.said] == [(WIRED, OLD), (WIRED, NEW)]
    settle([first, second])
    assert [first.said, second.said] == [(CONFLICT, OLD), (CONFLICT, NEW)]


def test_an_edit_that_waits_for_its_tier_is_marked_as_what_runs() -> None:
    (first,) = running("a")
    before = first.rows
    first.args, first.tier = NEW, d.unready_tier(**d.BY_STRING)
    settle([first])
    assert first.said == (("False", "TierNotReady"), OLD)
    assert first.rows == before
    first.tier = TIER
    settle([first])
    assert first.said == (WIRED, NEW)


_EDITS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([None, OLD, NEW, OTHER])), max_size=8
)


@settings(max_examples=40, deadline=None)
@given(_EDITS, st.sampled_from([(), ("a", "b"), ("a", "b", "c")]))
def test_whatever_is_edited_in_whatever_order(
    edits: list[tuple[str, list[str] | None]], siblings: tuple[str, ...]
) -> None:
    """Nobody says that all is well while it is mixed up, and who agrees at last is wired."""
    consumers = {n: Consumer(n, parent="uid-parent" if n in siblings else "") for n in "abc"}
    settle(list(consumers.values()))

    def others(name: str) -> list[Document]:
        return [u for n, other in consumers.items() if n != name for u in other.usages]

    for name, args in edits:  # None: core looks once more
        consumers[name].args = consumers[name].args if args is None else args
        consumers[name].reconcile(others(name))
    settle(list(consumers.values()))
    fine = [consumer.said for consumer in consumers.values() if consumer.said[0] == WIRED]
    assert len({str(args) for _, args in fine}) <= 1
    for consumer in consumers.values():
        consumer.args = NEW
    settle(list(consumers.values()))
    assert all_said(list(consumers.values())) == dict.fromkeys("abc", (WIRED, NEW))


def test_a_model_string_that_cannot_be_seen_is_refused() -> None:
    """Also alone, and whatever is declared: blocks are told apart by that string."""
    engine = d.engine_by_string()
    pod = d.wired_pod(engine)
    pod["metadata"]["annotations"] |= {"modelplane.ai/kv-offload-cache-identity": "mine"}
    container = pod["spec"]["containers"][0]
    container["command"][-1] = "$(MODEL)"
    secret = {"secretKeyRef": {"name": "model", "key": "path"}}
    container["env"] = [{"name": "MODEL", "valueFrom": secret}]
    got = call(d.replica(), desired={KEY: engine}, required=d.requirements(TIER, model=""))
    assert got.conditions["KVOffloadReady"] == CONFLICT
    assert "known only at run time" in got.messages["KVOffloadReady"]
    assert got.desired == {}

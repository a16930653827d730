"""An edit of a fleet tier reaches its clusters in turns: what each child is composed with."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from function import names
from function.api.tier import RolloutStrategy, Wave
from function.composers import waves
from function.composers.waves import FleetCluster
from tests.unit.composers import documents as d
from tests.unit.composers.calls import Document, Outcome, call

SELECTOR = {"inferenceClusterRef": None, "clusterSelector": {"matchLabels": {"fleet": "prod"}}}
GOOD = {"type": "Ready", "status": "True", "reason": "Available"}
BAD = {"type": "Ready", "status": "False", "reason": "Creating"}
NEW_YEAR = 1767225600.0  # 2026-01-01T00:00:00Z


def said(kind: str, status: str, reason: str) -> Document:
    at = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {"type": kind, "status": status, "reason": reason, "message": "m", **at}


# What a child's conditions say, by a word.
VERDICTS: dict[str, list[Document]] = {
    "works": [GOOD, said("AgentsReady", "True", "Ready")],
    "starts": [BAD, said("AgentsReady", "False", "Starting")],
    "updates": [GOOD, said("AgentsReady", "True", "Updating")],
    "stalls": [GOOD, said("AgentsReady", "True", "UpdateTimedOut")],
    "fails": [BAD, said("AgentsReady", "False", "StartTimedOut")],
    "refuses": [GOOD, said("Accepted", "False", "Invalid")],
    "denied": [BAD, said("ControlPlaneReady", "False", "NotApplied")],
    "unseen": [BAD, said("AgentsReady", "Unknown", "NotObserved")],
    "misses": [GOOD, said("Serving", "False", "Silent")],
    "idles": [GOOD, said("Serving", "Unknown", "Idle")],
}


@dataclass
class World:
    """A fleet's children as core stores them, and clusters that answer for them.

    `says`: {(cluster, the image tag that its child carries): a word of VERDICTS}; what is not
    listed works. `seen`: what the last call was shown.
    """

    clusters: dict[str, dict[str, str]]
    rollout: Document | None = None
    says: dict[tuple[str, str], str] = field(default_factory=dict)
    tag: str = "v1"
    children: dict[str, Document] = field(default_factory=dict)
    status: Document = field(default_factory=dict)
    now: float = NEW_YEAR
    got: Outcome | None = None
    overrides: list[Document] = field(default_factory=list)

    def fleet(self) -> Document:
        made = d.tier(**SELECTOR, image={"tag": self.tag, "version": "0.5.6"})
        made["spec"] |= {"rollout": self.rollout} if self.rollout is not None else {}
        made["spec"] |= {"clusterOverrides": deepcopy(self.overrides)} if self.overrides else {}
        return {**made, "status": deepcopy(self.status)}

    def required(self) -> dict[str, list[Document]]:
        found = []
        for name, labels in self.clusters.items():
            cluster = d.cluster(name)
            cluster["metadata"] |= {"labels": {"fleet": "prod", **labels}, "uid": f"uid-{name}"}
            found.append(cluster)
        return {"clusters": found}

    def ask(self, **required: Any) -> Outcome:
        asked = required.get("required", self.required())
        return call(self.fleet(), required=asked, observed=self.children, now=self.now)

    def step(self) -> str:
        """One call; what core applies; what the children then say. Return who carries what."""
        self.got = got = self.ask()
        assert not got.fatals
        stamped = {key: it for key, it in got.desired.items() if it["kind"] == "KVOffloadTier"}
        for key, desired in stamped.items():
            before = self.children.get(key, {"metadata": {"generation": 0}})
            generation = before["metadata"]["generation"]
            generation += before.get("spec") != desired["spec"]
            desired = deepcopy(desired)  # what was decoded is shared
            metadata = {**desired["metadata"], "name": f"composed-{key}", "generation": generation}
            self.children[key] = {**desired, "metadata": metadata}
            self.children[key]["status"] = before.get("status", {})
        self.children = {key: self.children[key] for key in stamped}
        self.status = {**got.status, "conditions": []}
        carried = self.carried()
        self.answer()
        return carried

    def answer(self) -> None:
        """Each child is reconciled; one that refuses its spec keeps its status."""
        for key, child in self.children.items():
            word = self.says.get((key.removeprefix("tier-"), tag_of(child)), "works")
            generation = child["metadata"]["generation"]
            seen = child["status"].get("observedGeneration") if word == "refuses" else generation
            synced = {"type": "Synced", "status": "True", "reason": "ReconcileSuccess"}
            if word == "refuses":
                synced |= {"status": "False", "observedGeneration": generation}
            child["status"] = {"observedGeneration": seen, "conditions": [*VERDICTS[word], synced]}

    def carried(self) -> str:
        rows = sorted(self.children.items())
        return " ".join(f"{key.removeprefix('tier-')}={tag_of(child)}" for key, child in rows)

    def edited(self) -> set[str]:
        """Return the clusters whose child has the override of a test."""
        field = "startupTimeoutSeconds"
        return {k.removeprefix("tier-") for k, it in self.children.items() if it["spec"].get(field)}

    def state(self) -> tuple[str, int, int]:
        rollout = self.status["rollout"]
        return rollout["state"], rollout["wave"], rollout["updated"]

    def steps(self, number: int) -> list[str]:
        return [self.step() for _ in range(number)]


def tag_of(child: Document) -> str:
    return str(child["spec"]["image"]["tag"])


def fleet(names: str = "abcd", **fields: Any) -> World:
    """A fleet that runs v1 on clusters of one letter."""
    made = World({name: {} for name in names}, **fields)
    made.steps(2)
    assert made.state() == ("Done", made.status["rollout"]["waves"], len(names))
    return made


def test_new_fleet_is_stamped_at_once() -> None:
    world = World({name: {} for name in "abcd"})
    assert world.step() == "a=v1 b=v1 c=v1 d=v1"
    assert world.state() == ("Progressing", 2, 0)
    world.step()
    assert world.state() == ("Done", 2, 4)


def test_fleet_without_clusters_is_not_rolled_out() -> None:
    got = World({}).ask()
    assert got.conditions["RolledOut"] == ("False", "NoMatchingClusters")
    assert "rollout" not in got.status


def test_tier_that_was_a_fleet_needs_no_roll_out() -> None:
    tier = {**d.tier(), "status": {"conditions": [said("RolledOut", "False", "Halted")]}}
    got = call(tier, required={"cluster": [d.cluster()]})
    assert got.conditions["RolledOut"] == ("True", "NoneNeeded")
    assert "RolledOut" not in call(d.tier(), required={"cluster": [d.cluster()]}).conditions


def test_edit_reaches_one_cluster_then_a_quarter_at_a_time() -> None:
    world = fleet("abcdefgh")
    world.tag = "v2"
    assert world.steps(6) == [
        "a=v2 b=v1 c=v1 d=v1 e=v1 f=v1 g=v1 h=v1",
        "a=v2 b=v2 c=v2 d=v1 e=v1 f=v1 g=v1 h=v1",
        "a=v2 b=v2 c=v2 d=v2 e=v2 f=v1 g=v1 h=v1",
        "a=v2 b=v2 c=v2 d=v2 e=v2 f=v2 g=v2 h=v1",
        "a=v2 b=v2 c=v2 d=v2 e=v2 f=v2 g=v2 h=v2",
        "a=v2 b=v2 c=v2 d=v2 e=v2 f=v2 g=v2 h=v2",
    ]
    assert world.state() == ("Done", 2, 8)
    assert world.got is not None and world.got.conditions["RolledOut"] == ("True", "Done")


# What the first cluster says of the edit: does the fleet go on, what does it say meanwhile?
FIRST = {
    "works": (True, "Progressing"),
    "starts": (False, "Progressing"),
    "updates": (False, "Progressing"),
    "stalls": (False, "Halted"),
    "fails": (False, "Halted"),
    "refuses": (False, "Halted"),
    "denied": (False, "Halted"),
    "unseen": (False, "Halted"),
    "misses": (False, "Halted"),
    "idles": (True, "Progressing"),
}


OLD = [FleetCluster(name, {}, exists=True, ready=True, revision="old") for name in ("a", "c", "d")]
EVERYWHERE = RolloutStrategy.model_construct(max_unavailable="100%")


def test_cluster_that_has_the_edit_fills_the_first_wave() -> None:
    """It is ready, for too short a time: no second cluster goes first meanwhile."""
    odd = FleetCluster("a", {}, exists=True, ready=True, revision="odd")
    there = FleetCluster("b", {}, exists=True, ready=True, updated=True, revision="new")
    decision = waves.decide([odd, there, *OLD[1:]], EVERYWHERE)
    assert (decision.turns, decision.waiting) == (frozenset(), ("b",))


def test_edit_goes_first_where_the_one_before_has_been() -> None:
    ahead = FleetCluster("e", {}, exists=True, ready=True, revision="newer")
    assert waves.decide([*OLD, ahead], EVERYWHERE).turns == {"e"}


@pytest.mark.parametrize("word", FIRST)
def test_first_cluster_decides_for_the_others(word: str) -> None:
    goes_on, state = FIRST[word]
    world = fleet(says={("a", "v2"): word})
    world.tag = "v2"
    assert world.step() == "a=v2 b=v1 c=v1 d=v1"
    assert world.steps(3)[-1] == ("a=v2 b=v2 c=v2 d=v2" if goes_on else "a=v2 b=v1 c=v1 d=v1")
    assert world.state()[0] == state
    if not goes_on:
        assert world.got is not None
        assert world.got.conditions["RolledOut"] == ("False", state)
        assert " a (" in world.got.messages["RolledOut"]
        assert (world.status["rollout"]["waiting"], world.got.ttl) == (["a"], 10)


def test_halt_says_who_and_what_to_type() -> None:
    world = fleet(says={("a", "v2"): "fails"})
    world.tag = "v2"
    world.steps(2)
    assert world.got is not None
    revision = world.status["rollout"]["revision"]
    assert world.got.messages["RolledOut"] == (
        f"1 of 4 clusters have revision {revision} (wave 1 of 2). Halted by a (StartTimedOut); the"
        " other clusters keep their revision. kubectl describe kvot -n modelplane-system"
        " chat-a-3c1b418850 says why. It goes on when that tier is ready. Correct the edit or set"
        " it back; or take the cluster out of the fleet: remove a label of spec.clusterSelector"
        " from its InferenceCluster (what runs there stays; see spec.removal)."
    )


def test_stale_status_of_the_first_cluster_is_no_success() -> None:
    """Between the edit of a child and its own reconcile its conditions speak of the old spec."""
    world = fleet()
    world.tag = "v2"
    world.step()
    world.children["tier-a"]["status"]["observedGeneration"] = 1
    assert world.ask().desired.keys() == world.children.keys()
    assert world.step() == "a=v2 b=v1 c=v1 d=v1"
    assert world.step() == "a=v2 b=v2 c=v1 d=v1"


def test_conditions_of_the_spec_before_are_no_success() -> None:
    """Core writes a status's fields first, and calls the fleet; its conditions only then."""
    world = fleet()
    world.tag = "v2"
    world.step()
    status = world.children["tier-a"]["status"]
    status["conditions"] = [{**it, "observedGeneration": 1} for it in status["conditions"]]
    assert world.step() == "a=v2 b=v1 c=v1 d=v1"
    assert world.step() == "a=v2 b=v2 c=v1 d=v1"


def stale(child: Document, word: str) -> None:
    """The child has not judged its spec yet: what it says is of the one before."""
    before = child["metadata"]["generation"] - 1
    synced = {"type": "Synced", "status": "True", "observedGeneration": before}
    child["status"] = {"observedGeneration": before, "conditions": [*VERDICTS[word], synced]}


def test_stale_failure_of_a_cluster_that_takes_the_edit_skips_it_not() -> None:
    """It was broken before and may be repaired: nobody else takes the edit until it has judged."""
    world = fleet()
    world.says["a", "v1"] = "fails"
    world.answer()
    world.tag = "v2"
    assert world.step() == "a=v2 b=v1 c=v1 d=v1"
    stale(world.children["tier-a"], "fails")
    got = world.ask()
    assert tag_of(got.desired["tier-b"]) == "v1"
    assert "Waiting for a (not judged yet)." in got.messages["RolledOut"]


def test_mark_of_an_earlier_revision_excuses_nobody() -> None:
    world = fleet(says={("a", "v2"): "fails"})
    world.tag = "v2"
    world.step()
    world.children["tier-a"]["metadata"].setdefault("annotations", {})[names.ANNOTATION_UNREADY] = (
        "earlier"
    )
    assert world.steps(2)[-1] == "a=v2 b=v1 c=v1 d=v1"
    assert world.state()[0] == "Halted"


def test_engines_that_still_move_keep_a_wave_open() -> None:
    world = fleet()
    world.tag = "v2"
    world.step()
    for wiring, carried in (
        ({"remaining": "2+"}, "a=v2 b=v1 c=v1 d=v1"),
        ({"remaining": "2+", "waitsFor": "Replica/x/y"}, "a=v2 b=v1 c=v1 d=v1"),
        ({"remaining": "0"}, "a=v2 b=v2 c=v1 d=v1"),
    ):
        world.children["tier-a"]["status"]["wiring"] = wiring
        assert world.step() == carried
        said = "its engines move to the new wiring, and wait for Replica/x/y"
        assert world.got is not None
        assert (said in str(world.got.messages)) == ("waitsFor" in wiring)


def test_answer_depends_on_what_the_children_show() -> None:
    """So a function that restarts goes on: nothing is remembered."""
    world = fleet()
    world.tag = "v2"
    for _ in range(5):
        first, again = world.ask(), world.ask()
        assert first == again
        world.step()


def test_newer_edit_begins_with_one_cluster_again() -> None:
    world = fleet("abcdefgh", says={("b", "v2"): "starts"})
    world.tag = "v2"
    world.steps(2)
    world.tag = "v3"
    assert world.steps(3) == [
        "a=v2 b=v3 c=v2 d=v1 e=v1 f=v1 g=v1 h=v1",  # the one that is not ready comes first
        "a=v3 b=v3 c=v3 d=v1 e=v1 f=v1 g=v1 h=v1",
        "a=v3 b=v3 c=v3 d=v3 e=v3 f=v1 g=v1 h=v1",
    ]


def test_fix_reaches_the_broken_cluster_first() -> None:
    world = fleet(says={("b", "v2"): "fails"})
    world.tag = "v2"
    assert world.steps(3)[-1] == "a=v2 b=v2 c=v1 d=v1"
    world.tag = "v3"
    assert world.steps(2) == ["a=v2 b=v3 c=v1 d=v1", "a=v3 b=v3 c=v1 d=v1"]


def _bad_edit(world: World) -> None:
    world.says |= {(cluster, "v2"): "fails" for cluster in "abcdefgh"}
    world.tag = "v2"
    world.steps(2)


def _set_back(world: World) -> None:
    """A bad edit is set back, and its cluster is not well again."""
    _bad_edit(world)
    world.says["a", "v1"] = "starts"
    world.tag = "v1"
    world.steps(2)


def _set_back_at_once(world: World) -> None:
    """An edit with which a cluster works is set back, and it does not come up again."""
    world.tag = "v2"
    world.step()
    world.says["a", "v1"] = "denied"
    world.tag = "v1"
    world.steps(2)


def _relabel(world: World) -> None:
    """A label gives a cluster an override of the same revision, with which it does not work."""
    world.says["a", "v1"] = "fails"
    world.clusters["a"] = {"big": "yes"}
    world.steps(3)


# What has made a cluster unready when a bad edit comes.
@pytest.mark.parametrize("before", [_bad_edit, _set_back, _set_back_at_once, _relabel])
@pytest.mark.parametrize("names", ["abcd", "abcdefgh"])
def test_second_bad_edit_breaks_no_second_cluster(
    names: str, before: Callable[[World], None]
) -> None:
    big = {"matchLabels": {"big": "yes"}, "spec": {"startupTimeoutSeconds": 900}}
    world = fleet(names, overrides=[big])
    before(world)
    assert world.carried().count("v1") >= len(names) - 1
    world.says |= {(cluster, "v3"): "fails" for cluster in names}
    world.tag = "v3"
    world.steps(8)
    assert world.carried() == " ".join(f"{it}={'v3' if it == 'a' else 'v1'}" for it in names)
    assert world.state() == ("Halted", 1, 0)


def test_cluster_that_works_again_after_an_edit_is_excused_like_the_others() -> None:
    """The mark goes when it works; what it does later was no edit."""
    world = fleet("abc")
    _set_back(world)
    assert names.ANNOTATION_UNPROVEN in world.children["tier-a"]["metadata"]["annotations"]
    del world.says["a", "v1"]
    world.answer()
    world.steps(2)
    assert names.ANNOTATION_UNPROVEN not in str(world.children)
    world.says = {("a", tag): "fails" for tag in ("v1", "v3")}
    world.answer()
    world.tag = "v3"
    assert world.steps(4)[-1] == "a=v3 b=v3 c=v3"


def test_edit_goes_where_the_last_one_was_set_back_before_the_first_wave() -> None:
    """The first wave is of another cluster, which a bad edit would break too."""
    world = fleet(rollout={"waves": [{"matchLabels": {"ring": "canary"}}]})
    _set_back(world)
    world.says["a", "v1"] = "fails"
    world.answer()
    world.clusters["b"] = {"ring": "canary"}
    world.says |= {(cluster, "v3"): "fails" for cluster in "abcd"}
    world.tag = "v3"
    assert world.steps(6)[-1] == "a=v3 b=v1 c=v1 d=v1"


def test_next_bad_edit_is_asked_of_the_broken_cluster_before_the_first_wave() -> None:
    """There is room for two, and the first wave is of another cluster."""
    world = fleet("abcdefgh", rollout={"waves": [{"matchLabels": {"ring": "canary"}}]})
    world.clusters["b"] = {"ring": "canary"}
    world.says = {("a", "v2"): "fails"}
    world.tag = "v2"
    world.steps(4)
    assert world.carried().startswith("a=v2 b=v2 ") and world.state()[0] == "Halted"
    world.says |= {(cluster, "v3"): "starts" for cluster in "abcdefgh"}
    world.tag = "v3"
    assert {it[:9] for it in world.steps(4)} == {"a=v3 b=v2"}
    world.says |= {(cluster, "v3"): "fails" for cluster in "abcdefgh"}
    world.answer()
    assert "b=v3" not in world.steps(3)[-1] and world.state()[0] == "Halted"
    world.says = {}
    world.answer()
    assert world.steps(8)[-1] == " ".join(f"{it}=v3" for it in "abcdefgh")


def test_mark_of_a_cluster_that_waits_for_the_next_edit_goes_when_it_works() -> None:
    world = fleet("ab", says={("a", "v2"): "starts"})
    world.tag = "v2"
    world.steps(2)
    world.rollout, world.tag = {"paused": True}, "v3"
    world.step()
    assert names.ANNOTATION_UNPROVEN in world.children["tier-a"]["metadata"]["annotations"]
    world.says = {}
    world.answer()
    assert world.steps(2)[-1] == "a=v2 b=v1"
    assert names.ANNOTATION_UNPROVEN not in str(world.children)


@pytest.mark.parametrize(("fails", "clusters"), [("a", "a"), ("b", "ab"), ("d", "abcd")])
def test_edit_that_fails_on_the_last_cluster_is_halted(fails: str, clusters: str) -> None:
    world = fleet(clusters, says={(fails, "v2"): "fails"}, rollout={"maxUnavailable": "100%"})
    world.tag = "v2"
    world.steps(6)
    assert world.state()[0] == "Halted" and world.got is not None
    said = world.got.messages["RolledOut"]
    assert f"Halted by {fails} (StartTimedOut). kubectl describe" in said


def test_new_fleet_is_not_rolled_out_while_clusters_have_never_worked() -> None:
    world = World({name: {} for name in "abc"}, says={(name, "v1"): "fails" for name in "bc"})
    world.steps(4)
    assert world.state() == ("Progressing", 2, 1)
    assert world.status["rollout"]["waiting"] == ["b", "c"]


def test_edit_of_no_cluster_is_not_halted_by_what_died_before() -> None:
    world = fleet("ab")
    world.says = {(name, "v1"): "fails" for name in "ab"}
    world.answer()
    world.overrides = [{"matchLabels": {"no": "one"}, "spec": {"startupTimeoutSeconds": 900}}]
    world.steps(3)
    assert world.status["rollout"]["state"] == "Progressing"


def test_cluster_that_an_edit_broke_is_no_success_when_it_is_back() -> None:
    """It was taken out of the fleet, as the halt advises."""
    world = fleet(says={("a", "v2"): "fails"})
    world.tag = "v2"
    world.steps(3)
    out = world.clusters.pop("a")
    assert world.steps(5)[-1] == "a=v2 b=v2 c=v2 d=v2" and world.state()[0] == "Done"
    world.clusters["a"] = out
    world.steps(2)
    assert world.state()[0] == "Halted" and world.status["rollout"]["waiting"] == ["a"]


def test_cluster_that_joins_and_never_works_leaves_the_others_excused() -> None:
    """The last edit was of one cluster alone; its nodes die later, by no edit."""
    world = fleet(
        overrides=[{"matchLabels": {"big": "yes"}, "spec": {"startupTimeoutSeconds": 900}}]
    )
    world.clusters["a"] = {"big": "yes"}
    world.steps(3)
    world.overrides[0]["spec"] = {"startupTimeoutSeconds": 950}
    world.steps(3)
    world.says = {(cluster, tag): "fails" for cluster in "ae" for tag in ("v1", "v2")}
    world.says["a", "v1"] = "works"
    world.clusters["e"] = {}
    world.steps(3)
    assert world.state()[0] == "Done"
    world.says["a", "v1"] = "fails"
    world.answer()
    world.steps(2)
    world.tag = "v2"
    assert world.steps(8)[-1] == "a=v2 b=v2 c=v2 d=v2 e=v2" and world.state()[0] == "Done"


def test_cluster_that_was_broken_before_does_not_block_an_edit() -> None:
    world = fleet()
    world.says = {("c", "v1"): "fails", ("c", "v2"): "fails"}
    world.answer()
    world.tag = "v2"
    assert world.steps(6) == [
        "a=v1 b=v1 c=v2 d=v1",  # it may be what repairs it
        "a=v2 b=v1 c=v2 d=v1",  # it is not, and proves nothing
        "a=v2 b=v2 c=v2 d=v1",
        "a=v2 b=v2 c=v2 d=v2",
        "a=v2 b=v2 c=v2 d=v2",
        "a=v2 b=v2 c=v2 d=v2",
    ]


def test_what_the_edit_breaks_halts_beside_what_was_broken() -> None:
    world = fleet()
    world.says = {("c", "v1"): "fails", ("c", "v2"): "fails", ("a", "v2"): "fails"}
    world.answer()
    world.tag = "v2"
    assert world.steps(4)[-1] == "a=v2 b=v1 c=v2 d=v1"
    assert world.state()[0] == "Halted"
    assert world.status["rollout"]["waiting"] == ["a"]


def test_fleet_that_is_broken_everywhere_is_repaired_in_turns() -> None:
    world = fleet()
    world.says = {(name, "v1"): "fails" for name in "abcd"}
    world.answer()
    world.tag = "v2"
    assert world.steps(4) == [
        "a=v2 b=v1 c=v1 d=v1",
        "a=v2 b=v2 c=v1 d=v1",
        "a=v2 b=v2 c=v2 d=v1",
        "a=v2 b=v2 c=v2 d=v2",
    ]


def test_cluster_that_nobody_sees_takes_the_edit_last() -> None:
    world = fleet()
    world.says = {("a", "v1"): "unseen", ("a", "v2"): "unseen"}
    world.answer()
    world.tag = "v2"
    assert world.steps(5) == [
        "a=v1 b=v2 c=v1 d=v1",
        "a=v1 b=v2 c=v2 d=v1",
        "a=v1 b=v2 c=v2 d=v2",
        "a=v2 b=v2 c=v2 d=v2",
        "a=v2 b=v2 c=v2 d=v2",
    ]


def test_nothing_moves_while_no_cluster_is_seen() -> None:
    """An outage of the provider is no reason to edit all clusters at once."""
    world = fleet()
    world.says = {(name, tag): "unseen" for name in "abcd" for tag in ("v1", "v2")}
    world.answer()
    world.tag = "v2"
    assert world.steps(3) == ["a=v1 b=v1 c=v1 d=v1"] * 3
    assert world.state() == ("Halted", 1, 0)
    world.says = {}
    world.answer()
    assert world.step() == "a=v2 b=v1 c=v1 d=v1"


def test_cluster_lost_in_the_middle_of_a_wave_halts_until_it_is_back_or_gone() -> None:
    for back in (True, False):
        world = fleet(says={("b", "v2"): "unseen"})
        world.tag = "v2"
        assert world.steps(3)[1:] == ["a=v2 b=v2 c=v1 d=v1"] * 2
        assert world.state() == ("Halted", 2, 1)
        if back:
            world.says = {}
            world.answer()
        else:
            del world.clusters["b"]
        assert world.steps(2)[-1].endswith("c=v2 d=v2")


def test_rollback_touches_only_what_was_updated() -> None:
    world = fleet("abcdefgh")
    world.tag = "v2"
    assert world.steps(2)[-1] == "a=v2 b=v2 c=v2 d=v1 e=v1 f=v1 g=v1 h=v1"
    generations = {key: it["metadata"]["generation"] for key, it in world.children.items()}
    world.tag = "v1"
    assert world.steps(2) == [
        "a=v1 b=v1 c=v2 d=v1 e=v1 f=v1 g=v1 h=v1",
        "a=v1 b=v1 c=v1 d=v1 e=v1 f=v1 g=v1 h=v1",
    ]
    for key, it in world.children.items():
        assert it["metadata"]["generation"] - generations[key] == (key[-1] in "abc")


def test_pause_stops_an_edit_where_it_is() -> None:
    world = fleet(rollout={})
    world.tag = "v2"
    world.step()
    world.rollout = {"paused": True}
    assert world.steps(3) == ["a=v2 b=v1 c=v1 d=v1"] * 3
    assert world.state() == ("Paused", 2, 1)
    assert world.got is not None and "spec.rollout.paused" in world.got.messages["RolledOut"]
    assert world.got.ttl == 300
    world.rollout = {"paused": False}
    assert world.steps(2) == ["a=v2 b=v2 c=v1 d=v1", "a=v2 b=v2 c=v2 d=v1"]


def test_cluster_that_joins_runs_what_the_others_run_until_the_edit_is_proven() -> None:
    world = fleet(says={("a", "v2"): "starts"})
    world.tag = "v2"
    world.step()
    world.clusters["e"] = {}
    assert world.step() == "a=v2 b=v1 c=v1 d=v1 e=v1"
    world.says = {}
    world.answer()
    world.clusters["f"] = {}
    assert world.step() == "a=v2 b=v2 c=v2 d=v1 e=v1 f=v2"


def test_cluster_that_joins_without_nodes_does_not_halt() -> None:
    world = fleet()
    world.tag = "v2"
    world.steps(2)
    world.clusters["e"] = {}
    world.says = {("e", "v2"): "fails"}
    assert world.steps(3)[-1] == "a=v2 b=v2 c=v2 d=v2 e=v2"


def test_rolled_out_fleet_waits_for_the_child_of_a_cluster_that_joins() -> None:
    world = fleet()
    world.clusters["e"] = {}
    world.step()
    assert world.got is not None
    assert world.got.conditions["RolledOut"] == ("False", "Progressing")
    assert world.got.messages["RolledOut"].endswith("Waiting for e (no child yet).")
    world.step()
    assert world.state() == ("Done", 2, 5)


def test_cluster_that_leaves_keeps_its_spec() -> None:
    world = fleet()
    for child in world.children.values():
        child["status"]["providerConfigRef"] = {"name": "x"}
    del world.clusters["a"]
    world.tag = "v2"
    got = world.ask()
    carried = {key: tag_of(it) for key, it in got.desired.items() if key.startswith("tier-")}
    assert carried == {"tier-a": "v1", "tier-b": "v2", "tier-c": "v1", "tier-d": "v1"}


def test_cluster_that_left_and_is_used_keeps_its_spec() -> None:
    """Which overrides apply there is not known: its labels are not looked up any more."""
    world = fleet()
    world.children["tier-d"]["metadata"]["labels"]["crossplane.io/in-use"] = "true"
    del world.clusters["d"]
    world.tag = "v2"
    assert world.step() == "a=v2 b=v1 c=v1 d=v1"
    world.children["tier-d"]["metadata"]["labels"]["crossplane.io/in-use"] = "true"
    assert world.step() == "a=v2 b=v2 c=v1 d=v1"
    del world.children["tier-d"]  # nothing uses it any more
    assert world.steps(3)[-1] == "a=v2 b=v2 c=v2"
    assert world.state() == ("Done", 2, 3)


def test_nothing_changes_while_the_clusters_are_not_looked_up() -> None:
    world = fleet()
    world.tag = "v2"
    world.step()
    status = world.status["rollout"]
    got = world.ask(required={})
    assert {key: tag_of(it) for key, it in got.desired.items()} == {
        "tier-a": "v2", "tier-b": "v1", "tier-c": "v1", "tier-d": "v1",
    }  # fmt: skip
    assert got.status["rollout"] == status
    assert got.conditions["RolledOut"] == ("Unknown", "Resolving")


def test_child_keeps_what_an_api_server_has_added() -> None:
    """What is stored is composed again, defaults and all, or the child would count as edited."""
    world = fleet(says={("a", "v2"): "starts"})
    for child in world.children.values():
        child["spec"] |= {"startupTimeoutSeconds": 300, "crossplane": {"resourceRefs": []}}
    world.tag = "v2"
    got = world.ask()
    assert got.desired["tier-b"]["spec"] == {
        key: value for key, value in world.children["tier-b"]["spec"].items() if key != "crossplane"
    }


@pytest.mark.parametrize("how", ["starts", "fails"])
def test_rolled_out_stays_so_when_a_cluster_fails_later(how: str) -> None:
    world = fleet()
    world.says = {("c", "v1"): how}
    world.answer()
    world.steps(2)
    assert world.state() == ("Done", 2, 3)
    assert world.got is not None
    assert world.got.conditions["RolledOut"] == ("True", "Done")
    assert world.got.conditions["AgentsReady"] == ("False", "Starting")


def test_invalid_edit_reaches_nobody() -> None:
    world = fleet()
    world.tag = "not a tag"
    assert world.ask().fatals


def test_edit_of_the_rollout_alone_changes_no_child() -> None:
    world = fleet()
    before = world.ask().desired
    world.rollout = {"waves": [{"clusters": 2}], "maxUnavailable": 3}
    assert world.ask().desired == before


def test_ready_for_long_enough() -> None:
    world = fleet(rollout={"minReadySeconds": 600}, now=NEW_YEAR + 3600)
    world.tag, world.now = "v2", NEW_YEAR + 30
    assert world.step() == "a=v2 b=v1 c=v1 d=v1"
    assert world.step() == "a=v2 b=v1 c=v1 d=v1"
    assert world.got is not None
    assert "a (ready, for too short a time)" in world.got.messages["RolledOut"]
    world.now = NEW_YEAR + 601
    assert world.step() == "a=v2 b=v2 c=v1 d=v1"


@pytest.mark.parametrize(("wanted", "seconds"), [(600, 600), (80000, 1800)])
def test_cache_must_have_served_for_long_enough_once(wanted: int, seconds: int) -> None:
    """What has served nobody until now has proven nothing; later it changes with the traffic."""
    world = fleet(rollout={"minReadySeconds": wanted}, now=NEW_YEAR + 86400)

    def begins_to_serve() -> None:
        at = datetime.fromtimestamp(world.now, UTC).isoformat()
        hits = {**said("Serving", "True", "Hitting"), "lastTransitionTime": at}
        world.children["tier-a"]["status"]["conditions"].append(hits)

    world.tag = "v2"
    world.says["b", "v2"] = "starts"
    world.step()
    begins_to_serve()
    world.now += seconds - 1
    assert tag_of(world.ask().desired["tier-b"]) == "v1"
    world.now += 2
    assert world.step() == "a=v2 b=v2 c=v1 d=v1"
    begins_to_serve()
    assert world.ask().status["rollout"]["waiting"] == ["b"]


def test_waves_by_label_and_share() -> None:
    labels = {name: {"stage": "canary"} if name in "gh" else {} for name in "abcdefghij"}
    rollout = {
        "waves": [
            {"matchLabels": {"stage": "canary"}, "clusters": 1},
            {"matchLabels": {"stage": "canary"}},
            {"clusters": "40%"},
        ],
        "maxUnavailable": "100%",
    }
    world = World(labels, rollout)
    world.steps(2)
    world.tag = "v2"
    carried = []
    for _ in range(4):
        found = [word for word in world.step().split() if word.endswith("v2")]
        carried.append("".join(word[0] for word in found))
    assert carried == ["g", "gh", "abgh", "abcdefghij"]
    assert world.state() == ("Progressing", 4, 4)
    world.step()
    assert world.state() == ("Done", 4, 10)


def test_most_clusters_at_work_are_bounded() -> None:
    """Whatever the waves say, and whoever is at work already."""
    members = [
        member("a", updated=True, done=True),
        member("b", updated=True),
        *(member(name) for name in "cdefghij"),
    ]
    for most, turns in ((1, 0), (2, 1), (5, 4), ("100%", 8)):
        rollout = RolloutStrategy.model_validate({"maxUnavailable": most})
        assert len(waves.decide(members, rollout).turns) == turns


def test_children_carry_their_revision() -> None:
    world = fleet()
    before = world.status["rollout"]["revision"]
    world.tag = "v2"
    world.step()
    now = world.status["rollout"]["revision"]
    found = [it["metadata"]["labels"][names.LABEL_REVISION] for it in world.children.values()]
    assert now != before and found == [now, before, before, before]


@pytest.mark.parametrize("tag", [f"v{n}" for n in range(2, 10)])
def test_edit_of_an_edit_goes_first_where_that_is_under_way(tag: str) -> None:
    """Of two clusters one replaces its agents: the other keeps its own, whatever the revision."""
    world = World({"a": {}, "b": {}}, tag="v1", says={("a", tag): "updates"})
    for _ in range(4):
        world.step()
    world.tag = tag
    assert world.step() == f"a={tag} b=v1"
    world.tag = "v10"
    world.says["a", "v10"] = "updates"
    for _ in range(3):
        assert world.step() == "a=v10 b=v1"
    world.says = {}
    for _ in range(3):
        world.step()
    assert world.carried() == "a=v10 b=v10"


def test_edit_that_is_set_back_goes_first_where_it_is_under_way() -> None:
    """Of one that was broken before and one that replaces its agents: else two are in movement."""
    world = fleet("abc")
    world.says = {("b", "v1"): "fails", ("b", "v2"): "fails", ("a", "v2"): "updates"}
    world.answer()
    world.tag = "v2"
    assert world.steps(2) == ["a=v1 b=v2 c=v1", "a=v2 b=v2 c=v1"]
    world.says["a", "v1"] = "updates"
    world.tag = "v1"
    assert world.steps(2) == ["a=v1 b=v2 c=v1"] * 2
    world.says = {}
    world.answer()
    assert world.steps(2)[-1] == "a=v1 b=v1 c=v1"


@pytest.mark.parametrize("word", ["fails", "refuses"])
def test_edit_goes_where_the_last_one_failed_before_the_first_wave(word: str) -> None:
    """The first wave has another cluster, which a second bad edit would break too."""
    world = fleet(says={("a", "v2"): word, ("a", "v3"): word, ("b", "v4"): "updates"})
    world.tag = "v2"
    world.steps(2)
    world.rollout = {"waves": [{"matchLabels": {"ring": "canary"}}]}
    world.clusters["b"] = {"ring": "canary"}
    world.tag = "v3"
    assert world.steps(3) == ["a=v3 b=v1 c=v1 d=v1"] * 3
    assert world.state() == ("Halted", 1, 0)
    world.tag = "v4"
    assert world.steps(3) == [
        "a=v4 b=v1 c=v1 d=v1",
        "a=v4 b=v4 c=v1 d=v1",
        "a=v4 b=v4 c=v1 d=v1",
    ]


def test_cluster_that_starts_counts_against_max_unavailable() -> None:
    """It takes another edit, or starts by itself; `max_unavailable` says how many may."""
    rollout = RolloutStrategy.model_construct(max_unavailable=1)
    members = [
        FleetCluster("a", {"ring": "1"}, exists=True, updated=True, done=True, ready=True),
        FleetCluster("b", {}, exists=True, ready=True, busy=True, revision="x"),
        FleetCluster("c", {}, exists=True, ready=True, revision="x"),
    ]
    found = waves.decide(members, rollout)
    assert found.turns == {"b"}
    ring = [{"matchLabels": {"ring": "2"}}]
    members[2] = FleetCluster("c", {"ring": "2"}, exists=True, ready=True, revision="x")
    found = waves.decide(members, RolloutStrategy.model_validate({"waves": ring}))
    assert (found.state, found.turns, found.waiting) == (waves.State.PROGRESSING, set(), ("b",))


def member(cluster: str, **fields: Any) -> FleetCluster:
    return FleetCluster(
        cluster, fields.pop("labels", {}), **{"exists": True, "ready": True, **fields}
    )


# What a cluster says of an edit with which most others work.
@pytest.mark.parametrize("word", ["fails", "stalls", "refuses", "denied", "misses"])
def test_edit_after_the_middle_goes_first_where_the_last_one_failed(word: str) -> None:
    world = fleet("abcdefgh", says={("f", "v2"): word})
    world.tag = "v2"
    assert world.steps(6)[-1] == "a=v2 b=v2 c=v2 d=v2 e=v2 f=v2 g=v2 h=v1"
    world.tag = "v3"
    assert world.step() == "a=v2 b=v2 c=v2 d=v2 e=v2 f=v3 g=v2 h=v1"


@pytest.mark.parametrize("tag", [f"v{n}" for n in range(2, 8)])
def test_edit_of_a_stalled_edit_goes_first_where_that_stalls(tag: str) -> None:
    """Of two clusters, whatever the digests of the revisions are."""
    world = fleet("ab", says={("a", tag): "stalls"})
    world.tag = tag
    world.steps(2)
    world.tag = "v10"
    assert world.step() == "a=v10 b=v1"


def test_cluster_that_was_broken_before_blocks_no_edit_of_an_edit() -> None:
    world = fleet()
    world.says = {("c", tag): "fails" for tag in ("v1", "v2", "v3")}
    world.answer()
    world.tag = "v2"
    assert world.steps(2)[-1] == "a=v2 b=v1 c=v2 d=v1"
    world.tag = "v3"
    assert world.steps(4) == [
        "a=v2 b=v1 c=v3 d=v1",
        "a=v3 b=v1 c=v3 d=v1",
        "a=v3 b=v3 c=v3 d=v1",
        "a=v3 b=v3 c=v3 d=v3",
    ]


# A cluster when it takes an edit -> whether it is excused if it does not work with it.
EXCUSES: dict[str, tuple[Document, bool]] = {
    "it is new": ({"exists": False, "ready": False}, True),
    "it works": ({}, False),
    "it ran what the others run": ({"ready": False, "revision": "stable"}, True),
    "the edit before broke it": ({"ready": False}, False),
    "it was excused for the edit before": ({"ready": False, "excused": True}, True),
    "it works since the edit before": ({"excused": True}, False),
    "its spec was set back, and it has not worked since": (
        {"ready": False, "revision": "stable", "unproven": True},
        False,
    ),
}


@pytest.mark.parametrize("name", EXCUSES)
def test_cluster_is_excused_that_no_edit_has_broken(name: str) -> None:
    fields, expected = EXCUSES[name]
    assert waves.excuses(member("a", **{"revision": "before", **fields}), "stable") is expected


# Waves of which the first has no cluster -> who takes the edit, call after call.
WITHOUT_FIRST: dict[str, tuple[list[Document], list[str]]] = {
    "labels that no cluster has": (
        [{"matchLabels": {"stage": "canary"}}],
        ["a", "abc", "abcd"],
    ),
    "labels that no cluster has, then a share": (
        [{"matchLabels": {"stage": "canary"}}, {"clusters": "50%"}],
        ["a", "ab", "abcd"],
    ),
}


@pytest.mark.parametrize("name", WITHOUT_FIRST)
def test_one_cluster_goes_first_where_the_first_wave_has_none(name: str) -> None:
    rows, expected = WITHOUT_FIRST[name]
    world = fleet(rollout={"waves": rows, "maxUnavailable": 2})
    world.tag = "v2"
    found = [[it[0] for it in world.step().split() if it.endswith("v2")] for _ in expected]
    assert ["".join(names) for names in found] == expected


def test_first_wave_of_which_no_cluster_works_halts() -> None:
    """Its cluster was broken before, and is no proof for the others."""
    clusters = {"a": {"stage": "canary"}, "b": {}, "c": {}}
    world = World(clusters, {"waves": [{"matchLabels": {"stage": "canary"}}]})
    world.steps(2)
    world.says = {("a", tag): "fails" for tag in ("v1", "v2")}
    world.answer()
    world.tag = "v2"
    assert world.steps(3)[-1] == "a=v2 b=v1 c=v1"
    assert world.state() == ("Halted", 1, 1)


@pytest.mark.parametrize("word", ["fails", "unseen"])
def test_a_canary_that_fails_and_that_the_edit_leaves_as_it_is_stops_nobody(word: str) -> None:
    """It was broken by no edit; one of the others is the first."""
    clusters = {"a": {"stage": "canary"}, "b": {}, "c": {}, "d": {}}
    world = World(clusters, {"waves": [{"matchLabels": {"stage": "canary"}}]})
    world.steps(6)
    assert world.state()[0] == "Done"
    world.says = {("a", "v1"): word}
    world.answer()
    world.step()
    world.overrides = [{"matchLabels": {}, "spec": {"startupTimeoutSeconds": 900}}]
    world.clusters = {
        k: {**v, **({} if k == "a" else {"stage": "prod"})} for k, v in clusters.items()
    }
    world.overrides[0]["matchLabels"] = {"stage": "prod"}
    found = [sorted(world.edited()) for _ in range(4) if world.step()]
    assert found == [["b"], ["b", "c"], ["b", "c", "d"], ["b", "c", "d"]]
    assert world.state()[0] == "Done"


@pytest.mark.parametrize("word", ["starts", "fails", "unseen"])
def test_an_edit_that_changes_nothing_hides_no_failure_of_the_one_before(word: str) -> None:
    """It would be no edit's fault by then, and the next bad edit would break one cluster more."""
    world = fleet()
    world.tag = "v2"
    world.says = {("a", "v2"): word}
    world.steps(2)
    assert world.state()[0] in ("Progressing", "Halted")
    world.says = {("d", "v2"): word}
    world.answer()
    world.steps(4)
    assert world.carried() == "a=v2 b=v2 c=v2 d=v2"
    world.overrides = [{"matchLabels": {"of": "nobody"}, "spec": {"startupTimeoutSeconds": 900}}]
    world.steps(3)
    assert world.state()[0] != "Done"
    assert world.status["rollout"]["waiting"] == ["d"]


@pytest.mark.parametrize("names", ["a", "abc"])
def test_an_edit_that_works_nowhere_is_not_done(names: str) -> None:
    """What the edit before broke proves nothing of this one."""
    world = fleet(names)
    world.says = {(name, tag): "fails" for name in names for tag in ("v2", "v3")}
    for tag in ("v2", "v3"):
        world.tag = tag
        for child in world.children.values():  # a platform team does what the wave does not
            child["spec"]["image"]["tag"] = "v2"
        world.answer()
        world.steps(6)
        assert world.state()[0] != "Done"


def test_cluster_that_takes_the_edit_now_is_said_to() -> None:
    world = fleet()
    world.tag = "v2"
    world.step()
    assert world.got is not None
    revision = world.status["rollout"]["revision"]
    assert world.got.messages["RolledOut"] == (
        f"0 of 4 clusters have revision {revision} (wave 1 of 2). Waiting for a (takes it now)."
    )


def test_field_of_a_child_that_another_writer_holds_is_named() -> None:
    """Core forces its own fields, and leaves those that it does not have."""
    world = fleet()
    world.children["tier-a"]["spec"]["lmcache"]["chunkTokens"] = 512
    world.step()
    assert world.got is not None
    assert (
        "Waiting for a (takes it now; its child's spec.lmcache.chunkTokens is another's)."
        in (world.got.messages["RolledOut"])
    )


def test_cluster_whose_conditions_are_good_and_that_is_not_ready_is_said_to_be_so() -> None:
    world = fleet()
    world.tag = "v2"
    world.step()
    world.children["tier-a"]["status"]["conditions"][0] = BAD
    world.step()
    assert world.got is not None
    assert world.got.messages["RolledOut"].endswith("Waiting for a (not ready).")


def test_new_way_to_compute_revisions_hides_no_broken_cluster() -> None:
    """A new release of the function; in the middle of an edit that fails."""
    world = fleet("abcdefgh", says={("b", "v2"): "fails"})
    world.tag = "v2"
    before = world.steps(3)[-1]
    for child in world.children.values():
        labels = child["metadata"]["labels"]
        labels[names.LABEL_REVISION] = f"x{labels[names.LABEL_REVISION]}"
    assert world.steps(3)[-1] == before == "a=v2 b=v2 c=v2 d=v1 e=v1 f=v1 g=v1 h=v1"
    assert world.state() == ("Halted", 2, 2)
    stale = [it["metadata"]["labels"][names.LABEL_REVISION][0] for it in world.children.values()]
    assert stale.count("x") == 7, "only the one that fails is stamped again"


def test_dead_child_of_a_release_without_revisions_blocks_no_edit() -> None:
    """It died in a Done fleet; an edit that changes nothing there gave the others a revision."""
    world = fleet("abcd", overrides=[])
    for child in world.children.values():
        del child["metadata"]["labels"][names.LABEL_REVISION]
    world.overrides = [{"matchLabels": {"big": "yes"}, "spec": {"startupTimeoutSeconds": 900}}]
    for name in "abd":
        world.clusters[name] = {"big": "yes"}
    world.steps(5)
    assert world.edited() == set("abd") and world.state()[0] == "Done"
    world.says = {("c", tag): "fails" for tag in ("v1", "v2", "v3")}
    world.answer()
    world.steps(2)
    for tag in ("v2", "v3"):
        world.tag = tag
        assert world.steps(6)[-1] == f"a={tag} b={tag} c={tag} d={tag}"
        assert world.state()[0] == "Done"
        said = world.got.messages["RolledOut"]
        assert said.endswith(" Failing, but not halting it: c (StartTimedOut).")


def test_hand_edit_is_undone_although_another_cluster_has_failed_since() -> None:
    world = fleet(says={})
    world.says = {("c", "v1"): "fails"}
    world.answer()
    world.step()
    world.children["tier-a"]["spec"]["image"]["tag"] = "by-hand"
    assert world.steps(2) == ["a=v1 b=v1 c=v1 d=v1"] * 2
    assert world.state()[0] == "Done"


def test_cluster_that_joins_a_paused_fleet_gets_no_hand_edit() -> None:
    world = fleet("abc", rollout={"paused": True})
    world.children["tier-a"]["spec"]["image"]["tag"] = "by-hand"
    world.clusters["d"] = {}
    assert world.step() == "a=by-hand b=v1 c=v1 d=v1"


@dataclass
class OverriddenWorld(World):
    """A fleet whose clusters with the label `big` have an override, of `size`."""

    size: int = 999

    def fleet(self) -> Document:
        made = super().fleet()
        spec = {"lmcache": {"l1": {"sizeGiB": self.size}}}
        made["spec"]["clusterOverrides"] = [{"matchLabels": {"big": "yes"}, "spec": spec}]
        return made

    def sizes(self) -> str:
        rows = sorted(self.children.items())
        return " ".join(str(child["spec"]["lmcache"]["l1"]["sizeGiB"]) for _, child in rows)


def test_relabelled_clusters_begin_with_one() -> None:
    world = OverriddenWorld({name: {} for name in "abcd"}, rollout={"maxUnavailable": "100%"})
    world.steps(2)
    for name in "bcd":
        world.clusters[name]["big"] = "yes"
    for expected in ("200 999 200 200", "200 999 999 999"):
        world.step()
        assert world.sizes() == expected
    world.step()
    assert world.state()[0] == "Done"


def test_relabelled_cluster_that_fails_halts_the_others() -> None:
    world = OverriddenWorld({name: {} for name in "abcd"}, rollout={"maxUnavailable": "100%"})
    world.steps(2)
    for name in "bcd":
        world.clusters[name]["big"] = "yes"
    world.step()
    world.says["b", "v1"] = "fails"
    world.answer()
    world.steps(3)
    assert (world.sizes(), world.state()[0]) == ("200 999 200 200", "Halted")


def test_cluster_with_the_override_proves_it_for_relabelled_ones() -> None:
    clusters = {name: {} for name in "abcd"} | {"e": {"big": "yes"}}
    world = OverriddenWorld(clusters, rollout={"maxUnavailable": "100%"})
    world.steps(2)
    for name in "bcd":
        world.clusters[name]["big"] = "yes"
    world.step()
    assert world.sizes() == "200 999 999 999 999"


def test_cluster_that_is_kept_while_in_use_is_named_and_not_counted() -> None:
    world = fleet()
    world.tag = "v2"
    world.step()
    del world.clusters["b"]
    for _ in range(4):
        world.children["tier-b"]["metadata"]["labels"]["crossplane.io/in-use"] = "true"
        world.step()
    assert world.carried() == "a=v2 b=v1 c=v2 d=v2"
    assert world.got is not None
    assert world.got.conditions["RolledOut"] == ("True", "Done")
    assert world.got.messages["RolledOut"].startswith("Every selected cluster has revision")
    assert (
        "no longer matches, with the spec that each has: b. "
        in (world.got.messages["ClusterResolved"])
    )
    assert world.status["cluster"] == "3/3 clusters, 1 kept"


def test_override_that_is_set_back_reaches_one_cluster_first() -> None:
    """The clusters without the override ran the old revision all along: they prove nothing."""
    clusters = {name: {} for name in "ab"} | {name: {"big": "yes"} for name in "cdef"}
    world = OverriddenWorld(clusters, rollout={"maxUnavailable": "100%"})
    world.steps(2)
    first = world.status["rollout"]["revision"]
    world.size = 500
    world.steps(3)
    assert (world.sizes(), world.state()[0]) == ("200 200 500 500 500 500", "Done")
    assert world.status["rollout"]["previous"] == first
    world.size = 999
    world.step()
    assert world.sizes() == "200 200 999 500 500 500"
    world.says["c", "v1"] = "starts"
    world.answer()
    world.step()
    assert world.sizes() == "200 200 999 500 500 500", "c has not answered yet"
    del world.says["c", "v1"]
    world.answer()
    world.steps(2)
    assert (world.sizes(), world.state()[0]) == ("200 200 999 999 999 999", "Done")
    assert world.status["rollout"]["revision"] == first
    for size in (500, 999):  # and again
        world.size = size
        before = world.sizes().split()
        world.step()
        assert world.sizes().split() == [*before[:2], str(size), *before[3:]]
        world.steps(3)
        assert world.state()[0] == "Done"


def test_override_of_no_cluster_has_no_wave() -> None:
    world = OverriddenWorld({name: {} for name in "ab"})
    world.steps(2)
    world.size = 500
    world.step()
    assert world.got is not None
    rollout = world.got.status["rollout"]
    assert (rollout["state"], rollout.get("waves")) == ("Done", None)
    assert world.got.messages["RolledOut"] == (
        f"Revision {rollout['revision']} changes nothing on the selected clusters."
    )


def test_stable_revision_is_what_ready_clusters_run() -> None:
    ready = FleetCluster("a", {}, exists=True, ready=True, revision="r1")
    others = [FleetCluster(name, {}, exists=True, revision="r2") for name in "bc"]
    assert waves.stable([ready, *others]) == "r1"
    assert waves.stable(others) == "r2"


def test_skipped_cluster_fills_no_place_of_a_later_wave() -> None:
    gone = FleetCluster("s", {"x": ""}, exists=True, updated=True, excused=True, lost=True)
    others = [FleetCluster("a", {"x": ""}, exists=True, ready=True)]
    others += [FleetCluster(name, {}, exists=True, ready=True) for name in "bc"]
    asked = [
        Wave.model_construct(match_labels={"x": ""}, clusters=1),
        Wave.model_construct(match_labels={}, clusters=2),
    ]
    found = waves._assign([gone, *others], asked)
    assert [[m.cluster for m in wave] for wave in found] == [["s", "a"], ["b"]]


def versions(world: World) -> dict[str, str]:
    """The resourceVersions that children must still have on the next call, each its own."""
    for key, child in world.children.items():
        child["metadata"]["resourceVersion"] = f"v-{key}"
    got = world.ask()
    found = {key: it["metadata"].get("resourceVersion") for key, it in got.desired.items()}
    return {key.removeprefix("tier-"): version for key, version in found.items() if version}


def test_child_that_waits_must_be_as_core_has_read_it() -> None:
    """What a cache that lags shows is old: written back, it would take an edit back."""
    world = fleet("abc")
    assert versions(world) == {}
    world.tag = "v2"
    assert versions(world) == {"b": "v-tier-b", "c": "v-tier-c"}


def test_few_children_must_be_as_core_has_read_them() -> None:
    """Of a thousand one always changes its status while core applies them."""
    for number, want in (20, 8), (80, 5), (400, 1), (401, 0):
        world = World({f"c{n:03}": {} for n in range(number)})
        world.steps(2)
        world.tag = "v2"
        assert len(versions(world)) == want, number


def test_children_with_the_edit_take_no_place_of_those_that_wait() -> None:
    world = World({f"c{n:02}": {} for n in range(20)})
    world.steps(2)
    world.tag = "v2"
    world.steps(3)
    assert list(versions(world)) == [f"c{n}" for n in range(16, 20)]


def test_those_whose_turn_is_next_must_be_as_core_has_read_them() -> None:
    """A cache that lags shows the canary unjudged, and what came after it as it was."""
    labels = {f"c{n:02}": {"region": "eu"} if n > 11 else {} for n in range(20)}
    wave = {"clusters": "100%", "matchLabels": {"region": "eu"}}
    world = World(labels, rollout={"waves": [{"clusters": 1}, wave]})
    world.steps(2)
    world.tag = "v2"
    world.step()
    world.says["c00", "v2"] = "starts"
    world.answer()
    assert list(versions(world)) == [f"c{n}" for n in range(12, 20)]


def test_child_that_does_not_work_may_change_while_core_applies() -> None:
    """Its status changes often, and core would begin anew each time."""
    world = fleet("abcd")
    world.says["b", "v1"] = world.says["c", "v1"] = "fails"  # one of them takes the edit first
    world.answer()
    world.tag = "v2"
    assert list(versions(world)) == ["a", "d"]


PAUSED = {"type": "Synced", "status": "False", "reason": "ReconcilePaused"}


def pause(world: World, cluster: str, reason: str = PAUSED["reason"]) -> None:
    """Crossplane does not reconcile a child any more; what it says stays."""
    child = world.children[f"tier-{cluster}"]
    at = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    others = [it for it in child["status"]["conditions"] if it["type"] != "Synced"]
    child["status"]["conditions"] = [*others, {**PAUSED, **at, "reason": reason}]


# Seconds for which a child is not reconciled -> whether the fleet is ready, and its cluster's row
# without the names.
UNRECONCILED: dict[int, tuple[str, Document]] = {
    300: ("True", {"ready": True}),
    301: (
        "False",
        {
            "ready": False,
            "message": "Crossplane does not reconcile KVOffloadTier modelplane-system/"
            "composed-tier-b (ReconcilePaused), and what it says may be old: kubectl describe kvot"
            " -n modelplane-system composed-tier-b.",
        },
    ),
}


@pytest.mark.parametrize("seconds", UNRECONCILED)
def test_child_that_is_not_reconciled_for_long_is_not_ready(seconds: int) -> None:
    ready, row = UNRECONCILED[seconds]
    world = fleet("ab")
    pause(world, "b")
    world.now = NEW_YEAR + seconds
    got = world.ask()
    assert got.conditions["AgentsReady"][0] == ready
    assert got.composite_ready == ready.upper()
    shown = {k: v for k, v in got.status["clusters"][1].items() if k not in ("name", "tier")}
    assert shown == row


def test_child_that_is_not_reconciled_takes_an_edit_last() -> None:
    world = fleet("abc")
    pause(world, "a")
    world.now += 1000
    world.tag = "v2"
    carried = []
    for _ in range(4):
        old = world.children["tier-a"]["status"]
        carried.append(world.step())
        world.children["tier-a"]["status"] = old
    assert carried[0] == "a=v1 b=v2 c=v1"
    assert carried[-1] == "a=v2 b=v2 c=v2"
    assert world.state() == ("Progressing", 2, 3)
    assert world.got is not None
    said = world.got.messages["RolledOut"]
    assert said.endswith("Waiting for a (Crossplane does not reconcile its child).")
    world.steps(2)
    assert world.state()[0] == "Done"


def test_edit_that_a_dead_cluster_refuses_is_not_rolled_out() -> None:
    """It is excused while others take the edit, and its tier runs the spec before."""
    world = fleet("abc")
    world.says = {("b", "v1"): "fails", ("b", "v2"): "refuses"}
    world.answer()
    world.steps(2)
    world.tag = "v2"
    assert world.steps(4)[2] == "a=v2 b=v2 c=v2"
    assert world.state() == ("Halted", 2, 3)
    assert world.got is not None
    assert "Halted by b (Invalid). kubectl describe" in world.got.messages["RolledOut"]
    world.overrides = [{"matchLabels": {"no": "one"}, "spec": {"startupTimeoutSeconds": 900}}]
    world.steps(2)
    assert world.state()[0] == "Halted"
    world.says = {}
    world.answer()
    world.steps(2)
    assert world.status["rollout"]["state"] == "Done"


# What core says of a child that has an edit and is not reconciled with it -> what an edit that
# follows reaches, call by call.
NEXT = {
    "ReconcilePaused": ["a=v2 b=v3 c=v1", "a=v2 b=v3 c=v3", "a=v3 b=v3 c=v3"],
    "ReconcileError": ["a=v3 b=v1 c=v1", "a=v3 b=v3 c=v1", "a=v3 b=v3 c=v3"],
}


@pytest.mark.parametrize("reason", NEXT)
def test_child_that_is_not_reconciled_with_an_edit_blocks_no_later_one(reason: str) -> None:
    """It is not taken for one at work. What core fails at is broken by the edit; a pause is not."""
    world = fleet("abc")
    world.tag = "v2"
    world.says["a", "v2"] = "updates"
    world.step()
    pause(world, "a", reason)
    world.now += 1000
    before = world.children["tier-a"]["status"]
    world.step()
    world.children["tier-a"]["status"] = before
    assert world.state()[0] == "Halted"
    world.tag = "v3"
    carried = []
    for _ in range(3):
        carried.append(world.step())
        if reason == "ReconcilePaused":
            world.children["tier-a"]["status"] = before
    assert carried == NEXT[reason]


def test_refusal_of_before_a_pause_holds_up_no_edit() -> None:
    world = fleet("abc")
    world.says["a", "v2"] = "refuses"
    world.tag = "v2"
    world.steps(2)
    assert "Halted by a (Invalid)" in str(world.got and world.got.messages["RolledOut"])
    pause(world, "a")
    before = world.children["tier-a"]["status"]
    world.now += 1000
    world.tag = "v3"
    for _ in range(5):
        world.step()
        world.children["tier-a"]["status"] = before
    assert world.carried() == "a=v3 b=v3 c=v3"
    said = str(world.got and world.got.messages["RolledOut"])
    assert "Halted by a (Crossplane does not reconcile its child)." in said


@pytest.mark.parametrize("tag", ["v3", "v1"])
def test_edit_passes_a_paused_child_that_has_not_read_the_one_before(tag: str) -> None:
    world = fleet("abc")
    pause(world, "a")
    before = world.children["tier-a"]["status"]
    world.now += 1000
    for world.tag in ("v2", tag):
        for _ in range(5):
            world.step()
            world.children["tier-a"]["status"] = before
        assert world.carried() == f"a={world.tag} b={world.tag} c={world.tag}"
    assert world.state()[0] == "Progressing"

"""Rollout of a tier's new wiring to engines that run with the old one."""

import json
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.api.tier import WiringUpdate
from function.composers import rollout
from function.workloads.rolled import has_old_pods, is_at_rest, is_rolled_out, waits_for
from tests.unit.composers import documents as d
from tests.unit.composers.calls import Document, Outcome, call, observe

KEY = "model-serving-main"
PROGRESS = "modelplane.ai/kv-offload-progress"
RECORD = "modelplane.ai/kv-offload-record"
NAMES = ["a", "b", "c", "d", "e"]
TURN = "turn/modelplane-system/chat"
EDIT: dict[str, Any] = {"startupTimeoutSeconds": 900}


def marked(name: str, progress: str, *, kind: str = "ModelReplica") -> Document:
    consumer = f'{{"kind":"{kind}","name":"{name}","namespace":"team-a"}}'
    annotations = {"modelplane.ai/kv-offload-consumer": consumer, PROGRESS: progress}
    return {"metadata": {"name": name, "namespace": "team-a", "annotations": annotations}}


# name: (usages as name=progress, maxUnavailable, is the tier ready?) -> (behind, moving, turns)
TURNS: dict[str, tuple[list[str], int | str, bool, tuple[list[str], list[str], list[str]]]] = {
    "nobody": ([], 1, True, ([], [], [])),
    "all are current": (["a=Current", "b=Current"], 1, True, ([], [], [])),
    "the first by name": (["c=Behind", "b=Behind"], 1, True, (["b", "c"], [], ["b"])),
    "one moves": (["a=Moving", "b=Behind"], 1, True, (["b"], ["a"], [])),
    "two may": (["a=Moving", "b=Behind", "c=Behind"], 2, True, (["b", "c"], ["a"], ["b"])),
    "a share of all": ([f"{n}=Behind" for n in NAMES], "40%", True, (NAMES, [], ["a", "b"])),
    "at least one": (["a=Behind", "b=Behind"], "1%", True, (["a", "b"], [], ["a"])),
    "not while the tier starts": (["a=Behind"], 1, False, (["a"], [], [])),
    "of several engines one moves": (["a=Behind", "a=Moving"], 1, True, ([], ["a"], [])),
    "nonsense does not count": (["a=Soon", "b=Behind"], 1, True, (["b"], [], ["b"])),
}


# What keeps the pods of `a`, which is behind or moves, while its consumer is gone.
LEFT: dict[str, Document] = {
    "orphaned": {"ownerReferences": [{"kind": "Object", "uid": "uid-engine"}]},
    "deleted": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
}


@pytest.mark.parametrize("progress", ["Behind", "Moving"])
@pytest.mark.parametrize("how", LEFT)
def test_consumer_that_is_gone_holds_no_turn(how: str, progress: str) -> None:
    gone = marked("a", progress)
    wiring = WiringUpdate(update="Rolling", max_unavailable=1)
    gone["metadata"]["ownerReferences"] = [{"kind": "ModelReplica", "controller": True}]
    observed = rollout.of([gone], wiring, ready=True).resources(("home", "chat"), 2)
    waits = rollout.of([gone, marked("b", "Behind")], wiring, ready=True, observed=observed)
    assert waits.turns in ((), ("ModelReplica/team-a/a",))
    gone["metadata"] |= LEFT[how]
    found = rollout.of([gone, marked("b", "Behind")], wiring, ready=True, observed=observed)
    assert (found.moving, found.turns) == ((), ("ModelReplica/team-a/b",))
    assert found.status({}) == {"remaining": "1"}


def test_deletion_that_the_consumer_outlives_takes_no_turn() -> None:
    kept = marked("a", "Behind")
    kept["metadata"] |= LEFT["deleted"]
    kept["metadata"]["annotations"]["modelplane.ai/kv-offload-kept"] = "2026-01-01T00:00:00Z"
    wiring = WiringUpdate(update="Rolling", max_unavailable=1)
    found = rollout.of([kept, marked("b", "Behind")], wiring, ready=True)
    assert found.turns == ("ModelReplica/team-a/a",)


@pytest.mark.parametrize("name", TURNS)
def test_rollout_selects_at_most_max_unavailable_consumers(name: str) -> None:
    usages, most, ready, want = TURNS[name]
    documents = [marked(*text.split("=")) for text in usages]
    wiring = WiringUpdate(update="Rolling", max_unavailable=most)
    found = rollout.of(documents, wiring, ready=ready)
    assert (found.behind, found.moving, found.turns) == tuple(
        tuple(f"ModelReplica/team-a/{n}" for n in names) for names in want
    )


class World:
    """A tier and its consumers, each called as core calls it, with what the others wrote."""

    def __init__(self, **wiring: Any) -> None:
        self.spec: dict[str, Any] = {"wiring": wiring} if wiring else {}
        self.status: Document = {}
        self.turns: dict[str, Document] = {}
        self.observed: dict[str, dict[str, Document]] = {name: {} for name in NAMES}
        self.broken: set[str] = set()
        self.unmarked: set[str] = set()  # whose Usages are deleted, and wait for their engines
        self.unready = False
        self.anew: dict[str, str] = {}

    def tier(self) -> Document:
        tier = (d.unready_tier if self.unready else d.ready_tier)(**self.spec)
        return tier | {"status": tier["status"] | self.status}

    def usages(self) -> list[Document]:
        found = []
        for seen in self.observed.values():
            for key, document in seen.items():
                if key.startswith("usage-"):
                    metadata = {**document["metadata"], "namespace": "team-a"}
                    found.append({**document, "metadata": metadata})
        return found

    def consume(self, name: str, **engine: Any) -> Any:
        required: dict[str, Any] = d.requirements(self.tier())
        for _ in range(2):  # core calls again with what the first call requires
            got = call(
                d.replica(name),
                desired={KEY: d.engine(**engine)},
                observed=self.observed[name],
                required=required,
            )
            asked = got.requirements.get(TURN)
            if asked is None:
                break
            assert asked["namespace"] == "modelplane-system"
            turns = self.turns.values()
            required[TURN] = [t for t in turns if t["metadata"]["name"] == asked["name"]]
        ready = name not in self.broken
        seen = deepcopy(observe(got, ready=ready))
        manifest = deepcopy(seen[KEY]["spec"]["forProvider"]["manifest"])
        pods = {"updatedReplicas": 1} | ({"readyReplicas": 1} if ready else {})
        seen[KEY].setdefault("status", {})["atProvider"] = {"manifest": manifest | {"status": pods}}
        for key in {key for key in seen if key.startswith("usage-") and name in self.unmarked}:
            seen[key]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self.observed[name] = seen
        return got

    def offload(self, now: float = 0.0) -> Document:
        """The tier's own call: who is behind, and whose turn it is."""
        first = call(d.tier(**self.spec), required={"cluster": [d.cluster()], "usages": []})
        agents = observe(first)
        counts = {"desiredNumberScheduled": 1, "numberReady": 1, "numberAvailable": 1}
        agents["daemonset-agent"]["status"]["atProvider"] = {"manifest": {"status": counts}}
        required = {"cluster": [d.cluster()], "usages": self.usages()}
        tier = d.tier(**self.spec) | {"status": self.status}
        got = call(tier, required=required, observed=agents | self.turns, now=now)
        self.turns = {key: it for key, it in got.desired.items() if key.startswith("turn-")}
        self.status = {"wiring": got.status.get("wiring", {})}
        return got.status.get("wiring", {})

    def whose_turn(self) -> list[str]:
        return sorted(turn["spec"]["reason"].split()[0] for turn in self.turns.values())

    def timeouts(self) -> dict[str, str]:
        """What of the tier's wiring each consumer's pods have."""
        out = {}
        for name, seen in self.observed.items():
            args = d.wired_pod(seen[KEY])["spec"]["containers"][0]["args"]
            out[name] = "new" if '"lmcache.mp.mq_timeout":900' in args[-1] else "old"
        return out

    def moved(self) -> list[str]:
        return [name for name, wiring in self.timeouts().items() if wiring == "new"]


def settled(**wiring: Any) -> World:
    world = World(**wiring)
    for name in NAMES:
        world.consume(name)
        world.consume(name)
    return world


NOW = 1_000_000.0


def ago(seconds: float) -> str:
    return datetime.fromtimestamp(NOW - seconds, UTC).isoformat()


def said(got: Any) -> str:
    """How far a consumer says that it is."""
    (usage,) = (it for key, it in got.desired.items() if key.startswith("usage-tier"))
    return str(usage["metadata"]["annotations"].get(PROGRESS, ""))


def edited() -> World:
    """All are behind, and the first one has its turn."""
    world = settled(update="Rolling")
    world.spec |= EDIT
    for name in NAMES:
        world.consume(name)
    world.offload()
    return world


def test_on_change_moves_no_engine_and_writes_no_usage_annotation() -> None:
    world = settled()
    world.spec |= EDIT
    for name in NAMES:
        world.consume(name)
    assert world.moved() == []
    assert world.offload() == {}
    assert not any(PROGRESS in u["metadata"]["annotations"] for u in world.usages())


@pytest.mark.parametrize("most", [1, 2, "60%", 100])
def test_rolling_update_reaches_all_within_its_limit(most: int | str) -> None:
    world = settled(update="Rolling", maxUnavailable=most)
    assert world.offload() == {"remaining": "0"}
    world.spec |= EDIT
    limit = {1: 1, 2: 2, "60%": 3, 100: 5}[most]
    rounds = 0
    while len(world.moved()) < len(NAMES):
        before = world.moved()
        for name in NAMES:
            world.consume(name)
        assert len(world.moved()) - len(before) <= limit
        world.offload()
        rounds += 1
        assert rounds < 30
    for name in NAMES:
        got = world.consume(name)
    assert got.ttl == 300
    assert (world.offload(), world.turns) == ({"remaining": "0"}, {})


def test_engines_move_whose_usages_somebody_deleted() -> None:
    world = settled(update="Rolling")
    world.unmarked = {"b", "c"}
    world.spec |= EDIT
    for _ in range(20):
        for name in NAMES:
            world.consume(name)
        world.offload()
    assert world.moved() == NAMES


def test_rolling_update_stops_at_a_failing_consumer() -> None:
    world = settled(update="Rolling")
    world.spec |= EDIT
    world.broken = {"b"}
    for _ in range(12):
        for name in NAMES:
            world.consume(name)
        said = world.offload()
    assert world.moved() == ["a", "b"]
    assert said == {"remaining": "2+"}
    assert world.whose_turn() == ["ModelReplica/team-a/b"]
    world.broken = set()
    for _ in range(12):
        for name in NAMES:
            world.consume(name)
        world.offload()
    assert world.moved() == NAMES


@pytest.mark.parametrize("tried", ["not yet", "and failed"])
def test_consumer_moves_until_the_provider_has_applied_its_new_wiring(tried: str) -> None:
    """Until then the status is that of the old pods, which are ready."""
    world = edited()
    old = world.observed["a"][KEY]["status"]
    world.consume("a")
    assert world.moved() == ["a"]
    seen = world.observed["a"][KEY]
    synced = {"type": "Synced", "status": "True", "observedGeneration": 1}
    if tried == "and failed":
        synced |= {"status": "False", "observedGeneration": 2, "message": "connect failed: x"}
    seen["metadata"]["generation"] = 2
    seen["status"] = old | {"conditions": [*old["conditions"], synced]}
    got = world.consume("a")
    usage = next(it for key, it in got.desired.items() if key.startswith("usage-tier"))
    assert usage["metadata"]["annotations"][PROGRESS] == "Moving"
    world.offload()
    assert world.whose_turn() == ["ModelReplica/team-a/a"]


# Field -> (as the team writes it, as the API server has it, whether these are the same)
AS_THERE: dict[str, tuple[str, Any, Any, bool]] = {
    "as it was written": ("memory", "1Gi", "1Gi", True),
    "in another unit": ("memory", "1024Mi", "1Gi", True),
    "a number": ("cpu", 2, "2", True),
    "null": ("cpu", None, "2", True),
    "another one": ("memory", "1Gi", "2Gi", False),
}


@pytest.mark.parametrize("name", AS_THERE)
def test_consumer_stays_current_while_its_cluster_is_cut_off(name: str) -> None:
    """What the provider saw last has all that it should write."""
    field, written, there, same = AS_THERE[name]
    world = settled(update="Rolling")
    synced = {"type": "Synced", "status": "False", "observedGeneration": 1}
    seen = world.observed["a"][KEY]
    seen["status"]["conditions"].append(synced)
    for manifest, value in (
        (seen["spec"]["forProvider"]["manifest"], written),
        (seen["status"]["atProvider"]["manifest"], there),
    ):
        manifest["spec"] = deepcopy(manifest["spec"])
        engine = manifest["spec"]["template"]["spec"]["containers"][0]
        engine["resources"] = {"requests": {field: value}}
    assert (said(world.consume("a")) == "Current") == same


@pytest.mark.parametrize("there", [5, 0])
def test_consumer_that_is_scaled_stays_current_while_its_cluster_is_cut_off(there: int) -> None:
    world = settled(update="Rolling")
    synced = {"type": "Synced", "status": "False", "message": "observe failed: x"}
    seen = world.observed["a"][KEY]
    seen["status"]["conditions"].append(synced)
    pods = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas"), there)
    manifest = seen["spec"]["forProvider"]["manifest"]
    manifest["spec"] = manifest["spec"] | {"replicas": 1}
    scaled = {"spec": manifest["spec"] | {"replicas": there}, "status": pods}
    seen["status"]["atProvider"]["manifest"] = manifest | scaled
    assert said(world.consume("a")) == "Current"


@pytest.mark.parametrize("down", ["decode", "prefill"])
def test_engines_of_one_model_move_on_together_while_their_tier_is_gone(down: str) -> None:
    """They have one Usage."""
    world = edited()
    engines = {f"{KEY}-{half}": d.engine() for half in ("decode", "prefill")}
    tier = d.requirements(world.tier())
    first = call(d.replica("two"), desired=engines, required=tier)
    seen = observe(first)
    for key, document in seen.items():
        if key.startswith("usage-tier"):
            document["metadata"]["annotations"][PROGRESS] = "Moving"
    up = {"type": "Ready", "status": "True"}
    for half in ("decode", "prefill"):
        ready = up | ({"status": "False"} if half == down else {})
        seen[f"{KEY}-{half}"]["status"]["conditions"] = [ready]
    gone: dict[str, Any] = {key: [] for key in tier}
    got = call(d.replica("two"), desired=engines, observed=seen, required=gone)
    assert got.conditions["KVOffloadReady"] == ("False", "TierNotFound")
    assert said(got) == "Moving"


def test_consumer_moves_while_an_old_pod_is_the_ready_one() -> None:
    """A surge keeps the Deployment available: its Object is Ready before any new pod is."""
    world = edited()
    world.consume("a")
    pods = {"replicas": 2, "updatedReplicas": 1, "readyReplicas": 1}
    world.observed["a"][KEY]["status"]["atProvider"]["manifest"]["status"] = pods
    got = world.consume("a")
    usage = next(it for key, it in got.desired.items() if key.startswith("usage-tier"))
    assert usage["metadata"]["annotations"][PROGRESS] == "Moving"


def test_progress_stays_while_the_tier_is_not_ready() -> None:
    """An edit that moves engines restarts the agents too: nobody else's turn comes of that."""
    world = edited()
    world.broken = {"a"}
    world.consume("a")
    assert world.whose_turn() == ["ModelReplica/team-a/a"]
    world.unready = True
    assert [said(world.consume(name)) for name in NAMES] == ["Moving", *["Behind"] * 4]
    assert world.consume("a").conditions["KVOffloadReady"] == ("False", "TierNotReady")
    assert world.offload() == {"remaining": "2+"}
    assert world.whose_turn() == ["ModelReplica/team-a/a"]
    world.broken = set()
    world.consume("a")
    assert said(world.consume("a")) == "Current"


@pytest.mark.parametrize("up", [True, False])
def test_consumer_moves_on_while_its_tier_cannot_be_judged(up: bool) -> None:
    world = edited()
    world.broken = set() if up else {"a"}
    world.consume("a")
    valid, world.spec = world.spec, world.spec | {"lmcache": {"l1": {"sizeGiB": -1}}}
    got = world.consume("a")
    assert got.conditions["KVOffloadReady"][0] == "False"
    assert said(got) == ("" if up else "Moving")
    world.spec = valid
    assert said(world.consume("a")) == ("Current" if up else "Moving")


def test_consumer_of_a_closed_namespace_holds_up_nobody() -> None:
    """It can never move: a roll that waits for it would not end."""
    world = settled(update="Rolling")
    world.spec |= EDIT
    world.consume("a")
    world.spec |= {"allowedNamespaces": {"from": "Names", "names": ["team-z"]}}
    got = world.consume("a")
    assert got.conditions["KVOffloadReady"] == ("False", "NamespaceNotAllowed")
    (usage,) = (it for key, it in got.desired.items() if key.startswith("usage-tier"))
    assert PROGRESS not in usage["metadata"]["annotations"]


@pytest.mark.parametrize("update", ["OnChange", "Rolling", "Pinned"])
def test_tier_of_another_backend_wires_anew(update: str) -> None:
    """A consumer that came while the tier was edited keeps no wiring to what is gone."""
    world = settled(update=update)
    world.spec |= {"backend": "Native", "native": {"cpu": {"sizeGiB": 10}}, "lmcache": None}
    got = world.consume("a")
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    record = json.loads(got.desired[KEY]["metadata"]["annotations"][RECORD])
    assert record["backend"] == "Native"


def test_own_edit_of_a_consumer_changes_nothing_that_others_require() -> None:
    """It moves by itself; neither the tier's status nor a turn shows it."""
    world = settled(update="Rolling")
    before = world.offload()
    world.broken = {"a"}
    world.consume("a", args=[d.MODEL, "--max-model-len=4096"])
    progress = {u["metadata"]["annotations"][PROGRESS] for u in world.usages()}
    assert progress == {"Current", "Moving"}
    assert (world.offload(), world.turns) == (before, {})


def test_turn_stays_when_one_with_an_earlier_name_is_behind_too() -> None:
    """The Usages of an edit come one by one."""
    usages = [marked("c", "Behind")]
    wiring = WiringUpdate(update="Rolling", max_unavailable=1)
    first = rollout.of(usages, wiring, ready=True)
    observed = first.resources(("home", "chat"), 2)
    usages.append(marked("b", "Behind"))
    again = rollout.of(usages, wiring, ready=True, observed=observed)
    assert again.turns == first.turns == ("ModelReplica/team-a/c",)
    moves = rollout.of([marked("c", "Moving"), usages[1]], wiring, ready=True, observed=observed)
    assert moves.turns == first.turns
    done = rollout.of([marked("c", "Current"), usages[1]], wiring, ready=True, observed=observed)
    assert done.turns == ("ModelReplica/team-a/b",)


@pytest.mark.parametrize(
    ("generation", "deleted", "counts"),
    [
        (2, {}, True),
        (2.0, {}, True),
        (3, {}, False),
        ("2", {}, False),
        (2, {"deletionTimestamp": "x"}, False),
    ],
)
def test_a_turn_is_for_one_edit_of_the_tier(
    generation: object, deleted: dict[str, str], counts: bool
) -> None:
    """Who still sees its turn for the edit before does not move while another consumer does."""
    (given,) = (
        rollout.Rollout(turns=("ModelReplica/team-a/a",)).resources(("home", "chat"), 2.0).values()
    )
    turn = given | {"metadata": given["metadata"] | deleted}
    assert rollout.is_of(turn, {"metadata": {"generation": generation}}) is counts


def test_few_turns_are_given_at_once() -> None:
    usages = [marked(f"r{n:02}", "Behind") for n in range(40)]
    wiring = WiringUpdate(update="Rolling", max_unavailable="100%")
    assert len(rollout.of(usages, wiring, ready=True).turns) == rollout.MAX_TURNS


def test_waiting_consumer_reports_its_turn() -> None:
    world = settled(update="Rolling")
    world.spec |= EDIT
    got = world.consume("c")
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    assert "or in its turn" in got.messages["KVOffloadReady"]
    assert got.ttl == 10


# name: (the changed engine, does it keep the wiring that it had?)
PINNED = {
    "another argument": ({"args": [d.MODEL, "--max-model-len=4096"]}, True),
    "another model": ({"args": ["other/model"]}, False),
    "another version": ({"image": "vllm/vllm-openai:v0.33.0"}, False),
}


@pytest.mark.parametrize("name", PINNED)
def test_pinned_wiring_survives_template_edits(name: str) -> None:
    changed, keeps = PINNED[name]
    world = settled(update="Pinned")
    world.spec |= EDIT
    required = d.requirements(world.tier())
    desired = {KEY: d.engine(**changed)}
    got = call(d.replica("a"), desired=desired, observed=world.observed["a"], required=required)
    args = d.wired_pod(got.desired[KEY])["spec"]["containers"][0]["args"]
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    assert args[: len(changed.get("args", [d.MODEL]))] == changed.get("args", [d.MODEL])  # type: ignore[attr-defined]
    assert ('"lmcache.mp.mq_timeout":900' in args[-1]) != keeps
    again = call(d.replica("a"), desired=desired, observed=observe(got), required=required)
    assert again.desired[KEY]["spec"] == got.desired[KEY]["spec"]


def deployment(**status: int) -> Document:
    return {"kind": "Deployment", "spec": {"replicas": 2}, "status": status}


def daemons(**status: int) -> Document:
    counts = {"desiredNumberScheduled": 2, "currentNumberScheduled": 2}
    return {"kind": "DaemonSet", "status": {**counts, **status}}


ROLLED: dict[str, tuple[Document, bool]] = {
    "nothing is known": ({}, True),
    "a kind that counts nothing": ({"kind": "RayService"}, True),
    "not a replica yet": (deployment(), False),
    "an old pod": (deployment(updatedReplicas=1, readyReplicas=2), False),
    "a pod that starts": (deployment(updatedReplicas=2, readyReplicas=1), False),
    "an old pod serves while the new one starts": (
        deployment(replicas=3, updatedReplicas=2, readyReplicas=2),
        False,
    ),
    "all of them": (deployment(updatedReplicas=2, readyReplicas=2), True),
    "scaled to nothing": ({"kind": "StatefulSet", "spec": {"replicas": 0}}, True),
    "not seen yet": (
        deployment(updatedReplicas=2, readyReplicas=2, observedGeneration=1)
        | {"metadata": {"generation": 2}},
        False,
    ),
    "a pod on each node": (daemons(updatedNumberScheduled=2, numberReady=2), True),
    "an old pod on a node": (daemons(updatedNumberScheduled=1, numberReady=2), False),
    "no node": ({"kind": "DaemonSet", "status": {"desiredNumberScheduled": 0}}, True),
    "nonsense": ({"kind": "Deployment", "spec": {"replicas": "x"}, "status": []}, True),
}


@pytest.mark.parametrize("name", ROLLED)
def test_rolled_out_when_pods_match_the_template(name: str) -> None:
    workload, want = ROLLED[name]
    assert is_rolled_out(workload) == want


ON_DELETE = {"updateStrategy": {"type": "OnDelete"}}
PARTITION = {"replicas": 2, "updateStrategy": {"rollingUpdate": {"partition": 1}}}
LWS_PARTITION = {"rolloutStrategy": {"rollingUpdateConfiguration": {"partition": 1}}}
ONE_OF_TWO = {"replicas": 2, "updatedReplicas": 1, "readyReplicas": 2}
CRASHES = {"replicas": 3, "updatedReplicas": 1, "readyReplicas": 2}
UNSEEN = {"metadata": {"generation": 2}}

# name: (workload, does its controller replace no more pods?, what the others wait for)
AT_REST: dict[str, tuple[Document, bool, str]] = {
    "an old pod": (deployment(**ONE_OF_TWO), False, ""),
    "a paused Deployment": (
        deployment(**ONE_OF_TWO) | {"spec": {"replicas": 2, "paused": True}},
        True,
        "paused",
    ),
    "a paused Deployment whose new pod crashes": (
        deployment(**CRASHES) | {"spec": {"replicas": 2, "paused": True}},
        False,
        "paused",
    ),
    "a paused Deployment that has deleted its old pods": (
        deployment() | {"spec": {"replicas": 2, "paused": True}},
        False,
        "paused",
    ),
    "a deleted pod that crashes": (
        {
            "kind": "StatefulSet",
            "spec": {"replicas": 2} | ON_DELETE,
            "status": ONE_OF_TWO | {"readyReplicas": 1},
        },
        False,
        "OnDelete",
    ),
    "a deleted daemon that crashes": (
        daemons(updatedNumberScheduled=1, numberReady=1) | {"spec": ON_DELETE},
        False,
        "OnDelete",
    ),
    "pods that somebody deletes": (
        {"kind": "StatefulSet", "spec": {"replicas": 2} | ON_DELETE, "status": ONE_OF_TWO},
        True,
        "OnDelete",
    ),
    "daemons that somebody deletes": (
        daemons(numberReady=1) | {"spec": ON_DELETE},
        True,
        "OnDelete",
    ),
    "not seen yet, and deleted by somebody": (
        daemons(observedGeneration=1) | {"spec": ON_DELETE} | UNSEEN,
        False,
        "OnDelete",
    ),
    "a partition": (
        {"kind": "StatefulSet", "spec": PARTITION, "status": ONE_OF_TWO},
        True,
        "partition",
    ),
    "one pod too few of a partition": (
        {"kind": "StatefulSet", "spec": PARTITION | {"replicas": 3}, "status": ONE_OF_TWO},
        False,
        "partition",
    ),
    "a partition, and a new pod that starts": (
        {"kind": "StatefulSet", "spec": PARTITION, "status": ONE_OF_TWO | {"readyReplicas": 1}},
        False,
        "partition",
    ),
    "a partition of groups": (
        {
            "kind": "LeaderWorkerSet",
            "spec": {"replicas": 2} | LWS_PARTITION,
            "status": ONE_OF_TWO,
        },
        True,
        "partition",
    ),
    "a field of another kind": ({"kind": "RayService", "spec": ON_DELETE}, True, ""),
    "a node that is down": (daemons(updatedNumberScheduled=2, numberReady=1), False, ""),
    "a generation that is never filled in": (
        {"kind": "Served", "status": {"observedGeneration": 0}} | UNSEEN,
        True,
        "",
    ),
    "a generation in words": (
        {"kind": "Served", "status": {"observedGeneration": "5f7c"}} | UNSEEN,
        True,
        "",
    ),
    "a generation as text": (
        {"kind": "Served", "status": {"observedGeneration": "1"}} | UNSEEN,
        False,
        "",
    ),
}


@pytest.mark.parametrize("name", AT_REST)
def test_turn_ends_when_the_controller_replaces_no_more_pods(name: str) -> None:
    workload, rests, word = AT_REST[name]
    assert is_at_rest(workload) == rests
    assert word in waits_for(workload) and bool(word) == bool(waits_for(workload))
    assert not (word and is_rolled_out(workload)), "its files stay"


def test_consumer_says_that_its_pods_wait_for_somebody() -> None:
    world = edited()
    world.consume("a")
    there = world.observed["a"][KEY]["status"]["atProvider"]["manifest"]
    there["spec"] = there["spec"] | {"paused": True}
    there["status"] = {"replicas": 1, "readyReplicas": 1}
    got = world.consume("a")
    assert said(got) == "Current"
    assert "lack this wiring; spec.paused is true: resume it." in got.messages["KVOffloadReady"]


def test_no_turn_follows_a_pause_of_pods_that_crash() -> None:
    """The engineer on call pauses the Deployment to look at its new pod."""
    world = edited()
    for _ in range(6):
        for name in NAMES:
            world.consume(name)
            there = world.observed[name][KEY]["status"]["atProvider"]["manifest"]
            if name in world.moved():
                there["spec"] = there["spec"] | {"paused": True}
                there["status"] = {"replicas": 2, "updatedReplicas": 1, "readyReplicas": 1}
        world.offload()
    assert world.moved() == ["a"]
    assert world.whose_turn() == ["ModelReplica/team-a/a"]


SAME = {"currentRevision": "a", "updateRevision": "a"}
# name: (workload, whether a pod runs that has another template)
OLD_PODS: dict[str, tuple[Document, bool]] = {
    "one of two": (deployment(**ONE_OF_TWO), True),
    "one that a surge leaves": (deployment(**CRASHES), True),
    "an old daemon": (daemons(updatedNumberScheduled=1), True),
    "all start": (deployment(replicas=2, updatedReplicas=2), False),
    "one is to come": (deployment(replicas=1, updatedReplicas=1, readyReplicas=1), False),
    "a node is down": (daemons(updatedNumberScheduled=2, numberReady=1), False),
    "not seen yet": (deployment(**ONE_OF_TWO, observedGeneration=1) | UNSEEN, False),
    "a kind that counts nothing": ({"kind": "RayService"}, False),
    "leaders whose workers are to come": (
        {"kind": "LeaderWorkerSet", "metadata": {"generation": 1}, "status": {"replicas": 2}},
        False,
    ),
    "one that ends": ({"kind": "StatefulSet", "status": {"replicas": 1} | SAME}, False),
}


@pytest.mark.parametrize("name", OLD_PODS)
def test_consumer_tells_to_replace_only_pods_that_are_old(name: str) -> None:
    workload, want = OLD_PODS[name]
    assert has_old_pods(workload) == want


@pytest.mark.parametrize(("condition", "progress"), [("Ready", "Current"), ("Synced", "Moving")])
def test_consumer_whose_provider_shows_no_manifest_is_moved_when_it_is_ready(
    condition: str, progress: str
) -> None:
    world = edited()
    world.consume("a")
    synced = {"type": "Synced", "status": "False", "message": "connect failed: x"}
    shown = {"type": "Ready", "status": "True"} if condition == "Ready" else synced
    world.observed["a"][KEY]["status"] = {"conditions": [shown]}
    assert said(world.consume("a")) == progress


# (how long a turn is held, how long the tier is ready), in seconds -> is its consumer named?
HELD = {
    (0, 9999): False,
    (rollout.LATE, 9999): False,
    (rollout.LATE + 1, 9999): True,
    (9999, rollout.LATE + 1): True,
    (9999, rollout.LATE): False,
    (9999, None): False,
}


@pytest.mark.parametrize("times", HELD)
def test_waiting_consumers_say_who_has_had_a_turn_for_long(times: tuple[float, float]) -> None:
    held, ready = times
    world = edited()
    world.broken = {"a"}
    world.consume("a")
    for turn in world.turns.values():
        turn["metadata"]["creationTimestamp"] = ago(held)
    condition = {"type": "Ready", "status": "False" if ready is None else "True"}
    world.status |= {"conditions": [condition | {"lastTransitionTime": ago(ready or 9999)}]}
    assert world.offload(now=NOW).get("waitsFor") == (
        "ModelReplica/team-a/a" if HELD[times] else None
    )
    message = world.consume("c").messages["KVOffloadReady"]
    late = "It waits for ModelReplica/team-a/a: make its pods ready"
    assert (late in message) == HELD[times]
    assert ("kv-offload status --tier chat" in message) != HELD[times]


def test_only_a_turn_that_is_held_for_long_is_named() -> None:
    """The last consumer too: its fleet waits for it."""
    mine = rollout.Rollout(turns=("ModelReplica/team-a/a",)).resources(("home", "chat"), 2)
    wiring = WiringUpdate(update="Rolling", max_unavailable=2)
    usages = [marked("a", "Moving"), marked("b", "Behind")]
    for late, want in ((mine, {"waitsFor": "ModelReplica/team-a/a"}), ({}, {})):
        alone = rollout.of(usages[:1], wiring, ready=True, observed=mine, late=late)
        assert alone.status({}) == {"remaining": "1", **want}
        both = rollout.of(usages, wiring, ready=True, observed=mine, late=late)
        assert both.status({}) == {"remaining": "2+", **want}


def test_nobody_is_named_while_the_tier_is_not_ready() -> None:
    """Nor for the time before: see `is_late`."""
    mine = rollout.Rollout(turns=("ModelReplica/team-a/a",)).resources(("home", "chat"), 2)
    wiring = WiringUpdate(update="Rolling")
    usages = [marked("a", "Moving"), marked("b", "Behind")]
    found = rollout.of(usages, wiring, ready=False, observed=mine, late=mine)
    assert found.status({}) == {"remaining": "2+"}


@pytest.mark.parametrize(
    ("holders", "text"),
    [
        ("ModelReplica/team-a/two", "It waits for the consumer's other engines"),
        ("ModelReplica/team-a/a, ModelReplica/team-a/two", "It waits for ModelReplica/team-a/a: "),
    ],
)
def test_no_consumer_is_told_to_wait_for_itself(holders: str, text: str) -> None:
    world = edited()
    engines = {f"{KEY}-{half}": d.engine() for half in ("decode", "prefill")}
    before = d.ready_tier(wiring={"update": "Rolling"})
    first = call(d.replica("two"), desired=engines, required=d.requirements(before))
    world.status = {"wiring": {"remaining": "2+", "waitsFor": holders}}
    required = d.requirements(world.tier()) | {TURN: []}
    got = call(d.replica("two"), desired=engines, observed=observe(first), required=required)
    assert text in got.messages["KVOffloadReady"]
    assert "team-a/two" not in got.messages["KVOffloadReady"]


def test_usage_describes_running_pods_after_a_tier_edit() -> None:
    """A pool gets a share for the namespace of engines that run: those stay where they were."""
    world = World()
    pool: dict[str, Any] = {"store": {"sizeGiB": 8}}
    world.spec = {"backend": "Mooncake", "lmcache": None, "mooncake": pool}
    tenants = {"quotas": [{"namespace": "team-a", "sizeGiB": 2}], "othersSizeGiB": 1}

    messages: list[str] = []

    def condition_of(name: str) -> tuple[str, str]:
        """The identity in the pods' own configuration, and in the Usage."""
        got = world.consume(name, image="vllm/vllm-openai:v0.33.0")
        messages.append(got.messages["KVOffloadReady"])
        seen = world.observed[name]
        args = d.wired_pod(seen[KEY])["spec"]["containers"][0]["args"]
        config = json.loads(args[-1])["kv_connector_extra_config"]
        (used,) = (document for key, document in seen.items() if key.startswith("usage-"))
        rows = json.loads(used["metadata"]["annotations"]["modelplane.ai/kv-offload-shares"])
        (identity,) = {row[1] for row in rows}
        return config["cache_prefix"], identity

    before = condition_of("a")
    world.spec["mooncake"] = {**pool, "tenants": tenants}
    after = condition_of("a")
    assert before == after and before[0] == before[1], "its pods keep what they have"
    assert f"Until then its cache identity is {before[0]}." in messages[-1]
    new = condition_of("b")
    assert new[0] == new[1] != before[0], "in the share, and it shares nothing with the other"


# Every backend, and a tier over a tier, with an edit that changes what its pods get.
SGLANG_POD: dict[str, Any] = {
    "image": "lmsysorg/sglang:v0.5.23",
    "args": ["python3", "-m", "sglang.launch_server", "--model-path", d.MODEL],
}
POOL = {"backend": "Mooncake", "lmcache": None, "mooncake": {"store": {"sizeGiB": 8}}}
NIXL = '--kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"kv_producer"}'
OVER_POOL = {"type": "Mooncake", "mooncake": {"storageTierRef": {"name": "pool"}}}
NOT_LMCACHE: dict[str, Any] = {"lmcache": None}
# name: (engine, tier, the object that the edit changes)
EDITED: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "LMCache": ({}, {}, EDIT),
    "Mooncake": ({}, POOL, {"mooncake": {"store": {"sizeGiB": 8}, "engine": {"bufferMiB": 2048}}}),
    "NIXL": (
        {"args": [d.MODEL, NIXL]},
        {**NOT_LMCACHE, "backend": "NIXL", "nixl": {}},
        {"nixl": {"telemetry": {}}},
    ),
    "Native": (
        {},
        {**NOT_LMCACHE, "backend": "Native", "native": {"cpu": {"sizeGiB": 8}}},
        {"native": {"cpu": {"sizeGiB": 9}}},
    ),
    "HiCache": (
        SGLANG_POD,
        {**NOT_LMCACHE, "backend": "HiCache", "hicache": {"host": {"sizeGiB": 8}}},
        {"hicache": {"host": {"sizeGiB": 9}}},
    ),
    "HiCache over Mooncake": (
        SGLANG_POD,
        {
            **NOT_LMCACHE, "backend": "HiCache",
            "hicache": {"host": {"sizeGiB": 8}, "storage": OVER_POOL},
        },
        {"hicache": {"host": {"sizeGiB": 9}, "storage": OVER_POOL}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("update", ["OnChange", "Pinned", "Rolling"])
@pytest.mark.parametrize("name", EDITED)
def test_tier_edit_moves_no_pod_immediately(name: str, update: str) -> None:
    engine, spec, edit = EDITED[name]
    desired = {KEY: d.engine(**engine)}

    def consume(tier: Document, observed: dict[str, Document]) -> Any:
        pool = d.ready_tier("pool", **POOL)
        needs = "needs/modelplane-system/chat/store"
        required = {**d.requirements(tier), needs: [pool], f"{needs}/children": []}
        return call(d.replica("a"), desired=desired, observed=observed, required=required)

    spec = {**spec, "wiring": {"update": update}}
    first = consume(d.ready_tier(**spec), {})
    assert first.conditions["KVOffloadReady"] == ("True", "Wired"), first.messages
    settled = consume(d.ready_tier(**spec), observe(first))
    edited = consume(d.ready_tier(**{**spec, **edit}), observe(settled))
    assert edited.conditions["KVOffloadReady"] == ("True", "Wired"), edited.messages
    assert edited.desired[KEY] == settled.desired[KEY]
    if update == "Rolling":
        assert "in its turn" in edited.messages["KVOffloadReady"]


# What any tier may be edited to, for the other backends as for its own.
COMMON: dict[str, dict[str, Any]] = {
    "open to all": {"allowedNamespaces": {"from": "All"}},
    "another namespace": {"namespace": "elsewhere"},
    "another image": {
        "image": {"repository": "mirror.example/it", "tag": "v1", "version": "0.5.6"}
    },
    "upgrades": {"upgradePolicy": {"type": "OnDelete"}},
    "time to start": {"startupTimeoutSeconds": 900},
    "tolerations": {"nodes": {"tolerations": [{"key": "x", "operator": "Exists"}]}},
    "nodes": {"nodes": {"selector": {"a": "b"}}},
    "events": {"events": {}},
    "declared identities": {"shareDeclaredIdentities": True},
}
DISK_LEVEL = {"name": "d", "type": "Disk", "disk": {"sizeGiB": 8, "hostPath": {"path": "/mnt/kv"}}}
REDIS_LEVEL = {"name": "r", "type": "Redis", "redis": {"host": "redis.example"}}
CLAIM = {"sizeGiB": 8, "claim": {"storageClassName": "rwx"}}
FILES_LEVEL = {"name": "f", "type": "FileSystem", "fileSystem": CLAIM}


def of_pool(**given: Any) -> dict[str, Any]:
    return {"mooncake": {"store": {"sizeGiB": 8}, **given}}


def of_host(**given: Any) -> dict[str, Any]:
    return {"hicache": {"host": {"sizeGiB": 8}, **given}}


# backend -> edits of its own settings
OWN: dict[str, list[dict[str, Any]]] = {
    "LMCache": [
        {"lmcache": {"l1": {"sizeGiB": 100}, "gpuWorkers": 4}},
        {"lmcache": {"l1": {"sizeGiB": 200}, "generated": True}},
        {"lmcache": {"l1": {"sizeGiB": 200}, "chunkTokens": 512}},
        {"lmcache": {"l1": {"sizeGiB": 200}, "l2": [DISK_LEVEL, REDIS_LEVEL]}},
    ],
    "Mooncake": [
        of_pool(generated=True),
        of_pool(adminAccess="Engines"),
        of_pool(store={"sizeGiB": 9}, engine={"bufferMiB": 2048}),
        of_pool(tenants=[{"namespace": "team-a", "sizeGiB": 1}]),
    ],
    "NIXL": [{"nixl": {"preflight": {}}}, {"nixl": {"transfer": "Push"}}],
    "Native": [
        {"native": {"cpu": {"sizeGiB": 8}, "generated": True, "blocksPerChunk": 16}},
        {"native": {"cpu": {"sizeGiB": 8}, "evictionPolicy": "ARC"}},
        {"native": {"cpu": {"sizeGiB": 8}, "secondary": [FILES_LEVEL]}},
    ],
    "HiCache": [of_host(pageTokens=128), of_host(host={"sizeGiB": 9}), of_host(storage=OVER_POOL)],
    "HiCache over Mooncake": [
        of_host(pageTokens=128, storage=OVER_POOL),
        of_host(host={"sizeGiBPerRank": 9}, storage=OVER_POOL),
        of_host(),
    ],
}


@pytest.mark.parametrize("update", ["OnChange", "Pinned", "Rolling"])
@pytest.mark.parametrize("name", EDITED)
def test_no_edit_of_a_tier_moves_a_pod(name: str, update: str) -> None:
    """Whether the edit is taken or refused, and also one of the tier below."""
    engine, spec, _ = EDITED[name]
    desired = {KEY: d.engine(**engine)}

    def consume(edit: Any, observed: dict[str, Document], pool: Any = POOL) -> Any:
        tier = d.ready_tier(**{**spec, "wiring": {"update": update}, **edit})
        needs = "needs/modelplane-system/chat/store"
        below = {needs: [d.ready_tier("pool", **pool)], f"{needs}/children": []}
        required = {**d.requirements(tier), **below}
        return call(d.replica("a"), desired=desired, observed=observed, required=required)

    settled = consume({}, observe(consume({}, {})))
    assert settled.conditions["KVOffloadReady"] == ("True", "Wired"), settled.messages
    answers = [consume(edit, observe(settled)) for edit in (*COMMON.values(), *OWN[name])]
    if "over" in name:
        edits = (*COMMON.values(), *OWN["Mooncake"])
        answers += [consume({}, observe(settled), {**POOL, **edit}) for edit in edits]
    for got in answers:
        assert got.desired[KEY] == settled.desired[KEY], got.messages
    taken = [got for got in answers if got.conditions["KVOffloadReady"] == ("True", "Wired")]
    assert len(taken) > len(answers) // 2


# (what the status says, how many remain) -> what it says then
COUNTS = [
    ("", 0, "0"),
    ("0", 1, "1"),
    ("2+", 1, "1"),
    ("10000+", 0, "0"),
    ("1", 2, "2+"),
    ("2+", 9, "2+"),
    ("2+", 10, "10+"),
    ("10+", 8, "10+"),
    ("10+", 7, "2+"),
    ("", 9, "2+"),
    ("100+", 99, "100+"),
    ("100+", 80, "100+"),
    ("100+", 79, "10+"),
    ("1000+", 8, "2+"),
    ("9+", 9, "2+"),
]


@pytest.mark.parametrize(("before", "number", "want"), COUNTS)
def test_remaining_consumers_are_counted_in_steps(before: str, number: int, want: str) -> None:
    assert rollout.step(number, before) == want


@given(st.integers(2, 20_000), st.sampled_from(["0", "1", "2+", "10+", "100+", "1000+", "10000+"]))
def test_one_consumer_more_or_less_changes_the_count_once(number: int, before: str) -> None:
    """Each change of the status calls every consumer, on core 2.4."""
    shown, found = before, []
    for there in (number, number + 1, number, number + 1, number):
        shown = rollout.step(there, shown)
        found.append(shown)
    assert found[1:] == [found[1]] * 4
    assert int(shown.removesuffix("+")) * 4 <= number * 5


# Core writes what a tier composes from what it has read: a turn that it made meanwhile is lost.


def turn_of(key: str, uid: str = "uid-chat", **metadata: Any) -> Document:
    """A turn, or what somebody else calls so."""
    (made,) = (
        rollout.Rollout(turns=("ModelReplica/team-a/a",))
        .resources(("modelplane-system", "chat"), 2)
        .values()
    )
    known = {
        "namespace": "modelplane-system",
        "annotations": {"crossplane.io/composition-resource-name": key},
        "ownerReferences": [{"kind": "KVOffloadTier", "uid": uid, "controller": True}],
    }
    return made | {"metadata": made["metadata"] | known | metadata}


# name: (the Usages that the tier has of itself, keys that are observed) -> those composed again
LOST: dict[str, tuple[list[Document], list[str], list[str]]] = {
    "none": ([], [], []),
    "a lost turn": ([turn_of("turn-a")], [], ["turn-a"]),
    "one that counts": ([turn_of("turn-a")], ["turn-a"], []),
    "a fleet's own": ([turn_of("usage-fleet")], [], ["usage-fleet"]),
    "one that goes": ([turn_of("turn-a", deletionTimestamp="x")], [], []),
    "another tier's": ([turn_of("turn-a", "uid-other")], [], []),
    "one in the place of an agent": ([turn_of("daemonset-agent")], [], []),
}


@pytest.mark.parametrize("name", LOST)
def test_lost_turns_are_composed_once_more_to_be_dropped(name: str) -> None:
    """They would keep the tier from being deleted."""
    found, observed, want = LOST[name]
    tier = d.tier(wiring={"update": "Rolling"})
    tier["metadata"]["labels"] = {"crossplane.io/in-use": "true"}
    required = {"cluster": [d.cluster()], "usages": [], "own-usages": found}
    got = call(tier, required=required, observed={key: turn_of(key) for key in observed})
    again = [key for key in got.desired if key.startswith(("turn-", "usage-fleet"))]
    assert again == want
    assert "own-usages" in got.requirements
    for key in want:
        made, (kept,) = got.desired[key], found
        assert made["metadata"]["name"] == kept["metadata"]["name"]
        assert made["spec"] == kept["spec"]


@pytest.mark.parametrize("labels", [{}, {"crossplane.io/in-use": "false"}])
def test_lost_turns_are_looked_for_where_a_tier_is_kept_alone(labels: dict[str, str]) -> None:
    tier = d.tier(wiring={"update": "Rolling"})
    tier["metadata"]["labels"] = labels
    got = call(tier, required={"cluster": [d.cluster()], "usages": []})
    assert "own-usages" not in got.requirements


def test_a_fleet_composes_its_lost_usage_once_more() -> None:
    fleet = d.tier(inferenceClusterRef=None, clusterSelector={"matchLabels": {"fleet": "prod"}})
    fleet["metadata"]["labels"] = {"crossplane.io/in-use": "true"}
    required = {"clusters": [], "own-usages": [turn_of("usage-fleet")]}
    got = call(fleet, required=required)
    assert "own-usages" in got.requirements and "usage-fleet" in got.desired
    seen = call(fleet, required=required, observed={"usage-fleet": turn_of("usage-fleet")})
    assert "own-usages" not in seen.requirements and "usage-fleet" not in seen.desired


def test_a_consumer_that_moves_in_its_turn_remains() -> None:
    """A roll is over when the last one is up, not when it begins."""
    found = rollout.of(
        [marked("a", "Moving")],
        WiringUpdate(update="Rolling"),
        ready=True,
        observed=rollout.Rollout(turns=("ModelReplica/team-a/a",)).resources(("home", "chat"), 2),
    )
    assert found.status({}) == {"remaining": "1"}


PAIR_TIER = {"backend": "NIXL", "lmcache": None, "wiring": {"update": "Rolling"}}


def half(role: str, name: str, image: str = d.IMAGE) -> Document:
    made = d.engine({"modelplane.ai/kv-offload-tier": "n"}, image=image)
    d.wired_pod(made)["metadata"]["labels"]["llm-d.ai/role"] = role
    made["spec"]["forProvider"]["manifest"]["metadata"]["name"] = f"{name}-{role}"
    return made


def test_a_pair_that_disagrees_takes_no_turn_from_others() -> None:
    """Decode of a runs an image that prefill does not go with: in its turn a would be refused."""
    tier = d.ready_tier("n", nixl={}, **PAIR_TIER)
    pairs = {name: {it: half(it, name) for it in ("prefill", "decode")} for name in "ab"}
    got: dict[str, Outcome] = {}
    turns: tuple[str, ...] = ()

    def ask() -> dict[str, str]:
        nonlocal turns
        found = d.requirements(tier, name="n")
        for name, pair in pairs.items():
            turn = {"metadata": {"annotations": {"modelplane.ai/kv-offload-generation": "2"}}}
            mine = [turn] if f"ModelReplica/team-a/{name}" in turns else []
            seen = observe(got[name]) if name in got else {}
            required = found | {"turn/modelplane-system/n": mine}
            got[name] = call(d.replica(name), desired=pair, observed=seen, required=required)
        marks = [
            {**it, "metadata": {**it["metadata"], "namespace": "team-a"}}
            for each in got.values()
            for it in each.desired.values()
            if it["kind"] == "Usage"
        ]
        keys = rollout.Rollout(turns=turns).resources(("modelplane-system", "n"), 2)
        turns = rollout.of(marks, WiringUpdate(update="Rolling"), ready=True, observed=keys).turns
        return {name: said(each) for name, each in got.items()}

    ask()
    assert ask() == {"a": "Current", "b": "Current"}
    pairs["a"]["decode"] = half("decode", "a", "vllm/vllm-openai:v0.33.0")
    assert ask() == {"a": "Current", "b": "Current"}
    assert got["a"].conditions["KVOffloadReady"] == ("False", "VersionMismatch")
    before = {key: got["a"].desired[key]["spec"] for key in pairs["a"]}
    tier["spec"]["nixl"] = {"leaseSeconds": 60}
    tier["metadata"]["generation"] = tier["status"]["observedGeneration"] = 2
    progress = [ask() for _ in range(6)]
    assert [it["b"] for it in progress] == ["Behind", "Moving", *["Current"] * 4]
    assert {it["a"] for it in progress} == {""}, "as of one engine that the tier refuses"
    assert got["a"].conditions["KVOffloadReady"] == ("False", "VersionMismatch")
    assert {key: got["a"].desired[key]["spec"] for key in pairs["a"]} == before
    pairs["a"]["decode"] = half("decode", "a")
    progress = [ask() for _ in range(5)]
    assert [it["a"] for it in progress] == ["Behind", "Moving", *["Current"] * 3]
    assert turns == ()


def test_a_half_whose_edit_is_refused_keeps_the_other_half_too() -> None:
    tier = d.ready_tier("n", nixl={}, **PAIR_TIER)
    required = d.requirements(tier, name="n")
    pair = {it: half(it, "a") for it in ("prefill", "decode")}
    first = call(d.replica("a"), desired=pair, required=required)
    edited = {it: half(it, "a", "vllm/vllm-openai:v0.33.0") for it in pair}
    flags = d.wired_pod(edited["decode"])["spec"]["containers"][0]["args"]
    flags += ["--kv-transfer-config", '{"kv_connector": "Other", "kv_role": "kv_both"}']
    got = call(d.replica("a"), desired=edited, observed=observe(first), required=required)
    assert got.conditions["KVOffloadReady"] == ("False", "ConnectorConflict")
    assert "prefill: Its pods stay as they run" in got.messages["KVOffloadReady"]
    assert "The edit of its other half, decode, waits too." in got.messages["KVOffloadReady"]
    for key in pair:
        assert got.desired[key]["spec"] == first.desired[key]["spec"]


@pytest.mark.parametrize("has_turn", [True, False])
def test_an_engine_whose_files_have_no_place_takes_no_turn(has_turn: bool) -> None:
    """Its answer is the same with a turn and without: else it asks for one again and again."""
    tier = d.ready_tier(wiring={"update": "Rolling"})
    first = call(d.replica(), desired={KEY: d.engine()}, required=d.requirements(tier))
    files = deepcopy(first.desired["configmap-kv-offload"])
    files["spec"]["forProvider"]["manifest"]["data"] = {"theirs": "x"}
    desired = {KEY: d.engine(), "configmap-kv-offload": files}
    tier["spec"] |= EDIT
    tier["metadata"]["generation"] = tier["status"]["observedGeneration"] = 2
    turn = {"metadata": {"annotations": {"modelplane.ai/kv-offload-generation": "2"}}}
    required = d.requirements(tier) | {TURN: [turn] if has_turn else []}
    got = call(d.replica(), desired=desired, observed=observe(first), required=required)
    assert (said(got), got.conditions["KVOffloadReady"]) == ("", ("False", "PodConflict"))
    assert got.desired[KEY]["spec"] == first.desired[KEY]["spec"]

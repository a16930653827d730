"""Settings that differ on some clusters of a fleet: how they merge, and what each child gets."""

from typing import Any

import pytest

from function.api.tier import KVOffloadTierSpec
from function.composers import overrides
from tests.unit.composers import documents as d
from tests.unit.composers.calls import Document, call
from tests.unit.composers.test_waves import World

DISK = {"name": "nvme", "type": "Disk", "disk": {"sizeGiB": 100, "hostPath": {"path": "/mnt/kv"}}}
REDIS = {"name": "shared", "type": "Redis", "redis": {"host": "r", "port": 6379}}
BASE: Document = {
    "backend": "LMCache",
    "image": {"repository": "lmcache/standalone", "tag": "v0.5.6", "version": "0.5.6"},
    "nodes": {"selector": {"gpu": "yes"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]},
    "rdma": {"source": "DevicePlugin", "devicePlugin": {"resourceName": "rdma/hca"}},
    "lmcache": {"l1": {"sizeGiB": 200, "evictionPolicy": "LRU"}, "l2": [DISK, REDIS]},
}

# name: (overrides that match, in order; {path: what is there then})
MERGES: dict[str, tuple[list[Document], dict[str, Any]]] = {
    "a size": (
        [{"lmcache": {"l1": {"sizeGiB": 50}}}],
        {"lmcache.l1": {"sizeGiB": 50, "evictionPolicy": "LRU"}, "lmcache.l2": [DISK, REDIS]},
    ),
    "later ones win": (
        [{"lmcache": {"l1": {"sizeGiB": 50}}}, {"lmcache": {"l1": {"sizeGiB": 80}}}],
        {"lmcache.l1.sizeGiB": 80},
    ),
    "a level by its name": (
        [{"lmcache": {"l2": [{"name": "nvme", "disk": {"sizeGiB": 7}}]}}],
        {"lmcache.l2": [{**DISK, "disk": {**DISK["disk"], "sizeGiB": 7}}, REDIS]},
    ),
    "one more level": (
        [{"lmcache": {"l2": [{**DISK, "name": "more"}]}}],
        {"lmcache.l2": [DISK, REDIS, {**DISK, "name": "more"}]},
    ),
    "a level of another type": (
        [{"lmcache": {"l2": [{**REDIS, "name": "nvme"}]}}],
        {"lmcache.l2": [{**REDIS, "name": "nvme"}, REDIS]},
    ),
    "another device": (
        [{"rdma": {"source": "DRA", "dra": {"deviceClassName": "nics"}}}],
        {"rdma": {"source": "DRA", "dra": {"deviceClassName": "nics"}}},
    ),
    "a map": (
        [{"nodes": {"selector": {"pool": "kv"}}}],
        {"nodes.selector": {"gpu": "yes", "pool": "kv"}},
    ),
    "a map without a key": (
        [{"nodes": {"selector": {"gpu": None, "pool": "kv"}}}],
        {"nodes.selector": {"pool": "kv"}},
    ),
    "another mode than the default": (
        [{"lmcache": {"mode": "InProcess", "inProcess": {"memoryGiB": 20}}}],
        {"lmcache": {"mode": "InProcess", "inProcess": {"memoryGiB": 20}}},
    ),
    "the default mode": (
        [{"lmcache": {"mode": "NodeServer", "l1": {"sizeGiB": 50}}}],
        {"lmcache.l1": {"sizeGiB": 50, "evictionPolicy": "LRU"}, "lmcache.l2": [DISK, REDIS]},
    ),
    "a list without names": (
        [{"nodes": {"tolerations": []}}],
        {"nodes.tolerations": [], "nodes.selector": {"gpu": "yes"}},
    ),
    "an image": (
        [{"image": {"repository": "mirror.example/lmcache"}}],
        {"image": {**BASE["image"], "repository": "mirror.example/lmcache"}},
    ),
    "nothing there": ([{"readiness": {"minNodes": 0}}], {"readiness": {"minNodes": 0}}),
    "removed": ([{"rdma": None}], {"rdma": None}),
    "nothing removed from another mode": (
        [{"lmcache": {"mode": "InProcess", "l1": None, "inProcess": {"memoryGiB": 20}}}],
        {"lmcache": {"mode": "InProcess", "inProcess": {"memoryGiB": 20}}},
    ),
    "nothing removed from what is not there": (
        [{"readiness": {"minNodes": 0, "minAvailable": None}, "nodes": None}],
        {"readiness": {"minNodes": 0}, "nodes": None},
    ),
    "the mode removed, which is the default then": (
        [{"lmcache": {"mode": None}}],
        {"lmcache": BASE["lmcache"]},
    ),
    "nothing removed from a map that is not there": (
        [{"nodes": None}, {"nodes": {"selector": {"gpu": None, "pool": "kv"}}}],
        {"nodes": {"selector": {"pool": "kv"}}},
    ),
    "nothing removed from a new level": (
        [{"lmcache": {"l2": [{**REDIS, "name": "more", "disk": None}]}}],
        {"lmcache.l2": [DISK, REDIS, {**REDIS, "name": "more"}]},
    ),
    "nothing removed in a list without names": (
        [{"nodes": {"tolerations": [{"key": "a", "operator": "Exists", "value": None}]}}],
        {"nodes.tolerations": [{"key": "a", "operator": "Exists"}]},
    ),
}


@pytest.mark.parametrize("name", MERGES)
def test_override_merges_by_type(name: str) -> None:
    rows, wanted = MERGES[name]
    spec = {**BASE, "clusterOverrides": [{"matchLabels": {}, "spec": row} for row in rows]}
    got = overrides.merged(KVOffloadTierSpec, spec, range(len(rows)))
    for path, value in wanted.items():
        found: Any = got
        for step in path.split("."):
            found = found.get(step)
        assert found == value, path
    assert spec["lmcache"]["l1"]["sizeGiB"] == 200, "the fleet's own spec is changed"


def sized(*rows: tuple[str, int]) -> list[Document]:
    return [
        {"matchLabels": {"gpu": gpu}, "spec": {"lmcache": {"l1": {"sizeGiB": size}}}}
        for gpu, size in rows
    ]


class Overridden(World):
    """A fleet whose spec has overrides."""

    rows: list[Document]

    def fleet(self) -> Document:
        made = super().fleet()
        made["spec"]["clusterOverrides"] = self.rows
        return made

    def sizes(self) -> dict[str, int]:
        return {
            key.removeprefix("tier-"): it["spec"]["lmcache"]["l1"]["sizeGiB"]
            for key, it in sorted(self.children.items())
        }


def overridden(rows: list[Document]) -> Overridden:
    world = Overridden({"a": {"gpu": "h100"}, "b": {"gpu": "h200"}, "c": {}})
    world.rows = rows
    world.steps(2)
    return world


def test_children_differ_by_their_clusters_labels() -> None:
    world = overridden(sized(("h100", 50), ("h200", 80), ("h100", 60)))
    assert world.sizes() == {"a": 60, "b": 80, "c": 200}
    assert world.state() == ("Done", 2, 3)
    assert all("clusterOverrides" not in it["spec"] for it in world.children.values())


def test_edit_of_an_override_touches_only_its_clusters() -> None:
    world = overridden(sized(("h100", 50)))
    generations = {key: it["metadata"]["generation"] for key, it in world.children.items()}
    world.rows = sized(("h100", 70))
    world.steps(3)
    assert world.sizes() == {"a": 70, "b": 200, "c": 200}
    changed = [
        k for k, it in world.children.items() if it["metadata"]["generation"] != generations[k]
    ]
    assert changed == ["tier-a"]
    assert world.state()[0] == "Done"


def test_override_goes_in_turns() -> None:
    world = overridden([])
    world.rows = [{"matchLabels": {}, "spec": {"lmcache": {"l1": {"sizeGiB": 9}}}}]
    world.says = {("a", "v1"): "starts"}
    world.step()
    assert world.sizes() == {"a": 9, "b": 200, "c": 200}


def test_clusters_that_an_override_does_not_touch_prove_nothing_of_it() -> None:
    world = overridden([])
    world.clusters |= {"d": {"gpu": "h100"}, "e": {"gpu": "h100"}}
    world.steps(2)
    world.rows = sized(("h100", 50))
    world.step()
    assert world.sizes() == {"a": 50, "b": 200, "c": 200, "d": 200, "e": 200}
    world.step()
    assert world.sizes() == {"a": 50, "b": 200, "c": 200, "d": 50, "e": 50}


def test_defaults_of_the_api_server_below_an_override_are_no_edit() -> None:
    """The fleet's override holds none, its child's spec does."""
    world = overridden([{"matchLabels": {}, "spec": {"readiness": {"minNodes": 0}}}])
    for child in world.children.values():
        child["spec"]["readiness"]["minAvailable"] = "90%"
    got = world.ask()
    assert not got.fatals
    assert got.status["rollout"]["state"] == "Done"
    assert got.status["rollout"]["updated"] == 3


def test_new_cluster_in_the_middle_gets_what_its_equals_run() -> None:
    world = overridden(sized(("h100", 50)))
    world.tag, world.says = "v2", {("a", "v2"): "starts"}
    world.step()
    world.clusters |= {"d": {}, "e": {"gpu": "h100"}}
    assert world.step() == "a=v2 b=v1 c=v1 d=v1"  # nobody runs what e would
    world.says = {}
    world.answer()
    assert world.step().endswith("d=v1 e=v2")
    assert world.sizes()["e"] == 50


def test_new_cluster_runs_no_other_clusters_override() -> None:
    """The edit takes the overrides away: by the fleet's spec all clusters are equals."""
    world = overridden(sized(("h100", 50)))
    world.rows, world.rollout = [], {"paused": True}
    world.clusters["d"] = {}
    world.step()
    assert world.sizes() == {"a": 50, "b": 200, "c": 200}


def test_new_cluster_does_not_wait_for_the_edit_of_others_override() -> None:
    world = overridden(sized(("h100", 50)))
    world.clusters |= {"d": {"gpu": "h100"}}
    world.steps(2)
    world.rows = sized(("h100", 70))
    world.step()
    world.says = {("a", "v1"): "fails"}
    world.answer()
    world.step()
    world.clusters["e"] = {}
    world.steps(2)
    assert world.sizes() == {"a": 70, "b": 200, "c": 200, "d": 50, "e": 200}
    assert world.state()[0] == "Halted"
    world.says = {}
    world.answer()
    world.steps(2)
    assert world.sizes() == {"a": 70, "b": 200, "c": 200, "d": 70, "e": 200}


def test_edit_with_a_cluster_that_it_alone_knows_begins() -> None:
    """A new kind of cluster comes with its override and another image."""
    world = overridden([])
    world.rows, world.tag = sized(("h300", 70)), "v2"
    world.clusters["d"] = {"gpu": "h300"}
    assert world.steps(4) == [
        "a=v2 b=v1 c=v1",
        "a=v2 b=v2 c=v1 d=v2",
        "a=v2 b=v2 c=v2 d=v2",
        "a=v2 b=v2 c=v2 d=v2",
    ]
    assert world.state() == ("Done", 2, 4)


def test_new_cluster_gets_its_own_override_while_relabelled_ones_wait() -> None:
    world = overridden(sized(("h100", 50)))
    world.clusters["b"] = world.clusters["c"] = {"gpu": "h100"}
    world.says = {("a", "v1"): "fails", ("b", "v1"): "fails"}
    world.steps(3)
    world.clusters["d"] = {"gpu": "h100"}
    world.step()
    assert world.sizes() == {"a": 50, "b": 50, "c": 200, "d": 50}


def test_edit_of_others_override_does_not_hide_a_broken_cluster() -> None:
    """Else the first edit, which all but one carry on, breaks the next cluster too."""
    world = overridden([])
    world.says = {(cluster, "v2"): "fails" for cluster in "abc"}
    world.tag = "v2"
    assert world.steps(2)[-1] == "a=v2 b=v1 c=v1"
    world.rows = sized(("h200", 50))
    assert world.steps(3)[-1] == "a=v2 b=v1 c=v1"
    assert world.state()[0] == "Halted"
    assert world.status["rollout"]["waiting"] == ["a"]


@pytest.mark.parametrize("how", ["fails", "starts"])
def test_edit_of_the_last_clusters_override_waits_for_the_edit_before(how: str) -> None:
    """No cluster that waits has the overrides of the one that the edit before broke."""
    world = overridden([])
    world.clusters["b"] = world.clusters["c"] = {"gpu": "h200"}
    world.steps(2)
    world.says = {("a", "v2"): how}
    world.tag = "v2"
    world.step()
    world.rows = sized(("h200", 50))
    assert world.steps(3)[-1] == "a=v2 b=v1 c=v1"
    assert world.state()[0] == ("Halted" if how == "fails" else "Progressing")
    world.says = {}
    world.answer()
    assert world.steps(4)[-1] == "a=v2 b=v2 c=v2"


def test_edit_of_the_last_clusters_override_waits_for_engines_that_move() -> None:
    world = Overridden({"a": {"gpu": "h100"}, "b": {"gpu": "h200"}})
    world.rows = []
    world.steps(2)
    world.tag = "v2"
    assert world.step() == "a=v2 b=v1"
    world.rows = sized(("h200", 50))
    for _ in range(3):
        world.children["tier-a"]["status"]["wiring"] = {"remaining": "3"}
        assert world.step() == "a=v2 b=v1"
    assert world.status["rollout"]["waiting"] == ["a"]
    assert world.steps(3)[0] == "a=v2 b=v2"
    assert world.state()[0] == "Done"


def test_edit_of_an_override_waits_for_a_new_cluster_that_starts() -> None:
    world = overridden([])
    world.clusters["d"] = {}
    world.says = {("d", "v1"): "starts"}
    world.step()
    world.rows = sized(("h200", 50))
    world.steps(3)
    assert (world.sizes()["b"], world.status["rollout"]["waiting"]) == (200, ["d"])
    world.says = {}
    world.answer()
    world.steps(3)
    assert (world.sizes()["b"], world.state()[0]) == (50, "Done")


@pytest.mark.parametrize("how", ["fails", "unseen"])
@pytest.mark.parametrize(
    ("dead", "rows"),
    [("d", [("h100", 70)]), ("a", [("h100", 50), ("h200", 80)]), ("d", [])],
    ids=["the same override again", "another one", "set back"],
)
def test_cluster_that_died_in_a_done_fleet_blocks_no_edit(
    dead: str, rows: list[tuple[str, int]], how: str
) -> None:
    world = overridden([])
    world.clusters = {"a": {"gpu": "h100"}, "b": {"gpu": "h200"}, "c": {}, "d": {}, "e": {}}
    world.steps(2)
    world.rows = sized(("h100", 50))
    world.steps(4)
    world.says = {(dead, "v1"): how}
    world.answer()
    world.steps(3)
    world.rows = sized(*rows)
    world.steps(6)
    assert world.state()[0] == "Done"
    assert all(world.sizes()[name] == dict(rows).get(gpu, 200) for name, gpu in GPUS.items())


GPUS = {"a": "h100", "b": "h200", "c": "", "d": "", "e": ""}


def test_edit_waits_for_the_override_that_another_cluster_takes_now() -> None:
    """Both carry one revision, and the override is of one of them alone."""
    world = overridden([])
    del world.clusters["c"]
    world.clusters |= {"a": {"gpu": "h300"}, "b": {"gpu": "h200"}}
    world.steps(2)
    world.tag, world.rows, world.says = "v2", sized(("h200", 50)), {("b", "v2"): "starts"}
    assert world.steps(4)[-1].startswith("a=v2 b=v2")
    world.rows = sized(("h200", 50), ("h300", 90))
    world.steps(3)
    assert (world.sizes()["a"], world.sizes()["b"]) == (200, 50)
    world.says = {}
    world.answer()
    world.steps(3)
    assert (world.sizes()["a"], world.sizes()["b"]) == (90, 50)


def test_cluster_that_failed_before_does_not_block_the_edit_of_its_override() -> None:
    """It has the values already that the edit brings to others."""
    world = overridden(sized(("h100", 50)))
    world.clusters["b"] = {"gpu": "h200"}
    world.says = {("a", "v1"): "fails"}
    world.steps(2)
    world.rows = [{"matchLabels": {}, "spec": {"lmcache": {"l1": {"sizeGiB": 50}}}}]
    world.steps(4)
    assert world.sizes() == {"a": 50, "b": 50, "c": 50}
    assert world.state()[0] == "Done"


def test_first_wave_that_an_override_does_not_touch_leaves_one_cluster_to_go_first() -> None:
    world = overridden([])
    world.rollout = {"waves": [{"matchLabels": {"gpu": "h200"}}], "maxUnavailable": "100%"}
    world.clusters |= {"d": {"gpu": "h100"}, "e": {"gpu": "h100"}}
    world.steps(2)
    world.rows = sized(("h100", 50))
    world.step()
    assert world.sizes() == {"a": 50, "b": 200, "c": 200, "d": 200, "e": 200}


IN_PROCESS = {"lmcache": {"mode": "InProcess", "inProcess": {"memoryGiB": 20}}}
TOGETHER = [
    {"matchLabels": {"gpu": "h100"}, "spec": IN_PROCESS},
    {"matchLabels": {"big": "yes"}, "spec": {"lmcache": {"l1": {"sizeGiB": 999}}}},
]


def test_overrides_that_do_not_fit_together_halt_before_the_first_cluster() -> None:
    world = overridden([])
    world.clusters["b"] = {"gpu": "h100", "big": "yes"}
    world.steps(2)
    world.rows, world.tag = TOGETHER, "v2"
    assert world.steps(2) == ["a=v1 b=v1 c=v1"] * 2
    assert world.state() == ("Halted", 1, 0)
    assert world.got is not None
    message = world.got.messages["RolledOut"]
    assert "Halted by b (spec.clusterOverrides[0] and [1] do not fit together: spec.lmcache" in (
        message
    )
    assert message.endswith("Correct them, or the labels of the InferenceCluster.")
    world.clusters["b"] = {"gpu": "h100"}
    assert world.steps(3)[-1] == "a=v2 b=v2 c=v2"


def test_new_cluster_whose_overrides_do_not_fit_together_gets_no_child_and_stops_no_other() -> None:
    world = overridden(TOGETHER)
    world.clusters |= {"d": {"gpu": "h100", "big": "yes"}, "e": {}}
    assert world.steps(2)[-1] == "a=v1 b=v1 c=v1 e=v1"
    assert world.got is not None
    assert world.got.conditions["RolledOut"] == ("False", "Halted")
    assert world.got.conditions["AgentsReady"][0] == "False"


# An override's spec -> (path, words) of its problem.
PROBLEMS: dict[str, tuple[Document, str, str]] = {
    "a bound": (
        {"lmcache": {"l1": {"sizeGiB": -1}}},
        "spec.clusterOverrides[1].spec.lmcache.l1.sizeGiB",
        "must be",
    ),
    "a field that there is not": (
        {"lmcache": {"l1": {"sizeGB": 1}}},
        "spec.clusterOverrides[1].spec.lmcache.l1.sizeGB",
        "unknown",
    ),
    "a field that there is not, removed": (
        {"lmcache": {"l1": {"sizeGB": None}}},
        "spec.clusterOverrides[1].spec.lmcache.l1.sizeGB",
        "unknown",
    ),
    "a field that there is not, removed from a new level": (
        {"lmcache": {"l2": [{**REDIS, "redis": {"host": "r", "sizeGB": None}}]}},
        "spec.clusterOverrides[1].spec.lmcache.l2[0].redis.sizeGB",
        "unknown",
    ),
    "a rule": (
        {"image": {"tag": "latest", "version": None}},
        "spec.clusterOverrides[1].spec.image.version",
        "must be set",
    ),
    "what all clusters share": (
        {"allowedNamespaces": {"from": "All"}},
        "spec.clusterOverrides[1].spec.allowedNamespaces",
        "cannot differ by cluster",
    ),
    "another backend": (
        {"backend": "Native", "native": {"cpu": {"sizeGiB": 1}}},
        "spec.clusterOverrides[1].spec.backend",
        "cannot differ by cluster",
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_invalid_override_is_refused_with_its_path(name: str) -> None:
    override, path, words = PROBLEMS[name]
    world = Overridden({"a": {}})
    world.rows = [*sized(("h100", 50)), {"matchLabels": {"a": "b"}, "spec": override}]
    message = call(world.fleet(), required=world.required()).messages["Accepted"]
    assert path in message and words in message


def test_only_a_fleet_has_overrides() -> None:
    got = call(d.tier(clusterOverrides=sized(("h100", 50))))
    assert "clusterOverrides may only be set with clusterSelector" in got.messages["Accepted"]

"""Decisions about one consumer's workload: the decision table, row by row."""

import json
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from function.edge import metrics
from function.pods import wire
from tests.unit.composers import documents as d
from tests.unit.composers.calls import READY, call, observe
from tests.unit.composers.plane import restart

FILES = "configmap-kv-offload"
KEY = "model-serving-main"
TIER = "modelplane.ai/kv-offload-tier"
POLICY = "modelplane.ai/kv-offload-policy"
RECORD = "modelplane.ai/kv-offload-record"

OPTIONAL = {TIER: "chat", POLICY: "Optional"}
OFF = {TIER: "chat", POLICY: "Off"}


def transfer_config(document: dict[str, Any]) -> dict[str, Any] | None:
    """The connector an engine's Object would start with, None without one."""
    args = d.wired_pod(document)["spec"]["containers"][0]["args"]
    flag = "--kv-transfer-config"
    return json.loads(args[args.index(flag) + 1]) if flag in args else None


def wired() -> dict[str, Any]:
    """What is observed after the engine was wired and created."""
    first = call(d.replica(), desired={KEY: d.engine()}, required=d.requirements(d.ready_tier()))
    assert first.conditions == {"KVOffloadReady": ("True", "Wired")}
    return deepcopy(observe(first))


# name: (engine's annotations, required, is it observed unwired?) ->
#       (condition, is it desired?, is it wired?, composite's flag, ttl)
FIRST_CALLS = {
    "ready": (
        None,
        d.requirements(d.ready_tier()),
        False,
        (("True", "Wired"), True, True, "UNSPECIFIED", 300),
    ),
    "unresolved": (
        None,
        {},
        False,
        (("Unknown", "TierUnresolved"), True, False, "UNSPECIFIED", 10),
    ),
    "no such tier": (
        None,
        d.requirements(),
        False,
        (("False", "TierNotFound"), False, False, "FALSE", 10),
    ),
    "tier starting": (
        None,
        d.requirements(d.unready_tier()),
        False,
        (("False", "TierNotReady"), False, False, "FALSE", 10),
    ),
    "tier starting, pods run": (
        None,
        d.requirements(d.unready_tier()),
        True,
        (("False", "TierNotReady"), True, False, "UNSPECIFIED", 10),
    ),
    "namespace not allowed": (
        None,
        d.requirements(d.ready_tier(allowedNamespaces={"from": "Same"})),
        False,
        (("False", "NamespaceNotAllowed"), False, False, "FALSE", 10),
    ),
    "another cluster": (
        None,
        d.requirements(d.ready_tier(provider_config="eu")),
        False,
        (("False", "ClusterMismatch"), False, False, "FALSE", 10),
    ),
    "invalid tier": (
        None,
        d.requirements(d.ready_tier(backend="Nope")),
        False,
        (("False", "InvalidTier"), False, False, "FALSE", 10),
    ),
    "a tier's edit refused": (
        None,
        d.requirements(d.refused_tier()),
        False,
        (("False", "InvalidTier"), False, False, "FALSE", 10),
    ),
    "a tier's edit not judged yet": (
        None,
        d.requirements(d.edited_tier()),
        False,
        (("False", "TierNotReady"), False, False, "FALSE", 10),
    ),
    "optional, ready": (
        OPTIONAL,
        d.requirements(d.ready_tier()),
        False,
        (("True", "Wired"), True, True, "UNSPECIFIED", 300),
    ),
    "optional, starting": (
        OPTIONAL,
        d.requirements(d.unready_tier()),
        False,
        (("False", "TierNotReady"), True, False, "UNSPECIFIED", 300),
    ),
    "off": (
        OFF,
        d.requirements(d.ready_tier()),
        False,
        (("False", "TurnedOff"), True, False, "UNSPECIFIED", 300),
    ),
    "bad annotation": (
        {TIER: "a/b/c"},
        d.requirements(d.ready_tier()),
        False,
        (("False", "InvalidInput"), False, False, "FALSE", 3600),
    ),
}


@pytest.mark.parametrize("name", FIRST_CALLS)
def test_decision_of_the_first_call(name: str) -> None:
    annotations, required, runs, want = FIRST_CALLS[name]
    engine = d.engine(annotations)
    observed = {KEY: engine} if runs else {}
    got = call(d.replica(), desired={KEY: engine}, observed=observed, required=required)
    wiring = bool(KEY in got.desired and transfer_config(got.desired[KEY]))
    assert (
        got.conditions["KVOffloadReady"],
        KEY in got.desired,
        wiring,
        got.composite_ready,
        got.ttl,
    ) == want
    assert not got.fatals
    assert got.status == {}, "the status of another's composite is not ours"


def test_unresolved_call_counts_no_refusal() -> None:
    def counted(reason: str, required: dict[str, Any]) -> float:
        counter = metrics.REFUSALS.labels(reason)._value
        before = counter.get()
        call(d.replica(), desired={KEY: d.engine(None)}, required=required)
        return float(counter.get() - before)

    assert counted("TierUnresolved", {}) == 0
    assert counted("TierNotFound", d.requirements()) == 1


# (containers beside the engine's own, what is said of them)
NEIGHBOURS = {
    "a second engine": ([{"name": "decode", "image": "vllm/vllm-openai:v0.32.0"}], "decode"),
    "a proxy": ([{"name": "routing-proxy", "image": "vllm/vllm-openai:v0.32.0"}], ""),
    "no engine": ([{"name": "web", "image": "nginx:1.27"}], ""),
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_message_names_an_unwired_engine_of_the_same_pod(name: str) -> None:
    more, who = NEIGHBOURS[name]
    engine = d.engine()
    d.wired_pod(engine)["spec"]["containers"] += more
    got = call(d.replica(), desired={KEY: engine}, required=d.requirements(d.ready_tier()))
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    assert d.wired_pod(got.desired[KEY])["spec"]["containers"][1:] == more
    said = f"container {who} of the same pod starts an engine too, and stays as it is"
    assert (said in got.messages["KVOffloadReady"]) is bool(who)


# What may become of a tier under a consumer that is wired: it stays wired, and says so.
LATER = {
    "deleted": (d.requirements(), "TierNotFound"),
    "closed to the namespace": (
        d.requirements(d.ready_tier(allowedNamespaces={"from": "Same"})),
        "NamespaceNotAllowed",
    ),
    "moved to another cluster": (
        d.requirements(d.ready_tier(provider_config="eu")),
        "ClusterMismatch",
    ),
    "made invalid": (d.requirements(d.ready_tier(lmcache=None)), "InvalidTier"),
    "its edit refused": (d.requirements(d.refused_tier()), "InvalidTier"),
    "its edit not judged yet": (d.requirements(d.edited_tier()), "TierNotReady"),
    "rolling its agents": (d.requirements(d.unready_tier()), "TierNotReady"),
    "unresolved": ({}, "TierUnresolved"),
}


@pytest.mark.parametrize("name", LATER)
def test_wired_workload_stays_wired(name: str) -> None:
    required, reason = LATER[name]
    observed = wired()
    got = call(d.replica(), desired={KEY: d.engine()}, observed=observed, required=required)
    assert got.conditions["KVOffloadReady"][1] == reason
    assert d.wired_pod(got.desired[KEY]) == d.wired_pod(observed[KEY])
    assert got.desired[KEY]["metadata"]["annotations"] == observed[KEY]["metadata"]["annotations"]
    assert got.composite_ready == "UNSPECIFIED"
    assert [k for k in got.desired if k.startswith("usage-")], "it still counts as a user"


def data_of(config_map: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = config_map["spec"]["forProvider"]["manifest"]["data"]
    return found


def without_usages(desired: dict[str, Any]) -> dict[str, Any]:
    """That of the tier it leaves stays until core has seen the engine leave."""
    return {key: document for key, document in desired.items() if not key.startswith("usage-")}


def test_replayed_workload_must_be_as_core_has_read_it() -> None:
    """What a cache that lags shows is old: written back, it would take a newer wiring back."""
    observed = wired()
    observed[KEY]["metadata"]["resourceVersion"] = "7"
    for name, (required, _) in LATER.items():
        got = call(d.replica(), desired={KEY: d.engine()}, observed=observed, required=required)
        assert got.desired[KEY]["metadata"]["resourceVersion"] == "7", name
    required = d.requirements(d.ready_tier())
    got = call(d.replica(), desired={KEY: d.engine()}, observed=observed, required=required)
    assert "resourceVersion" not in got.desired[KEY]["metadata"]


UNWIRED_BY = {
    "annotation removed": ({}, "NotRequested"),
    "policy Off": (OFF, "TurnedOff"),
}


@pytest.mark.parametrize("name", UNWIRED_BY)
def test_unwiring_needs_an_edit_by_the_user(name: str) -> None:
    annotations, reason = UNWIRED_BY[name]
    engine = d.engine(annotations)
    required = d.requirements(d.ready_tier())
    got = call(d.replica(), desired={KEY: engine}, observed=wired(), required=required)
    assert got.conditions["KVOffloadReady"] == ("False", reason)
    assert without_usages(got.desired).keys() == {KEY, FILES}
    assert got.desired[KEY] == engine
    left = call(d.replica(), desired={KEY: engine}, observed=observe(got), required=required)
    assert without_usages(left.desired) == {KEY: engine}


def test_optional_workload_stays_unwired_until_its_template_changes() -> None:
    starting, ready = d.requirements(d.unready_tier()), d.requirements(d.ready_tier())
    engine = d.engine(OPTIONAL)
    first = call(d.replica(), desired={KEY: engine}, required=starting)
    later = call(d.replica(), desired={KEY: engine}, observed=observe(first), required=ready)
    assert later.conditions["KVOffloadReady"] == ("False", "Unwired")
    assert transfer_config(later.desired[KEY]) is None
    changed = d.engine(OPTIONAL, args=["Qwen/Qwen3-32B", "--max-model-len=4096"])
    rolled = call(d.replica(), desired={KEY: changed}, observed=observe(first), required=ready)
    assert rolled.conditions["KVOffloadReady"] == ("True", "Wired")
    assert transfer_config(rolled.desired[KEY])


def test_optional_choice_holds_when_a_bug_ends_the_decision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, ready = d.engine(OPTIONAL), d.requirements(d.ready_tier())
    first = call(d.replica(), desired={KEY: engine}, required=d.requirements(d.unready_tier()))
    restart()  # what was wired is remembered
    with monkeypatch.context() as broken:
        broken.setattr("function.pods.wire.wire", lambda *_: 1 / 0)
        second = call(d.replica(), desired={KEY: engine}, observed=observe(first), required=ready)
    assert second.conditions["KVOffloadReady"] == ("False", "InternalError")
    third = call(d.replica(), desired={KEY: engine}, observed=observe(second), required=ready)
    assert third.conditions["KVOffloadReady"] == ("False", "Unwired")


def test_engines_of_one_composite_start_together() -> None:
    elsewhere = d.engine({TIER: "gone"})
    required = d.requirements(d.ready_tier()) | d.requirements(name="gone")
    got = call(d.replica(), desired={"a": d.engine(), "b": elsewhere}, required=required)
    assert got.desired.keys() & {"a", "b"} == set()
    assert got.conditions["KVOffloadReady"] == ("False", "TierNotFound")
    assert got.composite_ready == "FALSE"


def test_steady_state_is_stable() -> None:
    observed = wired()
    required = d.requirements(d.ready_tier())
    again = call(d.replica(), desired={KEY: d.engine()}, observed=observed, required=required)
    assert again.conditions == {"KVOffloadReady": ("True", "Wired")}
    assert again.desired[KEY]["spec"] == observed[KEY]["spec"]


def test_wiring_a_wired_pod_changes_nothing() -> None:
    required = d.requirements(d.ready_tier())
    once = call(d.replica(), desired={KEY: d.engine()}, required=required)
    twice = call(d.replica(), desired={KEY: once.desired[KEY]}, required=required)
    assert d.wired_pod(twice.desired[KEY]) == d.wired_pod(once.desired[KEY])


def test_fleet_name_resolves_to_the_child_on_the_cluster() -> None:
    fleet = d.tier(inferenceClusterRef=None, clusterSelector={"matchLabels": {"fleet": "prod"}})
    children = []
    for name in ("gpu", "eu"):
        child = d.ready_tier(
            f"chat-{name}", provider_config=name, inferenceClusterRef={"name": name}
        )
        child["metadata"]["labels"] = {"modelplane.ai/kv-offload-fleet": "chat"}
        children.append(child)
    required = d.requirements(fleet, children=tuple(children))
    engine = d.engine(provider_config="eu")
    got = call(d.replica(), desired={KEY: engine}, required=required)
    usage = next(v for k, v in got.desired.items() if k.startswith("usage-"))
    assert usage["spec"]["of"]["resourceRef"] == {
        "name": "chat-eu",
        "namespace": "modelplane-system",
    }
    assert usage["metadata"]["labels"] == {
        "modelplane.ai/kv-offload-used-tier": "modelplane-system.chat-eu",
        "modelplane.ai/kv-offload-used-fleet": "modelplane-system.chat",
    }


def fleet_child(name: str, **spec: Any) -> dict[str, Any]:
    child = d.ready_tier(name, **spec)
    child["metadata"]["labels"] = {"modelplane.ai/kv-offload-fleet": "chat"}
    return child


def test_only_the_tier_on_the_cluster_decides_admission() -> None:
    """A tier elsewhere that admits the namespace does not open the one that is here."""
    secret = fleet_child("chat-gpu", allowedNamespaces={"from": "Names", "names": ["team-secret"]})
    open_ = fleet_child("chat-eu", provider_config="eu", inferenceClusterRef={"name": "eu"})
    required = d.requirements(children=(secret, open_))
    got = call(d.replica(), desired={KEY: d.engine()}, required=required)
    assert got.conditions["KVOffloadReady"] == ("False", "NamespaceNotAllowed")
    assert KEY not in got.desired
    assert not any(key.startswith("usage-") for key in got.desired)


def _by_field(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A consumer that names the tier in a field: its pod template is the same for each."""
    composite = d.replica(kvOffloadTierRef={"name": name})
    return composite, {KEY: d.engine({})}


def _elsewhere(cluster: str, **wiring: Any) -> dict[str, Any]:
    """What is resolved for a workload of the fleet `chat` on one of its clusters."""
    where = {"provider_config": cluster, "inferenceClusterRef": {"name": cluster}}
    return d.requirements(children=(fleet_child(f"chat-{cluster}", **where, **wiring),))


def test_consumer_of_a_fleet_that_names_a_closed_tier_stays_wired() -> None:
    """Its Usage is of the child, and its record names the fleet."""
    composite, desired = _by_field("chat")
    required = d.requirements(children=(fleet_child("chat-gpu"),))
    first = call(composite, desired=desired, required=required)
    observed = deepcopy(observe(first))
    composite, desired = _by_field("closed")
    closed = d.ready_tier("closed", allowedNamespaces={"from": "Names", "names": ["team-b"]})
    required = d.requirements(closed, name="closed")
    got = call(composite, desired=desired, observed=observed, required=required)
    assert got.conditions["KVOffloadReady"] == ("False", "NamespaceNotAllowed")
    assert d.wired_pod(got.desired[KEY]) == d.wired_pod(first.desired[KEY])


# name: (update of the other tier) -> another tier is another wiring, whatever that says
UPDATES = [{}, {"wiring": {"update": "Rolling"}}, {"wiring": {"update": "Pinned"}}]


@pytest.mark.parametrize("spec", UPDATES)
def test_changed_tier_field_rewires_to_the_new_tier(spec: dict[str, Any]) -> None:
    (one, desired), (two, _) = _by_field("chat"), _by_field("other")
    first = call(one, desired=desired, required=d.requirements(d.ready_tier()))
    at = {"observed": observe(first), "required": d.requirements(d.ready_tier())}
    first = call(one, desired=desired, **at)
    unready = d.requirements(d.unready_tier("other", **spec), name="other")
    waits = call(two, desired=desired, observed=observe(first), required=unready)
    assert waits.conditions["KVOffloadReady"] == ("False", "TierNotReady")
    assert waits.desired == first.desired, "and it holds the tier that it runs on"
    ready = d.requirements(d.ready_tier("other", **spec), name="other")
    got = call(two, desired=desired, observed=observe(waits), required=ready)
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    fresh = call(two, desired=desired, required=ready)
    assert got.desired[KEY] == fresh.desired[KEY]
    again = call(two, desired=desired, observed=observe(got), required=ready)
    assert again.desired[KEY] == fresh.desired[KEY]
    assert again.desired.keys() == fresh.desired.keys(), "the other tier is let go of"


@pytest.mark.parametrize("spec", UPDATES)
def test_workload_moved_within_a_fleet_is_rewired_to_the_child(spec: dict[str, Any]) -> None:
    there = {KEY: d.engine(provider_config="eu")}
    first = call(d.replica(), desired={KEY: d.engine()}, required=_elsewhere("gpu", **spec))
    got = call(
        d.replica(), desired=there, observed=observe(first), required=_elsewhere("eu", **spec)
    )
    fresh = call(d.replica(), desired=there, required=_elsewhere("eu", **spec))
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    assert got.desired[KEY] == fresh.desired[KEY]
    assert got.desired[KEY]["spec"] != first.desired[KEY]["spec"]


# name: who has the name "chat" on a cluster -> who takes it when that one is gone
SUCCESSORS = {
    "a fleet after a single tier": ((d.ready_tier(), False), (fleet_child("chat-gpu"), True)),
    "a single tier after a fleet": ((fleet_child("chat-gpu"), True), (d.ready_tier(), False)),
    "a child of another name": ((fleet_child("chat-gpu"), True), (fleet_child("chat-b"), True)),
}


@pytest.mark.parametrize("is_older", [False, True], ids=["", "recorded by an older release"])
@pytest.mark.parametrize("name", SUCCESSORS)
def test_successor_under_the_same_name_is_another_tier(name: str, is_older: bool) -> None:
    """Its agents have other names: with the old wiring an engine would find none of them."""
    before, after = (
        d.requirements(children=(tier,)) if is_child else d.requirements(tier)
        for tier, is_child in SUCCESSORS[name]
    )
    desired = {KEY: d.engine()}
    observed = observe(call(d.replica(), desired=desired, required=before))
    if is_older:
        observed = deepcopy(observed)
        annotations = observed[KEY]["metadata"]["annotations"]
        record = json.loads(annotations[RECORD])
        record.pop("child", None)
        annotations[RECORD] = json.dumps(record)
    kept = call(d.replica(), desired=desired, required=before, observed=observed)
    assert d.wired_pod(kept.desired[KEY]) == d.wired_pod(observed[KEY]), "nothing rolls for that"
    got = call(d.replica(), desired=desired, required=after, observed=observed)
    fresh = call(d.replica(), desired=desired, required=after)
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    assert got.desired[KEY] == fresh.desired[KEY]


def test_annotation_naming_a_pinned_tier_rewires_to_it() -> None:
    first = call(d.replica(), desired={KEY: d.engine()}, required=d.requirements(d.ready_tier()))
    pinned = d.ready_tier("other", wiring={"update": "Pinned"})
    desired = {KEY: d.engine({TIER: "other"})}
    required = d.requirements(pinned, name="other")
    got = call(d.replica(), desired=desired, observed=observe(first), required=required)
    fresh = call(d.replica(), desired=desired, required=required)
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    assert got.desired[KEY] == fresh.desired[KEY]


def test_optional_choice_applies_to_the_named_tier_only() -> None:
    (one, desired), (two, _) = _by_field("chat"), _by_field("other")
    for composite in (one, two):
        composite["spec"]["kvOffloadTierRef"]["policy"] = "Optional"
    first = call(one, desired=desired, required=d.requirements())
    assert first.conditions["KVOffloadReady"] == ("False", "TierNotFound")
    ready = d.requirements(d.ready_tier("other"), name="other")
    got = call(two, desired=desired, observed=observe(first), required=ready)
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")


@pytest.mark.parametrize("is_running", [False, True], ids=["new", "running"])
def test_tier_being_deleted_accepts_no_new_consumer(is_running: bool) -> None:
    """Until core has looked at it, it still says Ready."""
    tier, desired = d.ready_tier(), {KEY: d.engine()}
    first = call(d.replica(), desired=desired, required=d.requirements(tier))
    tier["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    observed = observe(first) if is_running else {}
    got = call(d.replica(), desired=desired, required=d.requirements(tier), observed=observed)
    assert got.conditions["KVOffloadReady"] == ("False", "TierNotReady")
    assert got.messages["KVOffloadReady"].endswith("chat is not ready: it is being deleted.")
    assert (KEY in got.desired) == is_running
    if is_running:
        assert got.desired[KEY] == first.desired[KEY]


def test_two_tiers_of_one_name_on_a_cluster_are_a_conflict() -> None:
    required = d.requirements(d.ready_tier(), children=(fleet_child("chat-gpu"),))
    got = call(d.replica(), desired={KEY: d.engine()}, required=required)
    assert got.conditions["KVOffloadReady"] == ("False", "TierConflict")
    assert "chat, chat-gpu" in got.messages["KVOffloadReady"]


IDENTITY = "modelplane.ai/kv-offload-cache-identity"


@pytest.mark.parametrize(
    ("declared", "want"),
    [({}, ("False", "CacheIdentityConflict")), ({IDENTITY: "mine"}, ("True", "Wired"))],
    ids=["unknown", "declared"],
)
def test_runtime_only_model_needs_a_declared_identity(
    declared: dict[str, str], want: tuple[str, str]
) -> None:
    """The key holds the identity, so a declared one is enough; without any there is none."""
    engine = d.sglang_engine()
    pod = d.wired_pod(engine)
    pod["metadata"]["annotations"] |= declared
    container = pod["spec"]["containers"][0]
    container["command"][-1] = "$(MODEL)"
    secret = {"secretKeyRef": {"name": "model", "key": "path"}}
    container["env"] = [{"name": "MODEL", "valueFrom": secret}]
    tier = d.ready_tier(**d.SHARED_MEMORY)
    got = call(d.replica(), desired={KEY: engine}, required=d.requirements(tier))
    assert got.conditions["KVOffloadReady"] == want, got.messages


def test_composite_without_request_is_unchanged() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    desired = {"service": service, KEY: d.engine({})}
    got = call(d.replica(), desired=desired)
    assert (got.desired, got.conditions, got.requirements) == (desired, {}, {})
    assert got.ttl == 3600


def test_a_stale_condition_is_cleared() -> None:
    stale = {"type": "KVOffloadReady", "status": "True", "reason": "Wired"}
    composite = {**d.replica(), "status": {"conditions": [stale]}}
    got = call(composite, desired={KEY: d.engine({})})
    assert got.conditions == {"KVOffloadReady": ("False", "NotRequested")}


def test_tier_field_without_workloads_reports_nothing_to_wire() -> None:
    got = call(d.replica(kvOffloadTierRef={"name": "chat"}), desired={})
    assert got.conditions == {"KVOffloadReady": ("False", "NothingToWire")}


def test_tier_field_wires_engines_and_not_the_router() -> None:
    router = d.engine({}, image="registry.example/router:v1", args=["--port", "80"])
    got = call(
        d.replica(kvOffloadTierRef={"name": "chat"}),
        desired={KEY: d.engine({}), "router": router},
        required=d.requirements(d.ready_tier()),
    )
    assert got.conditions == {"KVOffloadReady": ("True", "Wired")}
    assert transfer_config(got.desired[KEY])
    assert got.desired["router"] == router


@pytest.mark.parametrize("args", [["--port", "80"], None])
def test_unknown_engine_is_held_back_by_field_and_by_annotation(args: Any) -> None:
    """An image that no table knows must not run unwired under policy Required, by either way."""
    unknown = {"image": "registry.example/ours:v7", "args": args}
    required = d.requirements(d.ready_tier())
    by_field = call(
        d.replica(kvOffloadTierRef={"name": "chat"}),
        desired={KEY: d.engine({}, **unknown)},
        required=required,
    )
    by_annotation = call(d.replica(), desired={KEY: d.engine(**unknown)}, required=required)
    for got in (by_field, by_annotation):
        assert got.conditions == {"KVOffloadReady": ("False", "EngineUnknown")}
        assert (KEY in got.desired, got.composite_ready) == (False, "FALSE")
    optional = call(
        d.replica(kvOffloadTierRef={"name": "chat", "policy": "Optional"}),
        desired={KEY: d.engine({}, **unknown)},
        required=required,
    )
    assert optional.conditions == {"KVOffloadReady": ("False", "EngineUnknown")}
    assert KEY in optional.desired


def test_only_an_invalid_input_is_fatal() -> None:
    broken = {"apiVersion": "kvoffload.fn.modelplane.ai/v1alpha1", "kind": "Input", "mod": "Wire"}
    got = call(d.replica(), step_input=broken, desired={KEY: d.engine()})
    assert len(got.fatals) == 1
    assert "input.mod" in got.fatals[0]
    assert "mode" in got.fatals[0]


HERE, NAMED, ALL = (f"{it}/modelplane-system/chat" for it in ("here", "tier", "children"))
HERE += "/gpu"
FLEET = {"modelplane.ai/kv-offload-fleet": "chat"}
LOOKUPS = {
    HERE: {
        "kind": "KVOffloadTier",
        "namespace": "modelplane-system",
        "labels": {**FLEET, "modelplane.ai/kv-offload-provider-config": "gpu"},
    },
    NAMED: {"kind": "KVOffloadTier", "namespace": "modelplane-system", "name": "chat"},
    ALL: {"kind": "KVOffloadTier", "namespace": "modelplane-system", "labels": FLEET},
}


def a_child() -> dict[str, Any]:
    made = d.ready_tier("chat-1234")
    made["metadata"]["labels"] = LOOKUPS[HERE]["labels"]
    return made


def a_fleet() -> dict[str, Any]:
    return d.tier(inferenceClusterRef=None, clusterSelector={"matchLabels": {"fleet": "prod"}})


# What was looked up -> what is, and what then is said
FINDS: dict[str, tuple[dict[str, list[Any]], set[str], tuple[str, str]]] = {
    "nothing yet": ({}, {HERE, NAMED}, ("Unknown", "TierUnresolved")),
    "a child there": ({HERE: [a_child()], NAMED: [a_fleet()]}, {HERE, NAMED}, ("True", "Wired")),
    "a tier there": ({HERE: [], NAMED: [d.ready_tier()]}, {HERE, NAMED}, ("True", "Wired")),
    "no child there": (
        {HERE: [], NAMED: [a_fleet()]},
        {HERE, NAMED, ALL},
        ("Unknown", "TierUnresolved"),
    ),
    "one without a label": (
        {HERE: [], NAMED: [a_fleet()], ALL: [a_child()]},
        {HERE, NAMED, ALL},
        ("True", "Wired"),
    ),
    "none of all": (
        {HERE: [], NAMED: [a_fleet()], ALL: []},
        {HERE, NAMED, ALL},
        ("False", "TierNotReady"),
    ),
}


@pytest.mark.parametrize("name", FINDS)
def test_requirements_are_complete_and_narrow(name: str) -> None:
    required, asked, said = FINDS[name]
    got = call(d.replica(), desired={KEY: d.engine()}, required=required)
    assert got.requirements == {key: LOOKUPS[key] for key in asked}
    assert got.conditions["KVOffloadReady"] == said


def test_consumer_of_a_child_requires_that_alone() -> None:
    """Every change of a fleet, and of its children elsewhere, would call all its consumers."""
    found = {HERE: [a_child()], NAMED: [a_fleet()]}
    first = call(d.replica(), desired={KEY: d.engine()}, required=found)
    seen = observe(first)
    for required in ({}, {HERE: [a_child()]}):
        got = call(d.replica(), desired={KEY: d.engine()}, observed=seen, required=required)
        assert got.requirements == {HERE: LOOKUPS[HERE]}
        assert got.desired[KEY] == first.desired[KEY]
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    assert without_usages(got.desired) == without_usages(first.desired)
    assert got.desired.keys() == first.desired.keys()
    gone = call(d.replica(), desired={KEY: d.engine()}, observed=seen, required={HERE: []})
    assert gone.requirements == LOOKUPS
    assert gone.desired[KEY] == first.desired[KEY]


CHANGED_ARGS = [d.MODEL, "--max-model-len=4096"]
OFFLOADING = [d.MODEL, "--kv-offloading-size", "4"]
UNREADABLE = '{"version": 99}'


def with_record(observed: dict[str, Any], text: str) -> dict[str, Any]:
    observed[KEY]["metadata"]["annotations"][RECORD] = text
    return observed


def test_unreadable_record_rewires_the_workload() -> None:
    """It says that the pods were wired, not how: they are wired anew, also to a tier that rolls."""
    for tier, want in ((d.ready_tier(), "Wired"), (d.unready_tier(), "TierNotReady")):
        observed = with_record(wired(), UNREADABLE)
        required = d.requirements(tier)
        got = call(d.replica(), desired={KEY: d.engine()}, observed=observed, required=required)
        assert got.conditions["KVOffloadReady"][1] == want
        assert "a newer function wrote it" in got.messages["KVOffloadReady"]
        assert d.wired_pod(got.desired[KEY]) == d.wired_pod(wired()[KEY])


@pytest.mark.parametrize("recorded", [UNREADABLE, "{", "[" * 5000, None], ids=str)
@pytest.mark.parametrize("name", UNWIRED_BY)
def test_policy_off_or_no_request_wins_over_any_record(name: str, recorded: str | None) -> None:
    annotations, reason = UNWIRED_BY[name]
    observed = with_record(wired(), recorded) if recorded else wired()
    engine, required = d.engine(annotations), d.requirements(d.ready_tier())
    got = call(d.replica(), desired={KEY: engine}, observed=observed, required=required)
    assert got.conditions["KVOffloadReady"] == ("False", reason)
    assert without_usages(got.desired).keys() == {KEY, FILES}
    assert got.desired[KEY] == engine
    assert got.desired[FILES]["spec"] == wired()[FILES]["spec"], "its pods still run"


def evil(observed: dict[str, Any]) -> dict[str, Any]:
    """What is observed, by somebody who may write it: a pod of another kind, and a record."""
    pod = d.wired_pod(observed[KEY])
    pod["spec"] |= {"hostPID": True}
    pod["spec"]["containers"][0]["image"] = "registry.example/evil:1"
    return observed


@pytest.mark.parametrize("recorded", [UNREADABLE, None], ids=["unreadable", "ours"])
@pytest.mark.parametrize("required", [{}, d.requirements()], ids=["unresolved", "deleted"])
def test_observed_pod_fields_are_never_desired(recorded: str | None, required: Any) -> None:
    observed = evil(with_record(wired(), recorded) if recorded else wired())
    for engine in (d.engine(), d.engine(args=CHANGED_ARGS)):
        got = call(d.replica(), desired={KEY: engine}, observed=observed, required=required)
        spec = d.wired_pod(got.desired[KEY])["spec"]
        assert "hostPID" not in spec
        assert spec["containers"][0]["image"] == "vllm/vllm-openai:v0.32.0"


# A changed pod template is judged anew: name -> (engine, required, reason).
WAITING = {
    "refused": (d.engine(args=OFFLOADING), d.requirements(d.ready_tier()), "ConnectorConflict"),
    "its tier is deleted": (d.engine(args=CHANGED_ARGS), d.requirements(), "TierNotFound"),
    "its tier starts": (
        d.engine(args=CHANGED_ARGS),
        d.requirements(d.unready_tier()),
        "TierNotReady",
    ),
    "no longer admitted": (
        d.engine(args=CHANGED_ARGS),
        d.requirements(d.ready_tier(allowedNamespaces={"from": "Same"})),
        "NamespaceNotAllowed",
    ),
}


@pytest.mark.parametrize("name", WAITING)
def test_refused_edit_waits_and_running_pods_stay(name: str) -> None:
    engine, required, reason = WAITING[name]
    engine["spec"]["forProvider"]["manifest"]["spec"]["replicas"] = 7
    observed = wired()
    got = call(d.replica(), desired={KEY: engine}, observed=observed, required=required)
    assert got.conditions["KVOffloadReady"] == ("False", reason)
    assert "the change of their template waits" in got.messages["KVOffloadReady"]
    assert d.wired_pod(got.desired[KEY]) == d.wired_pod(observed[KEY])
    annotations = got.desired[KEY]["metadata"]["annotations"]
    assert annotations == observed[KEY]["metadata"]["annotations"]
    manifest = got.desired[KEY]["spec"]["forProvider"]["manifest"]
    assert manifest["spec"]["replicas"] == 7, "all but the pods follows"
    assert [key for key in got.desired if key.startswith("usage-")]


def test_wirable_edit_goes_through() -> None:
    required = d.requirements(d.ready_tier())
    engine = d.engine(args=CHANGED_ARGS)
    got = call(d.replica(), desired={KEY: engine}, observed=wired(), required=required)
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    assert "--max-model-len=4096" in d.wired_pod(got.desired[KEY])["spec"]["containers"][0]["args"]


EDITS = {
    "a longer start": {"startupTimeoutSeconds": 900},
    "other nodes": {"nodes": {"selector": {"pool": "b"}}},
    "a first level below": {
        "lmcache": {
            "l1": {"sizeGiB": 200},
            "l2": [{"name": "r", "type": "Redis", "redis": {"host": "r", "port": 6379}}],
        }
    },
}


@pytest.mark.parametrize("name", EDITS)
def test_tier_edit_rolls_no_engine(name: str) -> None:
    """A wiring is pinned to the template that it was made for; the message says what is newer."""
    observed = wired()
    required = d.requirements(d.ready_tier(**EDITS[name]))
    got = call(d.replica(), desired={KEY: d.engine()}, observed=observed, required=required)
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    assert "comes with the next change of the pod template" in got.messages["KVOffloadReady"]
    assert got.desired[KEY]["spec"] == observed[KEY]["spec"]
    assert got.desired[KEY]["metadata"] == {"annotations": observed[KEY]["metadata"]["annotations"]}
    changed = d.engine(args=CHANGED_ARGS)
    moved = call(d.replica(), desired={KEY: changed}, observed=observed, required=required)
    assert moved.conditions["KVOffloadReady"] == ("True", "Wired")
    assert "keeps wiring" not in moved.messages["KVOffloadReady"]


def test_bug_on_one_workload_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    observed = {
        **wired(),
        "other": observe(call(d.replica(), desired={"other": d.engine()}))["other"],
    }
    real = wire.wire

    def broken(request: Any, *rest: Any) -> Any:
        if request.key == KEY:
            raise KeyError("secret")
        return real(request, *rest)

    monkeypatch.setattr(wire, "wire", broken)
    desired = {
        KEY: d.engine(args=[d.MODEL, "--seed=1"]),
        "other": d.engine(args=[d.MODEL, "--seed=2"]),
    }
    required = d.requirements(d.ready_tier())
    got = call(d.replica(), desired=desired, observed=observed, required=required)
    assert got.conditions["KVOffloadReady"] == ("False", "InternalError")
    assert "KeyError" in got.messages["KVOffloadReady"]
    assert "secret" not in got.messages["KVOffloadReady"]
    assert d.wired_pod(got.desired[KEY]) == d.wired_pod(observed[KEY]), "what runs stays"
    assert transfer_config(got.desired["other"]), "its siblings go on"
    assert not got.fatals


DIGITS = "9" * 5000  # Python reads no number of so many


def with_container(**fields: Any) -> dict[str, Any]:
    engine = d.engine()
    d.wired_pod(engine)["spec"]["containers"][0] |= fields
    return engine


# Places in which a stranger may write a number.
NUMBERS: dict[str, dict[str, Any]] = {
    "the version": d.engine({TIER: "chat", "modelplane.ai/kv-offload-engine-version": DIGITS}),
    "a part of the version": d.engine(
        {TIER: "chat", "modelplane.ai/kv-offload-engine-version": f"0.{DIGITS}"}
    ),
    "what the image holds": d.engine(
        {TIER: "chat", "modelplane.ai/kv-offload-packages": f"lmcache=0.{DIGITS}"}
    ),
    **{
        image.replace(DIGITS, "N"): d.engine(image=image)
        for image in (
            f"vllm/vllm-openai:v0.{DIGITS}",
            f"lmcache/sglang:v0.{DIGITS}.1",
            f"lmcache/vllm-openai:v0.5.{DIGITS}",
            f"rayproject/ray-llm:2.{DIGITS}.0-py311",
            f"ghcr.io/llm-d/llm-d-cuda:v0.{DIGITS}.0",
            f"nvcr.io/nvidia/vllm:25.{DIGITS}-py3",
            f"mirror/vllm-openai-lmcache0.{DIGITS}.1:v0.33.0",
        )
    },
    "a variable": with_container(env=[{"name": "LMCACHE_VERSION", "value": DIGITS}]),
    "a script": with_container(
        command=["sh", "-c", f"pip install vllm=={DIGITS} && vllm serve {d.MODEL}"], args=[]
    ),
    "a flag": d.engine(args=[d.MODEL, "-tp", DIGITS]),
    "memory": with_container(resources={"limits": {"memory": f"{DIGITS}Gi"}}),
    "devices": with_container(resources={"limits": {"nvidia.com/gpu": DIGITS}}),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_long_numbers_are_no_internal_error(name: str) -> None:
    """What it is refused for, if at all, is said; it is no fault of the function's."""
    tier = d.ready_tier()
    required = d.requirements(tier)
    got = call(d.replica(), desired={KEY: NUMBERS[name]}, required=required)
    assert not got.fatals
    assert got.conditions["KVOffloadReady"][1] not in ("InternalError", "TierUnresolved")


def _held(manifest: Any) -> dict[str, Any]:
    held = d.engine()
    held["spec"]["forProvider"]["manifest"] = manifest
    return held


STRANGE = {
    "a manifest's kind": _held({"apiVersion": "v1", "kind": {"a": "b"}, "metadata": {"name": "x"}}),
    "a kind": {"apiVersion": "v1", "kind": ["ConfigMap"], "metadata": {"name": "x"}},
    "an apiVersion": {"apiVersion": 1, "kind": "ConfigMap", "metadata": {"name": "x"}},
    "no manifest": _held("text"),
    "a ConfigMap's data": _held(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": [], "data": {"a": {}, "b": "c"}}
    ),
    "a claim template's spec": _held(
        {"apiVersion": "v1", "kind": "ResourceClaimTemplate", "metadata": {"name": {}}, "spec": 1}
    ),
}


@pytest.mark.parametrize("name", STRANGE)
def test_malformed_sibling_resource_does_not_stop_wiring(name: str) -> None:
    desired = {KEY: d.engine({TIER: "chat"}), "strange": STRANGE[name]}
    got = call(d.replica(), desired=desired, required=d.requirements(d.ready_tier()))
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")


DECLARED = {
    "by the pod": ({TIER: "chat", "modelplane.ai/kv-offload-engine": "vLLM"}, None),
    "by the input": (
        None,
        {
            "apiVersion": "kvoffload.fn.modelplane.ai/v1alpha1",
            "kind": "Input",
            "engine": "vLLM",
        },
    ),
}


@pytest.mark.parametrize("name", DECLARED)
def test_declared_engine_and_packages_wire_an_unknown_image(
    name: str,
) -> None:
    annotations, step_input = DECLARED[name]
    inside = {"modelplane.ai/kv-offload-packages": "lmcache=0.5.6"}
    image = {"image": "registry.example/ours:v7", "args": ["--model", "m"]}
    required = d.requirements(d.ready_tier())
    engine = d.engine(annotations, **image)
    got = call(d.replica(), step_input=step_input, desired={KEY: engine}, required=required)
    assert got.conditions["KVOffloadReady"] == ("False", "VersionMismatch")
    assert "kv-offload-packages" in got.messages["KVOffloadReady"]
    engine = d.engine(
        {**(annotations or {"modelplane.ai/kv-offload-tier": "chat"}), **inside}, **image
    )
    got = call(d.replica(), step_input=step_input, desired={KEY: engine}, required=required)
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    assert transfer_config(got.desired[KEY])


# name: (the tier's backend, arguments, what the condition's message ends in)
NOTES = {
    "nothing to say": ({}, (), "."),
    "the user's own policy": (
        {},
        (
            "--kv-transfer-config",
            '{"kv_connector":"LMCacheMPConnector","kv_load_failure_policy":"fail",'
            '"kv_role":"kv_both"}',
        ),
        "Note: kv_load_failure_policy stays 'fail' as the user set it; the tier asks 'recompute'.",
    ),
    "no hybrid models": (
        {"lmcache": {"mode": "InProcess", "inProcess": {"memoryGiB": 20}}},
        (),
        "Note: LMCacheConnectorV1 turns vLLM's hybrid KV cache manager off; models with Mamba or "
        "linear attention layers do not start with it.",
    ),
}


@pytest.mark.parametrize("name", NOTES)
def test_condition_has_the_notes_of_wiring(name: str) -> None:
    backend, words, told = NOTES[name]
    image = "vllm/vllm-openai:v0.25.1" if "InProcess" in str(backend) else d.IMAGE
    engine = d.engine(args=["--model", "Qwen/Qwen3-8B", *words], image=image)
    required = d.requirements(d.ready_tier(**backend))
    got = call(d.replica(), desired={KEY: engine}, required=required)
    assert got.conditions == {"KVOffloadReady": ("True", "Wired")}
    message = got.messages["KVOffloadReady"]
    assert message.endswith(told)
    assert ("Note: " in message) == ("Note: " in told)


ASKS: dict[str, str] = {TIER: "chat"}
# name: (annotations of prefill, of decode, what the condition says of the pair)
PAIRS: dict[str, tuple[dict[str, str], dict[str, str], str]] = {
    "both": (ASKS, ASKS, ""),
    "prefill": (ASKS, {}, "engine-p (Prefill) names a tier and engine-d (Decode) does not"),
    "decode": ({}, ASKS, "engine-d (Decode) names a tier and engine-p (Prefill) does not"),
    "the other is off": (ASKS, OFF, ""),
}


@pytest.mark.parametrize("name", PAIRS)
def test_condition_names_a_pair_with_one_request(name: str) -> None:
    prefill, decode, told = PAIRS[name]
    desired = {
        "engine-p": d.engine(prefill or {"x": "y"}),
        "engine-d": d.engine(decode or {"x": "y"}),
    }
    for key, role in (("engine-p", "prefill"), ("engine-d", "decode")):
        pod = d.wired_pod(desired[key])
        pod["metadata"].setdefault("labels", {})["llm-d.ai/role"] = role
    got = call(d.replica(), desired=desired, required=d.requirements(d.ready_tier()))
    expected = ("False", "TurnedOff") if decode is OFF else ("True", "Wired")
    assert got.conditions["KVOffloadReady"] == expected
    message = got.messages["KVOffloadReady"]
    assert told in message
    assert ("Note: engine-" in message) == bool(told)


def test_policy_off_wins_over_conflicting_tier_names() -> None:
    engine = d.engine(OFF)
    leader = d.wired_pod(engine)
    other = {**leader, "metadata": {"annotations": {**OFF, TIER: "other"}}}
    gang = {"size": 2, "leaderTemplate": leader, "workerTemplate": other}
    engine["spec"]["forProvider"]["manifest"] = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "g"},
        "spec": {"leaderWorkerTemplate": gang},
    }
    got = call(d.replica(), desired={KEY: engine}, required=d.requirements(d.ready_tier()))
    assert got.conditions["KVOffloadReady"] == ("False", "TurnedOff")
    assert got.desired[KEY] == engine


def on_the_deployment() -> dict[str, Any]:
    document = deepcopy(d.engine({}))
    metadata = document["spec"]["forProvider"]["manifest"]["metadata"]
    metadata["annotations"] = {TIER: "chat"}
    return document


def on_the_object() -> dict[str, Any]:
    return {**d.engine({}), "metadata": {"annotations": {TIER: "chat"}}}


def of_another_kind() -> dict[str, Any]:
    document = deepcopy(d.engine())
    document["spec"]["forProvider"]["manifest"]["kind"] = "ModelBooster"
    return document


def inference_service(
    predictor: dict[str, Any], annotations: dict[str, str] | None = None
) -> dict[str, Any]:
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "llm", "annotations": annotations or {}},
        "spec": {"predictor": predictor},
    }


# name: (what an earlier step desires, words of the message)
IGNORED = {
    "on the workload": (
        on_the_deployment(),
        "write it on the pod template, under spec.template.metadata.annotations.",
    ),
    "on KServe's service with containers of its own": (
        inference_service({"containers": [{"name": "kserve-container"}]}, {TIER: "chat"}),
        "write it on the pod template, under spec.predictor.annotations.",
    ),
    "where KServe makes the pods of a runtime": (
        inference_service({"model": {"runtime": "vllm"}, "annotations": {TIER: "chat"}}),
        "Write the engine under spec.predictor.containers of the InferenceService",
    ),
    "on the Object": (on_the_object(), "under metadata.annotations does nothing"),
    "in a kind that is not known": (
        of_another_kind(),
        "add to the step's input: paths: [{kind: ModelBooster, path: spec.template}]",
    ),
    "misspelled": (
        d.engine({"modelplane.ai/kvoffload-tier": "chat"}),
        f"did you mean {TIER}?",
    ),
    "misspelled otherwise": (
        d.engine({"modelplane.ai/kv-offload-polcy": "Off"}),
        f"did you mean {POLICY}?",
    ),
    "without the group": (d.engine({"kv-offload-tier": "chat"}), f"did you mean {TIER}?"),
    "with another group": (
        d.engine({"example.org/kv-offload-tier": "chat"}),
        f"did you mean {TIER}?",
    ),
}


@pytest.mark.parametrize("name", IGNORED)
def test_ignored_request_is_reported(name: str) -> None:
    document, words = IGNORED[name]
    got = call(d.replica(), desired={KEY: document})
    assert got.conditions == {"KVOffloadReady": ("False", "RequestIgnored")}
    assert words in got.messages["KVOffloadReady"]
    assert got.warnings and words in got.warnings[0]
    assert got.desired == {KEY: document}
    said = {"type": "KVOffloadReady", "status": "False", "message": got.messages["KVOffloadReady"]}
    again = call({**d.replica(), "status": {"conditions": [said]}}, desired={KEY: document})
    assert again.warnings == [], "an event on transitions only"


def test_ignored_request_whose_name_is_hidden_is_one_event() -> None:
    document = d.engine({TIER: "chat", "modelplane.ai/kv-offload-polcy": "Off"})
    required = d.requirements(d.ready_tier())
    first = call(d.replica(), desired={"hf-token": document}, required=required)
    assert first.warnings and "(hidden)" in first.warnings[0]
    text = first.messages["KVOffloadReady"]
    said = {"type": "KVOffloadReady", "status": "True", "message": text}
    composite = {**d.replica(), "status": {"conditions": [said]}}
    again = call(composite, desired={"hf-token": document}, required=required)
    assert again.warnings == []


@pytest.mark.parametrize("misspelled", [1, 300])
def test_ignored_request_of_one_of_many_engines_is_one_event(misspelled: int) -> None:
    """A condition takes 32,768 characters: what it leaves out would be news at each call."""
    wrong = {TIER: "chat", "modelplane.ai/kv-offload-polcy": "Off"}
    desired = {
        f"engine-{i:03}": d.engine(wrong if i >= 300 - misspelled else {TIER: "chat"})
        for i in range(300)
    }
    required = d.requirements(d.ready_tier())
    first = call(d.replica(), desired=desired, required=required)
    text = first.messages["KVOffloadReady"]
    assert len(text) == 32768
    assert 0 < len(first.warnings) <= misspelled
    assert all(warning in text for warning in first.warnings)
    said = {"type": "KVOffloadReady", "status": "True", "message": text}
    composite = {**d.replica(), "status": {"conditions": [said]}}
    again = call(composite, desired=desired, observed=observe(first), required=required)
    assert again.warnings == []


def test_unreadable_workload_is_refused_without_ignored_request() -> None:
    head = {"template": d.engine()["spec"]["forProvider"]["manifest"]["spec"]["template"]}
    manifest = {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": "r", "namespace": "default"},
        "spec": {"serveConfigV2": "a: [", "rayClusterConfig": {"headGroupSpec": head}},
    }
    engine = deepcopy(d.engine())
    engine["spec"]["forProvider"]["manifest"] = manifest
    got = call(d.replica(), desired={KEY: engine})
    assert got.conditions == {"KVOffloadReady": ("False", "ArgsNotPatchable")}
    assert "This is not valid YAML" in got.messages["KVOffloadReady"]
    assert "does nothing" not in got.messages["KVOffloadReady"]


def test_ignored_request_on_the_composite_is_reported() -> None:
    composite = d.replica()
    composite["metadata"]["annotations"] = {TIER: "chat"}
    got = call(composite, desired={KEY: d.engine({})})
    assert got.conditions == {"KVOffloadReady": ("False", "RequestIgnored")}


def test_misspelled_annotation_is_reported_with_a_wired_pod() -> None:
    engine = d.engine({TIER: "chat", "modelplane.ai/kv-offload-enginee": "vLLM"})
    got = call(d.replica(), desired={KEY: engine}, required=d.requirements(d.ready_tier()))
    assert got.conditions == {"KVOffloadReady": ("True", "Wired")}
    assert "did you mean modelplane.ai/kv-offload-engine?" in got.messages["KVOffloadReady"]


def test_config_map_follows_the_workload_to_another_cluster() -> None:
    """The provider follows no Object to another cluster: it would leave what it made behind."""
    eu, there = f"{FILES}-eu", {}
    turns = [("gpu", [FILES]), ("eu", [eu]), ("eu", [eu]), ("gpu", [FILES])]
    for provider, want in turns:
        tier = d.ready_tier(provider_config=provider)
        engine = d.engine(provider_config=provider)
        got = call(
            d.replica(), desired={KEY: engine}, observed=there, required=d.requirements(tier)
        )
        assert sorted(k for k in got.desired if k.startswith(FILES)) == want
        key = eu if provider == "eu" else FILES
        assert got.desired[key]["spec"]["providerConfigRef"]["name"] == provider
        there = observe(got)


# An Object's providerConfigRef -> is it on the cluster of ClusterProviderConfig `gpu`, `default`?
CONFIGS: dict[str, tuple[dict[str, str], list[str]]] = {
    "of its kind": ({"kind": "ClusterProviderConfig", "name": "gpu"}, ["gpu"]),
    "of no kind": ({"name": "gpu"}, ["gpu"]),
    "of a namespace": ({"kind": "ProviderConfig", "name": "gpu"}, []),
    "none": ({}, ["default"]),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_provider_config_of_another_kind_is_another_cluster(name: str) -> None:
    reference, want = CONFIGS[name]
    engine = d.engine()
    engine["spec"]["providerConfigRef"] = reference
    wired_on = []
    for cluster in ("gpu", "default"):
        required = d.requirements(d.ready_tier(provider_config=cluster))
        got = call(d.replica(), desired={KEY: engine}, required=required)
        if got.conditions["KVOffloadReady"] == ("True", "Wired"):
            wired_on.append(cluster)
        else:
            assert got.conditions["KVOffloadReady"] == ("False", "ClusterMismatch")
            there = f"ProviderConfig {reference.get('name', 'default')}."
            assert there in got.messages["KVOffloadReady"]
    assert wired_on == want


class Write(NamedTuple):
    """What an Object of generation 2 shows, of a cluster that has the pods of before.

    `applied`: the generation in its condition Synced. `age`: seconds since its spec was written.
    """

    want: str
    synced: str = "True"
    message: str = ""
    applied: int | None = 2
    policies: list[str] | None = None
    edited_policies: list[str] | None = None
    age: int | None = None


REFUSED = "update failed: forbidden"
# What the provider says of the Object of the wiring, and its policies -> what is said
WRITES = {
    "it has written it": Write("what is there differs: somebody edited it"),
    "it has not come to it": Write("", applied=1),
    "it has not come to it for a while": Write("", applied=1, age=300),
    "it does not run": Write("has not read the Object's newest edit", applied=1, age=301),
    "it has never run": Write("has not read the Object's newest edit", synced="", age=301),
    "it has just been installed": Write("", synced="", age=300),
    "it tells no generation": Write("", applied=None, age=300),
    "it tells no generation, and has written it": Write("differs", applied=None, age=301),
    "it is refused": Write(f"does not write the Object: {REFUSED}.", "False", REFUSED),
    "it is paused": Write("does not write the Object", "False"),
    "it may write": Write("", applied=1, policies=["Observe", "Update"]),
    "all": Write("", applied=1, policies=["*"]),
    "it only looks": Write("are ['Observe']", policies=["Observe"]),
    "it only looks since an edit": Write("are ['Observe']", edited_policies=["Observe"]),
    "the edit does not stay": Write("", applied=1, policies=["*"], edited_policies=["Observe"]),
}


def _shown(seen: d.Document, write: Write, there: d.Document) -> None:
    """Show on an Object what the provider says of it."""
    if write.synced:
        synced = {"type": "Synced", "status": write.synced, "reason": "R", "message": write.message}
        synced |= {} if write.applied is None else {"observedGeneration": write.applied}
        seen["status"]["conditions"] = [READY, synced]
    seen["metadata"]["generation"] = 2
    if write.age is not None:
        written = datetime.fromtimestamp(NOW - write.age, UTC).isoformat()
        later = {"time": "1970-01-01T00:16:39Z", "subresource": "status"}
        seen["metadata"]["managedFields"] = [{"time": written}, later, {"time": "x"}, "y"]
    if write.edited_policies:
        seen["spec"] = seen["spec"] | {"managementPolicies": write.edited_policies}
    seen["status"]["atProvider"] = {"manifest": there}


NOW = 1000.0


@pytest.mark.parametrize("name", WRITES)
def test_wired_is_said_of_what_the_cluster_has(name: str) -> None:
    write = WRITES[name]
    want = ("False", "NotApplied") if write.want else ("True", "Wired")
    engine, required = d.engine(), d.requirements(d.ready_tier())
    if write.policies:
        engine["spec"]["managementPolicies"] = write.policies
    first = call(d.replica(), desired={KEY: engine}, required=required)
    seen = observe(first)
    wired_there = first.desired[KEY]["spec"]["forProvider"]["manifest"]
    old = d.engine()["spec"]["forProvider"]["manifest"]
    _shown(seen[KEY], write, old)
    got = call(d.replica(), desired={KEY: engine}, observed=seen, required=required, now=NOW)
    assert got.conditions["KVOffloadReady"] == want
    assert write.want in got.messages["KVOffloadReady"]
    assert got.desired[KEY] == first.desired[KEY]
    assert (got.ttl == 10) == bool(write.want)
    # A provider that does not show what is there may have written it.
    del seen[KEY]["status"]["atProvider"]
    hidden = call(d.replica(), desired={KEY: engine}, observed=seen, required=required, now=NOW)
    assert hidden.conditions["KVOffloadReady"] == (
        ("True", "Wired") if "differs" in write.want else want
    )
    # Neither the same error of a write that changes nothing is a lack of wiring, nor another form
    # of a value, nor what others have set.
    stored = deepcopy(wired_there)
    stored["spec"] |= {"replicas": 7}
    stored["spec"]["template"]["metadata"] |= {"creationTimestamp": None}
    stored["spec"]["template"]["spec"]["containers"][0]["args"] += ["--seed=1"]
    renamed = deepcopy(stored)  # as KServe's webhook does
    renamed["spec"]["template"]["spec"]["containers"][0]["name"] = "kserve-container"
    for there in (wired_there, stored, renamed):
        seen[KEY]["status"]["atProvider"] = {"manifest": there}
        got = call(d.replica(), desired={KEY: engine}, observed=seen, required=required, now=NOW)
        assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    # Somebody takes it out of the Object each time that core writes it, but not the record.
    bare = {**engine, **{k: deepcopy(seen[KEY][k]) for k in ("metadata", "status")}}
    _shown(bare, write._replace(edited_policies=None), old)
    stripped = {KEY: bare}
    got = call(d.replica(), desired={KEY: engine}, observed=stripped, required=required, now=NOW)
    assert got.conditions["KVOffloadReady"] == ("False", "NotApplied")
    # The wiring comes with this call.
    del bare["metadata"]["annotations"][RECORD]
    got = call(d.replica(), desired={KEY: engine}, observed=stripped, required=required, now=NOW)
    assert (got.conditions["KVOffloadReady"] == ("True", "Wired")) == (
        write.policies != ["Observe"]
    )


@pytest.mark.parametrize("field", ["spec.forProvider", "status.atProvider"])
@pytest.mark.parametrize("there", ["text", ["list"], 1.0])
def test_manifest_that_is_no_object_has_no_wiring(field: str, there: object) -> None:
    required = d.requirements(d.ready_tier())
    seen = observe(call(d.replica(), desired={KEY: d.engine()}, required=required))
    _shown(seen[KEY], WRITES["it has written it"], d.engine()["spec"]["forProvider"]["manifest"])
    section, part = field.split(".")
    seen[KEY][section] = {**seen[KEY][section], part: {"manifest": there}}
    got = call(d.replica(), desired={KEY: d.engine()}, observed=seen, required=required, now=NOW)
    assert got.conditions["KVOffloadReady"][1] in ("Wired", "NotApplied")


@pytest.mark.parametrize("name", [name for name, it in WRITES.items() if not it.policies])
def test_wired_is_said_of_pods_that_find_their_files(name: str) -> None:
    write = WRITES[name]
    want = ("False", "NotApplied") if write.want else ("True", "Wired")
    required = d.requirements(d.ready_tier())
    first = call(d.replica(), desired={KEY: d.engine()}, required=required)
    empty = {"kind": "ConfigMap"}
    for there, says in ((empty, want), (None, ("True", "Wired"))):
        seen = observe(first)
        files = seen[FILES]["spec"]["forProvider"]["manifest"]
        _shown(seen[FILES], write, files if there is None else there)
        got = call(
            d.replica(), desired={KEY: d.engine()}, observed=seen, required=required, now=NOW
        )
        assert got.conditions["KVOffloadReady"] == says
        assert (write.want in got.messages["KVOffloadReady"]) or there is None
        assert [got.desired[key] == first.desired[key] for key in (KEY, FILES)] == [True, True]


# What a cluster shows of a wired Deployment -> what is said of its earlier pods
PODS: dict[str, tuple[d.Document, d.Document, str]] = {
    "all are up": ({}, {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1}, ""),
    "none is there": ({}, {}, ""),
    "one fails": ({}, {"replicas": 2, "updatedReplicas": 2, "readyReplicas": 1}, ""),
    "the new one is stuck": (
        {},
        {"replicas": 2, "updatedReplicas": 1, "readyReplicas": 1},
        "the new ones are not ready yet",
    ),
    "paused": ({"paused": True}, {"replicas": 1, "readyReplicas": 1}, "paused is true: resume it"),
}


@pytest.mark.parametrize("name", PODS)
def test_earlier_pods_that_run_on_are_named(name: str) -> None:
    spec, status, want = PODS[name]
    required = d.requirements(d.ready_tier())
    seen = observe(call(d.replica(), desired={KEY: d.engine()}, required=required))
    there = seen[KEY]["status"]["atProvider"]["manifest"]
    there["spec"] = there["spec"] | spec
    there["status"] = status
    got = call(d.replica(), desired={KEY: d.engine()}, observed=seen, required=required)
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    message = got.messages["KVOffloadReady"]
    assert want in message and ("Pods of an earlier template run on" in message) == bool(want)


def test_engines_in_two_places_find_their_files_in_each() -> None:
    here, there = d.engine(), d.engine()
    there["spec"]["forProvider"]["manifest"]["metadata"] |= {"namespace": "other", "name": "b"}
    required = d.requirements(d.ready_tier())
    both = call(d.replica(), desired={"a": here, "b": there}, required=required)
    files = {key: it for key, it in both.desired.items() if key.startswith(FILES)}
    places = {
        it["spec"]["forProvider"]["manifest"]["metadata"]["namespace"] for it in files.values()
    }
    assert places == {"default", "other"} and FILES in files
    # The one that is left keeps its key.
    one = call(d.replica(), desired={"b": there}, observed=observe(both), required=required)
    for key, it in files.items():
        is_there = it["spec"]["forProvider"]["manifest"]["metadata"]["namespace"] == "other"
        assert (one.desired.get(key) == it) == is_there


POOL = {
    "backend": "Mooncake",
    "lmcache": None,
    "mooncake": {"protocol": "tcp", "store": {"sizeGiB": 10}},
}


def test_key_of_the_files_stays_where_an_object_names_another_namespace() -> None:
    """Core puts it into the composite's."""
    engine = d.engine()
    engine["metadata"] = {"namespace": "elsewhere"}
    required, seen = d.requirements(d.ready_tier()), {}
    for _ in range(4):
        got = call(d.replica(), desired={KEY: engine}, observed=seen, required=required)
        assert [key for key in got.desired if key.startswith(FILES)] == [FILES]
        seen = observe(got)
        for it in seen.values():
            it["metadata"]["namespace"] = "team-a"


def test_pods_of_one_namespace_have_one_config_map_whoever_composes_it() -> None:
    """Two Objects of it would delete it for each other."""
    composite = d.replica()
    del composite["metadata"]["namespace"]
    required = d.requirements(d.ready_tier(allowedNamespaces={"from": "All"}))
    engines = {key: {**d.engine(), "metadata": {"namespace": key}} for key in "ab"}
    both = call(composite, desired=engines, required=required)
    assert [key for key in both.desired if key.startswith(FILES)] == [FILES]
    seen = observe(both)
    alone = call(composite, desired={"b": engines["b"]}, observed=seen, required=required)
    assert alone.desired[FILES] == both.desired[FILES], "core moves nothing"


@pytest.mark.parametrize("policy", ["Required", "Optional"])
def test_a_new_engine_waits_for_an_edit_of_its_tier_where_it_must_offload(policy: str) -> None:
    """A paused tier says Ready of the agents and the backend before."""
    tier = d.ready_tier()
    tier["metadata"]["generation"] = 2
    tier["status"]["observedGeneration"] = 1
    desired = {KEY: d.engine({TIER: "chat", POLICY: policy})}
    got = call(d.replica(), desired=desired, required=d.requirements(tier))
    waits = policy == "Required"
    want = ("False", "TierNotReady") if waits else ("True", "Wired")
    assert got.conditions["KVOffloadReady"] == want
    assert ("kubectl describe kvot -n modelplane-system chat" in str(got.messages)) == waits
    assert (KEY in got.desired) != waits
    runs = observe(call(d.replica(), desired=desired, required=d.requirements(d.ready_tier())))
    again = call(d.replica(), desired=desired, observed=runs, required=d.requirements(tier))
    assert again.conditions["KVOffloadReady"] == ("True", "Wired"), "who runs does not flap"
    changed = {KEY: d.engine({TIER: "chat", POLICY: policy}, args=[d.MODEL, "--seed=1"])}
    for edits, seen in ((changed, runs), (desired, observe(call(d.replica(), desired=desired)))):
        again = call(d.replica(), desired=edits, observed=seen, required=d.requirements(tier))
        assert again.conditions["KVOffloadReady"] == ("True", "Wired"), "nor does its edit wait"
    # An older function, or one whose XRD has no such field, writes none.
    for seen_generation in (2, None):
        tier["status"]["observedGeneration"] = seen_generation
        got = call(d.replica(), desired=desired, required=d.requirements(tier))
        assert got.conditions["KVOffloadReady"] == ("True", "Wired")


# What the cluster reports of the pods -> whether files of the wiring before are kept
ROLLS = {
    "the new one is not applied": ({"Synced": 1}, {}, True),
    "old pods are there": ({}, {"updatedReplicas": 1, "replicas": 2}, True),
    "it has not looked": ({}, {"observedGeneration": 1}, True),
    "its write of what it wrote failed": ({}, None, True),
    "all are new": ({}, {}, False),
}


@pytest.mark.parametrize("name", ROLLS)
def test_files_of_the_wiring_before_stay_until_no_pod_has_it(name: str) -> None:
    """A pod that starts again mounts them by their names."""
    conditions, status, kept = ROLLS[name]
    first = call(d.replica(), desired={KEY: d.engine()}, required=d.requirements(d.ready_tier()))
    edited = d.requirements(d.ready_tier("pool", **POOL), name="pool")
    changed = {KEY: d.engine({TIER: "pool"})}
    moves = call(d.replica(), desired=changed, observed=observe(first), required=edited)
    old, new = (data_of(it.desired[FILES]) for it in (first, moves))
    assert new.items() > old.items()
    seen = observe(moves)
    manifest = {**seen[KEY]["spec"]["forProvider"]["manifest"]}
    counts = {"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1}
    manifest["metadata"] = {**manifest["metadata"], "generation": 2}
    manifest["status"] = {**counts, **(status or {})}
    seen[KEY]["status"]["atProvider"] = {} if status is None else {"manifest": manifest}
    seen[KEY]["metadata"]["generation"] = 2
    synced = {"type": "Synced", "status": "True", "observedGeneration": conditions.get("Synced", 2)}
    seen[KEY]["status"]["conditions"] = [*seen[KEY]["status"]["conditions"], synced]
    later = call(d.replica(), desired=changed, observed=seen, required=edited)
    assert later.desired[KEY] == moves.desired[KEY]
    assert (data_of(later.desired[FILES]).items() >= old.items()) == kept
    assert data_of(later.desired[FILES]) == (
        new if kept else {k: v for k, v in new.items() if k not in old}
    )


def test_a_script_that_ends_before_its_engine_has_a_note() -> None:
    document = d.engine(args=[f"exec /opt/start.sh\nvllm serve {d.MODEL}"])
    d.wired_pod(document)["spec"]["containers"][0]["command"] = ["sh", "-c"]
    got = call(d.replica(), desired={"main": document}, required=d.requirements(d.ready_tier()))
    assert got.messages["KVOffloadReady"].endswith(
        " Note: the script of container engine ends at 'exec /opt/start.sh', and the engine's"
        " line behind it never runs: remove one of them."
    )


def test_a_second_step_takes_what_the_first_has_wired() -> None:
    required = d.requirements(d.ready_tier())
    first = call(d.replica(), desired={"main": d.engine()}, required=required)
    second = call(d.replica(), desired=first.desired, required=required)
    assert second.messages == first.messages
    assert second.warnings == []
    assert d.wired_pod(second.desired["main"]) == d.wired_pod(first.desired["main"])

"""Usages: which keep a tier from deletion, which count, and which are forged."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function import names
from function.composers import admission, usage
from function.composers.admission import admits
from function.kube import naming
from tests.unit.composers import documents as d
from tests.unit.composers.calls import call, observe
from tests.unit.composers.over_time import BACKENDS

KEY = "model-serving-main"
OBJECT = "kubernetes.m.crossplane.io/v1alpha1"
CONSUMER = "modelplane.ai/kv-offload-consumer"
SHARES = "modelplane.ai/kv-offload-shares"
TIER = "modelplane.ai/kv-offload-used-tier"


def usages(desired: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in desired.items() if v["kind"] == "Usage"}


def only(desired: dict[str, Any]) -> dict[str, Any]:
    (found,) = usages(desired).values()
    return found


def test_usage_of_an_engine_without_a_name_yet() -> None:
    composite = d.replica()
    composite["metadata"]["labels"] = {"crossplane.io/composite": "root"}
    got = call(composite, desired={KEY: d.engine()}, required=d.requirements(d.ready_tier()))
    found = only(got.desired)
    shares = json.loads(found["metadata"]["annotations"].pop(SHARES))
    assert [share[0] for share in shares] == [d.MODEL]
    labels = found["metadata"].pop("labels")
    assert labels == {"modelplane.ai/kv-offload-used-tier": "modelplane-system.chat"}
    assert found == {
        "apiVersion": "protection.crossplane.io/v1beta1",
        "kind": "Usage",
        "metadata": {
            "annotations": {
                CONSUMER: '{"namespace":"team-a","kind":"ModelReplica","name":"qwen"}',
                TIER: "modelplane-system/chat",
            }
        },
        "spec": {
            "of": {
                "apiVersion": "modelplane.ai/v1alpha1",
                "kind": "KVOffloadTier",
                "resourceRef": {"name": "chat", "namespace": "modelplane-system"},
            },
            "by": {
                "apiVersion": OBJECT,
                "kind": "Object",
                "resourceRef": {"name": naming.composed("root", "uid-qwen", KEY)},
            },
            "reason": "ModelReplica team-a/qwen offloads KV cache to it",
        },
    }


def named(engine: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {**engine, "metadata": metadata}


# name: (the engine that is desired, is it observed?) -> the name in `by`
HOLDERS = {
    "core names it": (d.engine(), False, naming.composed("qwen", "uid-qwen", KEY)),
    "core named it": (d.engine(), True, f"composed-{KEY}"),
    "an earlier step names it": (named(d.engine(), name="mine"), False, "mine"),
    "an earlier step begins its name": (
        named(d.engine(), generateName="mine-"),
        False,
        naming.composed("mine-", "uid-qwen", KEY),
    ),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_by_is_the_composed_resource_that_runs_the_engine(name: str) -> None:
    engine, is_observed, want = HOLDERS[name]
    required = d.requirements(d.ready_tier())
    got = call(d.replica(), desired={KEY: engine}, required=required)
    if is_observed:
        got = call(d.replica(), desired={KEY: engine}, required=required, observed=observe(got))
    assert only(got.desired)["spec"]["by"]["resourceRef"] == {"name": want}


def test_one_usage_for_each_model() -> None:
    desired = {"a": d.engine(), "b": d.engine(), "c": d.engine(args=["other/model"])}
    required = d.requirements(d.ready_tier())
    got = call(d.replica(), desired=desired, required=required)
    holders = [u["spec"]["by"]["resourceRef"]["name"] for u in usages(got.desired).values()]
    assert sorted(holders) == sorted(naming.composed("qwen", "uid-qwen", key) for key in "ac")


# name: (the namespace of its engine's Object) -> where its Usage stands
CLUSTER_SCOPED = {
    "a namespaced Object": ("team-b", "team-b"),
    "a legacy one": ("", "modelplane-system"),
}


@pytest.mark.parametrize("name", CLUSTER_SCOPED)
def test_usage_of_a_cluster_scoped_consumer_is_in_the_engine_namespace(name: str) -> None:
    namespace, want = CLUSTER_SCOPED[name]
    composite = d.replica()
    del composite["metadata"]["namespace"]
    engine = named(d.engine(), **({"namespace": namespace} if namespace else {}))
    open_tier = d.ready_tier(allowedNamespaces={"from": "All"})
    required = d.requirements(open_tier)
    desired = call(composite, desired={KEY: engine}, required=required).desired
    found = only(desired)
    siblings = desired["configmap-kv-offload"]
    assert siblings["kind"] == "Object"
    assert siblings["metadata"].get("namespace", "") == namespace
    assert found["metadata"]["namespace"] == want
    assert found["spec"]["of"]["resourceRef"]["namespace"] == "modelplane-system"
    assert found["metadata"]["annotations"][CONSUMER] == '{"kind":"ModelReplica","name":"qwen"}'
    assert usage.user(found) == usage.Consumer("", "ModelReplica", "qwen")


def test_usage_of_a_cluster_scoped_consumer_moves_with_its_engine() -> None:
    """Core never moves what it has composed: elsewhere it is another resource."""
    composite = d.replica()
    del composite["metadata"]["namespace"]
    required = d.requirements(d.ready_tier(allowedNamespaces={"from": "All"}))
    keys = set()
    for namespace in ("team-a", "team-b"):
        engine = {KEY: named(d.engine(), namespace=namespace)}
        keys |= usages(call(composite, desired=engine, required=required).desired).keys()
    assert len(keys) == 2


def test_replay_updates_usages_of_older_releases() -> None:
    """A release before this one named the consumer in `by`, which then waits for itself."""
    required = d.requirements(d.ready_tier())
    wired = call(d.replica(), desired={KEY: d.engine()}, required=required)
    observed = copy.deepcopy(observe(wired))  # what is answered is remembered
    (key,) = usages(observed)
    by = {"kind": "ModelReplica", "resourceRef": {"name": "qwen"}}
    observed[key]["spec"]["by"] = by
    del observed[key]["metadata"]["annotations"][CONSUMER]
    gone = call(
        d.replica(), desired={KEY: d.engine()}, required=d.requirements(), observed=observed
    )
    after = gone.desired[key]
    after["metadata"]["namespace"] = "team-a"  # as core will
    assert after["spec"]["by"]["resourceRef"] == {"name": f"composed-{KEY}"}
    assert usage.user(after) == usage.Consumer("team-a", "ModelReplica", "qwen")


OPTIONAL = {"modelplane.ai/kv-offload-tier": "chat", "modelplane.ai/kv-offload-policy": "Optional"}
MOONCAKE = {"backend": "Mooncake", "lmcache": None, "mooncake": {"store": {"sizeGiB": 8}}}

ELSE = d.requirements(d.ready_tier("other"), name="other")
# name: (the engine after an edit, what is resolved for it) -> its tier is let go of
UNTOUCHED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "it asks no more": (d.engine({}), {}),
    "the policy is Off": (
        d.engine(OPTIONAL | {"modelplane.ai/kv-offload-policy": "Off"}),
        d.requirements(d.ready_tier()),
    ),
    "it names another tier": (d.engine({"modelplane.ai/kv-offload-tier": "other"}), ELSE),
    "it serves another model": (
        d.engine(args=["other/model"]),
        d.requirements(d.ready_tier()),
    ),
}


def runs() -> dict[str, Any]:
    """What is observed of a wired consumer, its Usage by the name that its engine has there."""
    seen: dict[str, Any] = {}
    for _ in range(2):
        required = d.requirements(d.ready_tier())
        seen = observe(
            call(d.replica(), desired={KEY: d.engine()}, required=required, observed=seen)
        )
    return seen


@pytest.mark.parametrize("name", UNTOUCHED)
def test_usage_of_a_left_tier_stays_until_core_sees_that_it_is_left(name: str) -> None:
    """Core drops the Usage before it applies the engine."""
    engine, required = UNTOUCHED[name]
    before = runs()
    (key,) = usages(before)
    desired = {KEY: engine}
    left = call(d.replica(), desired=desired, required=required, observed=before)
    was, now = before[key], left.desired[key]
    assert now["spec"] == was["spec"]
    assert now["metadata"]["labels"] == was["metadata"]["labels"]
    assert left.ttl == 10
    after = call(d.replica(), desired=desired, required=required, observed=observe(left))
    assert key not in after.desired
    assert (after.ttl > 10) and len(usages(after.desired)) == len(usages(left.desired)) - 1


def test_usage_of_an_engine_that_core_does_not_see_is_dropped() -> None:
    desired = {KEY: d.engine()}
    wired = call(d.replica(), desired=desired, required=d.requirements(d.ready_tier()))
    (key,) = usages(wired.desired)
    seen = {key: observe(wired)[key]}
    off = {KEY: d.engine({"modelplane.ai/kv-offload-policy": "Off"})}
    left = call(d.replica(), desired=off, required=d.requirements(), observed=seen)
    assert key not in left.desired


def test_usage_of_a_deleted_engine_goes_with_it() -> None:
    assert usages(call(d.replica(), observed=runs()).desired) == {}


WAITING = {
    "its tier starts": (d.engine(), d.unready_tier()),
    "its tier starts, another backend": (d.engine(), d.unready_tier(**MOONCAKE)),
    "unwired by choice": (d.engine(OPTIONAL), d.unready_tier()),
}


@pytest.mark.parametrize("name", WAITING)
def test_consumer_that_does_not_run_has_no_usage(name: str) -> None:
    engine, tier = WAITING[name]
    got = call(d.replica(), desired={KEY: engine}, required=d.requirements(tier))
    assert got.conditions["KVOffloadReady"] == ("False", "TierNotReady")
    assert usages(got.desired) == {}


def test_usage_of_a_waiting_edit_describes_the_running_pods() -> None:
    before = runs()
    (key,) = usages(before)
    edited = {KEY: d.engine(args=[d.MODEL, "--dtype=float16"])}
    required = d.requirements(d.unready_tier())
    waits = call(d.replica(), desired=edited, required=required, observed=before)
    assert waits.conditions["KVOffloadReady"] == ("False", "TierNotReady")
    assert rows(waits.desired[key]) == rows(before[key])
    required = d.requirements(d.ready_tier())
    after = call(d.replica(), desired=edited, required=required, observed=observe(waits))
    assert rows(after.desired[key]) != rows(before[key])


def rows(document: dict[str, Any]) -> list[list[str]]:
    """What a Usage says that its consumer shares."""
    return json.loads(document["metadata"]["annotations"][SHARES])


# Rows of releases that also said whether the engine was wired, and whether its keys held the
# identity.
@pytest.mark.parametrize("more", [[], [True], [True, True], [False]])
def test_usage_rows_of_older_releases_are_read(more: list[bool]) -> None:
    document = usage_by(shares=json.dumps([[d.MODEL, "0123456789ab", *more]]))
    assert usage.shares(document) == [usage.Share(d.MODEL, "0123456789ab")]


def test_half_of_a_pair_in_a_usage_is_no_name() -> None:
    """A message that quotes it could not be sent, and every tier that lists it would fail."""
    document = usage_by(shares='[["\\ud800", "0123456789ab"]]')
    document["metadata"]["annotations"][names.ANNOTATION_CONSUMER] = '{"kind": "\\ud800"}'
    assert usage.shares(document) == []
    assert usage.user(document).kind == ""


def test_half_of_a_pair_in_a_flag_is_told_as_a_question_mark() -> None:
    flag = '{"kv_connector":"X\\ud800","kv_role":"kv_both"}'
    engine = d.engine(args=[d.MODEL, "--kv-transfer-config", flag])
    required = d.requirements(d.ready_tier())
    said = call(d.replica(), desired={"engine": engine}, required=required)
    assert said.fatals == []
    assert "X?" in said.messages["KVOffloadReady"]


def test_usage_labels_of_older_releases_are_replaced_once() -> None:
    """Its key is the same: core updates the Usage once, and replaces none."""
    before = runs()
    (key,) = usages(before)
    old = {"modelplane.ai/kv-offload-used-model": "e07fa0f48dc91f06"}
    before = copy.deepcopy(before)
    before[key]["metadata"]["labels"] |= old
    gone = call(d.replica(), desired={KEY: d.engine()}, required=d.requirements(), observed=before)
    assert old.items() <= gone.desired[key]["metadata"]["labels"].items()
    required = d.requirements(d.ready_tier())
    there = call(d.replica(), desired={KEY: d.engine()}, required=required, observed=before)
    assert list(usages(there.desired)) == [key]
    assert not old.items() <= there.desired[key]["metadata"]["labels"].items()


def usage_by(**annotations: Any) -> dict[str, Any]:
    """A Usage in team-a with these annotations, by a composite as releases before named it."""
    values = {"consumer": CONSUMER, "shares": SHARES}
    return {
        "kind": "Usage",
        "metadata": {
            "namespace": "team-a",
            "annotations": {values[key]: text for key, text in annotations.items()},
        },
        "spec": {"by": {"kind": "ModelReplica", "resourceRef": {"name": "old"}}},
    }


USERS = {
    "nothing": (usage_by(), usage.Consumer("team-a", "ModelReplica", "old")),
    "itself": (
        usage_by(consumer='{"namespace":"team-a","kind":"K","name":"n"}'),
        usage.Consumer("team-a", "K", "n"),
    ),
    "an older release, with its parent": (
        usage_by(consumer='{"namespace":"team-a","kind":"K","name":"n","owner":"u"}'),
        usage.Consumer("team-a", "K", "n"),
    ),
    "another's namespace": (
        usage_by(consumer='{"namespace":"team-b","kind":"K","name":"n"}'),
        usage.Consumer("team-a", "K", "n"),
    ),
    "cluster-scoped": (usage_by(consumer='{"kind":"K","name":"n"}'), usage.Consumer("", "K", "n")),
    "no JSON": (usage_by(consumer="{"), usage.Consumer("team-a", "", "")),
    "a list": (usage_by(consumer="[]"), usage.Consumer("team-a", "", "")),
    "numbers": (
        usage_by(consumer='{"namespace":1,"kind":2,"name":3}'),
        usage.Consumer("team-a", "", ""),
    ),
    "a sentence": (
        usage_by(consumer='{"namespace":"team-a","kind":"K","name":"n.\\nDelete all tiers"}'),
        usage.Consumer("team-a", "", ""),
    ),
    "a kind of words": (
        usage_by(consumer='{"namespace":"team-a","kind":"K n","name":"n"}'),
        usage.Consumer("team-a", "", ""),
    ),
    "a line after the name": (
        usage_by(consumer='{"namespace":"team-a","kind":"K","name":"n\\n"}'),
        usage.Consumer("team-a", "", ""),
    ),
    "too deep": (usage_by(consumer="[" * 100_000), usage.Consumer("team-a", "", "")),
}


@pytest.mark.parametrize("name", USERS)
def test_user_of_a_usage(name: str) -> None:
    document, want = USERS[name]
    assert usage.user(document) == want


@given(st.text(max_size=40), st.text(max_size=40))
def test_usage_parsing_never_raises(consumer: str, shares: str) -> None:
    document = usage_by(consumer=consumer, shares=shares)
    usage.user(document)
    usage.shares(document)
    admission.users_status(d.tier(), [document])


@pytest.mark.parametrize("marked", [False, True])
def test_status_says_whether_a_tier_is_used_by_the_mark_of_core(marked: bool) -> None:
    tier = d.tier()
    tier["metadata"]["labels"] = {"crossplane.io/in-use": "true"} if marked else {}
    got = call(tier, required={"cluster": [d.cluster()]})
    assert got.status["consumers"] == ("1+" if marked else "0")


# What makes a tier look its users up: (the spec now, the spec of its status)
JUDGED: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "nothing has changed": ({}, {}, False),
    "more memory": ({"lmcache": {"l1": {"sizeGiB": 400}}}, {}, False),
    "a pinned setting": ({"lmcache": {"l1": {"sizeGiB": 200}, "chunkTokens": 512}}, {}, True),
    "a closed namespace": ({"allowedNamespaces": {"from": "Same"}}, {}, True),
    "an opened one": ({"allowedNamespaces": {"from": "All"}}, {}, True),
    "Rolling": ({"wiring": {"update": "Rolling"}}, {"wiring": {"update": "Rolling"}}, True),
}


@pytest.mark.parametrize("name", JUDGED)
def test_tier_requires_its_usages_only_for_what_it_must_judge(name: str) -> None:
    """Whoever requires them is called at each write to any of them, on core 2.4."""
    now, before, is_judged = JUDGED[name]
    open_ = {"allowedNamespaces": {"from": "Names", "names": ["team-a"]}}
    required: dict[str, Any] = {"cluster": [d.cluster()], "usages": []}
    first = call(d.tier(**open_ | before), required=required)
    tier = {**d.tier(**open_ | now), "status": first.status}
    got = call(tier, required={"cluster": [d.cluster()]}, observed=observe(first))
    assert ("usages" in got.requirements) == is_judged
    if not is_judged:
        kept = ("allowedNamespaces", "closedNamespaces", "pinned", "consumers")
        assert [got.status[key] for key in kept] == [first.status[key] for key in kept]


def test_new_tier_does_not_require_usages() -> None:
    got = call(d.tier())
    assert set(got.requirements) == {"cluster"}


ADMISSION = {
    "by default its own": ({}, ["modelplane-system"]),
    "Same": ({"from": "Same"}, ["modelplane-system"]),
    "Names": ({"from": "Names", "names": ["team-a"]}, ["team-a"]),
    "All": ({"from": "All"}, ["", "modelplane-system", "team-a", "team-x"]),
}


@pytest.mark.parametrize("name", ADMISSION)
def test_namespaces_that_a_tier_admits(name: str) -> None:
    allowed, want = ADMISSION[name]
    tier = d.tier(allowedNamespaces=allowed)
    namespaces = ["", "modelplane-system", "team-a", "team-x"]
    assert [n for n in namespaces if admits(tier, n)] == want


def test_forged_usage_does_not_count() -> None:
    stranger = usage_by(shares=json.dumps([[d.MODEL, "0123456789ab"]]))
    stranger["metadata"]["namespace"] = "team-x"
    stranger["metadata"]["annotations"][TIER] = "modelplane-system/chat"
    required = {"cluster": [d.cluster()], "usages": [stranger]}
    first = call(d.tier(), required=required)
    edited = d.tier(lmcache={"l1": {"sizeGiB": 200}, "chunkTokens": 512})
    edited["status"] = first.status
    got = call(edited, required=required, observed=observe(first))
    assert "usages" in got.requirements
    assert got.conditions["Accepted"][0] == "True", "nobody whom it admits uses it"


def test_users_of_a_closed_namespace_still_count() -> None:
    """Their engines run on as they are: the tier is in use until the last of them is gone."""
    open_ = d.tier(allowedNamespaces={"from": "Names", "names": ["team-a"]})
    used = usage_by(consumer='{"namespace":"team-a","kind":"ModelReplica","name":"old"}')
    required: dict[str, Any] = {"cluster": [d.cluster()], "usages": [used]}
    first = call(open_, required=required)
    assert first.status["closedNamespaces"] == []
    closed = d.tier(allowedNamespaces={"from": "Names", "names": ["team-b"]})
    closed["status"] = first.status
    running = observe(first)
    then = call(closed, required=required, observed=running)
    assert then.status["closedNamespaces"] == ["team-a"]
    closed["status"] = then.status  # who is admitted now is another list
    then = call(closed, required=required, observed=running)
    assert then.status["closedNamespaces"] == ["team-a"]
    closed["spec"]["lmcache"]["chunkTokens"] = 512
    edited = call(closed, required=required, observed=running)
    assert edited.conditions["Accepted"][0] == "False"
    assert "spec.lmcache.chunkTokens" in edited.messages["Accepted"]
    # Nobody of that namespace is new: another that comes up there is not counted by itself ...
    required["usages"] = []
    last = call(closed, required=required, observed=running)
    assert (last.status["closedNamespaces"], last.conditions["Accepted"][0]) == ([], "True")
    closed["status"] = last.status
    required["usages"] = [used]
    again = call(closed, required=required, observed=running)
    assert (again.status["closedNamespaces"], again.conditions["Accepted"][0]) == ([], "True")


@pytest.mark.parametrize("status", [{}, {"usedBy": []}], ids=["no status", "an older one"])
def test_tier_whose_status_is_lost_forgets_no_user(status: dict[str, Any]) -> None:
    tier = d.tier(allowedNamespaces={"from": "Names", "names": ["team-b"]})
    tier["status"] = status
    required = {"cluster": [d.cluster()], "usages": [used_in("team-a")]}
    assert call(tier, required=required).status["closedNamespaces"] == []  # it composes nothing yet
    tier["spec"]["crossplane"] = {"resourceRefs": [{"kind": "Object", "name": "chat-1"}]}
    assert call(tier, required=required).status["closedNamespaces"] == ["team-a"]


def used_in(namespace: str) -> dict[str, Any]:
    document = usage_by(consumer='{"namespace":"n","kind":"ModelReplica","name":"r"}')
    document["metadata"]["namespace"] = namespace
    return document


@pytest.mark.parametrize("number", [admission.MAX_CLOSED, admission.MAX_CLOSED + 1])
def test_no_user_of_a_closed_namespace_is_forgotten(number: int) -> None:
    """However many namespaces a tier that was open to all closes, and closes again."""
    tier = d.tier(allowedNamespaces={"from": "All"})
    usages_ = [used_in(f"team-{each}") for each in range(number)]
    required: dict[str, Any] = {"cluster": [d.cluster()], "usages": usages_}
    for names_ in (["team-b"], ["team-c"], ["team-b"]):
        tier["status"] = call(tier, required=required).status
        tier["spec"]["allowedNamespaces"] = {"from": "Names", "names": names_}
        required["usages"] = [*usages_, used_in(names_[0])]
        assert len(admission.admitted(tier, required["usages"])) == number + 1
    got = call(tier, required=required)
    assert ("more than 256 namespaces" in got.messages["Accepted"]) == (number > 256)
    tier["status"] = got.status
    required["usages"] = usages_[1:]
    got = call(tier, required=required)
    assert "more than 256 namespaces" not in got.messages["Accepted"]
    tier["status"] = got.status
    stays = [f"team-{each}" for each in range(1, number)]
    assert tier["status"]["closedNamespaces"] == sorted(stays)
    required["usages"] = [used_in("team-x"), *usages_[:1]]
    assert admission.admitted(tier, required["usages"]) == []


def test_consumer_is_wired_once_the_tier_itself_has_seen_that_it_is_open() -> None:
    """Opened and closed between two of its calls, it would count nobody who came meanwhile."""
    allowed = {"from": "Names", "names": ["team-a"]}
    tier = d.ready_tier(allowedNamespaces=allowed)
    for status, want in (
        ({"from": "Names", "names": ["team-b"]}, ("False", "TierNotReady")),
        (allowed, ("True", "Wired")),
    ):
        tier["status"]["allowedNamespaces"] = status
        got = call(d.replica(), desired={KEY: d.engine()}, required=d.requirements(tier))
        assert got.conditions["KVOffloadReady"] == want, got.messages
    running = observe(got)
    tier["status"]["allowedNamespaces"] = {"from": "Same"}
    kept = call(
        d.replica(), desired={KEY: d.engine()}, observed=running, required=d.requirements(tier)
    )
    assert kept.desired[KEY] == got.desired[KEY], "what is wired stays so"


NATIVE = {"backend": "Native", "native": {"cpu": {"sizeGiB": 10}}, "lmcache": None}


@pytest.mark.parametrize("edit", [{}, NATIVE], ids=["the same backend", "another backend"])
def test_engine_marks_its_tier_although_that_is_refused_now(edit: dict[str, Any]) -> None:
    """Core may end between the write of the engine and that of its Usage."""

    def ask(tier: dict[str, Any], seen: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        required = d.requirements(tier)
        got = call(d.replica(), desired={KEY: d.engine()}, observed=seen, required=required)
        return got, {key: it for key, it in got.desired.items() if key.startswith("usage-")}

    first, marks = ask(d.ready_tier(), {})
    seen = {key: it for key, it in observe(first).items() if key not in marks}
    _, marks = ask(d.ready_tier(), seen)
    got, kept = ask(d.refused_tier(**edit), seen)
    assert got.conditions["KVOffloadReady"] == ("False", "InvalidTier")
    assert kept == marks != {}


@pytest.mark.parametrize("admitted", [True, False])
def test_engine_marks_the_tier_that_it_runs_with_although_it_names_another(admitted: bool) -> None:
    """Core ended before the Usage, and there is no such other one; a record may be forged."""
    first = call(d.replica(), desired={KEY: d.engine()}, required=d.requirements(d.ready_tier()))
    marks = usages(first.desired)
    seen = {key: it for key, it in observe(first).items() if key not in marks}
    allowed = {} if admitted else {"allowedNamespaces": {"from": "Names", "names": ["team-b"]}}
    required = d.requirements(name="other") | d.requirements(d.ready_tier(**allowed))
    desired = {KEY: d.engine({names.ANNOTATION_TIER: "other"})}
    got = call(d.replica(), desired=desired, observed=seen, required=required)
    assert got.conditions["KVOffloadReady"] == ("False", "TierNotFound")
    assert {f"{it}/modelplane-system/chat" for it in ("here", "tier")} <= {
        name.removesuffix("/gpu") for name in got.requirements
    }
    held = call(d.replica(), desired={KEY: d.engine()}, observed=seen, required=required)
    assert usages(got.desired) == (usages(held.desired) if admitted else {})


def test_users_count_in_the_very_edit_that_closes_their_namespace() -> None:
    tier = d.tier(allowedNamespaces={"from": "Names", "names": ["team-a"]})
    required: dict[str, Any] = {"cluster": [d.cluster()], "usages": [used_in("team-a")]}
    first = call(tier, required=required)
    tier["status"] = first.status
    tier["spec"]["allowedNamespaces"]["names"] = ["team-b"]
    tier["spec"]["lmcache"]["chunkTokens"] = 512
    refused = call(tier, required=required, observed=observe(first))
    assert refused.conditions["Accepted"][0] == "False"
    assert "spec.lmcache.chunkTokens" in refused.messages["Accepted"]


@pytest.mark.parametrize("is_used", [False, True])
def test_fleet_tier_is_protected_while_a_child_is_used(is_used: bool) -> None:
    selector = {"matchLabels": {"fleet": "prod"}}
    fleet = d.tier(inferenceClusterRef=None, clusterSelector=selector)
    required: dict[str, Any] = {"clusters": [d.cluster("eu")]}
    observed = observe(call(fleet, required=required))
    if is_used:
        observed["tier-eu"]["metadata"].setdefault("labels", {})["crossplane.io/in-use"] = "true"
    got = call(fleet, required=required, observed=observed)
    assert set(got.requirements) == {"clusters"}
    assert ((usage.FLEET_KEY in got.desired), got.ttl) == (is_used, 300)
    assert got.status["consumers"] == ("1+" if is_used else "0")
    assert got.composite_ready == "TRUE"
    assert got.status["clusters"] == [{"name": "eu", "ready": True, "tier": "chat-eu-4ca30f2239"}]
    if is_used:
        assert got.desired[usage.FLEET_KEY]["spec"] == {
            "of": {
                "apiVersion": "modelplane.ai/v1alpha1",
                "kind": "KVOffloadTier",
                "resourceRef": {"name": "chat"},
            },
            "reason": "consumers use its tiers on their clusters: "
            "see kv-offload status --tier chat",
        }


def test_a_usage_of_another_tier_with_the_same_model_is_let_go() -> None:
    """The tier of one engine is closed, and another engine of the model moves away from its own."""

    def engine(tier: str, name: str) -> dict[str, Any]:
        made = d.engine({"modelplane.ai/kv-offload-tier": tier})
        made["spec"]["forProvider"]["manifest"]["metadata"]["name"] = name
        return made

    def run(second: str, observed: dict[str, Any], **x: Any) -> list[str]:
        nonlocal got
        required: dict[str, Any] = {}
        for name, spec in (("x", x), ("y", {}), ("z", {})):
            required |= d.requirements(d.ready_tier(name, **spec), name=name)
        desired = {"a": engine("x", "a"), "b": engine(second, "b")}
        got = call(d.replica(), desired=desired, observed=observed, required=required)
        return sorted(
            it["spec"]["of"]["resourceRef"]["name"] for it in usages(got.desired).values()
        )

    got = call(d.replica())
    assert run("y", {}) == ["x", "y"]
    closed = {"allowedNamespaces": {"from": "Names", "names": ["team-z"]}}
    assert run("z", observe(got), **closed) == ["x", "y", "z"], "core still sees it at y"
    assert run("z", observe(got), **closed) == ["x", "z"]


@pytest.mark.parametrize("scope", ["", "team-a"], ids=["cluster-scoped", "namespaced"])
@pytest.mark.parametrize("stays", [{"from": "All"}, {"from": "Names", "names": ["z"]}, None])
@pytest.mark.parametrize("upgraded", [False, True])
def test_a_tier_stays_marked_by_the_engines_that_stay(
    stays: Any, scope: str, *, upgraded: bool
) -> None:
    """The first engine goes, and what it owned with it, while the tier is open, closed or gone.

    An earlier release composed one Usage for all of them (`upgraded`).
    """

    def engine(name: str, namespace: str) -> dict[str, Any]:
        made = d.engine()
        made["metadata"] = {"namespace": scope or namespace, "name": f"obj-{name}"}
        return made

    def seen() -> dict[str, Any]:
        found = copy.deepcopy(observe(got))
        for key in found.keys() & {"a", "b"}:
            found[key]["metadata"]["name"] = f"obj-{key}"
        owners = {it["metadata"]["name"] for it in found.values() if it["kind"] == "Object"}
        return {
            key: it
            for key, it in found.items()
            if it["kind"] != "Usage" or it["spec"]["by"]["resourceRef"]["name"] in owners
        }

    consumer = d.replica()
    consumer["metadata"]["namespace"] = scope
    desired = {"a": engine("a", "ns1"), "b": engine("b", "ns2")}
    open_ = d.requirements(d.ready_tier(allowedNamespaces={"from": "All"}))
    now = d.requirements(*([d.ready_tier(allowedNamespaces=stays)] if stays else []))
    got = call(consumer, desired=desired, required=open_)
    if upgraded and not scope:
        del got.desired[max(usages(got.desired), key=lambda it: str(got.desired[it]["metadata"]))]
        open_ = now
    for required in (open_, now):
        got = call(consumer, desired=desired, observed=seen(), required=required)
        assert len(usages(got.desired)) == (1 if scope else 2), "one in each namespace"
    runs = got.desired["b"]["spec"]
    del desired["a"]
    for _ in range(4):
        got = call(consumer, desired=desired, observed=seen(), required=now)
        assert only(got.desired)["spec"]["by"]["resourceRef"]["name"] == "obj-b"
        assert got.desired["b"]["spec"] == runs


def test_usages_of_many_engines_of_a_closed_tier_are_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engines = {f"e{n:02}": d.engine(args=[f"org/model-{n}"]) for n in range(20)}
    open_, closed = d.ready_tier(), d.ready_tier(allowedNamespaces={"from": "Same"})
    seen = observe(call(d.replica(), desired=engines, required=d.requirements(open_)))
    read = []
    shares = usage.shares
    monkeypatch.setattr(usage, "shares", lambda it: read.append(it) or shares(it))
    got = call(d.replica(), desired=engines, observed=seen, required=d.requirements(closed))
    assert got.conditions["KVOffloadReady"] == ("False", "NamespaceNotAllowed")
    assert len(usages(got.desired)) == 20
    assert len(read) <= 3 * 20


def test_a_tier_over_a_pool_is_protected_until_core_sees_its_engine_leave() -> None:
    """The pods carry the pool's label."""
    pool = d.ready_tier("chat", lmcache=None, **BACKENDS["pool"])
    tier = d.ready_tier("t", lmcache=None, **BACKENDS["pages in a pool"])
    needs = {
        "needs/modelplane-system/t/store": [pool],
        "needs/modelplane-system/t/store/children": [],
    }
    required = d.requirements(tier, name="t") | needs
    engine = d.sglang_engine()
    d.wired_pod(engine)["metadata"]["annotations"] = {"modelplane.ai/kv-offload-tier": "t"}
    first = call(d.replica(), desired={KEY: engine}, required=required)
    assert first.conditions["KVOffloadReady"] == ("True", "Wired")
    leaves = d.sglang_engine()
    d.wired_pod(leaves)["metadata"]["annotations"] = {}
    got = call(d.replica(), desired={KEY: leaves}, observed=observe(first), required=required)
    assert usages(got.desired).keys() == usages(first.desired).keys()
    again = call(d.replica(), desired={KEY: leaves}, observed=observe(got), required=required)
    assert usages(again.desired) == {}


def test_usage_of_a_fleets_child_names_the_fleet_and_stays_as_it_is_made() -> None:
    child = d.ready_tier("chat-gpu", wiring={"update": "Rolling"})
    child["metadata"]["labels"] = {"modelplane.ai/kv-offload-fleet": "chat"}
    required = {
        "tier/modelplane-system/chat": [],
        "here/modelplane-system/chat/gpu": [child],
        "turn/modelplane-system/chat-gpu": [],
    }
    first = call(d.replica(), desired={KEY: d.engine()}, required=required)
    made = only(first.desired)
    assert made["metadata"]["labels"] == {
        "modelplane.ai/kv-offload-used-tier": "modelplane-system.chat-gpu",
        "modelplane.ai/kv-offload-used-fleet": "modelplane-system.chat",
    }
    assert made["metadata"]["annotations"]["modelplane.ai/kv-offload-progress"] == "Current"
    again = call(d.replica(), desired={KEY: d.engine()}, observed=observe(first), required=required)
    assert only(again.desired)["metadata"] == made["metadata"]
    assert again.ttl == 300, "nothing is awaited"


def test_a_record_that_names_no_child_keeps_the_usage_of_its_fleet() -> None:
    """Records of before 0.1 name the fleet alone."""
    child = d.ready_tier("chat-gpu")
    child["metadata"]["labels"] = {"modelplane.ai/kv-offload-fleet": "chat"}
    found = {"tier/modelplane-system/chat": [], "here/modelplane-system/chat/gpu": [child]}
    first = call(d.replica(), desired={KEY: d.engine()}, required=found)
    seen = copy.deepcopy(observe(first))
    marks = seen[KEY]["metadata"]["annotations"]
    record = json.loads(marks[names.ANNOTATION_RECORD])
    del record["child"]
    marks[names.ANNOTATION_RECORD] = json.dumps(record)
    closed = copy.deepcopy(child)
    closed["spec"]["allowedNamespaces"] = {"from": "Same"}
    required = found | {"here/modelplane-system/chat/gpu": [closed]}
    for _ in range(3):
        got = call(d.replica(), desired={KEY: d.engine()}, observed=seen, required=required)
        assert usages(got.desired).keys() == usages(first.desired).keys()
        assert got.desired[KEY]["spec"] == first.desired[KEY]["spec"]
        seen = observe(got)

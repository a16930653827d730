"""Core's mark of use on a tier, and what takes it off when nobody holds it any more."""

from typing import Any

import pytest

from function.composers.in_use import MARK_KEY, OF_OTHERS
from function.edge.answer import TTL_UNSETTLED
from tests.unit.composers import documents as d
from tests.unit.composers.calls import call

Document = dict[str, Any]


def used_by(name: str, namespace: str = "team-a", of: str = "chat", **metadata: str) -> Document:
    labels = {"modelplane.ai/kv-offload-used-tier": "modelplane-system.chat"}
    return {
        "apiVersion": "protection.crossplane.io/v1beta1",
        "kind": "Usage",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, **metadata},
        "spec": {
            "of": {
                "kind": "KVOffloadTier",
                "resourceRef": {"name": of, "namespace": "modelplane-system"},
            }
        },
    }


def own(finalizers: list[str]) -> dict[str, Document]:
    """The Usage that the tier composed of itself, as core has it."""
    return {MARK_KEY: {"kind": "Usage", "metadata": {"name": "x", "finalizers": finalizers}}}


NONE: dict[str, list[Document]] = {"usages": [], "own-usages": []}
IN_FORCE = own(["usage.apiextensions.crossplane.io"])
GOING: Document = {
    "kind": "Usage",
    "metadata": {
        "name": "x",
        "annotations": {"crossplane.io/composition-resource-name": "turn-a"},
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [{"kind": "KVOffloadTier", "uid": d.tier()["metadata"]["uid"]}],
    },
}
STRAY = {**GOING, "metadata": {**GOING["metadata"], "ownerReferences": []}}

# name: (status.usage, looked up, observed) -> (status.usage then, asked for, composes a Usage)
MARKED: dict[
    str, tuple[str, dict[str, list[Document]], dict[str, Document], tuple[str, set[str], bool]]
] = {
    "not looked up": ("", {}, {}, ("", {"usages"}, False)),
    "one user": ("", {"usages": [used_by("a")]}, {}, ("team-a/a", {"usages"}, False)),
    "several, chosen by a digest": (
        "",
        {"usages": [used_by(name) for name in "abc"]},
        {},
        ("team-a/b", {"usages"}, False),
    ),
    "one that leaves, and one that stays": (
        "",
        {"usages": [used_by("a"), used_by("b", deletionTimestamp="2026-01-01T00:00:00Z")]},
        {},
        ("team-a/a", {"usages"}, False),
    ),
    "one by its label alone": (
        "",
        {"usages": [used_by("a", of="code")], "own-usages": []},
        {},
        ("", {"usages", "own-usages"}, True),
    ),
    "a known user": (
        "team-a/a",
        {"one-usage": [used_by("a")]},
        {},
        ("team-a/a", {"one-usage"}, False),
    ),
    "a known user, not looked up": ("team-a/a", {}, {}, ("team-a/a", {"one-usage"}, False)),
    "a known user that went": (
        "team-a/a",
        {"one-usage": []},
        {},
        ("team-a/a", {"one-usage", "usages"}, False),
    ),
    "its name is another tier's user's": (
        "team-a/a",
        {"one-usage": [used_by("a", of="code")], "usages": [used_by("b")]},
        {},
        ("team-a/b", {"one-usage", "usages"}, False),
    ),
    "the last user went": (
        "team-a/a",
        {"one-usage": [], **NONE},
        {},
        ("team-a/a", {"one-usage", "usages", "own-usages"}, True),
    ),
    "no user, own ones not looked up": (
        "",
        {"usages": []},
        {},
        ("", {"usages", "own-usages"}, False),
    ),
    "no user, and a turn goes": (
        "",
        {"usages": [], "own-usages": [GOING]},
        IN_FORCE,
        ("", {"usages", "own-usages"}, True),
    ),
    "no user, and a stranger's Usage goes": (
        "",
        {"usages": [], "own-usages": [STRAY]},
        {},
        ("", {"usages", "own-usages"}, True),
    ),
    "its own is not in force": ("", NONE, own([]), ("", {"usages", "own-usages"}, True)),
    "its own is in force": ("", NONE, IN_FORCE, (OF_OTHERS, {"usages", "own-usages"}, False)),
    "its own, and the users are not looked up": ("", {}, IN_FORCE, ("", {"usages"}, True)),
    "its own, and a user came": (
        "",
        {"usages": [used_by("a")]},
        IN_FORCE,
        ("team-a/a", {"usages"}, False),
    ),
    "somebody else protects it": (
        OF_OTHERS,
        NONE,
        {},
        (OF_OTHERS, {"usages", "own-usages"}, False),
    ),
    "somebody else protected it before an edit": (
        f"{OF_OTHERS}1",
        NONE,
        {},
        (f"{OF_OTHERS}1", {"usages", "own-usages"}, True),
    ),
    "and a user came": (
        OF_OTHERS,
        {"usages": [used_by("a")]},
        {},
        ("team-a/a", {"usages"}, False),
    ),
}


@pytest.mark.parametrize("name", MARKED)
def test_mark_that_nobody_holds_is_taken_off(name: str) -> None:
    known, found, observed, (then, asked, composes) = MARKED[name]
    tier = d.tier()
    tier["metadata"]["labels"] = {"crossplane.io/in-use": "true"}
    if known:
        settled = call(tier, required={"cluster": [d.cluster()]}).status
        tier["status"] = settled | {"usage": known}
    required = {"cluster": [d.cluster()], **found}
    got = call(tier, required=required, observed=observed)
    assert got.status.get("usage", "") == then
    assert got.requirements.keys() - {"cluster"} == asked
    assert (MARK_KEY in got.desired) == composes
    assert got.status["consumers"] == "1+"
    if composes:
        assert got.ttl == TTL_UNSETTLED
        made = got.desired[MARK_KEY]
        assert "by" not in made["spec"]
        assert made["spec"]["of"]["resourceRef"] == {"name": "chat"}


def test_tier_without_the_mark_asks_nothing() -> None:
    tier = {**d.tier(), "status": {"usage": "team-a/a"}}
    got = call(tier, required={"cluster": [d.cluster()]}, observed=IN_FORCE)
    assert got.requirements.keys() == {"cluster"}
    assert MARK_KEY not in got.desired
    assert "usage" not in got.status


def test_another_packages_xrd_cannot_hold_what_is_known() -> None:
    tier = d.tier()
    tier["metadata"] |= {"labels": {"crossplane.io/in-use": "true"}, "resourceVersion": "1"}
    tier["spec"].pop("startupTimeoutSeconds", None)
    got = call(tier, required={"cluster": [d.cluster()], **NONE})
    assert (got.requirements.keys(), MARK_KEY in got.desired) == ({"cluster"}, False)


def test_lost_turns_are_found_under_another_packages_xrd_too() -> None:
    lost = {**GOING, "metadata": {k: v for k, v in GOING["metadata"].items() if k[:3] != "del"}}
    tier = d.tier(wiring={"update": "Rolling"})
    tier["metadata"] |= {"labels": {"crossplane.io/in-use": "true"}, "resourceVersion": "1"}
    tier["spec"].pop("startupTimeoutSeconds", None)
    required = {"cluster": [d.cluster()], "usages": [], "own-usages": [lost]}
    got = call(tier, required=required)
    assert got.desired["turn-a"]["spec"]["of"]["resourceRef"] == {"name": "chat"}

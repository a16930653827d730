"""`auto` in the place of a tier's name: the first labelled tier that takes the pods, for good."""

import json
from typing import Any

import pytest

from tests.unit.composers import documents as d
from tests.unit.composers.calls import Outcome, call, observe

KEY = "model-serving-main"
RECORD = "modelplane.ai/kv-offload-record"
AUTO = "modelplane.ai/kv-offload-auto"
FLEET = "modelplane.ai/kv-offload-fleet"
Document = dict[str, Any]
HICACHE: Document = {"backend": "HiCache", "lmcache": None, "hicache": {"host": {"sizeGiB": 100}}}
MOST = {"allowedNamespaces": {"from": "All"}}


def labelled(name: str, made: Any = d.ready_tier, *, fleet: str = "", **spec: Any) -> Document:
    tier: Document = made(name, **spec)
    tier["metadata"]["labels"] = {AUTO: "true"} | ({FLEET: fleet} if fleet else {})
    return tier


def edited(made: Document, **status: Any) -> Document:
    """A ready tier whose edit core has not composed yet."""
    made["metadata"]["generation"] = 2
    made["status"] |= {"observedGeneration": 1, **status}
    return made


def required(*tiers: Document) -> dict[str, list[Document]]:
    """What core finds for each thing that `auto` may ask for."""
    found: dict[str, list[Document]] = {"auto/modelplane-system": list(tiers)}
    for tier in tiers:
        name, fleet = tier["metadata"]["name"], tier["metadata"]["labels"].get(FLEET)
        children = (tier,) if fleet else ()
        own = () if fleet else (tier,)
        found |= d.requirements(*own, name=fleet or name, children=children)
    return found


def engine(policy: str = "Required", **more: Any) -> Document:
    annotations = {
        "modelplane.ai/kv-offload-tier": "auto",
        "modelplane.ai/kv-offload-policy": policy,
    }
    return d.engine(annotations, **more)


def chosen(document: Document) -> str:
    record = document["metadata"].get("annotations", {}).get(RECORD)
    return json.loads(record)["tier"] if record else ""


# name: the labelled tiers -> the one that is chosen, and what the condition says of the choice
CHOICES: dict[str, tuple[list[Document], str, str]] = {
    "the only one": ([labelled("chat")], "chat", "Chosen by modelplane-system/auto."),
    "by name": ([labelled("b"), labelled("a")], "a", "Chosen by modelplane-system/auto."),
    "one that names the namespace": ([labelled("a", **MOST), labelled("b")], "b", "Chosen by"),
    "a ready one": (
        [labelled("a", d.unready_tier), labelled("b")], "b", "Chosen by modelplane-system/auto."
    ),
    "one that takes the pods": (
        [labelled("a", **HICACHE), labelled("b")], "b", "(not a: EngineUnsupported)"
    ),
    "a fleet's child": ([labelled("f-gpu", fleet="f")], "f", "Chosen by"),
    "one on its cluster": (
        [labelled("a", provider_config="other"), labelled("b")], "b", "Chosen by"
    ),
    "one whose status names no generation": (
        [edited(labelled("a"), observedGeneration=None), labelled("b")], "a", "Chosen by"
    ),
    "one that takes the pods, whatever comes of an edit": (
        [edited(labelled("a", **HICACHE)), labelled("b")], "b", "(not a: EngineUnsupported)"
    ),
    "one that admits it": (
        [labelled("a", allowedNamespaces={"from": "Same"}), labelled("b")], "b", "Chosen by"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHOICES)
def test_the_first_that_takes_the_pods_is_chosen(name: str) -> None:
    tiers, want, said = CHOICES[name]
    got = call(d.replica(), desired={KEY: engine()}, required=required(*tiers))
    assert chosen(got.desired[KEY]) == f"modelplane-system/{want}"
    assert got.conditions["KVOffloadReady"] == ("True", "Wired")
    assert said in got.messages["KVOffloadReady"]


# name: the labelled tiers (None: not looked up) -> the reason, and what is said
NONE: dict[str, tuple[list[Document] | None, str, str]] = {
    "not looked up": (None, "TierUnresolved", "label modelplane.ai/kv-offload-auto"),
    "none has the label": ([], "TierNotFound", "Name a tier, or ask the platform team"),
    # Only the admitted learn which tiers there are.
    "none admits it": (
        [labelled("a", allowedNamespaces={"from": "Same"})], "TierNotFound", "none of them is on"
    ),
    "none is ready": ([labelled("a", d.unready_tier)], "TierNotReady", "modelplane-system/a: "),
    "one may get ready": (
        [labelled("a", **HICACHE), labelled("b", d.unready_tier)], "TierNotReady", "tier that takes"
    ),
    "the first composes an edit": (
        [edited(labelled("a")), labelled("b")], "TierNotReady", "edit of its spec is not composed"
    ),
    "the first has not judged whom it admits": (
        [edited(labelled("a"), allowedNamespaces={"from": "Same"}), labelled("b")],
        "TierNotReady",
        "kubectl describe kvot -n modelplane-system a says why",
    ),
    "the first has not judged what it pins": (
        [edited(labelled("a"), pinned={"spec.backend": "Mooncake"}), labelled("b")],
        "TierNotReady",
        "edit of spec.backend is not judged yet",
    ),
    "none takes it": ([labelled("a", **HICACHE)], "EngineUnsupported", "modelplane-system/a: "),
}  # fmt: skip


@pytest.mark.parametrize("name", NONE)
def test_an_engine_waits_where_no_tier_takes_it(name: str) -> None:
    tiers, reason, said = NONE[name]
    given = {} if tiers is None else required(*tiers)
    got = call(d.replica(), desired={KEY: engine()}, required=given)
    status = "Unknown" if reason == "TierUnresolved" else "False"
    assert got.conditions["KVOffloadReady"] == (status, reason)
    assert said in got.messages["KVOffloadReady"]
    assert KEY not in got.desired or reason == "TierUnresolved"


def test_the_first_is_chosen_once_its_edit_is_composed() -> None:
    """A choice is for good."""
    for tier, want in ((edited(labelled("a")), ""), (labelled("a"), "modelplane-system/a")):
        got = call(d.replica(), desired={KEY: engine()}, required=required(tier, labelled("b")))
        assert [chosen(it) for key, it in got.desired.items() if key == KEY] == [want][: bool(want)]


@pytest.mark.parametrize("others", [["b"], ["b", "c"], []])
def test_who_waits_for_an_edit_is_told_which_tier_takes_it_now(others: list[str]) -> None:
    tiers = [edited(labelled("a")), *map(labelled, others)]
    got = call(d.replica(), desired={KEY: engine()}, required=required(*tiers))
    said = got.messages["KVOffloadReady"]
    assert got.conditions["KVOffloadReady"] == ("False", "TierNotReady")
    assert ("finds no tier" in said) == (not others)
    assert ("modelplane-system/b takes the pods now: name it not to wait." in said) == bool(others)


@pytest.mark.parametrize("pinned", [{}, {"pinned": {"spec.backend": "Mooncake"}}])
def test_optional_waits_for_no_edit(pinned: Document) -> None:
    """It would stay unwired for good."""
    tiers = edited(labelled("a"), **pinned), labelled("b")
    got = call(d.replica(), desired={KEY: engine("Optional")}, required=required(*tiers))
    assert chosen(got.desired[KEY]) == f"modelplane-system/{'b' if pinned else 'a'}"


def settled(found: dict[str, list[Any]]) -> tuple[int, Outcome]:
    """Ask until what is required stays; return how often, and the last answer."""
    asked: list[list[str]] = []
    while len(asked) < 2 or asked[-1] != asked[-2]:
        known = {name: found.get(name, []) for name in (asked[-1] if asked else ())}
        out = call(d.replica(), desired={KEY: engine()}, required=known)
        asked.append(sorted(out.requirements))
    return len(asked), out


def test_all_candidates_are_looked_up_at_once() -> None:
    """Core asks six times in one reconcile, and fails it where the requirements still change."""
    tiers = [labelled(f"t{n}", **HICACHE) for n in range(8)]
    calls, out = settled(required(*tiers))
    assert calls == 3
    assert out.conditions["KVOffloadReady"] == ("False", "EngineUnsupported")


@pytest.mark.parametrize("number", [1, 4, 8])
def test_what_several_candidates_need_is_looked_up_at_once(number: int) -> None:
    """Children of an older release have no label of their cluster; the last tier takes the pods."""
    fleets, children = [], {}
    for n in range(number):
        fleets.append(labelled(f"f{n}-x", **(HICACHE if n < number - 1 else {})))
        fleets[-1]["metadata"]["labels"]["modelplane.ai/kv-offload-fleet"] = f"f{n}"
        children[f"children/modelplane-system/f{n}"] = [fleets[-1]]
    found = {"auto/modelplane-system": fleets, **children}
    calls, out = settled(found)
    assert calls <= 5
    assert out.conditions["KVOffloadReady"] == ("True", "Wired")


def test_a_later_tier_moves_nothing() -> None:
    first = call(d.replica(), desired={KEY: engine()}, required=required(labelled("m")))
    later = required(labelled("a"), labelled("m"))
    again = call(d.replica(), desired={KEY: engine()}, required=later, observed=observe(first))
    assert again.desired[KEY] == first.desired[KEY]
    assert again.conditions["KVOffloadReady"] == ("True", "Wired")
    assert "auto/modelplane-system" not in again.requirements
    assert "tier/modelplane-system/m" in again.requirements


def test_a_chosen_tier_that_is_gone_keeps_what_runs() -> None:
    first = call(d.replica(), desired={KEY: engine()}, required=required(labelled("m")))
    gone = d.requirements(name="m")
    again = call(d.replica(), desired={KEY: engine()}, required=gone, observed=observe(first))
    assert again.desired[KEY] == first.desired[KEY]
    assert again.conditions["KVOffloadReady"] == ("False", "TierNotFound")


def test_optional_stays_unwired_until_its_template_changes() -> None:
    """As with a tier by name."""
    desired = {KEY: engine("Optional")}
    first = call(d.replica(), desired=desired, required=required())
    assert first.conditions["KVOffloadReady"] == ("False", "TierNotFound")
    late = required(labelled("a"))
    again = call(d.replica(), desired=desired, required=late, observed=observe(first))
    assert again.desired[KEY]["spec"] == first.desired[KEY]["spec"]
    changed = {KEY: engine("Optional", args=[d.MODEL, "--max-model-len=4096"])}
    third = call(d.replica(), desired=changed, required=late, observed=observe(again))
    assert chosen(third.desired[KEY]) == "modelplane-system/a"


def test_a_fleet_hands_its_label_to_its_children() -> None:
    fleet = d.tier(inferenceClusterRef=None, clusterSelector={"matchLabels": {"fleet": "prod"}})
    for labels in ({}, {AUTO: "true"}):
        fleet["metadata"]["labels"] = labels
        got = call(fleet, required={"clusters": [d.cluster()], "children": []})
        (made,) = (it for it in got.desired.values() if it["kind"] == "KVOffloadTier")
        assert (made["metadata"]["labels"].get(AUTO) == "true") is bool(labels)


def test_no_tier_may_have_the_name() -> None:
    got = call(d.tier("auto"), required={"cluster": [d.cluster()], "usages": []})
    assert got.conditions["Accepted"] == ("False", "Invalid")
    assert got.messages["Accepted"].startswith("metadata.name: consumers write auto")

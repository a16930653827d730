"""`kv-offload plan`: an edit of a tier, and everything that it would do."""

import copy
from pathlib import Path
from typing import Any

import pytest

from function.contract.versions import known_versions
from kv_offload.render import files, plan
from kv_offload.render import tree as trees
from kv_offload.render.plan import Verb

ROOT = Path(__file__).resolve().parents[3]
CHAT = files.load_one(ROOT / "example/lmcache/tier.yaml", "tier")
STORES = files.load_one(ROOT / "example/mooncake/ha-rdma.yaml", "tier")
REMOVED = object()


def edited(tier: dict[str, Any], **edits: Any) -> dict[str, Any]:
    """The tier with fields of its spec set, by path: `lmcache__l1__sizeGiB=99`."""
    document = copy.deepcopy(tier)
    for path, value in edits.items():
        *parents, last = path.split("__")
        target = document["spec"]
        for parent in parents:
            target = target.setdefault(parent, {})
        if value is REMOVED:
            del target[last]
        else:
            target[last] = value
    return document


def effects(now: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, str]]:
    return [(e.verb.name, e.what) for e in plan.plan(now, new, (), "tier.yaml")]


VLLM = f"vLLM 0.20.0 to {known_versions('vLLM')[-1]}"
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], list[tuple[str, str]]]] = {
    "nothing": (CHAT, CHAT, []),
    "what is the default anyway": (CHAT, edited(CHAT, startupTimeoutSeconds=300), []),
    "more memory": (
        CHAT,
        edited(CHAT, lmcache__l1__sizeGiB=99),
        [("RESTARTED", "daemonset-agent")],
    ),
    "another cluster": (
        CHAT,
        edited(CHAT, inferenceClusterRef={"name": "other"}),
        [("REFUSED", "spec.inferenceClusterRef")],
    ),
    "another namespace": (
        CHAT,
        edited(CHAT, namespace="elsewhere"),
        [("REFUSED", "spec.namespace")],
    ),
    "not valid": (
        CHAT,
        edited(CHAT, lmcache__l1__sizeGiB=0),
        [("REFUSED", "spec.lmcache.l1.sizeGiB")],
    ),
    "a longer start": (
        CHAT,
        edited(CHAT, startupTimeoutSeconds=900),
        [("RESTARTED", "daemonset-agent"), ("REWIRED", VLLM)],
    ),
    "monitoring": (
        CHAT,
        edited(CHAT, monitoring={"namespaceLabels": {"team": "ops"}}),
        [("UPDATED", "networkpolicy-agent")],
    ),
    "how agents are replaced": (
        CHAT,
        edited(CHAT, upgradePolicy={"type": "OnDelete"}),
        [("UPDATED", "daemonset-agent")],
    ),
    "who may use it": (CHAT, edited(CHAT, allowedNamespaces={"from": "All"}), []),
    "more masters": (
        STORES,
        edited(STORES, mooncake__master__replicas=5),
        [("UPDATED", "deployment-master")],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_effects_of_a_tier_edit(case: str) -> None:
    now, new, wanted = CASES[case]
    assert effects(now, new) == wanted


def test_a_fleet_is_planned_for_each_of_its_clusters() -> None:
    fleet = edited(
        CHAT, inferenceClusterRef=REMOVED, clusterSelector={"matchLabels": {"gpu": "h200"}}
    )
    more = edited(fleet, lmcache__l1__sizeGiB=99)
    assert effects(fleet, more) == [("RESTARTED", "daemonset-agent")]


def test_difference_shows_both_values() -> None:
    (effect,) = plan.plan(CHAT, edited(CHAT, lmcache__l1__sizeGiB=99), (), "tier.yaml")
    assert effect.verb is Verb.RESTARTED
    assert effect.why == "At most 1 at a time."
    assert "spec.template.spec.containers[0].resources.limits.memory: 205Gi -> 104Gi" in (
        effect.differences
    )


def test_every_pinned_setting_is_refused_while_in_use() -> None:
    in_process = edited(
        CHAT,
        nodes=REMOVED,
        lmcache={"mode": "InProcess", "inProcess": {"memoryGiB": 20}},
    )
    found = plan.plan(CHAT, in_process, (), "tier.yaml")
    assert (Verb.REFUSED_IN_USE, "spec.lmcache.mode") in [(e.verb, e.what) for e in found]
    text = trees.plain(plan.as_tree(in_process, found))
    assert "is refused while consumers use the tier" in text


@pytest.mark.parametrize(
    "update, said",
    [
        (None, "keep their wiring until their own template changes"),
        ("OnChange", "keep their wiring until their own template changes"),
        ("Rolling", "are replaced once the tier is ready"),
        ("Pinned", "even when their own template changes"),
    ],
)
def test_plan_tells_when_engines_get_the_new_wiring(update: str | None, said: str) -> None:
    new = edited(CHAT, startupTimeoutSeconds=900, **({"wiring__update": update} if update else {}))
    found = plan.plan(CHAT, new, (), "tier.yaml")
    assert said in " ".join(trees.plain(plan.as_tree(new, found)).split())


@pytest.mark.parametrize(
    "now, new, message",
    [
        (
            CHAT,
            {**CHAT, "metadata": {"name": "b", "namespace": "n"}},
            "compare two versions",
        ),
        (CHAT, {**CHAT, "kind": "Pod"}, "kind is Pod, expected KVOffloadTier"),
        (edited(CHAT, backend="No"), CHAT, "the tier of --now is not valid"),
    ],
)
def test_incomparable_documents_are_refused(
    now: dict[str, Any], new: dict[str, Any], message: str
) -> None:
    with pytest.raises(files.InputError, match=message):
        plan.plan(now, new, (), "tier.yaml")

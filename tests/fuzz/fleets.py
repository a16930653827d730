"""Fuzz edits of a fleet tier over time: `python -m tests.fuzz.fleets --runs 1000`.

What the small worlds (tests/world) do not have: overrides, waves by label, clusters whose labels
change in the middle, selectors, a child that fails in any way. Children answer at once, so that
what `plan` says before an edit can be compared with what then happens.
"""

import argparse
import copy
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from function.api.tier import KVOffloadTierSpec
from function.composers import overrides
from function.composers.agents import needed
from function.composers.fleet_rollout import PREFIX, stamped
from kv_offload.render import plan
from kv_offload.render.effects import Verb
from tests.unit.composers.calls import Document
from tests.unit.composers.test_waves import VERDICTS, World

LIMIT = 30  # calls until a fleet of six that works has an edit
SECONDS = 40  # between two calls
_SMALL = {"matchLabels": {"stage": "first"}, "spec": {"image": {"tag": "small"}}}
_SLOW = {"matchLabels": {"zone": "x"}, "spec": {"startupTimeoutSeconds": 900}}
OVERRIDES: tuple[list[Document], ...] = ([], [_SMALL], [_SLOW], [_SMALL, _SLOW])
STRATEGIES: tuple[Document, ...] = (
    {},
    {"maxUnavailable": 1},
    {"maxUnavailable": "50%"},
    {"minReadySeconds": 60},
    {"waves": [{"matchLabels": {"stage": "first"}}]},
    {"waves": [{"matchLabels": {"stage": "nowhere"}}]},
    {"waves": [{"matchLabels": {"zone": "x"}, "clusters": 1}, {"clusters": "50%"}]},
)
SELECTORS: tuple[dict[str, str], ...] = ({"fleet": "prod"}, {"fleet": "prod", "zone": "x"})
WORDS = ("works", "fails", "starts", "unseen", "misses", "stalls")


@dataclass
class Fleet(World):
    """A fleet whose clusters answer by a word each, whatever their child carries."""

    words: dict[str, str] = field(default_factory=dict)
    selector: dict[str, str] = field(default_factory=lambda: SELECTORS[0])

    def fleet(self) -> Document:
        made = super().fleet()
        made["spec"]["clusterSelector"] = {"matchLabels": dict(self.selector)}
        return made

    def every_cluster(self) -> list[Document]:
        found = super().required()["clusters"]
        return [{**each, "kind": "InferenceCluster"} for each in found]

    def required(self) -> dict[str, list[Document]]:
        every = self.every_cluster()
        found = {f"cluster/{it['metadata']['name']}": [it] for it in every}
        wanted = self.selector.items()
        match = [it for it in every if wanted <= it["metadata"]["labels"].items()]
        return found | {"clusters": match, "children": list(self.children.values())}

    def answer(self) -> None:
        super().answer()
        for key, child in self.children.items():
            word = self.words.get(key.removeprefix(PREFIX), "works")
            (synced,) = (c for c in child["status"]["conditions"] if c["type"] == "Synced")
            child["status"]["conditions"] = [*VERDICTS[word], synced]

    def selected(self) -> list[str]:
        return [it["metadata"]["name"] for it in self.required()["clusters"]]

    def target(self, cluster: str) -> Document:
        spec, labels = self.fleet()["spec"], {"fleet": "prod", **self.clusters[cluster]}
        positions = overrides.matching(spec, labels)
        return _bare(stamped(overrides.merged(KVOffloadTierSpec, spec, positions)))


def _bare(spec: Document) -> Document:
    return {k: v for k, v in spec.items() if k != "inferenceClusterRef"}


def _carried(fleet: Fleet) -> dict[str, Document]:
    return {key.removeprefix(PREFIX): _bare(it["spec"]) for key, it in fleet.children.items()}


def _call(fleet: Fleet) -> str:
    """Call once, and check what it did; return the wave and who took the edit in it."""
    before, works = _carried(fleet), {c for c in fleet.clusters if _works(fleet, c)}
    fleet.now += SECONDS
    fleet.step()
    rollout, strategy = fleet.status.get("rollout", {}), fleet.rollout or {}
    took = sorted(c for c, spec in _carried(fleet).items() if before.get(c, spec) != spec)
    most = max(1, needed(strategy.get("maxUnavailable", "25%"), len(fleet.selected()) or 1))
    assert len(works & set(took)) <= most, f"{took} at once, and {most} may"
    assert not (strategy.get("paused") and took), f"{took} while it is paused"
    if rollout.get("state") == "Done":
        for cluster in fleet.selected():
            assert _carried(fleet).get(cluster) == fleet.target(cluster), f"Done without {cluster}"
    if not took:
        return ""
    return f"wave {rollout.get('wave')} of {rollout.get('waves')}: {', '.join(took)}"


def _works(fleet: Fleet, cluster: str) -> bool:
    return fleet.words.get(cluster, "works") == "works"


def _edit(fleet: Fleet, luck: random.Random) -> str:
    """Do one act of a person or a cluster; return its word."""
    act = luck.choice(
        ("tag", "overrides", "strategy", "selector", "label", "word", "word", "pause")
    )
    cluster = luck.choice(sorted(fleet.clusters))
    if act == "tag":
        fleet.tag = luck.choice(("v1", "v2", "v3"))
    elif act == "overrides":
        fleet.overrides = luck.choice(OVERRIDES)
    elif act == "strategy":
        fleet.rollout = dict(luck.choice(STRATEGIES))
    elif act == "selector":
        fleet.selector = luck.choice(SELECTORS)
    elif act == "pause":
        fleet.rollout = {**(fleet.rollout or {}), "paused": luck.random() < 0.5}
    elif act == "label":
        fleet.clusters[cluster] = _labels(luck)
    else:
        fleet.words[cluster] = luck.choice(WORDS)
        fleet.answer()
    return act


def _labels(luck: random.Random) -> dict[str, str]:
    return {"stage": luck.choice(("first", "prod")), "zone": luck.choice("xy")}


def _is_foretold(fleet: Fleet, before: Document) -> None:
    """Check what `plan` says of an edit of a fleet whose clusters all work."""
    given = [*fleet.every_cluster(), *copy.deepcopy([*fleet.children.values()])]
    said = plan.plan(before, fleet.fleet(), given, "tier.yaml")
    waves = [effect.what for effect in said if effect.verb is Verb.WAVE]
    restarts = {c for e in said if e.verb is Verb.RESTARTED for c in e.clusters or fleet.selected()}
    first = _carried(fleet)
    happened = [wave for _ in range(LIMIT) if (wave := _call(fleet))]
    assert waves == happened, f"plan says {waves}, and it was {happened}"
    # Each edit here is of the agents' pods.
    moved = {
        cluster for cluster, spec in _carried(fleet).items() if first.get(cluster, spec) != spec
    }
    restarts &= first.keys()
    assert moved == restarts, f"plan says that {restarts} restart, and {moved} did"


def play(number: int) -> str:
    """Return what broke in a history, "" for nothing."""
    luck = random.Random(number)
    names = "abcdef"[: luck.randint(1, 6)]
    clusters = {name: _labels(luck) for name in names}
    fleet = Fleet(clusters, dict(luck.choice(STRATEGIES)), overrides=luck.choice(OVERRIDES))
    acts: list[str] = []
    try:
        for _ in range(4):
            _call(fleet)
        for _ in range(luck.randint(1, 6)):
            acts.append(_edit(fleet, luck))
            for _ in range(luck.choice((1, 1, 2, 3, 8))):
                _call(fleet)
        fleet.words, fleet.rollout = {}, {**(fleet.rollout or {}), "paused": False}
        fleet.answer()
        acts.append("all works")
        for _ in range(LIMIT):
            _call(fleet)
        _is_at_rest(fleet)
        before = fleet.fleet()
        acts.append("foretold")
        fleet.tag, fleet.overrides = luck.choice(("v1", "v4")), luck.choice(OVERRIDES)
        fleet.selector = luck.choice(SELECTORS)
        _is_foretold(fleet, before)
    except AssertionError as broken:
        return f"{broken} ({', '.join(acts)})"
    return ""


def _is_at_rest(fleet: Fleet) -> None:
    if fleet.selected():
        assert fleet.status["rollout"]["state"] == "Done", "everything works, and it is not Done"
    first = _said(fleet)
    _call(fleet)
    assert _said(fleet) == first, "it flaps"


def _said(fleet: Fleet) -> Any:
    assert fleet.got is not None
    return fleet.got.conditions, fleet.got.messages, copy.deepcopy(fleet.status)


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=1000, help="histories")
    options.add_argument("--seed", type=int, default=0, help="of the first")
    given = options.parse_args(arguments)
    began, broken = time.process_time(), 0
    for number in range(given.seed, given.seed + given.runs):
        if said := play(number):
            broken += 1
            print(f"seed {number}: {said}", flush=True)
    seconds = time.process_time() - began
    print(f"{given.runs} fleets in {seconds:.0f} s of CPU: {broken} broke a rule")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

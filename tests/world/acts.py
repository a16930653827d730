"""What people and faults do to a world: a history is a list of acts, each a line of text.

`HOME` holds tiers, `TEAM` consumers. The fleet tier `wide` selects clusters by a label, the tier
`chat` stands on c1. A consumer runs one engine.
"""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from function import names
from function.kube import access, objects
from programs.observer.judge import HITTING, WRONG_BLOCKS, Memory
from programs.observer.report import Engine, report, text
from tests.unit.composers import documents as d
from tests.unit.composers.over_time import Wish
from tests.world.core import Earlier
from tests.world.function import Document, Function
from tests.world.plane import Key, is_deleted, key_of
from tests.world.reading import OF_FLEETS, resource_of
from tests.world.rules import Rules
from tests.world.world import CLUSTERS, World

HOME, TEAM = "modelplane-system", "team-a"
TIERS = ("wide", "chat")
CONSUMERS = ("a", "b", "c")
COMPOSED = ("Usage", "Usage", "Object", "KVOffloadTier")

BACKENDS: dict[str, Document] = {
    "node server": {"backend": "LMCache", "lmcache": {"l1": {"sizeGiB": 200}}},
    "pool": {"backend": "Mooncake", "mooncake": {"protocol": "tcp", "store": {"sizeGiB": 8}}},
    "native": {"backend": "Native", "native": {"cpu": {"sizeGiB": 10}}},
}
# Of a node server's tier; "image": what its agents run.
EDITS: dict[str, Document] = {
    "bigger": {"lmcache": {"l1": {"sizeGiB": 300}}},
    "smaller": {"lmcache": {"l1": {"sizeGiB": 100}}},
    "other chunks": {"lmcache": {"l1": {"sizeGiB": 200}, "chunkTokens": 512}},
    "invalid": {"lmcache": {"l1": {"sizeGiB": -1}}},
    "broken image": {"image": {"repository": "broken/standalone", "tag": "v0.5.6"}},
    "good image": {"image": {"repository": "lmcache/standalone", "tag": "v0.5.6"}},
    "rolling": {"wiring": {"update": "Rolling"}},
    "pinned": {"wiring": {"update": "Pinned"}},
    "on change": {"wiring": {"update": "OnChange"}},
    "guarded": {
        "observe": {"canary": {"onWrongBlocks": "Quarantine"}},
        "wiring": {"update": "Rolling"},
    },
    "closed": {"allowedNamespaces": {"from": "Names", "names": ["team-z"]}},
    "open": {"allowedNamespaces": {"from": "All"}},
    "half is enough": {"readiness": {"minAvailable": "50%"}},
    "select prod": {"clusterSelector": {"matchLabels": {"fleet": "prod"}}},
    "select test": {"clusterSelector": {"matchLabels": {"fleet": "test"}}},
    "remove": {"removal": "Remove"},
    "keep": {"removal": "Keep"},
    "paused": {"rollout": {"paused": True}},
    "canary": {"rollout": {"waves": [{"matchLabels": {"ring": "canary"}}, {"clusters": 1}]}},
    "two at once": {"rollout": {"maxUnavailable": 2}},
    "slow start": {"startupTimeoutSeconds": 900},
    "fast start": {"startupTimeoutSeconds": 120},
    "override": {
        "clusterOverrides": [
            {"matchLabels": {"ring": "canary"}, "spec": {"startupTimeoutSeconds": 240}}
        ]
    },
    "no override": {"clusterOverrides": []},
}
# Edits that are refused always, or while somebody uses the tier.
REFUSED = ("invalid", "other chunks")
ARGUMENTS: tuple[tuple[str, ...], ...] = ((), ("--dtype=float16",))


@dataclass(frozen=True)
class Act:
    """One act by name, with its arguments."""

    name: str
    arguments: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.name, *(json.dumps(each) for each in self.arguments)])

    @classmethod
    def parse(cls, line: str) -> "Act":
        name, _, rest = line.partition(" ")
        decoder, found, at = json.JSONDecoder(), [], 0
        while at < len(rest):
            value, end = decoder.raw_decode(rest, at)
            found.append(value)
            at = end + 1
        return cls(name, tuple(found))


class Play:
    """A world, what its people have asked for, and the rules that must hold."""

    def __init__(self, function: Function) -> None:
        self.world = World(function)
        self.wishes: dict[str, Wish] = {}
        self.rules = Rules(self)

    def act(self, act: Act) -> None:
        getattr(self, f"do_{act.name}")(*act.arguments)
        self.rules.check()

    def do_core(self, version: str) -> None:
        self.world.core.version = version

    def do_luck(self, seed: int) -> None:
        """From here on what happens next is drawn from this seed."""
        self.world.rng.seed(seed)

    def tier(self, name: str) -> Document | None:
        return self.world.store.get(("KVOffloadTier", HOME, name))

    # The platform team ---------------------------------------------------------------------------

    def do_register(self, cluster: str, fleet: str) -> None:
        known = self.world.store.get(("InferenceCluster", "", cluster))
        if known is not None and is_deleted(known):
            return
        if known is not None:
            self.do_label(cluster, fleet)
            return
        metadata = {"name": cluster, "labels": _labels(cluster, fleet)}
        document = d.cluster(cluster, provider_config=None)
        self.world.put({**document, "spec": {}, "metadata": metadata})

    def do_label(self, cluster: str, fleet: str) -> None:
        if self.world.store.get(("InferenceCluster", "", cluster)) is not None:
            self.world.store.edit(("InferenceCluster", "", cluster), labels=_labels(cluster, fleet))

    def do_unregister(self, cluster: str, foreground: bool) -> None:
        self.rules.emptied.add(cluster)
        self.world.store.delete(("InferenceCluster", "", cluster), foreground=foreground)

    def do_declare(self, name: str, backend: str, update: str) -> None:
        known = self.tier(name)
        if known is not None and is_deleted(known):
            return
        if known is not None:
            self.rules.spoilt.add(name)
        spec: Document = {
            **BACKENDS[backend],
            "allowedNamespaces": {"from": "All"},
            "startupTimeoutSeconds": 300,  # the server's default
            "wiring": {"update": update},
        }
        if name == "wide":
            spec["clusterSelector"] = {"matchLabels": {"fleet": "prod"}}
        else:
            spec["inferenceClusterRef"] = {"name": CLUSTERS[0]}
        metadata = {"name": name, "namespace": HOME, "labels": {}}
        tier = {"apiVersion": names.API_VERSION, "kind": "KVOffloadTier"}
        self.world.put({**tier, "metadata": metadata, "spec": spec})

    def do_edit(self, name: str, edit: str) -> None:
        tier = self.tier(name)
        if tier is None:
            return
        change = EDITS[edit]
        if change.keys() & {"lmcache", "image"} and tier["spec"]["backend"] != "LMCache":
            return
        if change.keys() & OF_FLEETS and name != "wide":
            return
        if edit == "guarded" and tier["spec"]["backend"] == "Native":
            return  # without a level its blocks are the engines' own
        if edit == "remove":
            self.rules.emptied.add(name)
        if edit in REFUSED:
            self.rules.spoilt.add(name)
        gone = {
            "crossplane",
            *(["observe"] if "wiring" in change else []),
        }  # Quarantine needs turns
        spec = {k: v for k, v in tier["spec"].items() if k not in gone}
        metadata = {"name": name, "namespace": HOME}
        self.world.put({**tier, "metadata": metadata, "spec": {**spec, **change}})

    def do_remove(self, name: str, foreground: bool) -> None:
        self.rules.in_foreground |= foreground
        self.world.store.delete(("KVOffloadTier", HOME, name), foreground=foreground)

    def do_replace(self, kind: str, name: str) -> None:
        """Somebody writes a composite as it is in a repository, without what core notes there."""
        home = HOME if kind == "KVOffloadTier" else TEAM
        it = self.world.store.get((kind, home, name))
        if it is not None:
            spec = {key: value for key, value in it["spec"].items() if key != "crossplane"}
            self.world.store.put(self.world.function.intern({**it, "spec": spec}))

    def do_nodes(self, cluster: str, count: int) -> None:
        it = self.world.clusters[cluster]
        it.nodes = [f"n{i + 1}" for i in range(count)]
        self.rules.nodes_came[cluster] = self.world.steps
        for key in it.documents:
            self.world.schedule("pods", cluster, key)

    def do_accuse(self, cluster: str, wrong: bool) -> None:
        """The canary begins or ends to accuse the consumers' model."""
        self.rules.accusations[cluster] = self.rules.accusations.get(cluster, 0) + wrong
        memory = Memory(state=WRONG_BLOCKS if wrong else HITTING)
        engine = Engine("default", "10.0.0.1", "vLLM", d.MODEL, memory)
        self.world.clusters[cluster].observe(text(report([engine], {}, {})))

    # ML teams ------------------------------------------------------------------------------------

    def do_deploy(self, name: str, asks: Mapping[str, Any]) -> None:
        """Deploy a consumer, or edit all of it but its cluster."""
        given = {**asks, "arguments": tuple(asks.get("arguments", ()))}
        if name in self.wishes:
            given["cluster"] = self.wishes[name].cluster
        self._put_consumer(name, Wish("replica", **given))

    def do_change(self, name: str, asks: Mapping[str, Any]) -> None:
        if name in self.wishes:
            given = {**asks}
            if "arguments" in given:
                given["arguments"] = tuple(given["arguments"])
            self._put_consumer(name, replace(self.wishes[name], **given))

    def _put_consumer(self, name: str, wish: Wish) -> None:
        known = self.world.store.get(consumer_key(name))
        if known is not None and is_deleted(known):
            return
        self.wishes[name] = wish
        document = wish.composite(name)
        document["metadata"] = {"name": name, "namespace": TEAM}
        key = key_of(document)
        intern = self.world.function.intern
        desired = {k: intern(_named(v, name)) for k, v in wish.desired().items()}
        self.world.core.earlier[key] = Earlier(desired, intern(wish.step_input()), wish)
        self.world.put(document)
        self.world.core.queue(key)  # the composite's own edit wakes it

    def do_withdraw(self, name: str, foreground: bool) -> None:
        if self.wishes.pop(name, None) is not None:
            self.world.store.delete(consumer_key(name), foreground=foreground)

    # Faults --------------------------------------------------------------------------------------

    def do_cut(self, cluster: str) -> None:
        self.world.clusters[cluster].cut_off = True

    def do_join(self, cluster: str) -> None:
        self.world.clusters[cluster].cut_off = False

    def do_fail(self, name: str) -> None:
        for cluster in self.world.clusters.values():
            cluster.failing ^= {name}
            for key in cluster.documents:
                self.world.schedule("pods", cluster.name, key)

    def do_lag(self, view: str, lags: bool) -> None:
        for each in self.world.store.views:
            if each.name == view:
                each.lags = lags

    def do_restart_core(self) -> None:
        self.world.core.restart()

    def do_restart_function(self) -> None:
        self.world.core.cold = 3

    def do_second_core(self, kind: str, name: str) -> None:
        self.world.schedule("core", (kind, HOME if kind == "KVOffloadTier" else TEAM, name), 1)

    def do_erase(self, kind: str, number: int) -> None:
        """Somebody deletes by hand what a composite composes."""
        found = self.world.store.documents.items()
        composed = [key for key, it in found if key[2] not in TIERS and not _is_engine(it)]
        keys = sorted(key for key in composed if key[0] == kind)
        if keys:
            erased = self.world.store.documents[keys[number % len(keys)]]
            if resource_of(erased).startswith("hold-"):
                self.rules.unheld.add(objects.provider_config(erased))
            self.world.store.delete(key_of(erased))

    def do_deafen(self, kind: str, name: str) -> None:
        key = (kind, HOME if kind == "KVOffloadTier" else TEAM, name)
        if self.world.store.get(key) is not None:
            self.world.core.deaf[key] = self.world.time + 300

    # Time ----------------------------------------------------------------------------------------

    def do_run(self, steps: int) -> None:
        for _ in range(steps):
            if not self.world.step() and not self.world.tick():
                return
            self.rules.check()

    def do_calm(self) -> None:
        """Let all happen that needs no clock."""
        self.world.drain(20_000)  # a cache behind its own writes makes core take many back

    def do_wait(self, seconds: int) -> None:
        until = self.world.time + seconds
        while True:
            self.world.drain(5_000)
            if not self.world.tick(until):
                return

    # The end -------------------------------------------------------------------------------------

    def do_finish(self) -> None:
        """End all faults; everything comes to rest, and then nothing is written any more."""
        world = self.world
        for cluster in self.rules.accusations:
            self.do_accuse(cluster, False)
        world.heal()
        world.drain(20_000)
        world.settle(60)
        self.rules.check()
        self.rules.at_rest()
        for _ in range(2):  # time alone may change an answer just now
            before = world.store.writes
            for key in world.core.composites():
                world.core.queue(key)
            for key in [key for key in world.store.documents if key[0] == "Object"]:
                world.schedule("provider", key)
            world.drain(5_000)
            if world.store.writes == before:
                return
            world.settle(60)
        raise AssertionError("what is at rest is written again")

    def do_clear(self) -> None:
        """Remove everything, consumers first; nothing may remain."""
        for name in sorted(self.wishes):
            self.do_withdraw(name, False)
        for _ in range(2):  # one that is being deleted comes again once it is gone
            for cluster in CLUSTERS:
                self.do_register(cluster, "none")
            self.world.settle(60)
        for name in TIERS:  # a refused spec keeps what was composed, and with it a fleet's Usage
            self.do_edit(name, "bigger")
        self.world.settle(60)
        self.rules.strays_are_told()
        for name in sorted(self.rules.strays()):  # what the fleet says is to be done
            self.do_remove(name, False)
        self.world.settle(60)
        for _ in range(3):  # a tier that others kept goes later
            for name in TIERS:
                self.do_remove(name, False)
            self.world.settle(60)
        self.rules.all_gone()


def _labels(cluster: str, fleet: str) -> dict[str, str]:
    return {"fleet": fleet, "ring": "canary" if cluster == "c2" else "main"}


def _is_engine(document: Document) -> bool:
    selector = ("spec", "forProvider", "manifest", "spec", "selector", "matchLabels")
    return access.at(document, *selector, "modelplane.ai/workload") is not None


def consumer_key(name: str) -> Key:
    return ("ModelReplica", TEAM, name)


def _named(wrapped: Document, name: str) -> Document:
    """Return an engine's Object whose Deployment has the consumer's name."""
    spec, provided = wrapped["spec"], wrapped["spec"]["forProvider"]
    manifest = provided["manifest"]
    labels = {"modelplane.ai/workload": name}
    template = manifest["spec"]["template"]
    metadata = {**template["metadata"]}
    metadata["labels"] = {**metadata.get("labels", {}), **labels}
    made = {
        **manifest,
        "metadata": {**manifest["metadata"], "name": name},
        "spec": {
            **manifest["spec"],
            "selector": {"matchLabels": labels},
            "template": {**template, "metadata": metadata},
        },
    }
    return {**wrapped, "spec": {**spec, "forProvider": {**provided, "manifest": made}}}


# Chance ------------------------------------------------------------------------------------------

# Openings are few, so that many histories share what the function answers in them.
OPENINGS = 24


def history(seed: int) -> list[Act]:
    """Return an opening, drawn from a few, and what follows it: of one theme, or of all."""
    rng = random.Random(seed)
    acts = _opening(random.Random(rng.randrange(OPENINGS)))
    acts.append(Act("luck", (seed,)))
    theme = rng.choice((_ROLLS, _WAVES, _WAVES, _LEAVES, _HOLDS, _ALL))
    for _ in range(rng.randint(2, 5)):
        ((_, make),) = rng.choices(theme, [weight for weight, _ in theme])
        acts.append(make(rng))
        if rng.random() < 0.7:
            acts.append(_pause(rng, calm=0.3))
    acts.append(Act("finish"))
    return [*acts, Act("clear")] if rng.random() < 0.3 else acts


def _opening(rng: random.Random) -> list[Act]:
    acts = [Act("core", (rng.choice(("2.4", "2.4", "2.3")),)), Act("luck", (0,))]
    acts += [Act("register", (name, "prod")) for name in CLUSTERS[: rng.choice((1, 2, 3, 3))]]
    backend = rng.choice(("node server", "node server", "node server", "pool", "native"))
    update = rng.choice(("OnChange", "Rolling", "Rolling", "Rolling", "Pinned"))
    named = [Act("declare", ("wide", backend, update))]
    if rng.random() < 0.3:
        named.append(Act("declare", ("chat", rng.choice((*BACKENDS,)), update)))
    named += [_deploy(rng, name) for name in CONSUMERS[: rng.choice((1, 2, 3, 3))]]
    if rng.random() < 0.3:
        rng.shuffle(named)
    return [*acts, *named, Act("calm")] if rng.random() < 0.9 else [*acts, *named]


def _pause(rng: random.Random, calm: float) -> Act:
    if rng.random() < calm:
        return Act("calm") if rng.random() < 0.7 else Act("wait", (rng.choice((15, 60, 400)),))
    return Act("run", (rng.choice((2, 5, 10, 20, 40)),))


def _deploy(rng: random.Random, name: str) -> Act:
    asks: dict[str, Any] = {
        "tier": "chat" if rng.random() < 0.1 else "wide",
        "policy": rng.choice((*["Required"] * 8, "Optional", "Off")),
        "cluster": rng.choice((*[CLUSTERS[0]] * 3, CLUSTERS[1])),
    }
    if rng.random() < 0.3:
        asks["arguments"] = list(rng.choice(ARGUMENTS))
    return Act("deploy", (name, asks))


def _change(rng: random.Random) -> Act:
    what = rng.choice(
        (
            {"arguments": list(rng.choice(ARGUMENTS))},
            {"policy": rng.choice(("Required", "Optional", "Off"))},
            {"tier": rng.choice((*TIERS, ""))},
            {"engine": rng.choice(("vllm", "newer vllm"))},
        )
    )
    return Act("change", (rng.choice(CONSUMERS), what))


def _tier(rng: random.Random) -> str:
    return rng.choice(("wide", "wide", "wide", "chat"))


def _composite(rng: random.Random) -> tuple[str, str]:
    if rng.random() < 0.5:
        return "KVOffloadTier", _tier(rng)
    return "ModelReplica", rng.choice(CONSUMERS)


def _edit(*edits: str) -> Callable[[random.Random], Act]:
    return lambda rng: Act("edit", (_tier(rng), rng.choice(edits)))


_Theme = tuple[tuple[int, Callable[[random.Random], Act]], ...]

_FAULTS: _Theme = (
    (1, lambda r: Act("cut", (r.choice(CLUSTERS[:2]),))),
    (1, lambda r: Act("fail", (r.choice(CONSUMERS),))),
    (2, lambda r: Act("lag", (r.choice(("core", "core", "provider")), True))),
    (1, lambda _: Act("restart_core")),
    (1, lambda _: Act("restart_function")),
    (2, lambda r: Act("second_core", _composite(r))),
    (1, lambda r: Act("replace", _composite(r))),
    (1, lambda r: Act("deafen", _composite(r))),
    (3, lambda r: Act("erase", (r.choice(COMPOSED), r.randrange(12)))),
)
# Edits of a tier that its users follow, one after the other.
_ROLLS: _Theme = (
    (10, _edit("slow start", "fast start")),
    (3, _edit("guarded")),
    (4, lambda r: Act("accuse", (r.choice(CLUSTERS[:2]), r.random() < 0.7))),
    (2, _edit("rolling", "rolling", "on change", "pinned")),
    (2, lambda r: Act("fail", (r.choice(CONSUMERS),))),
    (2, _change),
    (2, lambda r: Act("nodes", (r.choice(CLUSTERS[:2]), r.choice((0, 1, 2, 3, 3))))),
    *_FAULTS,
)
# Edits of a fleet that reach one cluster after the other.
_WAVES: _Theme = (
    (12, _edit("bigger", "smaller", "slow start", "good image")),
    (4, _edit("broken image")),
    (3, _edit("paused", "canary", "two at once")),
    (2, _edit("half is enough", "invalid")),
    (3, _edit("override", "no override")),
    (3, lambda r: Act("nodes", (r.choice(CLUSTERS), r.choice((0, 1, 2, 3, 3))))),
    (3, lambda r: Act("label", (r.choice(CLUSTERS), r.choice(("prod", "prod", "test"))))),
    (2, lambda r: Act("register", (r.choice(CLUSTERS), "prod"))),
    (1, lambda r: Act("unregister", (r.choice(CLUSTERS), r.random() < 0.5))),
    *_FAULTS,
)
# What goes while it is used.
_LEAVES: _Theme = (
    (4, lambda r: Act("label", (r.choice(CLUSTERS), r.choice(("prod", "test", "none"))))),
    (3, _edit("select test", "select prod", "closed", "open", "invalid")),
    (3, lambda r: Act("edit", ("wide", r.choice(("remove", "remove", "keep"))))),
    (2, lambda r: Act("register", (r.choice(CLUSTERS), r.choice(("prod", "test"))))),
    (3, lambda r: Act("unregister", (r.choice(CLUSTERS), r.random() < 0.5))),
    (3, lambda r: Act("remove", (_tier(r), r.random() < 0.3))),
    (2, lambda r: Act("withdraw", (r.choice(CONSUMERS), r.random() < 0.5))),
    (2, lambda r: Act("declare", (_tier(r), "node server", "Rolling"))),
    *_FAULTS,
)
# Who may begin, and how.
_HOLDS: _Theme = (
    (4, lambda r: _deploy(r, r.choice(CONSUMERS))),
    (3, _change),
    (2, lambda r: Act("withdraw", (r.choice(CONSUMERS), r.random() < 0.5))),
    (2, _edit("closed", "open", "invalid", "other chunks", "broken image", "good image")),
    (2, lambda r: Act("nodes", (r.choice(CLUSTERS[:2]), r.choice((0, 1, 3))))),
    (2, lambda r: Act("declare", (_tier(r), r.choice((*BACKENDS,)), "OnChange"))),
    *_FAULTS,
)
_ALL: _Theme = (
    (4, _edit(*sorted(EDITS))),
    (1, lambda r: Act("join", (r.choice(CLUSTERS[:2]),))),
    (1, lambda r: Act("lag", (r.choice(("core", "provider")), False))),
    *_ROLLS,
    *_WAVES,
    *_LEAVES,
    *_HOLDS,
)

"""What the function decides over time: a platform team and ML teams, and what must always hold."""

from dataclasses import dataclass, replace
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from function import names
from function.composers.admission import admits
from function.composers.agents import needed
from function.pods import record as records
from tests.unit.composers import documents as d
from tests.unit.composers.calls import Document
from tests.unit.composers.plane import (
    Composite,
    Plane,
    condition,
    key_of,
    restart,
    running,
    serves,
    wired_to,
)

HOME, TEAM = "modelplane-system", "team-a"
KVOFFLOAD = "KVOffloadReady"
CLUSTERS = ("gpu", "gpu2")
# Enough for a roll through all consumers, one by one.
TURNS = 40

# What a tier may be, by a word.
BACKENDS: dict[str, Document] = {
    "node server": {"backend": "LMCache", "lmcache": {"l1": {"sizeGiB": 200}}},
    "shared memory": {"backend": "LMCache", **d.SHARED_MEMORY},
    "in process": {
        "backend": "LMCache",
        "lmcache": {"mode": "InProcess", "inProcess": {"memoryGiB": 4}},
    },
    "pool": {"backend": "Mooncake", "mooncake": {"protocol": "tcp", "store": {"sizeGiB": 8}}},
    "native": {"backend": "Native", "native": {"cpu": {"sizeGiB": 10}}},
    "nixl": {"backend": "NIXL", "nixl": {}},
    "pages": {"backend": "HiCache", "hicache": {"host": {"sizeGiB": 100}}},
    "pages in a pool": {
        "backend": "HiCache",
        "hicache": {
            "host": {"sizeGiB": 100},
            "storage": {"type": "Mooncake", "mooncake": {"storageTierRef": {"name": "chat"}}},
        },
    },
    "broken": {"backend": "LMCache", "lmcache": {"l1": {"sizeGiB": -1}}},
}
BROKEN = BACKENDS["broken"]
NAMES = ("chat", "wide")  # of one cluster; of all
EDITS: dict[str, Document] = {
    "startup": {"startupTimeoutSeconds": 900},
    "startup again": {"startupTimeoutSeconds": 600},
    "rolling": {"wiring": {"update": "Rolling"}},
    "pinned": {"wiring": {"update": "Pinned"}},
    "on change": {"wiring": {"update": "OnChange"}},
    "closed": {"allowedNamespaces": {"from": "Names", "names": ["team-z"]}},
    "open": {"allowedNamespaces": {"from": "All"}},
    "other nodes": {"nodes": {"selector": {"pool": "kv"}}},
    "half is enough": {"readiness": {"minAvailable": "50%"}},
}

# What an ML team may write in its engine.
ENGINES: dict[str, Document] = {
    "vllm": {"image": "vllm/vllm-openai:v0.32.0"},
    "newer vllm": {"image": "vllm/vllm-openai:v0.33.0"},
    "old vllm": {"image": "vllm/vllm-openai:v0.7.3"},
    "sglang": {"image": "lmcache/sglang:v0.5.6"},
    "stock sglang": {"image": "lmsysorg/sglang:v0.5.23"},
    "router": {"image": "nginx:1.27"},
}
MODELS = (d.MODEL, "Qwen/Qwen3-8B")
ARGUMENTS: tuple[tuple[str, ...], ...] = ((), ("--dtype=float16",), ("--dtype=bfloat16",))
POLICIES = ("Required", "Optional", "Off")
# How a consumer runs its engines; of each but the last, one.
SHAPES = ("replica", "bare", "field", "pair")
TEAMS = ("a", "b", "c")


@dataclass(frozen=True)
class Wish:
    """What an ML team has written."""

    shape: str
    engine: str = "vllm"
    model: str = d.MODEL
    arguments: tuple[str, ...] = ()
    tier: str = "chat"  # "" names none
    policy: str = "Required"
    cluster: str = "gpu"

    def composite(self, name: str) -> Document:
        found = d.replica(name, TEAM, clusterName=self.cluster)
        if self.shape == "field":
            found |= {"apiVersion": "example.org/v1", "kind": "App"}
            if self.tier:
                found["spec"]["kvOffloadTierRef"] = {"name": self.tier, "policy": self.policy}
        owner = {"uid": "uid-parent", "controller": True, "kind": "ModelDeployment"}
        found["metadata"]["ownerReferences"] = [owner] if name != "c" else []
        return found

    def step_input(self) -> Document:
        made = {"apiVersion": "kvoffload.fn.modelplane.ai/v1alpha1", "kind": "Input"}
        return {**made, "controlPlaneCluster": "gpu"}

    def desired(self) -> dict[str, Document]:
        if self.shape == "pair":
            return {f"engine-{role}": self._engine(role) for role in ("prefill", "decode")}
        made = self._engine("")
        if self.shape == "bare":
            made = made["spec"]["forProvider"]["manifest"]
            made["metadata"] = {}
        return {"engine": made}

    def _engine(self, role: str) -> Document:
        asks: dict[str, str] = {}
        if self.tier and self.shape != "field":
            asks = {names.ANNOTATION_TIER: self.tier, names.ANNOTATION_POLICY: self.policy}
        words = [self.model, *self.arguments]
        made = d.engine(asks, args=words, provider_config=self.cluster, **ENGINES[self.engine])
        template = d.wired_pod(made)
        template["spec"]["volumes"] = []
        container = template["spec"]["containers"][0]
        container["volumeMounts"] = []
        if "sglang" in self.engine:
            container["command"] = ["sglang", "serve", "--model-path", self.model]
            container["args"] = list(self.arguments)
        elif "vllm" in self.engine:
            container["command"] = ["vllm", "serve"]
        if role:
            template["metadata"]["labels"]["llm-d.ai/role"] = role
        return made

    @property
    def author(self) -> tuple[Any, ...]:
        """All that decides about the pods: what of it is edited may roll them."""
        return tuple(vars(self).values())


WISHES = st.builds(
    Wish,
    shape=st.sampled_from(SHAPES),
    engine=st.sampled_from((*sorted(ENGINES), "vllm", "sglang")),
    tier=st.sampled_from(NAMES),
    policy=st.sampled_from((*POLICIES, "Required", "Required")),
    arguments=st.sampled_from(ARGUMENTS),
)


class OverTime(RuleBasedStateMachine):
    """One rule at a time, then everybody is reconciled until nothing changes, then all must hold.

    `wishes`: what runs or waits, by consumer. `edited`: whose pods may be replaced for the last
    rule. `before`: what ran before it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.plane = Plane()
        self.wishes: dict[str, Wish] = {}
        self.edited: set[str] = set()
        self.before: dict[str, dict[str, Document]] = {}
        self.rolls = False
        self.appeared: dict[str, set[str]] = {}

    # The platform team ---------------------------------------------------------------------------

    @initialize(
        spec=st.sampled_from(sorted(BACKENDS)),
        ready=st.sampled_from([True, True, False]),
        wish=WISHES,
    )
    def start(self, spec: str, ready: bool, wish: Wish) -> None:
        for name in CLUSTERS:
            self.plane.clusters[name] = d.cluster(name, provider_config=name)
            self.plane.nodes[name] = (2, 2 if ready else 0)
        self.act("a")
        self.put_tier("chat", spec)
        self.put_tier("wide", spec)
        self.put("a", wish)
        self.settle()

    def put_tier(self, name: str, spec: str, **edit: Any) -> None:
        document = d.tier(name, **BACKENDS[spec], **edit)
        if "lmcache" not in BACKENDS[spec]:
            document["spec"].pop("lmcache", None)
        if name == "wide":
            del document["spec"]["inferenceClusterRef"]
            document["spec"]["clusterSelector"] = {"matchLabels": {"fleet": "prod"}}
        key = key_of(document)
        if key in self.plane.composites:
            self.plane.composites[key].document["spec"] = document["spec"]
            return
        it = Composite(document)
        document["metadata"]["uid"] = self.plane.next_uid()
        # Tiers come first, as an old one's would.
        self.plane.composites = {key: it, **self.plane.composites}

    def tier(self, name: str) -> Composite | None:
        return self.plane.composites.get(("KVOffloadTier", HOME, name))

    @rule(name=st.sampled_from(NAMES), spec=st.sampled_from(sorted(BACKENDS)))
    def declare_tier(self, name: str, spec: str) -> None:
        self.act()
        self.put_tier(name, spec)
        self.settle()

    @rule(name=st.sampled_from(NAMES), edit=st.sampled_from(sorted(EDITS)))
    def edit_tier(self, name: str, edit: str) -> None:
        it = self.tier(name)
        if it is not None:
            self.act()
            it.document["spec"] = {**it.document["spec"], **EDITS[edit]}
            self.settle()

    @rule(name=st.sampled_from(NAMES))
    def delete_tier(self, name: str) -> None:
        self.act()
        self.plane.delete(("KVOffloadTier", HOME, name))
        self.settle()

    @rule(
        cluster=st.sampled_from(CLUSTERS), nodes=st.sampled_from([(2, 2), (2, 1), (2, 0), (0, 0)])
    )
    def nodes_change(self, cluster: str, nodes: tuple[int, int]) -> None:
        self.act()
        self.plane.nodes[cluster] = nodes
        self.settle()

    @rule(cluster=st.sampled_from(CLUSTERS))
    def cluster_goes_or_comes(self, cluster: str) -> None:
        self.act()
        if self.plane.clusters.pop(cluster, None) is None:
            self.plane.clusters[cluster] = d.cluster(cluster, provider_config=cluster)
        self.settle()

    @rule(name=st.sampled_from((*NAMES, *TEAMS)))
    def writes_are_refused_or_taken(self, name: str) -> None:
        self.act()
        self.plane.refusing ^= {name}
        self.settle()

    # An ML team ----------------------------------------------------------------------------------

    @precondition(lambda self: len(self.wishes) < len(TEAMS))
    @rule(wish=WISHES)
    def deploy(self, wish: Wish) -> None:
        name = next(name for name in TEAMS if name not in self.wishes)
        self.act(name)
        self.put(name, wish)
        self.settle()

    def put(self, name: str, wish: Wish) -> None:
        self.wishes[name] = wish
        made = Composite(wish.composite(name), wish.desired, wish.step_input())
        key = key_of(made.document)
        known = self.plane.composites.get(key)
        if known is None:
            self.plane.composites[key] = made
        else:
            known.document["spec"], known.earlier = made.document["spec"], made.earlier

    def consumer(self, name: str) -> Composite | None:
        for key, it in self.plane.composites.items():
            if key[0] != "KVOffloadTier" and key[2] == name:
                return it
        return None

    def whose(self, which: int) -> str:
        return sorted(self.wishes)[which % len(self.wishes)]

    @precondition(lambda self: self.wishes)
    @rule(
        which=st.integers(0, 2),
        change=st.one_of(
            st.tuples(st.just("engine"), st.sampled_from(sorted(ENGINES))),
            st.tuples(st.just("model"), st.sampled_from(MODELS)),
            st.tuples(st.just("arguments"), st.sampled_from(ARGUMENTS)),
            st.tuples(st.just("tier"), st.sampled_from((*NAMES, ""))),
            st.tuples(st.just("policy"), st.sampled_from(POLICIES)),
            st.tuples(st.just("cluster"), st.sampled_from(CLUSTERS)),
        ),
    )
    def edit(self, which: int, change: tuple[str, Any]) -> None:
        name = self.whose(which)
        self.act(name)
        self.put(name, replace(self.wishes[name], **dict([change])))
        self.settle()

    @precondition(lambda self: self.wishes)
    @rule(which=st.integers(0, 2))
    def delete(self, which: int) -> None:
        name = self.whose(which)
        it = self.consumer(name)
        assert it is not None
        self.act(name)
        del self.wishes[name]
        self.plane.delete(key_of(it.document))
        self.settle()
        assert self.consumer(name) is None, "a deleted consumer stays"

    @rule(name=st.sampled_from(TEAMS))
    def pods_fail_or_recover(self, name: str) -> None:
        self.act()
        self.plane.broken ^= {name}
        self.settle()

    @precondition(lambda self: self.wishes)
    @rule(which=st.integers(0, 2))
    def damage_record(self, which: int) -> None:
        name = self.whose(which)
        it = self.consumer(name)
        assert it is not None
        self.act(name)
        if condition(it.document, KVOFFLOAD)[0] != "True":
            del self.wished[name]  # its tier cannot be used: the record alone keeps it wired
        for document in it.composed.values():
            annotations = document["metadata"].get("annotations", {})
            if names.ANNOTATION_RECORD in annotations:
                annotations[names.ANNOTATION_RECORD] = annotations[names.ANNOTATION_RECORD][:-9]
        self.settle()

    # The function --------------------------------------------------------------------------------

    @rule()
    def function_restarts(self) -> None:
        self.act()
        was = self.answers()
        restart()
        assert self.settle() == 0, "a restart changes something"
        assert self.answers() == was

    def answers(self) -> list[bytes]:
        """Return the current answer for every composite, byte for byte."""
        there = [it for it in self.plane.composites.values() if not it.leaving]
        return [self.plane.ask(it).SerializeToString(deterministic=True) for it in there]

    # What happens --------------------------------------------------------------------------------

    def act(self, *edited: str) -> None:
        self.edited = set(edited)
        self.before = self.templates()
        self.wished = dict(self.wishes)
        self.records = {name: self.record_of(name) for name in self.wishes}
        self.rolling = {
            it.document["metadata"]["name"]
            for it in self.tiers()
            if it.document["spec"].get("wiring", {}).get("update") == "Rolling"
        }

    def tiers(self) -> list[Composite]:
        return [it for key, it in self.plane.composites.items() if key[0] == "KVOffloadTier"]

    def templates(self) -> dict[str, dict[str, Document]]:
        return {name: running(it) for name in TEAMS if (it := self.consumer(name)) is not None}

    def record_of(self, name: str) -> dict[str, records.Record | None]:
        it = self.consumer(name)
        composed = it.composed if it else {}
        return {
            key: records.read(document["metadata"])[0]
            for key, document in composed.items()
            if key.startswith("engine")
        }

    def settle(self) -> int:
        self.last = self.templates()
        return self.plane.settle(TURNS, self.each_turn)

    def each_turn(self) -> None:
        """Beside the limit of a roll: what holds at every moment."""
        now = self.templates()
        moved = [
            name
            for name in now
            if name not in self.edited
            and any(now[name].get(k) != t for k, t in self.last.get(name, {}).items())
            and any(wired_to(t) for t in self.last[name].values())
        ]
        assert len(moved) <= 1 or not self.rolling, f"{moved} roll at once"
        self.last = now

    # What must hold ------------------------------------------------------------------------------

    @invariant()
    def it_holds(self) -> None:
        self.what_a_condition_says_is_so()
        self.nothing_that_runs_changes_for_anothers_sake()
        self.required_never_begins_unwired()
        self.a_tier_is_used_by_whom_it_serves()
        self.a_ready_tier_has_its_agents()

    def what_a_condition_says_is_so(self) -> None:
        for name, wish in self.wishes.items():
            it = self.consumer(name)
            assert it is not None and it.answer is not None
            status, reason = condition(it.document, KVOFFLOAD)
            desired = {k: v for k, v in it.answer.desired.items() if k.startswith("engine")}
            pods = {key: _template(document) for key, document in desired.items()}
            carried = {key: wired_to(template) for key, template in pods.items()}
            assert not it.answer.fatals, it.answer.fatals
            if status == "True":
                assert reason == "Wired"
                tier = self.found(wish)
                assert tier is not None, f"{name} is Wired to a tier that is not there"
                assert admits(tier.document, TEAM), f"{name} is Wired and not admitted"
                assert serves(tier.document), f"{name}: not ready"
                marks = {self.remote(tier)} | {self.remote(it) for it in self.needed(tier)}
                assert set(carried.values()) <= marks, (name, carried, marks)
            if wish.policy == "Off" or not wish.tier:
                assert not any(carried.values()), f"{name} is wired and asks for nothing"
                assert pods == {k: _template(v) for k, v in wish.desired().items()}
            # Of a pair the condition says what stands worst: one half may be wired.
            told = all if wish.shape == "pair" and reason == "Unwired" else any
            if reason in ("TurnedOff", "NotRequested", "Unwired", "RequestIgnored"):
                assert not told(carried.values()), f"{name} is wired under {reason}"
            self.check_reason(name, wish, reason)

    def remote(self, tier: Composite) -> str:
        return names.remote_name(HOME, tier.document["metadata"]["name"])

    def needed(self, tier: Composite) -> list[Composite]:
        """The tiers that a tier keeps its blocks in, where its consumers are wired to."""
        uses = [doc["spec"]["of"] for doc in tier.composed.values() if doc["kind"] == "Usage"]
        there = {of["resourceRef"]["name"] for of in uses}
        return [it for it in self.tiers() if it.document["metadata"]["name"] in there]

    def check_reason(self, name: str, wish: Wish, reason: str) -> None:
        """Nobody is told to wait for what is there, or that what is there is not."""
        tier = self.found(wish)
        if reason == "TierNotReady":
            assert tier is None or not serves(tier.document), name
        if reason == "TierNotFound":
            assert self.tier(wish.tier) is None, name
        if reason == "NamespaceNotAllowed":
            named = self.tier(wish.tier)
            assert tier is None or not admits(tier.document, TEAM), (name, named)
        if reason == "TierUnresolved":
            raise AssertionError(f"{name} is unresolved at the end")
        if reason == "CacheIdentityConflict":
            assert wish.shape == "pair", f"{name} conflicts with nobody"

    def found(self, wish: Wish) -> Composite | None:
        """The tier that a wish means, on its cluster."""
        cluster = "gpu" if wish.shape == "bare" else wish.cluster
        for it in self.tiers():
            metadata, spec = it.document["metadata"], it.document["spec"]
            named = metadata["name"] if "inferenceClusterRef" in spec else ""
            fleet = metadata.get("labels", {}).get(names.LABEL_FLEET, "")
            where = it.document.get("status", {}).get("providerConfigRef", {}).get("name")
            if wish.tier in (named, fleet) and wish.tier and where == cluster:
                return it
        return None

    def nothing_that_runs_changes_for_anothers_sake(self) -> None:
        now = self.templates()
        for name, templates in self.before.items():
            if name in self.edited:
                self.an_edit_does_not_unwire(name, templates, now.get(name, {}))
            if name in self.edited or name not in self.wishes:
                continue
            for key, template in templates.items():
                new = now[name].get(key)
                if new == template:
                    continue
                record = self.records[name].get(key)
                assert new is not None, f"{name} is gone"
                if not wired_to(template):  # unwired: only Required is wired later
                    assert self.wishes[name].policy == "Required", f"{name} was to stay unwired"
                    assert wired_to(new)
                    continue
                assert wired_to(new), f"{name} is unwired, and nobody asked for it"
                waited = record is None or record.template != _digest(self.wishes[name], key)
                assert waited or self.rolling or name in self.waiting, f"{name} rolls"
        self.waiting = {
            name
            for name, it in ((n, self.consumer(n)) for n in self.wishes)
            if it is not None and condition(it.document, KVOFFLOAD)[0] != "True"
        }

    def an_edit_does_not_unwire(
        self, name: str, before: dict[str, Document], now: dict[str, Document]
    ) -> None:
        """What Required runs wired, and asks for a tier as before, is wired anew or stays."""
        was, wish = self.wished.get(name), self.wishes.get(name)
        if (
            was is None
            or wish is None
            or not wish.tier
            or {was.policy, wish.policy} != {"Required"}
        ):
            return
        if (was.shape, was.engine, was.cluster) != (wish.shape, wish.engine, wish.cluster):
            return
        for key, template in before.items():
            if wired_to(template) and self.records[name].get(key) is not None:
                assert wired_to(now[key]), f"an edit of {name} unwired it"

    waiting: set[str] = set()

    def required_never_begins_unwired(self) -> None:
        for name, wish in self.wishes.items():
            for key, template in self.templates().get(name, {}).items():
                was = self.appeared.setdefault(f"{name}/{key}", set())
                first = not was
                was.add("there")
                asks = wish.tier and wish.policy == "Required"
                it = self.consumer(name)
                assert it is not None
                reason = condition(it.document, KVOFFLOAD)[1]
                if first and asks and reason not in ("OutOfScope", "NothingToWire"):
                    assert wired_to(template), f"{name} began unwired: {reason}"
        there = {f"{n}/{k}" for n, found in self.templates().items() for k in found}
        self.appeared = {k: v for k, v in self.appeared.items() if k in there}

    def a_tier_is_used_by_whom_it_serves(self) -> None:
        """Every Usage speaks for pods that carry the tier's wiring."""
        for it in self.tiers():
            if it.answer is not None and it.answer.conditions["Accepted"][0] == "True":
                used = self.is_marked(it)
                assert (it.document["status"]["consumers"] != "0") == used, it.document
        for name, it in ((n, self.consumer(n)) for n in self.wishes):
            assert it is not None
            carried = {wired_to(template) for template in running(it).values()} - {""}
            marked = set()
            for document in it.composed.values():
                if document["kind"] == "Usage":
                    of = document["spec"]["of"]["resourceRef"]
                    marked.add(names.remote_name(of["namespace"], of["name"]))
            if name in self.plane.refusing:
                continue
            kept = {
                self.remote(pool)
                for it in self.tiers()
                for pool in self.needed(it)
                if self.remote(it) in marked
            }
            if not kept:
                assert marked <= carried, f"{name} marks {marked} and runs with {carried}"
            assert carried <= marked | kept, f"{name} runs with {carried} and marks {marked}"

    def is_marked(self, tier: Composite) -> bool:
        """Whether a Usage names a tier, or the fleet tier whose child it is of."""
        name = tier.document["metadata"]["name"]
        is_fleet = "clusterSelector" in tier.document["spec"]
        label = names.LABEL_USED_FLEET if is_fleet else names.LABEL_USED_TIER
        wanted = names.reference(HOME, name)
        return any(
            usage["metadata"].get("labels", {}).get(label) == wanted
            for usage in self.plane.usages()
        )

    def a_ready_tier_has_its_agents(self) -> None:
        for it in self.tiers():
            if not serves(it.document):
                continue
            spec, status = it.document["spec"], it.document["status"]
            assert condition(it.document, "Accepted")[0] == "True"
            if "clusterSelector" in spec:
                continue
            least = spec.get("readiness", {}).get("minAvailable", "90%")
            desired, ready = self.plane.nodes[spec["inferenceClusterRef"]["name"]]
            has = any(key.startswith("daemonset") for key in it.composed)
            assert not has or (desired >= 1 and ready >= needed(least, desired)), status

    def teardown(self) -> None:
        """After everything is deleted nothing remains, and nobody waits for anybody."""
        for name in sorted(self.wishes):
            it = self.consumer(name)
            assert it is not None
            self.plane.delete(key_of(it.document))
        self.wishes, self.before = {}, {}
        self.plane.settle(TURNS)
        # A spec that is refused keeps what was composed, and with it a fleet's hold on itself: it
        # is corrected before the tier can go.
        for each in self.tiers():
            if each.document["spec"].get("lmcache") == BROKEN["lmcache"]:
                each.document["spec"]["lmcache"] = {"l1": {"sizeGiB": 10}}
        self.plane.settle(TURNS)
        for name in reversed(NAMES):
            self.plane.delete(("KVOffloadTier", HOME, name))
        self.plane.settle(TURNS)
        left = [str(key) for key in self.plane.composites]
        for name in NAMES:  # one that another tier needed
            self.plane.delete(("KVOffloadTier", HOME, name))
        self.plane.settle(TURNS)
        assert not self.plane.composites, left
        assert not self.plane.usages()


def _template(document: Document) -> Document:
    manifest = document.get("spec", {}).get("forProvider", {}).get("manifest", document)
    return dict(manifest["spec"]["template"])


def _digest(wish: Wish, key: str) -> str:
    made = wish.desired()
    template = _template(made[key]) if key in made else {}
    return records.digest({"spec.template": template})

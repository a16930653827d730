"""What must hold in every world: after each step, at rest, and when everything is gone."""

import re
from typing import TYPE_CHECKING, Any

from function import names
from function.composers.admission import admits
from function.composers.agents import needed
from function.composers.conditions import (
    REASON_NOT_OBSERVED,
    REASON_TIMED_OUT,
    REASON_UPDATE_TIMED_OUT,
)
from function.kube import naming, objects
from function.pods import record as records
from tests.unit.composers.over_time import Wish
from tests.world.clusters import Cluster, starts
from tests.world.clusters import Key as RemoteKey
from tests.world.function import Document, Reply
from tests.world.plane import IN_USE, Key, controller, is_deleted, key_of, of_usage

if TYPE_CHECKING:
    from tests.world.acts import Play

TIER_CONDITIONS = {"Accepted", "ClusterResolved", "ControlPlaneReady", "AgentsReady"}
KVOFFLOAD = "KVOffloadReady"
_IDENTITY = re.compile(r'kv_offload\.identity\W+([0-9a-f]+)|"cache_prefix\W+([\w-]+)')
_AGENTS = "kv-offload-system"
_STUCK = (REASON_NOT_OBSERVED, REASON_TIMED_OUT, REASON_UPDATE_TIMED_OUT)


class Broken(AssertionError):
    """A rule that does not hold."""


# In the keys of an observer's parts, which engines do not need.
_OF_OBSERVERS = ("observer", "observed", "serving", "engines")


def wired_to(document: Document | None) -> str:
    """Return the remote name of the tier that a workload's pods are wired to, "" for none."""
    template = (document or {}).get("spec", {}).get("template", {})
    return str(template.get("metadata", {}).get("labels", {}).get(names.LABEL_WIRED, ""))


def manifest(document: Document | None) -> Document | None:
    return objects.unwrap(document) if document else None


def condition(document: Document, kind: str) -> Document:
    found = document.get("status", {}).get("conditions", [])
    return next((c for c in found if c["type"] == kind), {})


def status(document: Document, kind: str) -> str:
    return str(condition(document, kind).get("status", "Unknown"))


def _version(document: Document) -> tuple[str, int]:
    metadata = document["metadata"]
    return metadata.get("uid", ""), metadata.get("generation", 0)


def _template(workload: Document) -> Document:
    """Return the pod template of an engine's Object."""
    found: Document = (manifest(workload) or {})["spec"]["template"]
    return found


def _backend(workload: Document | None) -> str | None:
    """Return the backend that an engine's Object records, None without a record."""
    annotations = (workload or {}).get("metadata", {}).get("annotations", {})
    record = records.load(annotations.get(names.ANNOTATION_RECORD))[0]
    return None if record is None else record.backend


def _remote_name(usage: Document) -> str:
    """Return the remote name of the tier that a Usage is of."""
    return names.remote_name(*of_usage(usage)[1:])


def _is_fleet(tier: Document) -> bool:
    return "clusterSelector" in tier["spec"]


# What of a tier's spec is a fleet's alone, and what of it is not its children's.
OF_FLEETS = {"clusterSelector", "clusterOverrides", "rollout", "removal"}
_OWN = OF_FLEETS | {"crossplane", "inferenceClusterRef"}


def _listed(composite: Document) -> set[str]:
    """Return the names of what core knows that it composes."""
    refs = composite["spec"].get("crossplane", {}).get("resourceRefs", [])
    return {ref["name"] for ref in refs}


def _stamped(tier: Document) -> Document:
    """Return what of a tier's spec a fleet gives its children."""
    return {key: value for key, value in tier["spec"].items() if key not in _OWN}


class Rules:
    """`written_for`: by consumer, what its author had written when its engine was written last.

    `spoilt`: tiers that somebody gave a spec that may be refused. `emptied`: fleets that somebody
    told to Remove, and clusters that somebody has unregistered. `arrived`: by uid and generation,
    the step at which a spec reached core's cache. `replaced`: by a tier's remote name, the step at
    which the reconcile began that accepted another backend. `under_way`: children that took an
    edit, until it works there, and when the reconcile began that gave it to them.
    """

    def __init__(self, play: "Play") -> None:
        self.play = play
        self.world = play.world
        self.written_for: dict[str, Wish] = {}
        self.spoilt: set[str] = set()
        self.emptied: set[str] = set()
        self.stores: dict[tuple[str, str, str], Any] = {}
        # Consumers that had their turn, until their pods are up, and their tiers' remote names.
        self.rolled: dict[str, str] = {}
        # By cluster: how often the canary began to accuse the consumers' model there.
        self.accusations: dict[str, int] = {}
        self.arrived: dict[tuple[str, int], int] = {}
        self.replaced: dict[str, int] = {}
        self.deleted: set[str] = set()  # remote names of tiers
        # Tiers that went before they said on which ProviderConfig they are.
        self.unguarded: set[str] = set()
        # What reached core's cache of each tier, and at which step.
        self.tiers: dict[Key, list[tuple[int, Document]]] = {}
        # Usages that core told to go when it had not seen the engine that they wait for.
        self.blind: set[str] = set()
        # Remote names of tiers that gave two turns, by a cache that lagged.
        self.doubled: set[str] = set()
        self.under_way: dict[Key, int] = {}
        self.nodes_came: dict[str, int] = {}  # by cluster, the step of the last change
        self.in_foreground = False  # whether somebody has removed a tier so
        self.failed = ""
        # Tiers that core sees as used, and since which step.
        self.seen: dict[Key, int] = {}
        self.world.seen = self.sees
        self.world.happened = self.happened
        self.world.core.applied = self.applied
        self.world.core.answered = self.answered

    def check(self) -> None:
        """Raise what went wrong since the last check."""
        if self.failed:
            raise Broken(self.failed)

    def broken(self, why: str) -> None:
        self.failed = self.failed or why

    def sees(self, key: Key, after: Document | None) -> None:
        """A change reaches core's cache."""
        if after is not None:
            self.arrived.setdefault(_version(after), self.world.steps)
        if key[0] == "KVOffloadTier":
            if after is not None:
                if is_deleted(after) and "providerConfigRef" not in after.get("status", {}):
                    self.unguarded.add(after["metadata"]["uid"])
                self.tiers.setdefault(key, []).append((self.world.steps, after))
            if after is None:
                self.deleted.add(names.remote_name(*key[1:]))
            if after is None or IN_USE not in after["metadata"].get("labels", {}):
                self.seen.pop(key, None)
            else:
                self.seen.setdefault(key, self.world.steps)

    def is_unseen(self, document: Document, began: int) -> bool:
        """Whether a reconcile that began then cannot know a document's spec.

        Core's cache lags, also behind its own writes, and a second core goes by what it has read.
        Core applies without a precondition, so the function cannot prevent that either one acts.
        """
        return self.arrived.get(_version(document), began) >= began

    # Writes of core ------------------------------------------------------------------------------

    def applied(
        self,
        composite: Key,
        name: str,
        before: Document | None,
        after: Document | None,
        wish: Wish | None,
    ) -> None:
        if wish is None:
            if before is None and name.startswith("turn-"):
                self.turn_is_given(composite)
            if before is not None and after is None:
                self.part_goes(composite, name, before)
            elif before is not None and after is not None and after["kind"] == "KVOffloadTier":
                self.child_is_written(composite, before, after)
            return
        if name == "engine":
            self.engine_is_written(composite, before, after, wish)
        if name.startswith("usage-") and after is None and before is not None:
            self.usage_goes(composite, before)

    def turn_is_given(self, tier: Key) -> None:
        """Note where a tier gives a turn that does not know yet of the one before."""
        it = self.world.store.documents[tier]
        began = self.world.core.began
        known = _listed(self.read(tier, began) or it)
        given = [
            usage
            for usage in self.usages_of(it)
            if usage["metadata"]["annotations"][naming.RESOURCE_NAME].startswith("turn-")
        ]
        if any(u["metadata"]["name"] not in known or self.is_unseen(u, began) for u in given):
            self.doubled.add(names.remote_name(*tier[1:]))

    def part_goes(self, tier: Key, name: str, part: Document) -> None:
        """A part of a tier, or a child of a fleet, is dropped: not while core sees it used."""
        if part["kind"] not in ("Object", "KVOffloadTier") or name.startswith("hold-"):
            return
        if any(word in name for word in _OF_OBSERVERS):
            return
        used = tier if part["kind"] == "Object" else key_of(part)
        began = self.world.core.began
        users = [
            usage
            for usage in self.world.store.documents.values()
            if usage["kind"] == "Usage" and of_usage(usage) == used and "by" in usage["spec"]
        ]
        if self.seen.get(used, began) < began and users:
            self.broken(f"{tier[2]} drops {name} while {used[2]} is used")
        if part["kind"] == "KVOffloadTier":
            cluster = part["spec"]["inferenceClusterRef"]["name"]
            if not {tier[2], cluster} & self.emptied and not is_deleted(part):
                self.broken(f"{tier[2]} empties {cluster}, and nobody asked for it")

    def child_is_written(self, fleet: Key, before: Document, after: Document) -> None:
        """An edit reaches a cluster: not while it does not work yet where it came before."""
        if _stamped(before) == _stamped(after) or is_deleted(before):
            return
        own, began = key_of(after), self.world.core.began
        known = self.read(own, began)
        if known is not None and _stamped(known) == _stamped(after):
            return  # kept as core had read it, which did not know of a write since
        tier = self.read(fleet, began) or self.world.store.documents[fleet]
        self.drop_through()
        most = tier["spec"].get("rollout", {}).get("maxUnavailable", "25%")
        stays = self.members(tier)
        others = [
            key
            for key, since in self.under_way.items()
            if key != own and key in stays and not self.is_excused(key) and not self.is_stuck(key)
            if since == began or not self.is_unseen(self.world.store.documents[key], began)
            if not self.is_outgrown(key, since, began)
        ]
        if len(others) >= max(1, needed(most, len(stays))) and not self.is_unseen(before, began):
            self.broken(f"the edit reaches {own[2]} while {sorted(k[2] for k in others)} take it")
        self.under_way[own] = began

    def is_outgrown(self, child: Key, since: int, began: int) -> bool:
        """Whether nodes came after a child's edit, and its fleet had read that it works."""
        it = self.read(child, began)
        if it is None or status(it, "Ready") != "True":
            return False
        return self.nodes_came.get(it["spec"]["inferenceClusterRef"]["name"], -1) >= since

    def read(self, tier: Key, began: int) -> Document | None:
        """Return a tier as a reconcile had read it that began then."""
        found = [document for step, document in self.tiers.get(tier, ()) if step < began]
        return found[-1] if found else None

    def drop_through(self) -> None:
        """Forget the children whose edit works."""
        self.under_way = {k: v for k, v in self.under_way.items() if not self.is_through(k)}

    def is_stuck(self, child: Key) -> bool:
        """Whether nobody sees a child's cluster, as far as its tier knows, or it did not start.

        The one takes the edit when it is back; of the other an edit may be what repairs it, and a
        wave before its own must prove that.
        """
        it = self.world.store.documents[child]
        said = condition(it, "AgentsReady").get("reason")
        return (
            said in _STUCK or self.world.clusters[it["spec"]["inferenceClusterRef"]["name"]].cut_off
        )

    def wanted(self, fleet: Document, cluster: str) -> Document:
        """Return what a fleet gives its child on a cluster; overrides are of plain fields here."""
        labels = self.world.store.documents[("InferenceCluster", "", cluster)]["metadata"]["labels"]
        found = _stamped(fleet)
        for each in fleet["spec"].get("clusterOverrides", []):
            if each["matchLabels"].items() <= labels.items():
                found |= each["spec"]
        return found

    def members(self, fleet: Document) -> set[Key]:
        """Return a fleet's children on clusters that match; others are kept for their users."""
        found = self.world.store.dependents(fleet["metadata"]["uid"])
        wanted = self.clusters_of(fleet)
        return {
            key_of(child)
            for child in found
            if child["kind"] == "KVOffloadTier"
            and child["spec"]["inferenceClusterRef"]["name"] in wanted
            and not self.is_of_another(child)
        }

    def is_of_another(self, child: Document) -> bool:
        """Whether a child was made for an earlier cluster of its cluster's name, and leaves."""
        name = child["spec"]["inferenceClusterRef"]["name"]
        cluster = self.world.store.documents[("InferenceCluster", "", name)]
        made_for = child["metadata"].get("annotations", {}).get(names.ANNOTATION_CLUSTER)
        return made_for not in (None, cluster["metadata"]["uid"])

    def is_there(self, child: Document) -> bool:
        """Whether a child's cluster is there to stay, selected or not."""
        name = child["spec"]["inferenceClusterRef"]["name"]
        cluster = self.world.store.get(("InferenceCluster", "", name))
        return (
            cluster is not None
            and not is_deleted(cluster)
            and not is_deleted(child)
            and not self.is_of_another(child)
        )

    def clusters_of(self, fleet: Document) -> set[str]:
        """Return the clusters that a fleet selects, and nobody deletes."""
        wanted = fleet["spec"]["clusterSelector"]["matchLabels"]
        return {
            cluster["metadata"]["name"]
            for cluster in self.world.store.documents.values()
            if cluster["kind"] == "InferenceCluster"
            and not is_deleted(cluster)
            and wanted.items() <= cluster["metadata"]["labels"].items()
        }

    def is_excused(self, child: Key) -> bool:
        """Whether a child was not ready already when it took its edit."""
        annotations = self.world.store.documents[child]["metadata"].get("annotations", {})
        return names.ANNOTATION_UNREADY in annotations

    def is_through(self, child: Key) -> bool:
        """Whether a child has composed its edit, and enough agents run it; or it is gone."""
        it = self.world.store.get(child)
        if it is None or is_deleted(it):
            return True
        if it.get("status", {}).get("observedGeneration") != it["metadata"]["generation"]:
            return False
        least = it["spec"].get("readiness", {}).get("minAvailable", "90%")
        for each in self.world.store.dependents(it["metadata"]["uid"]):
            wanted = manifest(each) or {}
            if is_deleted(each) or wanted.get("kind") not in ("DaemonSet", "StatefulSet"):
                continue
            cluster = self.world.clusters[objects.provider_config(each)]
            pods = cluster.pods.get(key_of(wanted), [])
            if wanted["kind"] == "DaemonSet":
                pods = [pod for pod in pods if pod.node in cluster.nodes]
            template = wanted["spec"]["template"]
            current = sum(pod.ready and pod.template == template for pod in pods)
            if current < needed(least, len(pods)):
                return False
        return True

    def engine_is_written(
        self, composite: Key, before: Document | None, after: Document | None, wish: Wish
    ) -> None:
        consumer = composite[2]
        asks = bool(wish.tier) and wish.policy != "Off"
        if after is None:
            self.broken(f"the engine of {consumer} is dropped")
            return
        was, now = wired_to(manifest(before)), wired_to(manifest(after))
        edited = self.written_for.get(consumer) != wish
        self.written_for[consumer] = wish
        if edited and self.is_up(consumer):
            self.rolled.pop(consumer, None)  # what comes now is its author's
        if before is None:
            if asks and wish.policy == "Required" and not now:
                self.broken(f"{consumer} is Required and begins unwired")
            return
        if _template(before) == _template(after):
            return
        is_unseen = self.is_unseen(before, self.world.core.began)
        if was and not now and (is_unseen or self.is_stranger(composite, was)):
            return
        if was and not now and asks and not (edited and wish.policy == "Optional"):
            self.broken(f"{consumer} is unwired, and nobody asked for it")
        moves = is_unseen or self.is_overtaken(composite, before, after)
        if not edited and not moves and not (not was and wish.policy == "Required" and now):
            self.rolls(consumer, now)

    def is_stranger(self, composite: Key, mark: str) -> bool:
        """Whether nothing but its record says that a consumer used a tier, which does not admit it.

        Core ended between the engine and its Usage, or has not seen that. Teams can write records.
        """
        it = self.world.store.documents[composite]
        usages = [usage for usage in self.usages_of(it) if _remote_name(usage) == mark]
        if not all(self.is_unseen(usage, self.world.core.began) for usage in usages):
            return False
        return any(
            names.remote_name(*key[1:]) == mark and not admits(tier, composite[1])
            for key, tier in self.world.store.documents.items()
            if key[0] == "KVOffloadTier"
        )

    def is_overtaken(self, composite: Key, before: Document, after: Document) -> bool:
        """Whether a tier got another backend, or went, before core saw that a consumer uses it.

        Both read before either wrote. The old backend's agents are gone, and the engine follows.
        """
        mark = wired_to(manifest(before))
        began = self.replaced.get(mark)
        if _backend(before) == _backend(after):
            return False
        if began is None:
            return mark in self.deleted
        it = self.world.store.documents[composite]
        usages = [usage for usage in self.usages_of(it) if _remote_name(usage) == mark]
        return all(self.is_unseen(usage, began) for usage in usages)

    def rolls(self, consumer: str, mark: str) -> None:
        """An engine gets other pods without an edit of its author: in its turn alone."""
        tiers = self.world.store.documents.values()
        rolling = any(
            tier["kind"] == "KVOffloadTier"
            and tier["spec"].get("wiring", {}).get("update") == "Rolling"
            for tier in tiers
        )
        if not rolling:
            self.broken(f"the pods of {consumer} are replaced, and nobody edited them")
        self.rolled = {k: v for k, v in self.rolled.items() if k != consumer and not self.is_up(k)}
        others = sorted(k for k, v in self.rolled.items() if v == mark)
        if others and mark not in self.doubled:
            self.broken(f"{consumer} moves while {others} do")
        self.rolled[consumer] = mark

    def is_up(self, consumer: str) -> bool:
        """Whether an engine's pods all run what its Object says, and are ready."""
        engine = self.engine(consumer)
        if engine is None:
            return True
        wanted = manifest(engine) or {}
        cluster = self.world.clusters[objects.provider_config(engine)]
        pods = cluster.pods.get(key_of(wanted), [])
        template = wanted["spec"]["template"]
        return all(pod.ready and pod.template == template for pod in pods)

    def engine(self, consumer: str) -> Document | None:
        """Return the Object of a consumer's engine."""
        it = self.world.store.get(("ModelReplica", "team-a", consumer))
        found = self.world.store.dependents(it["metadata"]["uid"]) if it else []
        kinds = ((each, (manifest(each) or {}).get("kind")) for each in found)
        return next((each for each, kind in kinds if kind == "Deployment"), None)

    def usage_goes(self, composite: Key, usage: Document) -> None:
        """A consumer gives up a tier: not while its engine is wired to it, and core had seen it."""
        of = of_usage(usage)
        for document in self.world.store.documents.values():
            if controller(document) != controller(usage):
                continue
            is_wired = wired_to(manifest(document)) == _remote_name(usage)
            if is_wired and self.is_unseen(document, self.world.core.began):
                self.blind.add(usage["metadata"]["uid"])
            elif is_wired:
                self.broken(f"{composite[2]} gives up {of[2]} and its engine is wired to it")

    def answered(
        self, key: Key, before: Document, after: Document, reply: Reply, wish: Wish | None
    ) -> None:
        types = {kind for kind, _, _, _ in reply.conditions}
        if key[0] == "KVOffloadTier":
            was, now = (it.get("status", {}).get("pinned", {}) for it in (before, after))
            if was.get("spec.backend", "") not in ("", now.get("spec.backend")):
                self.replaced[names.remote_name(key[1], key[2])] = self.world.core.began
            wanted = TIER_CONDITIONS | ({"RolledOut"} if _is_fleet(after) else set())
            if not (types >= wanted or reply.fatal or status(after, "Accepted") == "False"):
                self.broken(f"{key[2]} has no condition {sorted(wanted - types)}")
            if reply.fatal and key[2] not in self.may_be_refused():
                self.broken(f"a fatal on {key[2]}: {reply.fatal}")
        else:
            if wish is not None and wish.tier and KVOFFLOAD not in types:
                self.broken(f"{key[2]} has no condition {KVOFFLOAD}")
            if reply.fatal:
                self.broken(f"a fatal on {key[2]}: {reply.fatal}")
            if status(after, "Ready") == "True" and "engine" not in reply.desired:
                self.broken(f"{key[2]} is Ready and its engine is held back")

    def may_be_refused(self) -> set[str]:
        """Return the tiers, and children of them, whose spec somebody has spoilt."""
        return {
            key[2]
            for key in self.world.store.documents
            if key[0] == "KVOffloadTier"
            for name in self.spoilt
            if key[2] == name or key[2].startswith(f"{name}-")
        }

    # What happens on clusters --------------------------------------------------------------------

    def happened(
        self,
        what: str,
        cluster: Cluster,
        key: RemoteKey,
        before: Document | None,
        after: Document | None,
    ) -> None:
        if what == "applied" and before is not None and after is None:
            self.goes(cluster, key, before)
        if what == "started" and key[1] != _AGENTS and before is not None:
            self.engine_starts(cluster, key, before)
        elif what == "started" and self.under_way:
            self.drop_through()

    def goes(self, cluster: Cluster, key: RemoteKey, document: Document) -> None:
        """A workload is deleted on its cluster."""
        if key[0] != "Deployment" or key[1] == _AGENTS or key[2] not in self.play.wishes:
            return
        # A consumer that was withdrawn takes its engine with it, also when another has its name.
        documents = self.world.store.documents
        now = {d["metadata"]["uid"] for k, d in documents.items() if k[0] == "ModelReplica"}
        taken = (
            each
            for k, each in documents.items()
            if k[0] == "Object" and is_deleted(each) and controller(each) not in now
        )
        if not any(key_of(each["spec"]["forProvider"]["manifest"]) == key for each in taken):
            self.broken(f"the engine of {key[2]} is deleted on {cluster.name}")

    def engine_starts(self, cluster: Cluster, key: RemoteKey, template: Document) -> None:
        """What an engine stores under its identity is what all others store under it."""
        mark = str(template["metadata"].get("labels", {}).get(names.LABEL_WIRED, ""))
        if not mark:
            return
        container = template["spec"]["containers"][0]
        words = [str(word) for word in container.get("args", [])]
        found = _IDENTITY.search(str(template["spec"]))
        if found is None:
            return
        own = (words[0], *(word for word in words if word.startswith("--dtype")))
        image = str(container["image"])
        there = self.stores.setdefault((cluster.name, mark, found[0]), (own, image))
        if there != (own, image):
            self.broken(f"{key[2]} stores {own} where {there} is")

    # At rest -------------------------------------------------------------------------------------

    def at_rest(self) -> None:
        for key, tier in list(self.world.store.documents.items()):
            if key[0] == "KVOffloadTier" and not is_deleted(tier):
                self.tier_at_rest(key, tier)
        for name in self.play.wishes:
            self.consumer_at_rest(name)
        self.nothing_is_stuck()
        self.check()

    def tier_at_rest(self, key: Key, tier: Document) -> None:
        if status(tier, "Accepted") != "True":
            if key[2] not in self.may_be_refused():
                self.broken(f"{key[2]} is refused: {condition(tier, 'Accepted')}")
            return
        ready = status(tier, "Ready") == "True"
        if "clusterSelector" in tier["spec"]:
            self.fleet_at_rest(key, tier, ready)
            return
        for row in tier["status"].get("quarantine", ()):
            accused = self.accusations.get(tier["spec"]["inferenceClusterRef"]["name"], 0)
            if row["number"] > accused:
                self.broken(f"{key[2]} counts {row['number']} of {accused} accusations")
        if IN_USE in tier["metadata"].get("labels", {}) and not self.world.store.is_used(key):
            self.broken(f"{key[2]} is marked as used, and no Usage is of it")
        works, why = self.works(key, tier)
        if ready != works:
            said = {c["type"]: c.get("message") for c in tier["status"]["conditions"]}
            self.broken(f"{key[2]} says Ready={ready}: {why}; {said}")

    def works(self, key: Key, tier: Document) -> tuple[bool, str]:
        """Return whether a tier's agents serve on its cluster, and what is there."""
        cluster = self.world.clusters[tier["spec"]["inferenceClusterRef"]["name"]]
        there = self.world.store.get(("InferenceCluster", "", cluster.name))
        # A cluster that was deleted and is declared again has none while Objects use the old one.
        config = (there or {}).get("status", {}).get("providerConfigRef")
        is_there = there is not None and (config or cluster.name not in self.emptied)
        if not is_there and "providerConfigRef" not in tier["status"]:
            return False, "no cluster"  # else what runs there is kept as it is
        mark = names.remote_name(key[1], key[2])
        own = {
            remote: document
            for remote, document in cluster.documents.items()
            if remote[1] == _AGENTS and remote[2].startswith(mark)
        }
        if not own and tier["spec"]["backend"] != "Native":
            return False, "nothing is there"
        for remote, document in own.items():
            if remote[0] == "DaemonSet":
                desired, ready, current = cluster.agents(remote)
                least = needed(
                    tier["spec"].get("readiness", {}).get("minAvailable", "90%"), desired
                )
                if current < desired and starts(document["spec"]["template"]):
                    self.broken(f"{remote[2]}: {current} of {desired} agents are current")
                if desired < 1 or ready < least:
                    return False, f"{ready} of {desired} agents"
            elif remote[0] in ("Deployment", "StatefulSet"):
                pods = cluster.pods.get(remote, [])
                if not all(pod.ready for pod in pods):
                    return False, f"{remote[2]} is not ready"
        return True, "all is there"

    def fleet_at_rest(self, key: Key, tier: Document, ready: bool) -> None:
        clusters = self.clusters_of(tier)
        # What a second core composed again is not among what core composes: it goes with the tier.
        composed = _listed(tier)
        children = {
            child["spec"]["inferenceClusterRef"]["name"]: child
            for child in self.world.store.documents.values()
            if controller(child) == tier["metadata"]["uid"]
            and child["kind"] == "KVOffloadTier"
            and child["metadata"]["name"] in composed
        }
        kept = {
            cluster
            for cluster, child in children.items()
            if self.world.store.is_used(key_of(child))
        }
        if tier["spec"].get("removal") != "Remove":
            kept |= {cluster for cluster, child in children.items() if self.is_there(child)}
        # What an earlier fleet of the name composed stays while it is used; core says so.
        earlier = taken = {
            it["spec"]["inferenceClusterRef"]["name"]
            for it in self.world.store.documents.values()
            if it["kind"] == "KVOffloadTier"
            and it["metadata"].get("labels", {}).get(names.LABEL_FLEET) == key[2]
            and controller(it) != tier["metadata"]["uid"]
        }
        # A new cluster waits where no other one runs what its overrides give it.
        if tier["spec"].get("clusterOverrides") and status(tier, "RolledOut") != "True":
            taken = taken | (clusters - children.keys())
        if children.keys() != (clusters | kept) - taken:
            self.broken(
                f"{key[2]} has children on {sorted(children)}, and its clusters are"
                f" {sorted(clusters)}, kept {sorted(kept)}"
            )
        waits = [
            name
            for name, child in children.items()
            if name in clusters
            and not self.is_of_another(child)
            and _stamped(child) != self.wanted(tier, name)
        ]
        fails = [
            name
            for name, child in children.items()
            if not (status(child, "Ready") == "True" and self.is_through(key_of(child)))
        ]
        if waits and not fails and not tier["spec"].get("rollout", {}).get("paused"):
            said = condition(tier, "RolledOut")
            self.broken(f"{key[2]}: the edit does not reach {sorted(waits)}: {said}")
        if (status(tier, "RolledOut") == "True") and waits:
            self.broken(f"{key[2]} says RolledOut, and {sorted(waits)} wait")
        own = [c for c in clusters if c in children and not self.is_of_another(children[c])]
        works = (
            bool(own)
            and not earlier & clusters
            and all(
                status(child, "Ready") == "True" and status(child, "Accepted") != "False"
                for child in children.values()
            )
        )
        if ready != works:
            self.broken(f"{key[2]} says Ready={ready} of {sorted(children)}")

    def consumer_at_rest(self, name: str) -> None:
        wish = self.play.wishes[name]
        it = self.world.store.get(("ModelReplica", "team-a", name))
        if it is None or is_deleted(it):
            return
        engine = self.engine(name)
        if engine is not None and engine["metadata"]["name"] not in _listed(it):
            return  # core wrote it and forgot it, by a cache that lagged: nobody is asked of it
        said = condition(it, KVOFFLOAD)
        mark = wired_to(manifest(engine))
        tier = self.found(wish.tier, wish.cluster)
        if not wish.tier or wish.policy == "Off":
            if engine is None or mark:
                self.broken(f"{name} asks for nothing: {said}")
            return
        serves = (
            tier is not None
            and status(tier, "Ready") == "True"
            and status(tier, "Accepted") == "True"
            and admits(tier, "team-a")
        )
        if serves and tier is not None:
            expected = names.remote_name("modelplane-system", tier["metadata"]["name"])
            if wish.policy == "Required" and mark != expected:
                self.broken(f"{name} is not wired to {tier['metadata']['name']}: {said}")
            if mark == expected and said.get("status") != "True":
                self.broken(f"{name} is wired and says {said}")
            rolls = tier["spec"].get("wiring", {}).get("update") == "Rolling"
            if mark == expected and rolls and "It keeps wiring" in said.get("message", ""):
                self.broken(f"{name} has had no turn: {said}")
        if said.get("status") == "True" and not serves:
            self.broken(f"{name} says Wired, and its tier does not serve")
        backend = _backend(engine)
        says_wired = said.get("status") == "True" and tier is not None and backend is not None
        if says_wired and backend != tier["spec"]["backend"]:
            self.broken(f"{name} says Wired, to {backend} that is gone: {said}")
        usages = self.usages_of(it)
        there = {
            names.remote_name(*key[1:])
            for key in self.world.store.documents
            if key[0] == "KVOffloadTier"
        }
        if mark in there and mark not in map(_remote_name, usages):
            self.broken(f"{name} is wired to {mark} without a Usage")
        # One that core wrote and forgot, by a cache that lagged, goes with its consumer.
        if not mark and any(usage["metadata"]["name"] in _listed(it) for usage in usages):
            self.broken(f"{name} is not wired and marks a tier as used")

    def found(self, name: str, cluster: str) -> Document | None:
        """Return the tier that a consumer on this cluster means."""
        for tier in self.world.store.documents.values():
            if tier["kind"] != "KVOffloadTier" or is_deleted(tier):
                continue
            labels = tier["metadata"].get("labels", {})
            own = tier["metadata"]["name"] if "inferenceClusterRef" in tier["spec"] else ""
            where = tier.get("status", {}).get("providerConfigRef", {}).get("name")
            if name in (own, labels.get(names.LABEL_FLEET)) and where == cluster:
                return tier
        return None

    def nothing_is_stuck(self) -> None:
        """What is being deleted waits for nothing but a user of it."""
        for key, document in self.world.store.documents.items():
            if not is_deleted(document):
                continue
            if key[0] == "Object":
                if self.is_cut_loose(document):
                    continue
                self.broken(f"Object {key[2]} cannot go: {condition(document, 'Synced')}")
            elif key[0] == "ModelReplica":
                if any(map(self.is_cut_loose, self.objects_of(document))):
                    continue
                self.broken(f"{key[2]} cannot go")
            elif key[0] == "Usage" and document["metadata"]["uid"] not in self.blind:
                engine = self.by(document)
                if engine is not None and is_deleted(engine) and self.is_cut_loose(engine):
                    continue
                self.broken(f"Usage {key[2]} of {of_usage(document)[2]} cannot go")
            elif key[0] == "KVOffloadTier" and not (
                self.is_used_below(document)
                or self.in_foreground
                or any(map(self.is_cut_loose, self.objects_of(document)))
            ):
                self.broken(f"tier {key[2]} cannot go")

    def by(self, usage: Document) -> Document | None:
        """Return the Object that a Usage waits for."""
        by = usage["spec"].get("by")
        place = usage["metadata"]["namespace"]
        return by and self.world.store.get((by["kind"], place, by["resourceRef"]["name"]))

    def usages_of(self, composite: Document) -> list[Document]:
        """Return the Usages that a composite composes."""
        uid = composite["metadata"]["uid"]
        found = self.world.store.dependents(uid)
        return [each for each in found if each["kind"] == "Usage" and controller(each) == uid]

    def objects_of(self, composite: Document) -> list[Document]:
        found = self.world.store.dependents(composite["metadata"]["uid"])
        return [each for each in found if each["kind"] == "Object"]

    def is_cut_loose(self, document: Document) -> bool:
        """Whether an Object stands on a cluster that was unregistered below it.

        A consumer's, or a tier's that was removed in the foreground meanwhile: the garbage
        collector takes the marks on a ProviderConfig before the Objects (a known limit). Or one
        that core wrote by what it had read before, which never reached the cluster.
        """
        config = document["spec"]["providerConfigRef"]["name"]
        remote = manifest(document) or {}
        gone = self.world.store.get(("ClusterProviderConfig", "", config)) is None
        never = "atProvider" not in document.get("status", {})
        never |= controller(document) in self.unguarded
        is_tiers = remote["metadata"].get("namespace") == _AGENTS
        return gone and (never or self.in_foreground or not is_tiers)

    def is_used_below(self, tier: Document) -> bool:
        store = self.world.store
        children = store.dependents(tier["metadata"]["uid"])
        return any(store.is_used(key_of(each)) for each in (tier, *children))

    def all_gone(self) -> None:
        left = sorted(
            f"{key[0]} {key[2]}"
            for key in self.world.store.documents
            if key[0] not in ("InferenceCluster", "ClusterProviderConfig")
        )
        if left:
            self.broken(f"it stays: {left}")
        for cluster in self.world.clusters.values():
            stays = sorted(f"{k[0]} {k[2]}" for k in cluster.documents if k[0] != "Namespace")
            if stays:
                self.broken(f"it stays on {cluster.name}: {stays}")
        self.check()

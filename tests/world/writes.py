"""What must hold of each write, and of what then happens on clusters."""

import re
from typing import TYPE_CHECKING, Any

from function import names
from function.composers.admission import admits
from function.composers.agents import needed
from function.composers.conditions import (
    REASON_INVALID,
    REASON_NOT_OBSERVED,
    REASON_TIMED_OUT,
    REASON_UPDATE_TIMED_OUT,
)
from function.composers.consumer.companions import KEY as FILES
from function.kube import naming, objects
from tests.unit.composers.over_time import Wish
from tests.world.clusters import Cluster
from tests.world.clusters import Key as RemoteKey
from tests.world.core import COMPOSITES
from tests.world.function import Document, Reply
from tests.world.plane import IN_USE, Key, controller, is_deleted, key_of, of_usage
from tests.world.reading import (
    AGENTS,
    Reading,
    backend_of,
    condition,
    is_fleet,
    listed,
    manifest,
    remote_name,
    resource_of,
    stamped,
    status,
    template_of,
    version,
    wired_to,
)

if TYPE_CHECKING:
    from tests.world.acts import Play

TIER_CONDITIONS = {"Accepted", "ClusterResolved", "ControlPlaneReady", "AgentsReady"}
KVOFFLOAD = "KVOffloadReady"
_IDENTITY = re.compile(r'kv_offload\.identity\W+([0-9a-f]+)|"cache_prefix\W+([\w-]+)')
# A child that refuses its edit runs as before.
_STUCK = (REASON_INVALID, REASON_NOT_OBSERVED, REASON_TIMED_OUT, REASON_UPDATE_TIMED_OUT)


class Broken(AssertionError):
    """A rule that does not hold."""


# Steps before the first.
_UNAWARE, _NEVER = -1, -2
# In the keys of an observer's parts, which engines do not need.
_OF_OBSERVERS = ("observer", "observed", "serving", "engines")


class Writes(Reading):
    """`written_for`: by consumer, what its author had written when its engine was written last.

    `spoilt`: tiers that somebody gave a spec that may be refused. `emptied`: fleets that somebody
    told to Remove, and clusters that somebody has unregistered. `arrived`: by uid and generation,
    the step at which a spec reached core's cache. `replaced`: by a tier's remote name, the step at
    which the reconcile began that accepted another backend. `under_way`: children that took an
    edit, until it works there, and when the reconcile began that gave it to them.
    """

    def __init__(self, play: "Play") -> None:
        super().__init__(play.world)
        self.play = play
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
        self.unheld: set[str] = set()  # ProviderConfigs whose guard somebody has deleted
        # What reached core's cache of each composite, and at which step.
        self.composites: dict[Key, list[tuple[int, Document]]] = {}
        # Remote names of tiers that gave two turns, by a cache that lagged.
        self.doubled: set[str] = set()
        # Usages that are being deleted, by uid: the step at which core saw that they are kept.
        self.kept: dict[str, int] = {}
        self.under_way: dict[Key, int] = {}
        self.nodes_came: dict[str, int] = {}  # by cluster, the step of the last change
        self.in_foreground = False  # whether somebody has removed a tier so
        # The last status of tiers that said Ready of Objects that core had not seen yet: an earlier
        # one had the name. Their fleet may read it when they have said otherwise since.
        self.blind: dict[Key, Any] = {}
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
            self.arrived.setdefault(version(after), self.world.steps)
            if names.ANNOTATION_KEPT in after["metadata"].get("annotations", {}):
                self.kept.setdefault(after["metadata"]["uid"], self.world.steps)
        if key[0] in COMPOSITES and after is not None:
            self.composites.setdefault(key, []).append((self.world.steps, after))
        if key[0] == "KVOffloadTier":
            is_guarded = "providerConfigRef" in (after or {}).get("status", {})
            if after is not None and is_deleted(after) and not is_guarded:
                self.unguarded.add(after["metadata"]["uid"])
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
        return self.arrived.get(version(document), began) >= began

    def is_unknown(self, composed: Document, began: int) -> bool:
        """Whether a reconcile that began then cannot know a composed resource, or its spec.

        Core finds what it composes by its names in the composite, which it may have read earlier;
        the function looks for it where there are none, and it has answered before. It looks by the
        label that core takes off what it deletes.
        """
        owner = self.world.store.with_uid(controller(composed))
        read = self.read(key_of(owner), began) if owner else None
        known = read is None or composed["metadata"]["name"] in listed(read)
        is_labelled = naming.COMPOSITE_LABEL in composed["metadata"].get("labels", {})
        known |= read is not None and not listed(read) and "status" in read and is_labelled
        return not known or self.is_unseen(composed, began)

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
        if name.startswith(FILES) and before is not None:
            self.files_go(composite, before, after)

    def files_go(self, composite: Key, before: Document, after: Document | None) -> None:
        """Files leave a ConfigMap: not while pods run that look for them when they start again."""
        left, stay = (manifest(it) or {} for it in (before, after))
        gone = left.get("data", {}).keys() - stay.get("data", {}).keys()
        engine = self.engine(composite[2])
        if engine is None or self.is_unknown(engine, self.world.core.began):
            return
        cluster = self.world.clusters[objects.provider_config(before)]
        for pod in cluster.pods.get(key_of(manifest(engine) or {}), []):
            text = str(pod.template)
            if missed := [name for name in gone if name.rpartition(".")[0] in text]:
                self.broken(f"{composite[2]} drops {missed}, and a pod runs with them")

    def turn_is_given(self, tier: Key) -> None:
        """Note where a tier gives a turn that does not know yet who has one, or still moves."""
        it = self.world.store.documents[tier]
        began = self.world.core.began
        given = [usage for usage in self.usages_of(it) if resource_of(usage).startswith("turn-")]
        if self.is_freed(tier, began) or any(self.is_unknown(usage, began) for usage in given):
            self.doubled.add(names.remote_name(*tier[1:]))

    def is_freed(self, tier: Key, began: int) -> bool:
        """Whether one that moves may seem gone: somebody has deleted its Usage by hand.

        It holds nobody up: such a Usage may stay as long as its engine runs. Until its consumer has
        written that it keeps it, nothing tells the one from the other.
        """
        for usage in self.world.store.documents.values():
            if usage["kind"] == "Usage" and is_deleted(usage) and of_usage(usage) == tier:
                owner = self.world.store.with_uid(controller(usage))
                moves = owner is not None and owner["metadata"]["name"] in self.rolled
                if moves and self.kept.get(usage["metadata"]["uid"], began) >= began:
                    return True
        return False

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
            if not self.is_unseen(usage, began)  # core's mark alone may be left from others
        ]
        if self.seen.get(used, began) < began and users:
            self.broken(f"{tier[2]} drops {name} while {used[2]} is used")
        if part["kind"] == "KVOffloadTier":
            cluster = part["spec"]["inferenceClusterRef"]["name"]
            if not {tier[2], cluster} & self.emptied and not is_deleted(part):
                self.broken(f"{tier[2]} empties {cluster}, and nobody asked for it")

    def child_is_written(self, fleet: Key, before: Document, after: Document) -> None:
        """An edit reaches a cluster: not while it does not work yet where it came before."""
        if stamped(before) == stamped(after) or is_deleted(before):
            return
        own, began = key_of(after), self.world.core.began
        tier = self.read(fleet, began) or self.world.store.documents[fleet]
        self.drop_through()
        most = tier["spec"].get("rollout", {}).get("maxUnavailable", "25%")
        stays = self.members(tier)
        others = [
            key
            for key, since in self.under_way.items()
            if key != own
            and key in stays
            and not self.is_excused(key, began)
            and not self.is_stuck(key, began)
            and not self.is_blind(key, began)
            if since == began or not self.is_unseen(self.world.store.documents[key], began)
            if not self.is_outgrown(key, since, began)
        ]
        if len(others) >= max(1, needed(most, len(stays))) and not self.is_unknown(before, began):
            self.broken(f"the edit reaches {own[2]} while {sorted(k[2] for k in others)} take it")
        # One that a reconcile gives back, unaware of what it had since, is none that it chose.
        self.under_way[own] = _UNAWARE if self.is_unknown(before, began) else began

    def is_excused(self, child: Key, began: int) -> bool:
        """Whether a child was not ready already when it took its edit, now or as its fleet read."""
        marks = [it["metadata"].get("annotations", {}) for it in self.now_and_read(child, began)]
        return any(names.ANNOTATION_UNREADY in annotations for annotations in marks)

    def is_blind(self, child: Key, began: int) -> bool:
        """Whether a child is Ready, now or as its fleet read, by Objects that are gone."""
        said = [it.get("status") for it in self.now_and_read(child, began)]
        return child in self.blind and self.blind[child] in said

    def is_outgrown(self, child: Key, since: int, began: int) -> bool:
        """Whether nodes came after a child's edit, and its fleet had read that it works."""
        it = self.read(child, began)
        if it is None or status(it, "Ready") != "True":
            return False
        return self.nodes_came.get(it["spec"]["inferenceClusterRef"]["name"], _NEVER) >= since

    def read(self, composite: Key, began: int) -> Document | None:
        """Return a composite as a reconcile had read it that began then."""
        found = [document for step, document in self.composites.get(composite, ()) if step < began]
        return found[-1] if found else None

    def now_and_read(self, composite: Key, began: int) -> list[Document]:
        """Return a composite as it is, and where one was read, as such a reconcile had read it."""
        read = self.read(composite, began)
        return [self.world.store.documents[composite], *([read] if read else [])]

    def drop_through(self) -> None:
        """Forget the children whose edit works."""
        self.under_way = {k: v for k, v in self.under_way.items() if not self.is_through(k)}

    def is_stuck(self, child: Key, began: int) -> bool:
        """Whether nobody sees a child's cluster, as far as its fleet knows, or it starts no more.

        The one takes the edit when it is back; of the other an edit may be what repairs it, and a
        wave before its own must prove that.
        """
        found = self.now_and_read(child, began)
        kinds = ("Accepted", "ControlPlaneReady", "AgentsReady")
        said = {condition(each, kind).get("reason") for each in found for kind in kinds}
        cluster = self.world.clusters[found[0]["spec"]["inferenceClusterRef"]["name"]]
        return cluster.cut_off or not said.isdisjoint(_STUCK)

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
        if edited and (not now or self.is_up(consumer)):
            self.rolled.pop(consumer, None)  # what comes now is its author's, or uses no tier
        if before is None:
            # Core may make it anew as it ran, when both are deleted meanwhile.
            if asks and wish.policy == "Required" and not now and not self.leaves(consumer):
                self.broken(f"{consumer} is Required and begins unwired")
            return
        if template_of(before) == template_of(after):
            return
        is_unknown = self.is_unknown(before, self.world.core.began)
        if was and not now and (is_unknown or self.is_stranger(composite, was)):
            return
        if was and not now and asks and not (edited and wish.policy == "Optional"):
            self.broken(f"{consumer} is unwired, and nobody asked for it")
        moves = is_unknown or self.is_overtaken(composite, before, after)
        if not edited and not moves and not (not was and wish.policy == "Required" and now):
            self.rolls(consumer, now)

    def is_stranger(self, composite: Key, mark: str) -> bool:
        """Whether nothing but its record says that a consumer used a tier, which does not admit it.

        Core ended between the engine and its Usage, or has not seen that. Teams can write records.
        """
        it = self.world.store.documents[composite]
        usages = [usage for usage in self.usages_of(it) if remote_name(usage) == mark]
        if not all(self.is_unknown(usage, self.world.core.began) for usage in usages):
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
        if backend_of(before) == backend_of(after):
            return False
        if began is None:
            return mark in self.deleted
        it = self.world.store.documents[composite]
        usages = [usage for usage in self.usages_of(it) if remote_name(usage) == mark]
        return all(self.is_unseen(usage, began) for usage in usages)

    def rolls(self, consumer: str, mark: str) -> None:
        """An engine gets other pods without an edit of its author: in its turn alone."""
        read = (self.read(key, self.world.core.began) for key in self.composites)
        tiers = [it for it in self.world.store.documents.values() if it["kind"] == "KVOffloadTier"]
        rolling = any(
            tier["spec"].get("wiring", {}).get("update") == "Rolling"
            for tier in (*tiers, *filter(None, read))
        )
        if not rolling:
            self.broken(f"the pods of {consumer} are replaced, and nobody edited them")
        self.rolled = {k: v for k, v in self.rolled.items() if k != consumer and not self.is_up(k)}
        others = sorted(k for k, v in self.rolled.items() if v == mark and not self.leaves(k))
        if others and mark not in self.doubled:
            self.broken(f"{consumer} moves while {others} do")
        self.rolled[consumer] = mark

    def leaves(self, consumer: str) -> bool:
        """Whether a consumer is being deleted, and waits for nobody."""
        it = self.world.store.get(("ModelReplica", "team-a", consumer))
        return it is None or is_deleted(it)

    def usage_goes(self, composite: Key, usage: Document) -> None:
        """A consumer gives up a tier: not while its engine is wired to it, and core had seen it."""
        of = of_usage(usage)
        for document in self.world.store.documents.values():
            if controller(document) != controller(usage):
                continue
            is_wired = wired_to(manifest(document)) == remote_name(usage)
            if is_wired and not self.is_unknown(document, self.world.core.began):
                self.broken(f"{composite[2]} gives up {of[2]} and its engine is wired to it")

    def answered(
        self, key: Key, before: Document, after: Document, reply: Reply, wish: Wish | None
    ) -> None:
        types = {kind for kind, _, _, _ in reply.conditions}
        if key[0] == "KVOffloadTier":
            began = self.world.core.began
            is_blind = any(self.is_unseen(each, began) for each in self.objects_of(after))
            if is_blind and status(after, "Ready") == "True":
                self.blind[key] = after["status"]
            was, now = (it.get("status", {}).get("pinned", {}) for it in (before, after))
            if was.get("spec.backend", "") not in ("", now.get("spec.backend")):
                self.replaced[names.remote_name(key[1], key[2])] = self.world.core.began
            wanted = TIER_CONDITIONS | ({"RolledOut"} if is_fleet(after) else set())
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
        if what == "started" and key[1] != AGENTS and before is not None:
            self.engine_starts(cluster, key, before)
        elif what == "started" and self.under_way:
            self.drop_through()

    def goes(self, cluster: Cluster, key: RemoteKey, document: Document) -> None:
        """A workload is deleted on its cluster."""
        if key[0] != "Deployment" or key[1] == AGENTS or key[2] not in self.play.wishes:
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

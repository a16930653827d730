"""What must hold in every world: after each write (writes.py), at rest, and when all is gone."""

from function import names
from function.composers.admission import admits
from function.composers.agents import needed
from function.kube import objects
from tests.world.clusters import starts
from tests.world.function import Document
from tests.world.plane import IN_USE, Key, controller, is_deleted, key_of, of_usage
from tests.world.reading import (
    AGENTS,
    backend_of,
    condition,
    listed,
    manifest,
    remote_name,
    resource_of,
    stamped,
    status,
    wired_to,
)
from tests.world.writes import KVOFFLOAD, Writes


class Rules(Writes):
    """All rules of a world."""

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
            if remote[1] == AGENTS and remote[2].startswith(mark)
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
        composed = listed(tier)
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
            and stamped(child) != self.wanted(tier, name)
        ]
        fails = [
            name
            for name, child in children.items()
            if not (status(child, "Ready") == "True" and self.is_through(key_of(child)))
        ]
        if waits and not fails and not tier["spec"].get("rollout", {}).get("paused"):
            said = condition(tier, "RolledOut")
            self.broken(f"{key[2]}: the edit does not reach {sorted(waits)}: {said}")
        own = {name: child for name, child in children.items() if name in clusters}
        waits += [name for name, child in own.items() if self.is_of_another(child)]
        if (status(tier, "RolledOut") == "True") and waits:
            self.broken(f"{key[2]} says RolledOut, and {sorted(waits)} wait")
        works = (
            bool(own)
            and own.keys() == clusters  # one without a child waits for its overrides' canary
            and not earlier & clusters
            and all(
                status(child, "Ready") == "True"
                and status(child, "Accepted") != "False"
                and not self.is_of_another(child)
                for child in own.values()
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
        if engine is not None and self.is_forgotten(engine):
            return  # nobody is asked of it
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
        wanted = manifest(engine)
        if said.get("status") == "True" and engine is not None and wanted is not None:
            there = self.world.clusters[objects.provider_config(engine)].documents
            if wired_to(there.get(key_of(wanted))) != mark:
                self.broken(f"{name} says Wired, and its cluster does not have it: {said}")
        backend = backend_of(engine)
        says_wired = said.get("status") == "True" and tier is not None and backend is not None
        if says_wired and backend != tier["spec"]["backend"]:
            self.broken(f"{name} says Wired, to {backend} that is gone: {said}")
        usages = self.usages_of(it)
        there = {
            names.remote_name(*key[1:])
            for key in self.world.store.documents
            if key[0] == "KVOffloadTier"
        }
        if mark in there and mark not in map(remote_name, usages):
            self.broken(f"{name} is wired to {mark} without a Usage")
        # One that core has forgotten goes with its consumer.
        if not mark and not all(map(self.is_forgotten, usages)):
            self.broken(f"{name} is not wired and marks a tier as used")

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
            elif key[0] == "Usage" and not self.is_forgotten(document):
                engine = self.by(document)
                if engine is not None and is_deleted(engine) and self.is_cut_loose(engine):
                    continue
                # A core that lagged composed it again while it went: it protects until it is left.
                if wired_to(manifest(engine)) == remote_name(document):
                    continue
                self.broken(f"Usage {key[2]} of {of_usage(document)[2]} cannot go")
            elif key[0] == "KVOffloadTier" and not (
                self.is_used_below(document)
                or self.in_foreground
                or any(map(self.is_cut_loose, self.objects_of(document)))
            ):
                self.broken(f"tier {key[2]} cannot go")

    def is_forgotten(self, composed: Document) -> bool:
        """Whether core wrote something by a cache that lagged, and does not know of it any more."""
        found = self.world.store.with_uid(controller(composed))
        return found is not None and composed["metadata"]["name"] not in listed(found)

    def strays(self) -> set[str]:
        """Return the children that nobody composes or deletes: a late core wrote them again."""
        return {
            key[2]
            for key, it in self.world.store.documents.items()
            if key[0] == "KVOffloadTier" and self.is_forgotten(it) and not is_deleted(it)
        }

    def strays_are_told(self) -> None:
        """A fleet that waits for a stray names it, and what to do."""
        for name in self.strays():
            it = self.world.store.documents[("KVOffloadTier", "modelplane-system", name)]
            fleet = self.world.store.with_uid(controller(it)) or {}
            waits = any(resource_of(each).startswith("hold-") for each in self.objects_of(fleet))
            said = condition(fleet, "ClusterResolved").get("message", "")
            if waits and name not in said:
                self.broken(f"{name} is a stray, and its fleet does not say so: {said}")

    def is_cut_loose(self, document: Document) -> bool:
        """Whether an Object stands on a cluster that was unregistered below it.

        A consumer's, or a tier's that was removed in the foreground meanwhile: the garbage
        collector takes the marks on a ProviderConfig before the Objects (a known limit). Or one
        that core wrote by what it had read before, which never reached the cluster. Or somebody
        deleted the guard of its ProviderConfig by hand.
        """
        config = document["spec"]["providerConfigRef"]["name"]
        remote = manifest(document) or {}
        gone = self.world.store.get(("ClusterProviderConfig", "", config)) is None
        never = "atProvider" not in document.get("status", {})
        never |= controller(document) in self.unguarded or config in self.unheld
        is_tiers = remote["metadata"].get("namespace") == AGENTS
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

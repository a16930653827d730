"""What the documents of a world say: what rules ask of them."""

from function import names
from function.composers.agents import needed
from function.kube import naming, objects
from function.pods import record as records
from tests.world.function import Document
from tests.world.plane import Key, by_usage, controller, is_deleted, key_of, of_usage
from tests.world.world import World

AGENTS = "kv-offload-system"
# What of a tier's spec is a fleet's alone, and what of it is not its children's.
OF_FLEETS = {"clusterSelector", "clusterOverrides", "rollout", "removal"}
_OWN = OF_FLEETS | {"crossplane", "inferenceClusterRef"}


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


def version(document: Document) -> tuple[str, int]:
    metadata = document["metadata"]
    return metadata.get("uid", ""), metadata.get("generation", 0)


def resource_of(composed: Document) -> str:
    """Return the key by which a composite composes it, "" where none does."""
    return str(composed["metadata"].get("annotations", {}).get(naming.RESOURCE_NAME, ""))


def template_of(workload: Document) -> Document:
    """Return the pod template of an engine's Object."""
    found: Document = (manifest(workload) or {})["spec"]["template"]
    return found


def backend_of(workload: Document | None) -> str | None:
    """Return the backend that an engine's Object records, None without a record."""
    annotations = (workload or {}).get("metadata", {}).get("annotations", {})
    record = records.load(annotations.get(names.ANNOTATION_RECORD))[0]
    return None if record is None else record.backend


def remote_name(usage: Document) -> str:
    """Return the remote name of the tier that a Usage is of."""
    return names.remote_name(*of_usage(usage)[1:])


def is_fleet(tier: Document) -> bool:
    return "clusterSelector" in tier["spec"]


def listed(composite: Document) -> set[str]:
    """Return the names of what core knows that it composes."""
    refs = composite["spec"].get("crossplane", {}).get("resourceRefs", [])
    return {ref["name"] for ref in refs}


def stamped(tier: Document) -> Document:
    """Return what of a tier's spec a fleet gives its children."""
    return {key: value for key, value in tier["spec"].items() if key not in _OWN}


class Reading:
    """Questions about what is in a world now."""

    def __init__(self, world: World) -> None:
        self.world = world

    def wanted(self, fleet: Document, cluster: str) -> Document:
        """Return what a fleet gives its child on a cluster; overrides are of plain fields here."""
        labels = self.world.store.documents[("InferenceCluster", "", cluster)]["metadata"]["labels"]
        found = stamped(fleet)
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

    def by(self, usage: Document) -> Document | None:
        """Return the Object that a Usage waits for."""
        by = by_usage(usage)
        return self.world.store.get(by) if by else None

    def usages_of(self, composite: Document) -> list[Document]:
        """Return the Usages that a composite composes."""
        uid = composite["metadata"]["uid"]
        found = self.world.store.dependents(uid)
        return [each for each in found if each["kind"] == "Usage" and controller(each) == uid]

    def objects_of(self, composite: Document) -> list[Document]:
        found = self.world.store.dependents(composite["metadata"]["uid"])
        return [each for each in found if each["kind"] == "Object"]

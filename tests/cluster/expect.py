"""What the groups ask of a running fleet, in words."""

import contextlib
import re
import time
from collections.abc import Iterator

from tests.cluster.documents import AGENTS_NAMESPACE, FIRST, OBJECT, USAGE
from tests.cluster.rig.functions import OURS
from tests.cluster.rig.kube import Manifest, Refused, condition, describe, is_true
from tests.cluster.rig.metrics import scrape
from tests.cluster.rig.up import Rig

# What our Objects may put on a workload cluster.
REMOTE_KINDS = (
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
    ("v1", "PersistentVolumeClaim"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("policy/v1", "PodDisruptionBudget"),
    ("resource.k8s.io/v1", "ResourceClaimTemplate"),
)


class Fleet:
    """Questions about one rig."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.api = rig.control.api

    # The control plane

    def get(self, document: Manifest) -> Manifest:
        found = self.api.again(document)
        assert found is not None, f"{document['kind']} {document['metadata']['name']} is gone"
        return found

    def explain(self, document: Manifest) -> str:
        """Conditions and events of an XR, and the conditions of what it composes."""
        text = describe(self.api, document)
        crossplane = (self.api.again(document) or {}).get("spec", {}).get("crossplane", {})
        namespace = document["metadata"].get("namespace", "")
        for ref in crossplane.get("resourceRefs", ()):
            place = ref.get("namespace", namespace)
            found = self.api.get(ref["apiVersion"], ref["kind"], ref["name"], place)
            text += f"\n  {ref['kind']} {ref['name']}: {summary(found) if found else 'is gone'}"
        return text

    def condition(self, document: Manifest, kind: str) -> tuple[str, str]:
        """Status and reason of a condition."""
        found = condition(self.get(document), kind)
        return found.get("status", "Unknown"), found.get("reason", "")

    def message(self, document: Manifest, kind: str) -> str:
        return condition(self.get(document), kind).get("message", "")

    def until_ready(self, document: Manifest, limit: float = 40) -> Manifest:
        """Wait for Ready of an XR, as core found it in its present generation."""

        def ready() -> bool:
            found = self.api.again(document)
            generation = (found or {}).get("metadata", {}).get("generation")
            current = condition(found, "Ready").get("observedGeneration") == generation
            return current and is_true(found, "Ready")

        name = f"{document['kind']} {document['metadata']['name']}"
        self.rig.until(ready, f"{name} is Ready", limit, explain=lambda: self.explain(document))
        return self.get(document)

    def until_condition(
        self,
        document: Manifest,
        kind: str,
        wanted: tuple[str, str],
        limit: float = 30,
        *,
        touching: bool = False,
    ) -> Manifest:
        """Wait for a condition's status and reason.

        `touching`: have it looked at until then. Core reads what a function requires from a cache,
        so that a call right after a change may not see it.
        """

        def there() -> bool:
            if touching:
                self.touch(document)
            found = condition(self.api.again(document), kind)
            return (found.get("status"), found.get("reason")) == wanted

        name = f"{document['kind']} {document['metadata']['name']}"
        self.rig.until(
            there,
            f"{name} has {kind}={wanted}",
            limit,
            every=1 if touching else 0.1,
            explain=lambda: self.explain(document),
        )
        return self.get(document)

    def touch(self, document: Manifest) -> None:
        """Have a composite looked at now: core watches nothing that it only requires."""
        change = {"metadata": {"annotations": {"example.org/touched": str(time.time())}}}
        self.api.patch(document, change)

    def objects(self, document: Manifest) -> list[Manifest]:
        """The Objects that an XR composed, by resource key."""
        label = f"crossplane.io/composite={document['metadata']['name']}"
        namespace = document["metadata"].get("namespace", "")
        found = self.api.list(OBJECT, "Object", namespace, label)
        kind = document["kind"]
        owned = [
            o for o in found if o["metadata"].get("ownerReferences", [{}])[0].get("kind") == kind
        ]
        return sorted(owned, key=lambda o: o["metadata"]["annotations"].get(RESOURCE_KEY, ""))

    def composed(self, owner: Manifest, api_version: str, kind: str) -> list[Manifest]:
        """What a composite that exists controls, of one kind."""
        uid = self.get(owner)["metadata"]["uid"]
        return [
            each
            for each in self.api.list(api_version, kind)
            if any(
                o["uid"] == uid and o.get("controller")
                for o in each["metadata"].get("ownerReferences", ())
            )
        ]

    def keys(self, document: Manifest) -> list[str]:
        return [o["metadata"]["annotations"][RESOURCE_KEY] for o in self.objects(document)]

    @contextlib.contextmanager
    def applied(self, *documents: Manifest) -> Iterator[None]:
        """Documents that exist for a while. What came of them is still being deleted afterwards."""
        try:
            for document in documents:
                self.api.apply(document)
            yield
        finally:
            for document in reversed(documents):
                self.remove(document)

    def remove(self, document: Manifest, limit: float = 100, waking: bool = True) -> None:
        """Delete an XR, once its Usages let go of it, and wait until it is gone.

        A consumer holds its tier until its engine's Object is gone, which takes a poll of the
        provider at most, and core looks at a Usage that waits for that every 30 s: with `waking`
        it is told to look.
        """
        name = f"{document['kind']} {document['metadata']['name']}"

        def deleted() -> bool:
            if self._delete(document):
                return True
            if waking:
                self._wake_usages()
            return False

        self.rig.until(
            deleted, f"{name} may be deleted", limit, every=0.5, explain=lambda: self._refusal
        )
        self.rig.until(
            lambda: self.api.again(document) is None,
            f"{name} is gone",
            limit,
            explain=lambda: self.explain(document),
        )

    def _wake_usages(self) -> None:
        """Write to the Usages that are being deleted: core looks at what is written to."""
        for usage in self.api.list(USAGE, "Usage"):
            if usage["metadata"].get("deletionTimestamp"):
                woken = {"metadata": {"annotations": {"example.org/woken": str(time.time())}}}
                with contextlib.suppress(Refused):  # gone meanwhile
                    self.api.patch(usage, woken)

    def until_empty(self, cluster: str, limit: float = 90) -> None:
        """Wait until nothing of ours is on a workload cluster.

        provider-kubernetes looks at an Object that was not Ready again after 30 s only.
        """
        self.rig.until(
            lambda: self.remote(cluster) == {},
            f"{cluster} is empty",
            limit,
            explain=lambda: f"{list(self.remote(cluster))}",
        )

    def until_released(self, *configs: str, limit: float = 90) -> None:
        """Wait until no Object needs these ProviderConfigs, nor the Secrets behind them, any more.

        An Object goes a poll of the provider after its thing; without the Secret it stays for ever.
        """

        def left() -> list[str]:
            found = self.api.list(OBJECT, "Object")
            return [o["metadata"]["name"] for o in found if _config(o) in configs]

        self.rig.until(
            lambda: not left(), f"{configs} are free", limit, explain=lambda: f"{left()}"
        )

    _refusal = ""

    def _delete(self, document: Manifest) -> bool:
        try:
            self.api.delete(document)
        except Refused as refused:
            self._refusal = str(refused)
            return False
        return True

    # The workload clusters

    def remote(self, cluster: str) -> dict[str, Manifest]:
        """What was put on a workload cluster, by "Kind namespace/name", without Kubernetes' own."""
        found = {}
        for api_version, kind in REMOTE_KINDS:
            for each in self.rig.workload(cluster).api.list(api_version, kind):
                metadata = each["metadata"]
                if metadata["name"] in ("kubernetes", "kube-root-ca.crt"):
                    continue
                if metadata["namespace"] == "kube-system" or metadata.get("ownerReferences"):
                    continue
                found[f"{kind} {metadata['namespace']}/{metadata['name']}"] = each
        return found

    def pods(self, cluster: str, namespace: str, labels: str = "") -> list[Manifest]:
        return self.rig.workload(cluster).api.list("v1", "Pod", namespace, labels)

    def agents(self, cluster: str, of: Manifest | None = None) -> list[Manifest]:
        """The agents' pods on a cluster: of one tier, or of all."""
        found = self.pods(cluster, AGENTS_NAMESPACE, "app.kubernetes.io/component=agent")
        stem = f"kv-{of['metadata']['name']}-" if of else ""
        return [p for p in found if p["metadata"]["name"].startswith(stem)]

    def lose_node(self, cluster: str, node: Manifest) -> None:
        """A node is gone, and its pods, which Kubernetes would collect a minute later."""
        api = self.rig.workload(cluster).api
        api.delete(node)
        name = node["metadata"]["name"]
        # A DaemonSet's controller that sees the pod's end before the node's makes another one for
        # that node, and counts it until something else changes: no event tells it of the node.
        quiet = 0
        for _ in range(120):
            if quiet == 5:  # seconds in which none came: it knows of the node, be it late
                return
            found = [
                pod
                for pod in api.list("v1", "Pod")
                if name in (pod["spec"].get("nodeName"), _meant_for(pod))
            ]
            for pod in found:
                api.delete(pod, at_once=True)
            quiet = 0 if found else quiet + 1
            time.sleep(1)
        raise AssertionError(f"pods for {name}, which is gone, come again and again")

    # What it cost

    def calls(self) -> int:
        """Calls of our function since core started."""
        return int(
            sum(
                value
                for name, labels, value in scrape(self.rig.core.metrics_port)
                if name == "function_run_function_request_total"
                and labels.get("function_name") == OURS
            )
        )

    def tokens(self) -> int:
        """Watch events that core's circuit breakers have counted for tiers, dropped ones too."""
        return sum(
            int(value)
            for name, labels, value in scrape(self.rig.core.metrics_port)
            if name == "circuit_breaker_events_total" and "kvoffloadtiers" in labels["controller"]
        )


RESOURCE_KEY = "crossplane.io/composition-resource-name"


def workload(world: Fleet, of: Manifest) -> Manifest:
    """The Deployment of a ModelReplica's engine."""
    return world.remote(FIRST)[f"Deployment default/{of['metadata']['name']}-main"]


def begun_and_done(world: Fleet, found: Manifest) -> tuple[str, str]:
    """When the ReplicaSet of a Deployment's template was made, and when its pods were up."""
    sets = world.rig.workload(FIRST).api.list("apps/v1", "ReplicaSet", "default")
    uid, key = found["metadata"]["uid"], "deployment.kubernetes.io/revision"
    (present,) = (
        s["metadata"]["creationTimestamp"]
        for s in sets
        if s["metadata"]["ownerReferences"][0]["uid"] == uid
        and s["metadata"]["annotations"][key] == found["metadata"]["annotations"][key]
    )
    (up,) = (c for c in found["status"]["conditions"] if c["type"] == "Progressing")
    assert up["reason"] == "NewReplicaSetAvailable"
    return present, up["lastUpdateTime"]


def identity(manifest: Manifest) -> tuple[str, int]:
    """What stays equal while an object is neither replaced nor changed."""
    return manifest["metadata"]["uid"], manifest["metadata"].get("generation", 0)


def identities(manifests: list[Manifest]) -> dict[str, tuple[str, int]]:
    return {m["metadata"]["name"]: identity(m) for m in manifests}


def engine(manifest: Manifest) -> Manifest:
    """The engine container of a pod, or of a workload's pod template."""
    spec = manifest["spec"]
    spec = spec.get("template", {}).get("spec", spec)
    return next(c for c in spec["containers"] if c["name"] == "engine")


def flag(container: Manifest, name: str) -> str:
    """The value of a flag in a container's args, in either spelling; "" without it."""
    args = container.get("args", [])
    for number, word in enumerate(args):
        if word == name:
            return args[number + 1]
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return ""


def _config(item: Manifest) -> str:
    return item["spec"].get("providerConfigRef", {}).get("name", "")


def words(message: str) -> list[str]:
    return re.findall(r"[\w./-]+", message)


def summary(manifest: Manifest) -> str:
    conditions = manifest.get("status", {}).get("conditions", [])
    return "; ".join(
        f"{c['type']}={c['status']} {c.get('reason', '')} {c.get('message', '')}".strip()
        for c in conditions
    )


def _meant_for(pod: Manifest) -> str:
    """Return the node that a DaemonSet's pod is made for, "" for other pods."""
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    for term in required.get("nodeSelectorTerms", ()):
        for field in term.get("matchFields", ()):
            if field["key"] == "metadata.name":
                return str(field["values"][0])
    return ""

"""Questions to ask of Modelplane's deployments and what became of them, on all clusters."""

import contextlib
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import httpx

from function.kube import access
from tests.cluster.documents import API, OBJECT, TIER, USAGE
from tests.cluster.expect import Fleet, engine
from tests.cluster.platform import Platform
from tests.cluster.rig.apiserver import Cluster
from tests.cluster.rig.kube import Manifest, Refused, condition, is_true
from tests.modelplane.rig.transcript import Transcript

CONDITION = "KVOffloadReady"
# What may be left on the control plane, and beside Fleet.remote on a workload cluster.
_COMPOSED = (
    (API, "ModelReplica"),
    (API, "ModelEndpoint"),
    (API, "KVOffloadTier"),
    (OBJECT, "Object"),
    (USAGE, "Usage"),
    ("protection.crossplane.io/v1beta1", "ClusterUsage"),
)
_REMOTE = (
    ("v1", "Pod"),
    ("v1", "ServiceAccount"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("gateway.networking.k8s.io/v1", "HTTPRoute"),
    ("inference.networking.k8s.io/v1", "InferencePool"),
    ("resource.k8s.io/v1", "ResourceClaim"),
)
_OF_KUBERNETES = ("kube-system", "kube-public", "kube-node-lease", "lws-system")


@dataclass
class Life:
    platform: Platform
    transcript: Transcript
    # ReplicaSets that asked for a tier and were not wired: none may ever exist.
    unwired: set[str] = field(default_factory=set)

    @property
    def world(self) -> Fleet:
        return self.platform.world

    # Acts

    def apply_ready(self, *tiers: Manifest) -> None:
        for document in tiers:
            self.world.api.apply(document)
        for document in tiers:
            self.world.until_ready(document, limit=120)

    def touch(self, document: Manifest) -> None:
        """Have core look at a composite now; what it must look up it would see by its TTL."""
        change = {"metadata": {"annotations": {"example.org/touched": str(time.time())}}}
        self.world.api.patch(document, change)

    def until_deleted(self, document: Manifest, how: str, *touching: Manifest) -> None:
        """Delete, again while something holds it, as a person would; then have others look, whom
        core may show what was a moment ago.
        """
        said: list[str] = []

        def deleted() -> bool:
            try:
                self.world.api.delete(document, propagation=how)
            except Refused as refused:
                said.append(str(refused))
                return False
            return True

        name = f"{document['kind']} {document['metadata']['name']}"
        explain = lambda: f"{said[-1:]}\n{self.events()}"  # noqa: E731
        self.world.rig.until(deleted, f"{name} may be deleted", 150, every=2, explain=explain)
        if said:
            self.transcript.saw(f"{name}: refused {len(said)} times: {said[0]}")

        def gone() -> bool:
            for each in touching:
                self.touch(each)
            return self.world.api.again(document) is None

        self.world.rig.until(
            gone,
            f"{name} is gone",
            150,
            every=2,
            explain=lambda: f"{self.world.explain(document)}\n{self.events()}",
        )

    # Deployments

    def until_wired(self, document: Manifest, replicas: int, *words: str) -> None:
        """All of a deployment's engines run wired, with these arguments, and everyone says so."""
        name = document["metadata"]["name"]
        self.world.rig.until(
            lambda: not self.lacks(document, replicas, *words),
            f"{name} has {replicas} wired replicas {words}",
            150,
            every=1,
            explain=lambda: self.explain(document, replicas, *words),
        )
        said = self.world.message(document, CONDITION)
        self.transcript.saw(f"{name}: {', '.join(self.where(document))}; {CONDITION}: {said}")

    def until_all_wired(
        self, replicas: int, *documents: Manifest, words: Iterable[str] = ()
    ) -> None:
        for document in documents:
            self.until_wired(document, replicas, *words)

    def lacks(self, document: Manifest, replicas: int, *words: str) -> list[str]:
        """What is missing until then."""
        found = self.world.get(document)
        out = [] if _is_current(found, "Ready") else ["the deployment is not Ready"]
        said = condition(found, CONDITION)
        if said.get("status") != "True" or f"{replicas} of {replicas} " not in said["message"]:
            out.append(f"it says {said}")
        there = self.replicas(document)
        if len(there) != replicas:
            out.append(f"{len(there)} replicas")
        return out + [problem for each in there for problem in self._replica_lacks(each, words)]

    def _replica_lacks(self, replica: Manifest, words: tuple[str, ...]) -> list[str]:
        name = replica["metadata"]["name"]
        out = [f"{name} is not {k}" for k in ("Ready", CONDITION) if not _is_current(replica, k)]
        held = [u for u in self.usages(name) if is_true(u, "Ready")]
        if len(held) != 1:
            out.append(f"{name} has {len(held)} Usages in force")
        workload = self.engine(replica)
        pods = self.pods(replica)
        if workload is None or len(pods) != 1:
            return [*out, f"{name} has {len(pods)} pods"]
        for each in (workload, *pods):
            if not is_wired(each) or not set(words) <= set(engine(each)["args"]):
                out.append(f"{each['kind']} {each['metadata']['name']}: {engine(each)['args']}")
        return out

    def explain(self, document: Manifest, replicas: int, *words: str) -> str:
        lines = self.lacks(document, replicas, *words)
        lines += map(self.world.explain, (document, *self.replicas(document)))
        return "\n".join([*lines, self.events()])

    def replicas(self, document: Manifest) -> list[Manifest]:
        return self.world.composed(document, API, "ModelReplica")

    def where(self, document: Manifest) -> list[str]:
        """Its replicas as "name on cluster"."""
        return sorted(
            f"{r['metadata']['name']} on {r['spec']['clusterName']}"
            for r in self.replicas(document)
        )

    def cluster_of(self, replica: Manifest) -> Cluster:
        return self.world.rig.workload(replica["spec"]["clusterName"])

    def engine(self, replica: Manifest) -> Manifest | None:
        """The Deployment of a replica's one engine."""
        stem = f"{replica['metadata']['name']}-main"
        found = self.cluster_of(replica).api.list("apps/v1", "Deployment", "default")
        return next((d for d in found if d["metadata"]["name"].startswith(stem)), None)

    def pods(self, replica: Manifest) -> list[Manifest]:
        """The engine's pods that run and stay."""
        workload = self.engine(replica)
        if workload is None:
            return []
        labels = f"modelplane.ai/workload={workload['metadata']['name']}"
        found = self.cluster_of(replica).api.list("v1", "Pod", "default", labels)
        return [
            p for p in found if "deletionTimestamp" not in p["metadata"] and is_true(p, "Ready")
        ]

    def identities(self, *documents: Manifest) -> dict[str, str]:
        """The pods of deployments' engines by uid."""
        return {p["metadata"]["uid"]: p["metadata"]["name"] for p in self._engine_pods(*documents)}

    def images(self, document: Manifest) -> set[str]:
        """What its engines run."""
        return {engine(p)["image"] for p in self._engine_pods(document)}

    def _engine_pods(self, *documents: Manifest) -> list[Manifest]:
        return [p for d in documents for r in self.replicas(d) for p in self.pods(r)]

    def usages(self, replica: str) -> list[Manifest]:
        """The Usages that a replica holds its tier with."""
        found = self.world.api.list(USAGE, "Usage")
        return [u for u in found if f"/{replica} " in u["spec"].get("reason", "")]

    def events(self) -> str:
        """What core says about Usages."""
        return "\n".join(
            f"{e['involvedObject']['name']} {e['reason']}: {e['message']}"
            for e in self.world.api.list("v1", "Event")
            if e["involvedObject"].get("kind") in ("Usage", "ClusterUsage")
        )

    # What is left

    def left(self, *names: str) -> list[str]:
        """What is there of deployments, or of anything that a test composed."""
        api = self.world.api
        found = [e for place in _COMPOSED for e in api.list(*place)]
        for cluster in map(self.world.rig.workload, self.world.rig.workloads):
            found += self.world.remote(cluster.name).values()
            found += [e for place in _REMOTE for e in cluster.api.list(*place)]
        return [
            f"{e['kind']} {e['metadata'].get('namespace', '')}/{e['metadata']['name']}"
            for e in found
            if e["metadata"].get("namespace") not in _OF_KUBERNETES
            and e["metadata"]["name"] != "default"
            and (not names or any(f"{e['metadata']['name']}-".startswith(f"{n}-") for n in names))
        ]

    def until_gone(self, *documents: Manifest) -> None:
        """Deployments, and all that came of them, on every cluster."""
        names = [d["metadata"]["name"] for d in documents]
        self.world.rig.until(
            lambda: not any(map(self.world.api.again, documents)),
            f"{names} are gone",
            150,
            explain=lambda: "\n".join([*map(self.world.explain, documents), self.events()]),
        )
        self.until_left(*names)

    def until_left(self, *names: str) -> None:
        """Wait until nothing is left of these names, or of anything."""
        self.world.rig.until(
            lambda: not self.left(*names),
            f"nothing is left of {names}",
            150,
            every=1,
            explain=lambda: "\n".join([*self.left(*names), self.events()]),
        )

    # Over time

    def watch(self) -> None:
        """Look for unwired engines, from now on, on every workload cluster."""
        for name in self.world.rig.workloads:
            threading.Thread(target=self._watch, args=(name,), daemon=True).start()

    def _watch(self, cluster: str) -> None:
        api = self.world.rig.workload(cluster).api
        while not api.closed:
            with contextlib.suppress(httpx.HTTPError):
                for event in api.watch("apps/v1", "ReplicaSet", 60):
                    found = event["object"]
                    if _asks(found) and not is_wired(found):
                        self.unwired.add(f"{cluster}: {found['metadata']['name']}")


def is_wired(manifest: Manifest) -> bool:
    words = engine(manifest)["args"]
    return "--enable-lmcache" in words or "--kv-transfer-config" in words


def _asks(manifest: Manifest) -> bool:
    return TIER in access.mapping(manifest, "spec", "template", "metadata", "annotations")


def _is_current(manifest: Manifest, kind: str) -> bool:
    """Whether a condition is True of the present generation (as far as it says which)."""
    found = condition(manifest, kind)
    generation = manifest["metadata"]["generation"]
    return (
        found.get("status") == "True" and found.get("observedGeneration", generation) == generation
    )

"""provider-kubernetes: Objects of the control plane, and what stands for them on a cluster."""

from collections.abc import Callable
from typing import Any

from function.kube import manifests, objects
from tests.world.clusters import Cluster
from tests.world.clusters import Key as RemoteKey
from tests.world.function import Document, Function
from tests.world.plane import FINALIZERS, FOREGROUND, Key, Store, View, is_deleted, key_of

# A ready Object is looked at every ten minutes in truth.
POLL_READY, POLL_UNREADY, RETRY, CONFLICT = 300, 30, 60, 1
_FINALIZER = FINALIZERS["Object"][0]


def _is_current(it: Document, field: str, wanted: int, counted: str = "") -> bool:
    status = it.get("status", {})
    seen = status.get("observedGeneration") == it["metadata"]["generation"]
    return seen and all(status.get(name) == wanted for name in (field, counted) if name)


def _daemonset(it: Document, updated: str = "updatedNumberScheduled") -> bool:
    wanted = it.get("status", {}).get("desiredNumberScheduled")
    return wanted is not None and _is_current(it, "numberReady", wanted, updated)


def _replicas(it: Document, updated: str = "updatedReplicas") -> bool:
    return _is_current(it, "readyReplicas", it["spec"].get("replicas", 1), updated)


# The queries that the function composes, in Python.
_QUERIES: dict[str, Callable[[Document], bool]] = {
    manifests.DAEMONSET_READY: _daemonset,
    manifests.DAEMONSET_READY_ON_DELETE: lambda it: _daemonset(it, ""),
    manifests.STATEFULSET_READY: _replicas,
    manifests.STATEFULSET_READY_ON_DELETE: lambda it: _replicas(it, ""),
    manifests.LEADER_READY: lambda it: (
        it.get("status", {}).get("readyReplicas", 0) >= 1
        and _is_current(it, "updatedReplicas", it["spec"].get("replicas", 1))
    ),
}


class Provider:
    """`clusters`: by the name of their ProviderConfig."""

    def __init__(
        self,
        store: Store,
        view: View,
        function: Function,
        clusters: dict[str, Cluster],
        after: Callable[..., None],
    ) -> None:
        self.store, self.view, self.function = store, view, function
        self.clusters, self.after = clusters, after
        self.objects: dict[tuple[str, RemoteKey], Key] = {}

    def reconcile(self, key: Key, now: str) -> None:
        it = self.view.get(key)
        if it is None:
            return
        where = objects.provider_config(it)
        config = self.store.get(("ClusterProviderConfig", "", where))
        cluster = self.clusters[where]
        if is_deleted(it):
            self._delete(key, it, cluster if config else None, now)
        elif config is None or cluster.cut_off:
            self._unseen(key, it, "no ProviderConfig" if config is None else "i/o timeout", now)
        else:
            self._observe(key, it, cluster, now)

    def _delete(self, key: Key, it: Document, cluster: Cluster | None, now: str) -> None:
        if FOREGROUND in it["metadata"]["finalizers"]:
            return  # its dependents go first
        policies = it["spec"].get("managementPolicies", ["*"])
        if "Observe" in policies and len(policies) == 1:
            self._let_go(key, it)
        elif cluster is None or cluster.cut_off:
            self._unseen(key, it, "i/o timeout" if cluster else "no ProviderConfig", now)
        else:
            remote = _remote(it)
            if remote in cluster.documents and policies == ["*"]:
                cluster.delete(remote)
            self.objects.pop((cluster.name, remote), None)
            self._let_go(key, it)

    def _let_go(self, key: Key, it: Document) -> None:
        if not self.store.finish(key, _FINALIZER, it):
            self.after(CONFLICT, "provider", key)

    def _unseen(self, key: Key, it: Document, why: str, now: str) -> None:
        error = _condition(it, "Synced", "False", "ReconcileError", f"connect failed: {why}")
        self._put(key, it, (error,), None, now)
        self.after(RETRY, "provider", key)

    def _observe(self, key: Key, it: Document, cluster: Cluster, now: str) -> None:
        remote = _remote(it)
        if it["spec"].get("managementPolicies") == ["Observe"]:
            live = cluster.documents.get(remote)
        else:
            live = cluster.apply(remote, it["spec"]["forProvider"]["manifest"])
            if it["spec"].get("watch"):
                self.objects[cluster.name, remote] = key
        is_ready = live is not None and self._is_ready(it, live)
        said = (
            _condition(it, "Synced", "True", "ReconcileSuccess"),
            _condition(it, "Ready", str(is_ready), "Available" if is_ready else "Creating"),
        )
        self._put(key, it, said, live, now)
        self.after(POLL_READY if is_ready else POLL_UNREADY, "provider", key)

    def _is_ready(self, it: Document, live: Document) -> bool:
        readiness = it["spec"].get("readiness", {})
        return readiness.get("policy") != "DeriveFromCelQuery" or _QUERIES[readiness["celQuery"]](
            live
        )

    def _put(
        self,
        key: Key,
        it: Document,
        said: tuple[Document, ...],
        live: Document | None,
        now: str,
    ) -> None:
        """Write the status; a conflict where the store holds something else by now."""
        if self.store.get(key) is not it:
            self.after(CONFLICT, "provider", key)
            return
        status = it.get("status", {})
        conditions = conditions_with(status.get("conditions", []), said, now)
        if conditions == status.get("conditions") and (
            live is None or status.get("atProvider", {}).get("manifest") is live
        ):
            return

        def made() -> Document:
            seen = {"atProvider": {"manifest": live}} if live is not None else {}
            return {**it, "status": {**status, **seen, "conditions": conditions}}

        parts = ("seen", it, live or "", now, *(str(sorted(c.items())) for c in said))
        self.store.put(self.function.derived(made, *parts))


def _remote(it: Document) -> RemoteKey:
    return key_of(it["spec"]["forProvider"]["manifest"])


def _condition(it: Document, kind: str, status: str, reason: str, message: str = "") -> Document:
    generation = it["metadata"]["generation"]
    said = {"type": kind, "status": status, "reason": reason, "message": message}
    # provider-kubernetes v1.2.1 sets Ready without one, crossplane-runtime Synced with one.
    return {**said, "observedGeneration": generation} if kind == "Synced" else said


def conditions_with(before: list[Any], said: Any, now: str) -> list[Document]:
    """Return conditions in which `said` replaced those of its types; an equal one keeps its time.

    crossplane-runtime compares status, reason, message and generation.
    """
    found = {each["type"]: each for each in before}
    for each in said:
        known = {k: v for k, v in found.get(each["type"], {}).items() if k != "lastTransitionTime"}
        if known != each:
            found[each["type"]] = {**each, "lastTransitionTime": now}
    return list(found.values())

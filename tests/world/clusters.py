"""Workload clusters: what is applied there, its controllers, its kubelets.

One step of a workload starts, readies or replaces one pod. A pod is not ready at first; one whose
image is broken never is. `stopped` clusters are as they were: the control plane cannot reach them.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.world.function import Document, Function

Key = tuple[str, str, str]
BROKEN = "broken"


@dataclass
class Pod:
    """`template`: the interned pod template that it runs."""

    node: str
    template: Document
    ready: bool = False


def starts(template: Document) -> bool:
    """Return whether a pod of this template ever gets ready."""
    return not any(BROKEN in each.get("image", "") for each in template["spec"]["containers"])


class Cluster:
    """`changed`: called with the key of what changed; `happened`: with (what, key, document)."""

    def __init__(
        self,
        name: str,
        function: Function,
        schedule: Callable[..., None],
        happened: Callable[[str, "Cluster", Key, Document | None, Document | None], None],
    ) -> None:
        self.name = name
        self.function = function
        self.schedule = schedule
        self.happened = happened
        self.nodes = ["n1", "n2", "n3"]
        self.cut_off = False
        self.failing: set[str] = set()  # names of workloads whose pods do not get ready
        self.documents: dict[Key, Document] = {}
        self.pods: dict[Key, list[Pod]] = {}
        self.watchers: set[Key] = set()

    def apply(self, key: Key, manifest: Document) -> Document:
        """Write a manifest as the provider does; return the live document."""
        before = self.documents.get(key)

        def made() -> Document:
            metadata = dict(manifest["metadata"])
            if before is None:
                return {**manifest, "metadata": {**metadata, "generation": 1}}
            generation = before["metadata"]["generation"]
            changed = manifest.get("spec") != before.get("spec")
            metadata["generation"] = generation + changed
            # What others than the provider wrote stays.
            kept = {field: before[field] for field in ("status", "data") if field in before}
            return {**kept, **manifest, "metadata": metadata}

        after = self.function.derived(made, "remote", manifest, before or "")
        if after is not before:
            self._put(key, after)
            self.schedule("pods", self.name, key)
        return after

    def _put(self, key: Key, after: Document | None) -> None:
        before = self.documents.get(key)
        if after is None:
            self.documents.pop(key, None)
        else:
            self.documents[key] = after
        self.happened("applied", self, key, before, after)

    def observe(self, text: str) -> None:
        """Let the observers there write this."""
        for key, before in list(self.documents.items()):
            if key[0] == "ConfigMap" and key[2].endswith("-serving"):
                self._put(key, self.function.intern({**before, "data": {"state": text}}))

    def delete(self, key: Key) -> None:
        self.pods.pop(key, None)
        self._put(key, None)

    # Controllers and kubelets ---

    def step(self, key: Key, rng: random.Random) -> bool:
        """Let one thing happen to the pods of a workload. Return whether more can."""
        document = self.documents.get(key)
        if document is None or key[0] not in ("DaemonSet", "Deployment", "StatefulSet"):
            return False
        pods = self.pods.setdefault(key, [])
        moves = self._moves(key, document, pods)
        if moves:
            rng.choice(moves)()
        self._report(key, document, pods)
        return bool(moves)

    def _moves(self, key: Key, document: Document, pods: list[Pod]) -> list[Callable[[], None]]:
        spec = document["spec"]
        template: Document = spec["template"]
        old = [pod for pod in pods if pod.template is not template and pod.template != template]
        down = [pod for pod in pods if not pod.ready]
        moves: list[Callable[[], None]] = []
        for pod in down:
            if starts(pod.template) and key[2] not in self.failing:
                moves.append(lambda pod=pod: self._ready(key, pod))  # type: ignore[misc]
        if key[0] == "DaemonSet":
            there = {pod.node for pod in pods}
            missing = [node for node in self.nodes if node not in there]
            if missing:
                return [lambda: pods.append(Pod(missing[0], template))]
            gone = [pod for pod in pods if pod.node not in self.nodes]
            if gone:
                return [lambda: pods.remove(gone[0])]
            strategy = spec.get("updateStrategy", {})
            if old and strategy.get("type", "RollingUpdate") == "RollingUpdate":
                most = strategy.get("rollingUpdate", {}).get("maxUnavailable", 1)
                dead = [pod for pod in old if not pod.ready]
                if dead or len(down) < _count(most, len(pods)):
                    moves.append(lambda: self._replace(key, pods, (dead or old)[0], template))
            return moves
        wanted = spec.get("replicas", 1)
        if len(pods) < wanted:
            return [lambda: pods.append(Pod("n1", template))]
        if key[0] == "StatefulSet" or spec.get("strategy", {}).get("type") == "Recreate":
            if old and (not down or not old[0].ready):
                moves.append(lambda: self._replace(key, pods, old[0], template))
        elif old:
            fresh = [pod for pod in pods if pod not in old]
            if len(fresh) < wanted:
                moves.append(lambda: pods.append(Pod("n1", template)))
            elif any(pod.ready for pod in fresh) or not old[0].ready:
                moves.append(lambda: pods.remove(old[0]))
        elif len(pods) > wanted:
            moves.append(lambda: pods.pop())
        return moves

    def _ready(self, key: Key, pod: Pod) -> None:
        pod.ready = True
        self.happened("started", self, key, pod.template, None)

    def _replace(self, key: Key, pods: list[Pod], old: Pod, template: Document) -> None:
        pods[pods.index(old)] = Pod(old.node, template)
        self.happened("replaced", self, key, old.template, template)

    def _report(self, key: Key, document: Document, pods: list[Pod]) -> None:
        template = document["spec"]["template"]
        if key[0] == "DaemonSet":  # one on a node that should have none is counted as misscheduled
            pods = [pod for pod in pods if pod.node in self.nodes]
        ready = sum(pod.ready for pod in pods)
        updated = sum(pod.template == template for pod in pods)
        generation = document["metadata"]["generation"]
        total = len(self.nodes) if key[0] == "DaemonSet" else len(pods)
        counts = (generation, total, len(pods), updated, ready)
        after = self.function.derived(
            lambda: {**document, "status": _status(key[0], *counts)}, "report", document, *counts
        )
        if after is not document:
            self._put(key, after)

    # What is true, whoever knows it ---

    def agents(self, key: Key) -> tuple[int, int, int]:
        """Return how many agents there should be, are ready, and run the applied template."""
        pods = self.pods.get(key, [])
        document = self.documents.get(key)
        template = document["spec"]["template"] if document else None
        current = sum(pod.ready and pod.template == template for pod in pods)
        return len(self.nodes), sum(pod.ready for pod in pods), current


def _count(most: int | str, total: int) -> int:
    if isinstance(most, str):
        return max(1, -(-total * int(most.removesuffix("%")) // 100))
    return most


def _status(kind: str, generation: int, total: int, pods: int, updated: int, ready: int) -> Any:
    if kind == "DaemonSet":
        return {
            "observedGeneration": generation,
            "desiredNumberScheduled": total,
            "currentNumberScheduled": pods,
            "updatedNumberScheduled": updated,
            "numberReady": ready,
            "numberAvailable": ready,
        }
    counts = {"replicas": pods, "updatedReplicas": updated, "readyReplicas": ready}
    return {"observedGeneration": generation, **{k: v for k, v in counts.items() if v}}

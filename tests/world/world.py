"""A small world: one control plane, its controllers, workload clusters, in steps of one write each.

Which of all that could happen next happens is drawn from a seed. The clock moves only when nothing
is left to do: to the next poll, retry or time to live.
"""

import functools
import heapq
import itertools
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from function.kube import naming
from tests.world.clusters import Cluster
from tests.world.clusters import Key as RemoteKey
from tests.world.core import Core
from tests.world.function import Document, Function
from tests.world.plane import (
    FINALIZERS,
    IN_USE,
    Key,
    Store,
    View,
    by_usage,
    is_deleted,
    key_of,
    of_usage,
    owners,
)
from tests.world.provider import Provider

CLUSTERS = ("c1", "c2", "c3")
_START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
# Longer than what anything that is not at rest waits for, and than the provider's poll.
_QUIET = 310
_USAGE_RETRY, _USAGE_POLL, _COLLECT_RETRY = 30, 60, 60


@functools.cache
def _text(time: int) -> str:
    return datetime.fromtimestamp(_START + time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class World:
    """`happened`: called with what a cluster does, (what, cluster, key, before, after)."""

    def __init__(self, function: Function) -> None:
        self.rng = random.Random(0)
        self.function = function
        self.tasks: list[tuple[Any, ...]] = []
        self.queued: set[tuple[Any, ...]] = set()
        self.timers: list[tuple[int, int, tuple[Any, ...]]] = []
        self.timed: dict[tuple[Any, ...], int] = {}
        self.number = itertools.count()
        self.time = 0
        self.steps = 0
        function.now = float(_START)
        self.happened: Callable[..., None] = lambda *_: None
        self.store = Store(function, self.schedule)
        self.clusters = {
            name: Cluster(name, function, self.schedule, self._on_cluster) for name in CLUSTERS
        }
        self.seen: Callable[[Key, Document | None], None] = lambda *_: None
        self.core_view = View("core", self._tell_core)
        self.provider_view = View("provider", self._tell_provider)
        self.store.views = [self.core_view, self.provider_view]
        self.core = Core(
            "2.4",
            self.store,
            self.core_view,
            function,
            self.schedule,
            self.after,
            lambda: (self.time, self.now(), self.steps),
            self.rng,
        )
        self.provider = Provider(
            self.store, self.provider_view, function, self.clusters, self.after
        )

    def now(self) -> str:
        return _text(self.time)

    # Tasks and timers ---

    def schedule(self, *task: Any) -> None:
        if task not in self.queued:
            self.queued.add(task)
            self.tasks.append(task)

    def after(self, seconds: int, *task: Any) -> None:
        """Schedule a task for later; of two times the earlier one holds."""
        when = self.time + seconds
        known = self.timed.get(task)
        if known is None or when < known or known <= self.time:
            self.timed[task] = when
            heapq.heappush(self.timers, (when, next(self.number), task))

    def step(self) -> bool:
        """Let one thing happen. Return whether anything did, without the clock."""
        if not self.tasks:
            return False
        at = self.rng.randrange(len(self.tasks))
        task = self.tasks[at]
        self.tasks[at] = self.tasks[-1]
        self.tasks.pop()
        self.queued.discard(task)
        self.steps += 1
        self._do(*task)
        return True

    def run(self, steps: int) -> None:
        """Let so many things happen; the clock moves where nothing else does."""
        for _ in range(steps):
            if not self.step() and not self.tick():
                return

    def drain(self, limit: int) -> None:
        """Let all happen that can without the clock."""
        for _ in range(limit):
            if not self.step():
                return
        raise AssertionError(f"it does not come to rest in {limit} steps: {sorted(self.tasks)[:9]}")

    def tick(self, until: int | None = None) -> bool:
        """Move the clock to the next timer, at most to `until`. Return whether there was one."""
        while self.timers:
            when, _, task = self.timers[0]
            if until is not None and when > until:
                break
            heapq.heappop(self.timers)
            if self.timed.get(task) != when:
                continue  # an earlier one took its place
            del self.timed[task]
            self._set_time(max(self.time, when))
            self.schedule(*task)
            while self.timers and self.timers[0][0] <= self.time:
                due, _, other = heapq.heappop(self.timers)
                if self.timed.get(other) == due:
                    del self.timed[other]
                    self.schedule(*other)
            return True
        if until is not None:
            self._set_time(max(self.time, until))
        return False

    def _set_time(self, time: int) -> None:
        self.time = time
        self.function.now = float(_START + time)

    def _do(self, actor: str, *arguments: Any) -> None:
        match actor:
            case "core":
                if self.core.step(*arguments):
                    self.schedule(actor, *arguments)
            case "requeue":
                self.core.queue(*arguments)
            case "provider":
                (key,) = arguments
                self.provider.reconcile(key, self.now())
            case "usage":
                self._tend_usage(*arguments)
            case "usage goes":
                self._let_usage_go(*arguments)
            case "config":
                self._tend_config(*arguments)
            case "pods":
                cluster, key = arguments
                if self.clusters[cluster].step(key, self.rng):
                    self.schedule(actor, *arguments)
            case "deliver":
                name, kind = arguments
                view = next(each for each in self.store.views if each.name == name)
                if view.deliver(kind):
                    self.schedule(actor, *arguments)
            case "collect":
                if not self.store.collect(*arguments):
                    self.after(_COLLECT_RETRY, actor, *arguments)
            case _:
                raise ValueError(actor)

    # Who hears of what ---

    def _tell_core(self, key: Key, before: Document | None, after: Document | None) -> None:
        self.seen(key, after)
        self.core.told(key, before, after)

    def _tell_provider(self, key: Key, before: Document | None, after: Document | None) -> None:
        if key[0] == "Object":
            self.schedule("provider", key)
            for each in filter(None, (before, after)):
                config = each["spec"]["providerConfigRef"]["name"]
                self.schedule("config", config)
        elif key[0] == "Usage":
            self.schedule("usage", key)
        elif key[0] in ("ClusterProviderConfig", "InferenceCluster"):
            self.schedule("config", key[2])

    def _on_cluster(
        self,
        what: str,
        cluster: Cluster,
        key: RemoteKey,
        before: Document | None,
        after: Document | None,
    ) -> None:
        self.happened(what, cluster, key, before, after)
        watching = self.provider.objects.get((cluster.name, key)) if what == "applied" else None
        if watching is not None and not cluster.cut_off:
            self.schedule("provider", watching)

    # Crossplane's controller of Usages; the owners of ProviderConfigs ---

    def _tend_usage(self, key: Key) -> None:
        usage = self.store.get(key)
        if usage is None:
            return
        by, of = by_usage(usage), of_usage(usage)
        user = self.store.get(by) if by else None
        if is_deleted(usage):
            if user and naming.COMPOSITE_LABEL in usage["metadata"].get("labels", {}):
                self.after(_USAGE_RETRY, "usage", key)
            else:  # two that go at once may each see the other
                self.schedule("usage goes", key, len(self.store.usages(of)) < 2)
            return
        self._label(of, {IN_USE: "true"})
        if user and user["metadata"]["uid"] not in {o["uid"] for o in owners(usage)}:
            owner = {"kind": user["kind"], "name": user["metadata"]["name"]}
            uid = user["metadata"]["uid"]
            kept = [o for o in owners(usage) if o.get("controller")]
            self.store.edit(key, ownerReferences=[*kept, {**owner, "uid": uid}])
        elif by and not user:
            self.after(_USAGE_RETRY, "usage", key)

    def _let_usage_go(self, key: Key, is_last: bool) -> None:
        usage = self.store.get(key)
        if usage is None or not is_deleted(usage):
            return
        of = of_usage(usage)
        if is_last:
            self._label(of, {})
        self.store.finish(key, FINALIZERS["Usage"][0])
        for other in self.store.usages(of):  # one that came meanwhile labels it at its next poll
            self.after(_USAGE_POLL, "usage", other)

    def _label(self, of: Key, mark: dict[str, str]) -> None:
        """Mark what a Usage is of, where it is there, or take the mark away."""
        document = self.store.get(of)
        if document is not None:
            labels = document["metadata"].get("labels", {})
            kept = {k: v for k, v in labels.items() if k != IN_USE}
            self.store.edit(of, labels=kept | mark)

    def _tend_config(self, name: str) -> None:
        """Make the ProviderConfig of a cluster; take a deleted one away when nothing uses it."""
        key = ("ClusterProviderConfig", "", name)
        cluster, config = self.store.get(("InferenceCluster", "", name)), self.store.get(key)
        if config is None:
            # A cluster says where it is once that is there.
            if cluster is not None and not is_deleted(cluster):
                owner = {"kind": "InferenceCluster", "uid": cluster["metadata"]["uid"]}
                metadata = {
                    "name": name,
                    "uid": self.store.uid(key),
                    "ownerReferences": [owner],
                    "finalizers": FINALIZERS["ClusterProviderConfig"],
                }
                made = {"kind": key[0], "metadata": metadata, "spec": {}}
                self.store.put(self.function.intern(made))
                status = {"providerConfigRef": {"name": name}}
                self.store.put(self.function.intern({**cluster, "status": status}))
        elif is_deleted(config) and not self._uses(name):
            self.store.finish(key, FINALIZERS["ClusterProviderConfig"][0])
            self.schedule("config", name)

    def _uses(self, config: str) -> bool:
        """Whether an Object marks a ProviderConfig as used; the mark goes first with the Object."""
        return any(
            document["kind"] == "Object"
            and document["spec"]["providerConfigRef"]["name"] == config
            and document["metadata"]["uid"] not in self.store.unmarked
            for document in self.store.documents.values()
        )

    # Coming to rest ---

    def settle(self, limit: int) -> None:
        """Go on until nothing is written any more, whatever polls and times to live bring."""
        for _ in range(limit):
            self.drain(5_000)
            before = self.store.writes
            until = self.time + _QUIET
            while self.time < until and self.tick(until):
                self.drain(5_000)
                if self.store.writes != before:
                    break
            else:
                return
        raise AssertionError(f"it writes on and on: {self.time} s")

    def heal(self) -> None:
        """End all faults."""
        for cluster in self.clusters.values():
            cluster.cut_off = False
            cluster.failing.clear()
            for key in cluster.documents:
                self.schedule("pods", cluster.name, key)
        deaf = list(self.core.deaf)
        self.core.deaf.clear()
        for key in deaf:  # a breaker that closes lets an event through
            self.core.queue(key)
        for view in self.store.views:
            view.lags = False

    # What people do ---

    def put(self, document: Document) -> None:
        """Create a document, or replace its spec."""
        key = key_of(document)
        before = self.store.get(key)
        if before is None:
            metadata = {**document["metadata"], "uid": self.store.uid(key), "generation": 1}
            metadata["finalizers"] = FINALIZERS.get(key[0], [])
            self.store.put(self.function.intern({**document, "metadata": metadata}))
            return
        spec = dict(document.get("spec", {}))
        old = dict(before.get("spec", {}))
        machinery = old.pop("crossplane", None)
        changed = old != spec
        if machinery is not None:
            spec["crossplane"] = machinery
        metadata = dict(before["metadata"])
        metadata["generation"] = metadata.get("generation", 1) + changed
        self.store.put(self.function.intern({**before, "metadata": metadata, "spec": spec}))

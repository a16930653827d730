"""Crossplane core: what it watches, looks up, applies and collects, one write at a time.

A reconcile is a generator that stops after each write, so that others come in between, a restart
ends it halfway, and a second core may reconcile the same composite at once. With `version` 2.4 the
resources that a composite required last are seeded into its next first call, and their changes wake
it; with 2.3 only its time to live does.

What has a precondition and what has none is as in core's source (v2.4.0,
internal/controller/apiextensions/composite, v2.3.0 alike): it applies without one, in no order; a
resource that it drops it first updates, and so begins anew where its cache lags behind; what its
cache lacks it reads from the server.
"""

import random
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from function.kube import naming
from tests.world.call import Asked
from tests.world.function import Document, Function, Reply, Selector
from tests.world.plane import FINALIZERS, IN_USE, Key, Store, View, controller, is_deleted, key_of
from tests.world.provider import conditions_with

COMPOSITES = ("KVOffloadTier", "ModelReplica")
KEY_ANNOTATION = "crossplane.io/composition-resource-name"
# The kinds that the function looks up.
_REQUIRED = ("InferenceCluster", "KVOffloadTier", "Usage", "Object")
_CORES = {"Synced", "Ready", "Responsive"}
_MAX_CALLS = 5
_RETRY = 30
_CONFLICT = 1
# Of a time to live: longer ones would make histories long, and bring nothing new.
_MOST = 300
# Asked at each apply of each resource.
_composed = cache(naming.composed)


class Conflict(Exception):
    """The server has another version of what core applies."""


@dataclass
class Earlier:
    """What the steps before the function desire for a composite, and the step's Input.

    `wish`: what the composite's author had written then.
    """

    desired: dict[str, Document] = field(default_factory=dict)
    step_input: Document | None = None
    wish: Any = None


class Core:
    """`earlier`: by composite. `deaf`: composites whose circuit breaker is open until then.

    `applied`: called before a composed resource is written, with (composite, key, before, after,
    wish); `answered`: after the status of a composite was, with (composite, before, after, reply,
    wish).
    """

    def __init__(
        self,
        version: str,
        store: Store,
        view: View,
        function: Function,
        schedule: Callable[..., None],
        after: Callable[..., None],
        clock: Callable[[], tuple[int, str, int]],
        rng: random.Random,
    ) -> None:
        self.version, self.store, self.view, self.function = version, store, view, function
        self.schedule, self.after, self.clock, self.rng = schedule, after, clock, rng
        self.earlier: dict[Key, Earlier] = {}
        self.required: dict[Key, tuple[Selector, ...]] = {}
        # Reconciles, each with the step at which it read what it decides by.
        self.running: dict[tuple[Key, int], tuple[int, Generator[None]]] = {}
        self.again: set[Key] = set()
        self.deaf: dict[Key, int] = {}
        self.cold = 0  # calls that a new process of the function answers
        self.applied: Callable[..., None] = lambda *_: None
        self.answered: Callable[..., None] = lambda *_: None
        self.began = 0  # of the reconcile that goes on now

    # What wakes it -------------------------------------------------------------------------------

    def told(self, key: Key, before: Document | None, after: Document | None) -> None:
        """A change arrives in its cache. Of a composite's own status nobody is woken."""
        if key[0] in COMPOSITES and not (before and after and _alike(before, after)):
            self.wake(key)
        known = after or before
        uid = controller(known) if known else ""
        if self.version == "2.4" and key[0] in _REQUIRED:
            for composite, selectors in [*self.required.items()]:
                if any(
                    each.kind == key[0] and each.matches(document)
                    for each in selectors
                    for document in (before, after)
                    if document is not None
                ):
                    self.wake(composite)
        if uid:
            for composite in self.composites():
                if self.view.documents[composite]["metadata"]["uid"] == uid:
                    self.wake(composite)

    def wake(self, key: Key) -> None:
        """An event; the breaker drops it."""
        if self.clock()[0] >= self.deaf.get(key, 0):
            self.queue(key)

    def queue(self, key: Key) -> None:
        if (key, 0) in self.running:
            self.again.add(key)
        self.schedule("core", key, 0)

    def composites(self) -> list[Key]:
        return [key for key in self.view.documents if key[0] in COMPOSITES]

    def restart(self) -> None:
        """A new process of core: what ran stops, what it knew is gone, all is looked at."""
        self.running.clear()
        self.again.clear()
        self.required.clear()
        self.deaf.clear()
        for key in self.composites():
            self.queue(key)

    # A reconcile ---------------------------------------------------------------------------------

    def step(self, key: Key, which: int) -> bool:
        """Go on with a reconcile up to its next write. Return whether there is more of it.

        `which`: 0 for this core, 1 for one that should have stopped.
        """
        begin = self.clock()[2], self._reconcile(key)
        self.began, running = self.running.setdefault((key, which), begin)
        try:
            next(running)
            return True
        except StopIteration:
            self.running.pop((key, which), None)
        if which == 0 and key in self.again:
            self.again.discard(key)
            return True
        return False

    def _reconcile(self, key: Key) -> Generator[None]:
        it = self.view.get(key)
        if it is None:
            return
        if is_deleted(it):
            self.required.pop(key, None)
            if not self.store.finish(key, FINALIZERS[key[0]][0], it):
                self.after(_CONFLICT, "requeue", key)
            return
        observed = self._observed(it)
        earlier = self.earlier.get(key) or Earlier()
        reply = yield from self._ask(key, it, observed, earlier)
        if reply.fatal:
            if self.store.get(key) is it:
                said = f"cannot compose: {reply.fatal}"
                self._put_status(key, it, reply, earlier.wish, ready=None, synced=said)
            self.after(_RETRY, "requeue", key)
            return
        for name in self._in_no_order(observed.keys() - reply.desired.keys()):
            dropped = observed[name]
            if not self._may_update(dropped):
                self.after(_CONFLICT, "requeue", key)  # core says nothing
                return
            self.applied(key, name, dropped, None, earlier.wish)
            if not self._drop(dropped):
                self.after(_RETRY, "requeue", key)  # denied, which is a conflict too
                return
            yield
        if self._put_refs(key, it, reply):
            yield
        refused = []
        for name in self._in_no_order(reply.desired):
            before = self.store.writes
            try:
                if not self._apply(key, it, name, reply.desired[name][0], earlier.wish):
                    refused.append(name)
            except Conflict:
                self.after(_CONFLICT, "requeue", key)  # core says nothing
                return
            if self.store.writes != before:
                yield
        is_ready = reply.ready == "TRUE"
        if reply.ready == "UNSPECIFIED":
            is_ready = all(ready == "TRUE" for _, ready in reply.desired.values())
        synced = f"Unsynced resources: {', '.join(sorted(refused))}" if refused else ""
        self._put_status(key, it, reply, earlier.wish, ready=is_ready, synced=synced)
        self.required[key] = reply.requirements
        self.after(min(reply.ttl, _MOST), "requeue", key)

    def _in_no_order(self, names: Iterable[str]) -> list[str]:
        found = sorted(names)
        self.rng.shuffle(found)
        return found

    def _may_update(self, seen: Document) -> bool:
        """Return whether the server has what core has seen, or nothing any more."""
        return self.store.get(key_of(seen)) in (seen, None)

    def _drop(self, dropped: Document) -> bool:
        """Take core's label off what is composed no more, and delete it. False where denied."""
        key = key_of(dropped)
        if self.store.get(key) is None:
            return True
        labels = dropped["metadata"]["labels"]
        kept = {k: v for k, v in labels.items() if k != naming.COMPOSITE_LABEL}
        self.store.edit(key, labels=kept)
        return self.store.delete(key, foreground=True, who="core")

    def _observed(self, it: Document) -> dict[str, Document]:
        found = {}
        for ref in it["spec"].get("crossplane", {}).get("resourceRefs", []):
            place = it["metadata"]["namespace"]
            at = ref["kind"], place, ref["name"]
            document = self.view.get(at) or self.store.get(at)
            if document is None or controller(document) not in ("", it["metadata"]["uid"]):
                continue
            found[document["metadata"]["annotations"][KEY_ANNOTATION]] = document
        return found

    def _ask(
        self, key: Key, it: Document, observed: dict[str, Document], earlier: Earlier
    ) -> Generator[None, None, Reply]:
        seeded = self.required.get(key, ()) if self.version == "2.4" else ()
        wanted, context = seeded, b""
        found = {each.name: self._select(each) for each in seeded}
        for _ in range(_MAX_CALLS):
            asked = Asked(it, observed, found, earlier.desired, earlier.step_input, context)
            reply = self.function.ask(asked, restarted=self.cold > 0)
            self.cold = max(0, self.cold - 1)
            if reply.fatal or reply.requirements == wanted:
                return reply
            wanted, context = reply.requirements, reply.context
            yield  # what it looks up may change meanwhile
            found = {each.name: self._select(each) for each in wanted}
        raise AssertionError(f"the requirements of {key} do not settle")

    def _select(self, selector: Selector) -> list[Document]:
        known = self.view.kinds[selector.kind]
        found = [key for key, document in known.items() if selector.matches(document)]
        return [known[key] for key in sorted(found)]

    # Its writes ----------------------------------------------------------------------------------

    def _live(self, key: Key, it: Document) -> Document | None:
        """Return what the server has of a composite, None where it is another one by now."""
        found = self.store.get(key)
        same = found is not None and found["metadata"]["uid"] == it["metadata"]["uid"]
        return found if same else None

    def _put_refs(self, key: Key, it: Document, reply: Reply) -> bool:
        """Note what is composed. Return whether that is news."""
        live = self._live(key, it)
        if live is None:
            return False

        def made() -> Document:
            refs = sorted(
                (
                    {
                        "apiVersion": desired["apiVersion"],
                        "kind": desired["kind"],
                        "name": self._name(it, name, desired),
                    }
                    for name, (desired, _) in reply.desired.items()
                ),
                key=lambda ref: (ref["apiVersion"], ref["kind"], ref["name"]),
            )
            machinery = {**live["spec"].get("crossplane", {}), "resourceRefs": refs}
            return {**live, "spec": {**live["spec"], "crossplane": machinery}}

        uid = it["metadata"]["uid"]
        after = self.function.derived(made, "refs", live, uid, reply.number)
        self.store.put(after)
        return after is not live

    def _name(self, it: Document, name: str, desired: Document) -> str:
        own = it["metadata"]
        found = desired.get("metadata", {}).get("name")
        return str(found or _composed(own["name"], own["uid"], name))

    def _apply(self, key: Key, it: Document, name: str, desired: Document, wish: Any) -> bool:
        """Apply one composed resource. Return whether the server took it: not another's."""
        own = it["metadata"]
        place = (desired["kind"], own["namespace"], self._name(it, name, desired))
        before = self.store.get(place)
        if before is not None and controller(before) not in ("", own["uid"]):
            return False
        version = desired.get("metadata", {}).get("resourceVersion")
        if version and (before is None or before["metadata"]["resourceVersion"] != version):
            raise Conflict
        uid = before["metadata"]["uid"] if before else self.store.uid(place)
        parts = ("apply", desired, before or "", own["uid"], uid, name)
        after = self.function.derived(
            lambda: _applied(desired, before, it, place, uid, name), *parts
        )
        if after is not before:
            self.applied(key, name, before, after, wish)
        self.store.put(after)
        return True

    def _put_status(
        self,
        key: Key,
        it: Document,
        reply: Reply,
        wish: Any,
        *,
        ready: bool | None,
        synced: str = "",
    ) -> None:
        live = self._live(key, it)
        if live is None:
            return
        now = self.clock()
        deaf = now[0] < self.deaf.get(key, 0)

        def made() -> Document:
            status = live.get("status", {})
            said = _said(reply, status, ready, synced, deaf, it["metadata"]["generation"])
            new = status if ready is None else reply.status
            conditions = conditions_with(status.get("conditions", []), said, now[1])
            kept = {k: v for k, v in new.items() if k != "conditions"}
            return {**live, "status": {**kept, "conditions": conditions}}

        generation = it["metadata"]["generation"]
        parts = ("status", live, reply.number, str(ready), synced, deaf, now[1], generation)
        after = self.function.derived(made, *parts)
        self.store.put(after)
        self.answered(key, live, after, reply, wish)


def _said(
    reply: Reply, before: Document, ready: bool | None, synced: str, deaf: bool, generation: int
) -> list[Document]:
    """Return the conditions of a reply and core's own."""
    conditions = list(reply.conditions)
    was = {each["type"] for each in before.get("conditions", [])}
    if reply.fatal:
        known = {kind for kind, *_ in conditions} | _CORES
        conditions += [(kind, "Unknown", "FatalError", "") for kind in sorted(was - known)]
    found = [
        {"type": kind, "status": status, "reason": reason, "message": message}
        for kind, status, reason, message in conditions
    ]
    own = [("Synced", not synced, synced)]
    own += [("Ready", ready, "")] if ready is not None else []
    own += [("Responsive", not deaf, "")] if deaf or "Responsive" in was else []
    return found + [
        {
            "type": kind,
            "status": str(status),
            "reason": "",
            "message": message,
            "observedGeneration": generation,
        }
        for kind, status, message in own
    ]


def _alike(before: Document, after: Document) -> bool:
    """Whether two versions of a composite differ in their status alone, or in what core notes."""
    specs = [{k: v for k, v in it["spec"].items() if k != "crossplane"} for it in (before, after)]
    return specs[0] == specs[1] and before["metadata"] == after["metadata"]


def _applied(
    desired: Document, before: Document | None, it: Document, place: Key, uid: str, name: str
) -> Document:
    """Return what a server holds after core's apply: others' fields stay as they are."""
    known = before["metadata"] if before else {}
    given = desired.get("metadata", {})
    own = it["metadata"]
    kind = desired["kind"]
    owner = {"kind": it["kind"], "name": own["name"], "uid": own["uid"], "controller": True}
    others = [o for o in known.get("ownerReferences", []) if not o.get("controller")]
    foreign = {k: v for k, v in known.get("annotations", {}).items() if k.startswith("usage.")}
    marked = {k: v for k, v in known.get("labels", {}).items() if k == IN_USE}
    metadata: Document = {
        "name": place[2],
        "namespace": place[1],
        "uid": uid,
        "labels": {**marked, **given.get("labels", {}), naming.COMPOSITE_LABEL: own["name"]},
        "annotations": {**foreign, **given.get("annotations", {}), KEY_ANNOTATION: name},
        "ownerReferences": [owner, *others],
        "finalizers": known.get("finalizers", FINALIZERS.get(kind, [])),
    }
    if "deletionTimestamp" in known:
        metadata["deletionTimestamp"] = known["deletionTimestamp"]
    spec = dict(desired.get("spec", {}))
    old = dict(before["spec"]) if before else {}
    machinery = old.pop("crossplane", None) if kind in COMPOSITES else None
    metadata["generation"] = known.get("generation", 0) + (old != spec)
    if machinery is not None:
        spec["crossplane"] = machinery
    status: dict[str, Any] = {"status": before["status"]} if before and "status" in before else {}
    return {**desired, "metadata": metadata, "spec": spec, **status}

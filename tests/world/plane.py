"""The control plane's API server, its garbage collector, and the caches that clients read.

A cache (`View`) gets each change of the store: at once, or, while it lags, one change at a time in
an order of the scheduler's choice; within a kind in the order of the writes. Deletion is as in
Kubernetes: finalizers, owners, in the background or in the foreground. Crossplane's webhook denies
the deletion of what a Usage is `of`, once its controller has labelled that.
"""

import itertools
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from tests.world.function import Document, Function

Key = tuple[str, str, str]  # kind, namespace, name
FOREGROUND = "foregroundDeletion"
IN_USE = "crossplane.io/in-use"
REFUSED = "usage.crossplane.io/deletion-attempt-with-policy"
# What controllers put on what they have to clean up.
FINALIZERS = {
    "KVOffloadTier": ["composite.apiextensions.crossplane.io"],
    "ModelReplica": ["composite.apiextensions.crossplane.io"],
    "Object": ["finalizer.managedresource.crossplane.io"],
    "Usage": ["usage.apiextensions.crossplane.io"],
    "ClusterProviderConfig": ["in-use.crossplane.io"],
}


def key_of(document: Document) -> Key:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def is_deleted(document: Document) -> bool:
    return "deletionTimestamp" in document["metadata"]


def owners(document: Document) -> list[Document]:
    found: list[Document] = document["metadata"].get("ownerReferences", [])
    return found


def controller(document: Document) -> str:
    """Return the uid of the composite that composes a document, "" for none."""
    return next((o["uid"] for o in owners(document) if o.get("controller")), "")


def of_usage(usage: Document) -> Key:
    of = usage["spec"]["of"]
    place = of["resourceRef"].get("namespace", usage["metadata"].get("namespace", ""))
    return of["kind"], place, of["resourceRef"]["name"]


def by_usage(usage: Document) -> Key | None:
    """Return what a Usage waits for, None for nothing."""
    by = usage["spec"].get("by")
    return by and (by["kind"], usage["metadata"]["namespace"], by["resourceRef"]["name"])


class View:
    """A client's cache. `told`: called with each change as it arrives, (key, before, after)."""

    def __init__(self, name: str, told: Callable[[Key, Document | None, Document | None], None]):
        self.name = name
        self.documents: dict[Key, Document] = {}
        self.kinds: dict[str, dict[Key, Document]] = defaultdict(dict)
        self.pending: dict[str, deque[tuple[Key, Document | None]]] = {}
        self.lags = False
        self.told = told

    def get(self, key: Key) -> Document | None:
        return self.documents.get(key)

    def take(self, key: Key, document: Document | None) -> None:
        before = self.documents.get(key)
        if document is None:
            self.documents.pop(key, None)
            self.kinds[key[0]].pop(key, None)
        else:
            self.documents[key] = self.kinds[key[0]][key] = document
        self.told(key, before, document)

    def deliver(self, kind: str) -> bool:
        """Let the oldest change of a kind arrive. Return whether more are pending."""
        waiting = self.pending.get(kind)
        if waiting:
            self.take(*waiting.popleft())
        return bool(waiting)


class Store:
    """All documents of the control plane.

    `schedule`: makes a task of (actor, argument). `wrote`: called with (key, before, after).
    """

    def __init__(self, function: Function, schedule: Callable[..., None]) -> None:
        self.function = function
        self.schedule = schedule
        self.documents: dict[Key, Document] = {}
        self._uids: dict[str, Key] = {}
        self._owned: dict[str, set[Key]] = defaultdict(set)  # by the owner's uid
        self._places: dict[Key, int] = {}  # in the order of creation
        self._next_place = itertools.count()
        self.views: list[View] = []
        self.born: dict[Key, int] = {}
        self.unmarked: set[str] = set()
        self.writes = 0
        self.denied: list[tuple[Key, str]] = []
        self.wrote: Callable[[Key, Document | None, Document | None], None] = lambda *_: None

    def get(self, key: Key) -> Document | None:
        return self.documents.get(key)

    def uid(self, key: Key) -> str:
        """Return a new uid: of the name, and how often it was used."""
        self.born[key] = self.born.get(key, 0) + 1
        return f"{key[0]}-{key[2]}-{self.born[key]}"

    def put(self, document: Document) -> None:
        """Write an interned document; what changes nothing is no write."""
        key = key_of(document)
        before = self.documents.get(key)
        if before is document:
            return
        if before is None:
            self._places[key] = next(self._next_place)
            self._uids[document["metadata"]["uid"]] = key
        self.documents[key] = document
        self._note_owners(key, before, document)
        self._changed(key, before, document)

    def _changed(self, key: Key, before: Document | None, after: Document | None) -> None:
        self.writes += 1
        self.wrote(key, before, after)
        for view in self.views:
            if view.lags or view.pending.get(key[0]):
                view.pending.setdefault(key[0], deque()).append((key, after))
                self.schedule("deliver", view.name, key[0])
            else:
                view.take(key, after)
        if before is None or after is None:
            for owner in owners(after or before or {"metadata": {}}):
                self.schedule("collect", owner["uid"])

    def edit(self, key: Key, **metadata: Any) -> None:
        """Replace fields of a document's metadata; None removes one."""
        before = self.documents[key]

        def made() -> Document:
            merged = {**before["metadata"], **metadata}
            return {**before, "metadata": {k: v for k, v in merged.items() if v is not None}}

        self.put(self.function.intern(made()))

    def with_uid(self, uid: str) -> Document | None:
        key = self._uids.get(uid)
        return None if key is None else self.documents[key]

    def dependents(self, uid: str) -> list[Document]:
        """Return what names an owner, in the order in which it was created."""
        found = self._owned.get(uid, ())
        return [self.documents[key] for key in sorted(found, key=self._places.__getitem__)]

    def _note_owners(self, key: Key, before: Document | None, after: Document | None) -> None:
        """Keep by owner what names it."""
        was, now = (owners(it) if it else [] for it in (before, after))
        if was == now:
            return
        for owner in was:
            self._owned[owner["uid"]].discard(key)
        for owner in now:
            self._owned[owner["uid"]].add(key)

    # Deletion ------------------------------------------------------------------------------------

    def usages(self, key: Key) -> list[Key]:
        """Return the Usages of a document."""
        found = self.documents.items()
        return [k for k, d in found if k[0] == "Usage" and of_usage(d) == key]

    def is_used(self, key: Key) -> bool:
        return bool(self.usages(key))

    def delete(self, key: Key, *, foreground: bool = False, who: str = "user") -> bool:
        """Delete as a client does; False where a Usage denies it."""
        document = self.documents.get(key)
        if document is None:
            return True
        marked = IN_USE in document["metadata"].get("labels", {})
        if marked and self.is_used(key) and not is_deleted(document):
            self.denied.append((key, who))
            annotations = document["metadata"].get("annotations", {})
            self.edit(key, annotations={**annotations, REFUSED: "Background"})
            return False
        finalizers = list(document["metadata"].get("finalizers", []))
        if foreground and FOREGROUND not in finalizers:
            finalizers.append(FOREGROUND)
        if not finalizers:
            self._remove(key)
        elif not is_deleted(document) or finalizers != document["metadata"].get("finalizers"):
            self.edit(key, finalizers=finalizers, deletionTimestamp="2026-01-01T00:00:00Z")
        if foreground:
            self.schedule("collect", document["metadata"]["uid"])
        return True

    def finish(self, key: Key, finalizer: str, seen: Document | None = None) -> bool:
        """Take away a finalizer; the last one of a deleted document takes it along.

        False where that is a conflict: the document is not any more what a client has `seen`.
        """
        document = self.documents.get(key)
        if document is None or finalizer not in document["metadata"].get("finalizers", []):
            return True
        if seen not in (None, document):
            return False
        left = [f for f in document["metadata"]["finalizers"] if f != finalizer]
        if left or not is_deleted(document):
            self.edit(key, finalizers=left)
        else:
            self._remove(key)
        return True

    def _remove(self, key: Key) -> None:
        document = self.documents.pop(key)
        del self._uids[document["metadata"]["uid"]]
        self._note_owners(key, document, None)
        self._changed(key, document, None)
        self.schedule("collect", document["metadata"]["uid"])

    def collect(self, uid: str) -> bool:
        """Do what the garbage collector does about one owner. False: try again later."""
        owner, done = self.with_uid(uid), True
        waits = owner is not None and FOREGROUND in owner["metadata"].get("finalizers", [])
        if owner is not None and not waits:
            return True
        dependents = self.dependents(uid)
        if waits:  # for those alone whose reference blocks it; that to a Usage's `by` does not
            dependents = [each for each in dependents if controller(each) in (uid, "")]
        for each in dependents:
            key = key_of(each)
            if owner is None:
                solid = [o for o in owners(each) if self.with_uid(o["uid"]) is not None]
                if solid:
                    self.edit(key, ownerReferences=solid)
                elif not is_deleted(each):
                    done &= self.delete(key, who="collector")
            elif not is_deleted(each):
                nested = bool(self.dependents(each["metadata"]["uid"])) or each["kind"] == "Object"
                done &= self.delete(key, foreground=nested, who="collector")
        if owner is not None and not dependents:
            # An Object's only dependent is its mark on the ProviderConfig, which goes before it.
            self.unmarked.add(uid)
            self.finish(key_of(owner), FOREGROUND)
        return done

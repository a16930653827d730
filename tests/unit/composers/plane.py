"""A control plane in memory around the real function: core, a provider, and two clusters.

Only what decides over time is here, as core 2.3 and provider-kubernetes do it: requirements are
looked up until they settle, what is applied keeps its name and its status, what is no longer
desired is deleted, a Usage that is deleted waits for what its `by` names, and what a Usage is `of`
is not deleted. An Object that goes with its composite uses its ProviderConfig no more, and needs it
still: one that is being deleted goes first, whenever it can.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from function import names
from function.composers import tier_plan
from function.edge import memo, structs
from function.fn import FunctionRunner
from function.kube import naming, objects
from tests.unit.composers.calls import Document, Outcome, outcome, request

RUNNER = FunctionRunner(clock=lambda: 0.0)
# Core gives up when requirements have not settled after so many calls.
MAX_CALLS = 5

IN_USE = "crossplane.io/in-use"

Key = tuple[str, str, str]  # kind, namespace, name


def key_of(document: Document) -> Key:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


_CACHES: tuple[memo.Cache[bytes, Any], ...] = (
    tier_plan._drafts,
    tier_plan._plans,
    structs._encoded,
    structs._decoded,
)


def restart() -> None:
    """A new process of the function: nothing is remembered."""
    for cache in _CACHES:
        cache._entries.clear()
    structs._by_id.clear()


@contextmanager
def new_process() -> Iterator[None]:
    """A new process of the function for a while; the old one then knows what it knew."""
    kept = [cache._entries for cache in _CACHES], structs._by_id
    structs._by_id = {}
    for cache in _CACHES:
        cache._entries = memo._Leaving(cache.limit, lambda _: None)
    try:
        yield
    finally:
        for cache, entries in zip(_CACHES, kept[0], strict=True):
            cache._entries = entries
        structs._by_id = kept[1]


def set_defaults(pod: Document) -> None:
    """What an API server sets in the template of a bare workload."""
    pod.setdefault("restartPolicy", "Always")
    pod.setdefault("dnsPolicy", "ClusterFirst")
    for container in pod["containers"]:
        container.setdefault("terminationMessagePath", "/dev/termination-log")


@dataclass
class Composite:
    """A composite, what earlier steps desire for it, and what is composed of it."""

    document: Document
    earlier: Callable[[], dict[str, Document]] = dict
    step_input: Document | None = None
    composed: dict[str, Document] = field(default_factory=dict)
    leaving: bool = False
    answer: Outcome | None = None

    def put(self, conditions: list[Document], status: Document) -> None:
        known = {c["type"]: c for c in self.document.get("status", {}).get("conditions", [])}
        known |= {c["type"]: c for c in conditions}
        self.document["status"] = {**status, "conditions": list(known.values())}


class Plane:
    """`nodes`: (agents desired, agents ready) by cluster. `broken`: names of composites whose pods
    do not come up; `refusing`: of those whose Objects no cluster takes.
    """

    def __init__(self) -> None:
        self.clusters: dict[str, Document] = {}
        self.composites: dict[Key, Composite] = {}
        self.nodes: dict[str, tuple[int, int]] = {}
        self.broken: set[str] = set()
        self.refusing: set[str] = set()
        # ProviderConfigs that are being deleted, and those that are gone.
        self.going: set[str] = set()
        self.lost: set[str] = set()
        self.uid = 0

    # What there is -------------------------------------------------------------------------------

    def documents(self) -> Iterator[Document]:
        yield from self.clusters.values()
        for it in self.composites.values():
            yield it.document
            yield from (doc for doc in it.composed.values() if doc["kind"] != "KVOffloadTier")

    def usages(self) -> list[Document]:
        return [document for document in self.documents() if document["kind"] == "Usage"]

    def state(self) -> str:
        return json.dumps([list(self.documents()), sorted(self.leaving())], sort_keys=True)

    def leaving(self) -> list[str]:
        return [str(key) for key, it in self.composites.items() if it.leaving]

    def select(self, selector: fnv1.ResourceSelector) -> list[Document]:
        def matches(document: Document) -> bool:
            metadata = document["metadata"]
            place = metadata.get("namespace", "")
            if document["kind"] != selector.kind:
                return False
            if selector.HasField("namespace") and selector.namespace != place:
                return False
            if selector.HasField("match_name"):
                return bool(selector.match_name == metadata["name"])
            wanted, there = dict(selector.match_labels.labels), metadata.get("labels", {})
            return wanted.items() <= there.items()

        found = [document for document in self.documents() if matches(document)]
        return sorted(found, key=lambda document: key_of(document)[1:])

    # Core ----------------------------------------------------------------------------------------

    def call(self, it: Composite, found: dict[str, list[Document]]) -> fnv1.RunFunctionResponse:
        return RUNNER.run(
            request(
                it.document,
                step_input=it.step_input,
                desired=it.earlier(),
                observed=it.composed,
                required=found,
            )
        )

    def ask(self, it: Composite) -> fnv1.RunFunctionResponse:
        """The response to a call with everything that the function requires."""
        wanted, found = None, {}
        for _ in range(MAX_CALLS):
            response = self.call(it, found)
            asked = {name: s.SerializeToString() for name, s in _selectors(response)}
            if asked == wanted or outcome(response).fatals:
                return response
            wanted, found = asked, {name: self.select(s) for name, s in _selectors(response)}
        raise AssertionError(f"the requirements of {key_of(it.document)} do not settle")

    def reconcile(self, it: Composite) -> None:
        got = it.answer = outcome(self.ask(it))
        said = [
            {"type": kind, "status": status, "reason": reason, "message": got.messages[kind]}
            for kind, (status, reason) in got.conditions.items()
        ]
        if got.fatals:  # core leaves Ready as it was, and all of the rest
            it.put(said, it.document.get("status", {}))
            return
        for key, document in got.desired.items():
            self.apply(it, key, document)
        for key in sorted(it.composed.keys() - got.desired.keys()):
            self.delete_composed(it, key)
        ready = got.composite_ready != "FALSE"
        if got.composite_ready == "UNSPECIFIED":
            ready = all(value == "TRUE" for value in got.ready.values())
        status = got.status if it.document["kind"] == "KVOffloadTier" else {}
        it.put([*said, _ready(ready)], status)

    def apply(self, it: Composite, key: str, document: Document) -> None:
        before, document = it.composed.get(key, {}), deepcopy(document)
        metadata = document.setdefault("metadata", {})
        owner = it.document["metadata"]
        known = before.get("metadata", {})
        made = naming.composed(owner["name"], owner["uid"], key)
        metadata["name"] = known.get("name") or metadata.get("name") or made
        metadata["namespace"] = owner["namespace"]
        child = self.composites.get(key_of(document))
        if document["kind"] == "KVOffloadTier" and child is not None:
            known = child.document["metadata"]
        metadata["uid"] = known.get("uid") or self.next_uid()
        if "deletionTimestamp" in known:
            metadata["deletionTimestamp"] = known["deletionTimestamp"]
        if IN_USE in known.get("labels", {}):
            metadata.setdefault("labels", {})[IN_USE] = "true"
        if document["kind"] == "KVOffloadTier":
            child = self.composites.setdefault(key_of(document), Composite(document))
            child.document = {**document, "status": child.document.get("status", {})}
            document = child.document
        elif "status" in before:
            document["status"] = before["status"]
        if document["kind"] == "Usage":
            metadata["finalizers"] = ["usage.apiextensions.crossplane.io"]
            metadata.setdefault("annotations", {})[naming.RESOURCE_NAME] = key
        it.composed[key] = document
        if document.get("spec", {}).get("template"):
            set_defaults(document["spec"]["template"]["spec"])

    def next_uid(self) -> str:
        self.uid += 1
        return f"uid-{self.uid}"

    def delete_composed(self, it: Composite, key: str) -> None:
        document = it.composed[key]
        if document["kind"] == "KVOffloadTier":
            gone = self.delete(key_of(document))
            # Core forgets what it was told to delete, gone or not.
            if gone or (not it.leaving and self.composites[key_of(document)].leaving):
                it.composed.pop(key, None)
        elif document["kind"] == "Usage" and it.leaving and self.exists_by(document):
            document["metadata"]["deletionTimestamp"] = "now"  # it waits for what uses the tier
        elif it.leaving and objects.is_object(document) and not self.is_taken_off(document):
            document["metadata"]["deletionTimestamp"] = "now"
        else:
            del it.composed[key]

    def is_taken_off(self, document: Document) -> bool:
        """Whether the provider has deleted what an Object stands for: at its second look."""
        if "deletionTimestamp" not in document["metadata"]:
            return False
        observes = document["spec"].get("managementPolicies") == ["Observe"]
        return observes or objects.provider_config(document) not in self.lost

    def exists_by(self, usage: Document) -> bool:
        by = usage["spec"].get("by")
        place = usage["metadata"]["namespace"]
        return by is not None and any(
            key_of(document) == (by["kind"], place, by["resourceRef"]["name"])
            for document in self.documents()
        )

    def is_used(self, key: Key) -> bool:
        def of(usage: Document) -> Key:
            of = usage["spec"]["of"]
            place = of["resourceRef"].get("namespace", usage["metadata"]["namespace"])
            return of["kind"], place, of["resourceRef"]["name"]

        return any(of(usage) == key for usage in self.usages())

    def delete(self, key: Key) -> bool:
        """Delete a composite in the foreground; False where a Usage stands against it."""
        it = self.composites.get(key)
        if it is None:
            return True
        if not it.leaving and self.is_used(key):
            return False
        it.leaving = True
        it.document["metadata"]["deletionTimestamp"] = "now"
        for name in list(it.composed):
            self.delete_composed(it, name)
        if not it.composed:
            del self.composites[key]
            for other in self.composites.values():
                gone = [name for name, found in other.composed.items() if key_of(found) == key]
                other.composed = {k: v for k, v in other.composed.items() if k not in gone}
        return key not in self.composites

    def unregister(self, cluster: str, *, foreground: bool) -> None:
        """Delete an InferenceCluster: it goes with its ProviderConfig, or before it."""
        self.going.add(cluster)
        self.clusters[cluster]["metadata"]["deletionTimestamp"] = "now"
        if not foreground:
            del self.clusters[cluster]

    def collect_configs(self) -> None:
        """ProviderConfigs that no Object uses any more; one that is being deleted uses none."""
        used = {
            objects.provider_config(document)
            for document in self.documents()
            if objects.is_object(document) and "deletionTimestamp" not in document["metadata"]
        }
        for cluster in self.going - used:
            self.going.discard(cluster)
            if "deletionTimestamp" in self.clusters.get(cluster, {}).get("metadata", {}):
                del self.clusters[cluster]
            if cluster not in self.clusters:  # one that was declared again gets its own
                self.lost.add(cluster)

    def collect(self) -> None:
        """What core and the garbage collector take away once nothing stands against it."""
        self.collect_configs()
        for key, it in list(self.composites.items()):
            if it.leaving:
                self.delete(key)
            for name, document in list(it.composed.items()):
                if "deletionTimestamp" in document["metadata"]:
                    self.delete_composed(it, name)

    # The clusters --------------------------------------------------------------------------------

    def provide(self) -> None:
        """What providers and clusters make of what is applied."""
        for it in self.composites.values():
            name = it.document["metadata"]["name"]
            for key, document in it.composed.items():
                if document["kind"] == "KVOffloadTier":
                    it.composed[key] = self.composites[key_of(document)].document
                elif "deletionTimestamp" in document["metadata"]:
                    pass
                elif objects.is_object(document):
                    self.provide_object(document, name)
                elif "spec" in document and document["kind"] == "Deployment":
                    document["spec"]["template"]["spec"].setdefault("restartPolicy", "Always")
                    document["status"] = _counts(document, (1, int(name not in self.broken)))

    def provide_object(self, document: Document, owner: str) -> None:
        status = document.setdefault("status", {})
        if owner in self.refusing:
            said = {"type": "Synced", "status": "False", "reason": "ReconcileError"}
            kept = [c for c in status.get("conditions", []) if c["type"] != "Synced"]
            status["conditions"] = [*kept, said | {"message": "denied by a webhook"}]
            return
        manifest = deepcopy(document["spec"]["forProvider"]["manifest"])
        where = document["spec"]["providerConfigRef"]["name"]
        up = self.nodes[where] if manifest["kind"] == "DaemonSet" else (1, 1)
        manifest["status"] = _counts(manifest, up if owner not in self.broken else (up[0], 0))
        status["atProvider"] = {"manifest": manifest}
        status["conditions"] = [
            {"type": "Synced", "status": "True", "reason": "ReconcileSuccess"},
            _ready(owner not in self.broken),
        ]

    # All of it -----------------------------------------------------------------------------------

    def turn(self) -> None:
        """Everybody is reconciled once."""
        for key in list(self.composites):
            it = self.composites.get(key)
            if it is not None and not it.leaving:
                self.reconcile(it)
        self.collect()
        self.provide()
        self.mark_in_use()

    def mark_in_use(self) -> None:
        """What core's controller of Usages writes on what they are of."""
        for key, it in self.composites.items():
            if it.document["kind"] == "KVOffloadTier":
                labels = it.document["metadata"].setdefault("labels", {})
                labels.pop(IN_USE, None)
                labels |= {IN_USE: "true"} if self.is_used(key) else {}

    def settle(self, limit: int, each: Callable[[], None] = lambda: None) -> int:
        """Turns until nothing changes any more; how many it took."""
        for turns in range(limit):
            before = self.state()
            self.turn()
            each()
            if self.state() == before:
                return turns
        raise AssertionError(f"it does not settle in {limit} turns")


def condition(document: Document, kind: str) -> tuple[str, str]:
    for entry in document.get("status", {}).get("conditions", []):
        if entry["type"] == kind:
            return entry["status"], entry.get("reason", "")
    return "Unknown", ""


def serves(tier: Document) -> bool:
    """Whether a tier is ready, by the spec that it has."""
    refused = condition(tier, "Accepted")[0] == "False"
    return condition(tier, "Ready")[0] == "True" and not refused


def running(it: Composite) -> dict[str, Document]:
    """The pod templates of a composite's engines as their cluster runs them, by resource key."""
    found = {}
    for key, document in it.composed.items():
        manifest = document
        if objects.is_object(document):
            manifest = document.get("status", {}).get("atProvider", {}).get("manifest", {})
        if manifest.get("kind") == "Deployment":
            found[key] = manifest["spec"]["template"]
    return found


def wired_to(template: Document) -> str:
    """The remote name of the tier that a pod template is wired to, "" for none."""
    return str(template["metadata"].get("labels", {}).get(names.LABEL_WIRED, ""))


def _selectors(response: fnv1.RunFunctionResponse) -> list[tuple[str, Any]]:
    return sorted(response.requirements.resources.items())


def _ready(is_ready: bool) -> Document:
    return {"type": "Ready", "status": str(is_ready), "reason": "Simulated"}


def _counts(manifest: Document, pods: tuple[int, int]) -> Document:
    desired, ready = pods
    if manifest["kind"] == "DaemonSet":
        return {
            "desiredNumberScheduled": desired,
            "currentNumberScheduled": desired,
            "numberReady": ready,
            "updatedNumberScheduled": desired,
        }
    return {"replicas": desired, "updatedReplicas": desired, "readyReplicas": ready}

"""Tell which clusters an edit of a fleet tier reaches, in which turn, and whom it shuts out.

The clusters are those that are given: InferenceClusters with their labels. With the fleet's
children their memory is known, with the Usages who uses them. The turns are the composer's own
(`fleet_rollout`, `waves`), as if every cluster came up with the edit.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from crossplane.function.proto.v1 import run_function_pb2 as fnv1

from function import names
from function.api.tier import KVOffloadTierSpec
from function.backends.registry import BACKENDS
from function.composers import admission, fleet_rollout, overrides, tier_plan, usage, waves
from function.composers.fleet_rollout import FleetRollout, stamped
from function.composers.rollout import reference
from function.composers.waves import FleetCluster
from function.edge import structs
from function.edge.request import Call
from function.kube import access
from kv_offload.render.effects import Document, Effect, Verb

Labels = Mapping[str, str]

_PAUSED = "no cluster while spec.rollout.paused is true; then:"
_UNSEEN = "no cluster while none that is next is seen (NotObserved); then:"
_BUSY = "no cluster before these work, which start or take an edit: {}; then:"
_HALTED = "no cluster while these do not work, which have the edit: {}; then:"
_NONE_GIVEN = (
    "no InferenceCluster that the fleet selects is given: which leave or join, which agents"
    " restart and in which turns is not known. Give the clusters, the child tiers and the Usages"
    " with --required (kubectl get -A -o yaml"
    " inferenceclusters,kvot,usages.protection.crossplane.io)"
)
_SELECTS_NONE = (
    "no given InferenceCluster carries these labels: ClusterResolved becomes False"
    " (NoMatchingClusters), and the tier is not Ready"
)
_IN_USE = "crossplane.io/in-use"  # core's mark on what any Usage is of
_USAGE_GROUP = "protection.crossplane.io"


def clusters(tier: Document, given: Sequence[Document]) -> dict[str, Labels]:
    """Return the clusters that a fleet tier selects, by name, with their labels.

    One that was declared anew is another one until the child of the first is gone.
    """
    selector = access.mapping(tier, "spec", "clusterSelector")
    if not selector:
        return {}
    wanted, there = access.texts(selector, "matchLabels"), children(tier, given)
    found: dict[str, Labels] = {}
    for document in given:
        labels = access.texts(document, "metadata", "labels")
        leaves = access.text(document, "metadata", "deletionTimestamp")
        is_cluster = document.get("kind") == "InferenceCluster" and not leaves
        if is_cluster and wanted.items() <= labels.items():
            name, uid = (access.text(document, "metadata", field) for field in ("name", "uid"))
            marks = access.texts(there.get(name, {}), "metadata", "annotations")
            if not uid or marks.get(names.ANNOTATION_CLUSTER, uid) == uid:
                found[name] = labels
    return found


def is_fleet(tier: Document) -> bool:
    """Return whether a tier is over a `clusterSelector`."""
    return bool(access.mapping(tier, "spec", "clusterSelector"))


def unseen(now: Document, new: Document, given: Sequence[Document]) -> Iterator[Effect]:
    """Yield that an edit of a fleet selects no given cluster, or is not compared without any."""
    was, becomes = now.get("spec"), new.get("spec")
    selected = clusters(now, given) or clusters(new, given)
    if was != becomes and is_fleet(now) and not selected:
        yield Effect(Verb.NOT_KNOWN, "spec.clusterSelector", _NONE_GIVEN)
    elif clusters(now, given) and is_fleet(new) and not clusters(new, given):
        yield Effect(Verb.SELECTS_NONE, "spec.clusterSelector", _SELECTS_NONE)


def staying(now: Document, new: Document, given: Sequence[Document]) -> dict[str, Labels]:
    """Return the clusters that the tier selects after the edit, and that have a child before it."""
    before = clusters(now, given).keys() | children(now, given).keys()
    return {name: labels for name, labels in clusters(new, given).items() if name in before}


def membership(now: Document, new: Document, given: Sequence[Document]) -> Iterator[Effect]:
    """Yield the clusters that leave and join the fleet, and what becomes of each child."""
    before, after = clusters(now, given), clusters(new, given)
    there = children(now, given)
    gone = before.keys() - after.keys()
    if _removes(new) and not _removes(now):
        gone |= _kept(now, given) - after.keys()
    for name in sorted(gone):
        yield Effect(Verb.LEAVES, name, _leaves(new, there.get(name), _usages(now, given)))
    joins = sorted(after.keys() - before.keys())
    found = rollout(now, new, given) if joins else None
    for name in joins:
        yield Effect(Verb.JOINS, name, _joins(found, name, has_child=name in there))


def _joins(
    found: FleetRollout | tier_plan.InvalidTier | None, name: str, *, has_child: bool
) -> str:
    if has_child:
        return "It has its child of before, which takes the fleet's spec in its turn."
    waits = isinstance(found, FleetRollout) and found.stamp(name) is None
    return "It gets a child tier once the edit goes on." if waits else "It gets a child tier."


def _leaves(new: Document, child: Document | None, usages: list[Document] | None) -> str:
    users = _users(child, usages)
    named = f": {', '.join(users)}" if users else ""
    if not _removes(new):
        used = f" It is used by{named.removeprefix(':')}." if users else ""
        return f"Its child stays as it is, with its cache: spec.removal is Keep.{used}"
    if users:
        return f"Its child stays as it is until nothing uses it{named}."
    if child and access.texts(child, "metadata", "labels").get(_IN_USE) == "true":
        return "Its child stays as it is until nothing uses it: a Usage that is not given."
    if users is None:
        return "Its child goes, unless something uses it: then it stays until nothing does."
    return f"Nothing uses it: its agents go{_memory(child)}."


def _removes(tier: Document) -> bool:
    """Return whether children of clusters that are left go."""
    return access.text(tier, "spec", "removal") == "Remove"


def _kept(now: Document, given: Sequence[Document]) -> set[str]:
    """Return the clusters that the fleet keeps now: those of given children that match no more."""
    there = {
        access.text(document, "metadata", "name")
        for document in given
        if document.get("kind") == "InferenceCluster"
    }
    return (there & children(now, given).keys()) - clusters(now, given).keys()


def rollout(
    now: Document, new: Document, given: Sequence[Document]
) -> FleetRollout | tier_plan.InvalidTier:
    """Return the rollout of the edit, as the composer reads it before the edit's first turn.

    A child that is not given carries what `now` says, and works.
    """
    spec = new.get("spec") or {}
    identity = _place(new), access.text(new, "metadata", "name")
    drafted = tier_plan.draft(*identity, spec, structs.encode(spec), BACKENDS)
    if isinstance(drafted, tier_plan.InvalidTier):
        return drafted
    request = fnv1.RunFunctionRequest()
    fleet = {**new, "status": _status(now, given)}
    request.observed.composite.resource.ParseFromString(structs.encode(fleet))
    selected, before, there = clusters(new, given), clusters(now, given), children(now, given)
    for name, labels in selected.items():
        child = there.get(name)
        if child is None and name in before:
            child = _working(now, labels)
        if child is not None:
            key = fleet_rollout.PREFIX + name
            request.observed.resources[key].resource.ParseFromString(structs.encode(child))
    return FleetRollout(Call(request, math.inf), drafted, spec, sorted(selected), selected)


def _status(now: Document, given: Sequence[Document]) -> Document:
    """Return the status of a fleet: of `now`, or where that is a file, of the tier as it is."""
    same = (it for it in given if _is_same(it, now) and it.get("status"))
    found = now.get("status") or next(same, {}).get("status")
    return found if isinstance(found, dict) else {}


def _is_same(one: Document, other: Document) -> bool:
    """Return whether two documents are of one tier."""
    return one.get("kind") == "KVOffloadTier" and access.named(one) == access.named(other)


def conflicts(now: Document, new: Document, given: Sequence[Document]) -> Iterator[Effect]:
    """Yield the overrides that do not fit together, with the clusters where they meet."""
    found = rollout(now, new, given)
    if isinstance(found, tier_plan.InvalidTier):
        return
    said: dict[str, list[str]] = {}
    for member in found.members:
        if member.refused:
            said.setdefault(found.conflict(member.cluster), []).append(member.cluster)
    for why, where in said.items():
        yield Effect(Verb.REFUSED, f"spec.{overrides.FIELD}", why, clusters=tuple(where))


def turns(
    now: Document, new: Document, given: Sequence[Document], restarts: Mapping[str, bool]
) -> Iterator[Effect]:
    """Yield who takes the edit after whom. `restarts`: whether a cluster's agents do."""
    found = rollout(now, new, given)
    if isinstance(found, tier_plan.InvalidTier):
        return
    there = children(now, given)
    members = [_works(m) if m.updated and not (m.failed or m.lost) else m for m in found.members]
    strategy = found.strategy.model_copy(update={"paused": False})  # as it goes on afterwards
    waits = any(member.exists and not member.updated for member in members)
    if found.strategy.paused and waits:
        yield Effect(Verb.WAVE, _PAUSED)
    while any(member.exists and not member.updated for member in members):
        decision = waves.decide(members, strategy)
        if decision.turns:
            who = sorted(decision.turns)
            lost = [name for name in who if restarts.get(name)]
            said = "; ".join(_loss(name, there.get(name)) for name in lost)
            what = f"wave {decision.wave} of {decision.waves}: {', '.join(who)}"
            yield Effect(Verb.WAVE, what, said)
        elif broken := [m.cluster for m in members if m.updated and not m.settled]:
            yield Effect(Verb.WAVE, _HALTED.format(", ".join(sorted(broken))))
            members = [_works(m) if m.cluster in broken else m for m in members]
        elif busy := [member.cluster for member in members if member.busy]:
            yield Effect(Verb.WAVE, _BUSY.format(", ".join(sorted(busy))))
            members = [replace(member, busy=False) for member in members]
        elif any(member.lost for member in members):
            yield Effect(Verb.WAVE, _UNSEEN)
            members = [replace(member, lost=False) for member in members]
        else:
            return
        members = [_next(found, member, decision) for member in members]


def _next(found: FleetRollout, member: FleetCluster, decision: waves.Decision) -> FleetCluster:
    """Return a cluster after a decision: it works with what it took."""
    if member.exists:
        return _works(member) if member.cluster in decision.turns else member
    if decision.newcomers:
        return _works(member)
    stamp = found.stamp(member.cluster)
    if stamp is None:
        return member
    same = stamp.spec == found.target(member.cluster)
    there = replace(member, exists=True, ready=True, revision=stamp.revision)
    return replace(_works(there), untouched=True) if same else there


def _works(member: FleetCluster) -> FleetCluster:
    fine = replace(member, failed=False, lost=False, busy=False, unproven=False, misses=False)
    return replace(fine, exists=True, updated=True, done=True, ready=True)


def shut_out(now: Document, new: Document, given: Sequence[Document]) -> Iterator[Effect]:
    """Yield the namespaces that the edit of `allowedNamespaces` closes, or their consumers."""
    said = "What runs keeps its wiring; a changed or new pod is refused (NamespaceNotAllowed)."
    used = _usages(now, given)
    if used is not None:
        users = {usage.user(each) for each in used}
        for place in sorted({user.namespace for user in users}):
            if admission.admits(now, place) and not admission.admits(new, place):
                who = ", ".join(
                    sorted(reference(user) for user in users if user.namespace == place)
                )
                where = f"namespace {place}" if place else "cluster-scoped consumers"
                yield Effect(Verb.SHUT_OUT, where, f"{said} It runs {who}.")
        return
    was, becomes = (access.mapping(it, "spec", "allowedNamespaces") for it in (now, new))
    listed = {access.text(now, "metadata", "namespace"), *(was.get("names") or ())}
    for place in sorted(listed):
        if admission.admits(now, place) and not admission.admits(new, place):
            yield Effect(Verb.SHUT_OUT, f"namespace {place}", said)
    if was.get("from") == "All" and becomes.get("from", "Same") != "All":
        yield Effect(Verb.SHUT_OUT, "every namespace that is not listed", said)


def _place(document: Document) -> str:
    return access.text(document, "metadata", "namespace")


def _target(tier: Document, labels: Labels) -> Document:
    spec = tier.get("spec") or {}
    return overrides.merged(KVOffloadTierSpec, spec, overrides.matching(spec, labels))


def _working(tier: Document, labels: Labels) -> Document:
    """Return the child that a fleet has on a cluster, as far as its rollout reads it."""
    revision = fleet_rollout.revision(tier.get("spec") or {})
    return {
        "metadata": {"labels": {names.LABEL_REVISION: revision}},
        "spec": stamped(_target(tier, labels)),
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def children(tier: Document, given: Sequence[Document]) -> dict[str, Document]:
    """Return the children of a fleet that are given, by their cluster."""
    namespace, name = _place(tier), access.text(tier, "metadata", "name")
    found: dict[str, Document] = {}
    for document in given:
        labels = access.texts(document, "metadata", "labels")
        ours = _place(document) == namespace and labels.get(names.LABEL_FLEET) == name
        if document.get("kind") == "KVOffloadTier" and ours:
            found.setdefault(access.text(document, "spec", "inferenceClusterRef", "name"), document)
    return found


def _usages(tier: Document, given: Sequence[Document]) -> list[Document] | None:
    """Return the Usages of a tier or its children that are given; None where none is at all."""
    found = [document for document in given if _is_usage(document)]
    mark = names.reference(_place(tier), access.text(tier, "metadata", "name"))
    keys = (names.LABEL_USED_FLEET, names.LABEL_USED_TIER)
    mine = [
        each for each in found if mark in map(access.texts(each, "metadata", "labels").get, keys)
    ]
    return mine if found else None


def _is_usage(document: Document) -> bool:
    """Return whether it is a Usage of the group that is composed, not of the deprecated one."""
    group = access.text(document, "apiVersion").partition("/")[0]
    return document.get("kind") == "Usage" and group == _USAGE_GROUP


def _users(child: Document | None, used: list[Document] | None) -> list[str] | None:
    """Return who uses a fleet's child; None where that is not given."""
    if child is None or used is None:
        return None
    name = f"{_place(child)}/{access.text(child, 'metadata', 'name')}"
    own = ("metadata", "annotations")
    here = [e for e in used if access.texts(e, *own).get(names.ANNOTATION_USED_TIER) == name]
    return sorted({reference(usage.user(each)) for each in here})


def _memory(child: Document | None) -> str:
    capacity = access.mapping(child or {}, "status").get("capacityGiB")
    return f" with {capacity} GiB of blocks in memory" if capacity else ""


def _loss(cluster: str, child: Document | None) -> str:
    agents = access.mapping(child or {}, "status", "agents").get("desired")
    if not agents:
        return f"the agents of {cluster} restart"
    return f"{agents} agents of {cluster} restart{_memory(child)}"

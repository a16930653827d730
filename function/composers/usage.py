"""Compose and read Usages: each marks a tier as used by a consumer, and protects it.

The Usage stands in the consumer's namespace, `of` the tier and `by` what keeps the engine running:
the composed Object (or bare workload) of one of the consumer's wired engines. That goes before the
consumer does, whichever way the consumer is deleted, so the Usage waits for nothing that waits for
it; and where the engine outlives its consumer (`--cascade=orphan`) the Usage stays as long as the
engine and goes with it. Who the consumer is stands in an annotation. A consumer that does not run
yet (held back) uses nothing.

A fleet tier is no consumer's `of`: it composes one Usage of itself while anything uses a child.

Source: crossplane v2.4.0, `internal/controller/protection/usage/reconciler.go` and the CRD's rules;
each shape below was tried on a control plane (tests/cluster/test_45_deletion.py).

- A Usage whose composite is deleted waits until what its `by` names is gone, looking every 30 s.
  One that core drops from a composite that stays does not: core takes its own label off first.
- `by` stands in the Usage's namespace or is cluster-scoped; core makes it an owner of the Usage, so
  that the Usage is collected with its last owner.
- `of` in another namespace is refused without a `by`.

Rejected:
- `by` the consumer itself. Core deletes composed XRs in the foreground: the consumer waits for its
  Usage, which waits for the consumer, for ever. Orphaned, the Usage has no owner and stays.
- no `by`, and a marker of our own. The Usage would have to stand beside the tier, where a
  namespaced consumer can compose nothing.
- a ClusterUsage. A namespaced consumer cannot compose one, and core looks for the tier that it
  names in no namespace.
- `by` a ConfigMap of our own. It goes at once, so the tier may go while engines still run against
  it; orphaned, it has no owner and stays; and core would watch every ConfigMap there is.
- the tier protecting itself, from markers. It learns of its first consumer late. (For a fleet tier
  that does: its children are protected at once.)
- a list or an exact count of the users in the tier's status. On core 2.4 a tier that requires its
  Usages is called for every write to each of them, and each change of its status calls every
  consumer: N consumers cost N x N calls. So a tier reads core's own label (`in_use`), and
  requires its Usages only while it has an edit to judge, or that label to check.
- `replayDeletion`. A deletion that was refused, and given up, would come true weeks later.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from function import names
from function.edge.answer import Requirement
from function.edge.request import Call
from function.kube import access, naming
from function.pods import record as records

FLEET_KEY = "usage-fleet"
TURN_KEY = "turn-"

_KEY = "usage-tier-"
_NAME = ("metadata", "name")
# What Kubernetes takes for a kind and for a name.
_KIND = re.compile(r"[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?")
_OBJECT_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_PROGRESS = ("metadata", "annotations", names.ANNOTATION_PROGRESS)
_DELETED = ("metadata", "deletionTimestamp")


@dataclass(frozen=True, order=True)
class Share:
    """Blocks of `model` under a cache `identity`, which an engine shares with its equals.

    `model`: the string behind the model argument. `identity`: the digest, or "" when unknown.
    """

    model: str
    identity: str


@dataclass(frozen=True)
class Consumer:
    """The consumer that a Usage is of. `namespace` is "" for a cluster-scoped one."""

    namespace: str
    kind: str
    name: str


@dataclass(frozen=True)
class UsageOwner:
    """The composed resource that runs an engine, by its name on the control plane.

    `namespace` is "" for a cluster-scoped resource.
    """

    api_version: str
    kind: str
    namespace: str
    name: str


def consumer(composite: dict[str, Any]) -> Consumer:
    """Return the consumer that a composite is."""
    kind, namespace, name = access.named(composite)
    return Consumer(namespace, kind, name)


def owner(call: Call, key: str, resource: dict[str, Any]) -> UsageOwner:
    """Return the composed resource of `key`, by the name that core has given or will give it."""
    kind, own_namespace, own_name = access.named(resource)
    composite = access.mapping(call.composite, "metadata")
    name = call.observed_value(key, "metadata", "name") or own_name
    if not name:
        label = access.text(composite, "labels", naming.COMPOSITE_LABEL)
        prefix = label or composite.get("name") or ""
        parent = access.text(resource, "metadata", "generateName") or prefix
        name = naming.composed(parent, str(composite.get("uid") or ""), key)
    namespace = (
        composite.get("namespace")
        or call.observed_value(key, "metadata", "namespace")
        or own_namespace
    )
    return UsageOwner(access.text(resource, "apiVersion"), kind, str(namespace), str(name))


def usages_of(namespace: str, name: str) -> Requirement:
    """Return the Usages, in every namespace, that mark this tier as used."""
    labels = {names.LABEL_USED_TIER: names.reference(namespace, name)}
    return Requirement(api_version=names.USAGE_API_VERSION, kind="Usage", labels=labels)


def compose(
    who: Consumer,
    tier: tuple[str, str],
    fleet: str,
    held: Iterable[tuple[Share, UsageOwner]],
    progress: str = "",
) -> dict[str, dict[str, Any]]:
    """Return the Usages that mark `tier` (namespace, name), one per model string, by key.

    A cluster-scoped consumer has one in each namespace of its engines: none stays without its
    owner, and each namespace counts once the tier is closed. `held`: what the consumer's engines
    share, each with what runs it; the first of a Usage is the one that holds the tier. `progress`:
    how far the consumer is with the tier's wiring, where the tier rolls it out.
    """
    by_key: dict[str, list[tuple[Share, UsageOwner]]] = {}
    for share, by in held:
        by_key.setdefault(_key(who, tier, share.model, by), []).append((share, by))
    found = {}
    for key, pairs in by_key.items():
        made = _usage(who, tier, fleet, sorted({share for share, _ in pairs}), pairs[0][1])
        if progress:
            made["metadata"]["annotations"][names.ANNOTATION_PROGRESS] = progress
        found[key] = made
    return found


def _key(who: Consumer, tier: tuple[str, str], model: str, by: UsageOwner) -> str:
    """Return a Usage's key; a cluster-scoped consumer's holds the namespace.

    Core never moves what it has composed.
    """
    where = () if who.namespace else (_namespace(by, tier),)
    return f"{_KEY}{naming.digest(*tier, model, *where)}"


def _namespace(by: UsageOwner, tier: tuple[str, str]) -> str:
    """Return the Usage's namespace: the owner's, or the tier's where the owner has none."""
    return by.namespace or tier[0]


def _usage(
    who: Consumer, tier: tuple[str, str], fleet: str, shares: list[Share], by: UsageOwner
) -> dict[str, Any]:
    namespace, name = tier
    labels = {names.LABEL_USED_TIER: names.reference(namespace, name)}
    if fleet:
        labels[names.LABEL_USED_FLEET] = names.reference(namespace, fleet)
    rows = [[share.model, share.identity] for share in shares]
    metadata: dict[str, Any] = {
        "labels": labels,
        "annotations": {
            names.ANNOTATION_CONSUMER: _consumer_text(who),
            names.ANNOTATION_USED_TIER: f"{namespace}/{name}",
            names.ANNOTATION_SHARES: json.dumps(rows, separators=(",", ":")),
        },
    }
    if not who.namespace:
        metadata["namespace"] = _namespace(by, tier)
    reason = f"{who.kind} {who.namespace}/{who.name} offloads KV cache to it"
    of = {"name": name, "namespace": namespace}
    return _document(
        {"of": _tier_reference(of), "by": _owner_reference(by), "reason": reason}, metadata
    )


def _document(spec: dict[str, Any], metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    identity = {"apiVersion": names.USAGE_API_VERSION, "kind": "Usage"}
    return identity | ({"metadata": metadata} if metadata else {}) | {"spec": spec}


def _tier_reference(reference: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": names.API_VERSION, "kind": "KVOffloadTier", "resourceRef": reference}


def _consumer_text(who: Consumer) -> str:
    fields = {key: value for key, value in asdict(who).items() if value}
    return json.dumps(fields, separators=(",", ":"))


def _owner_reference(by: UsageOwner) -> dict[str, Any]:
    return {"apiVersion": by.api_version, "kind": by.kind, "resourceRef": {"name": by.name}}


def of_fleet(namespace: str, name: str, *, used: bool) -> dict[str, Any]:
    """Return a fleet tier's Usage of itself; it has no `by`, and so never waits.

    `used`: by consumers; else it is being taken off clusters.
    """
    why = "consumers use its tiers on their" if used else "its tiers are being taken off"
    reason = f"{why} clusters: see kv-offload status --tier {name}"
    return of_itself((namespace, name), reason, {})


def of_turn(tier: tuple[str, str], generation: str, name: str, who: str) -> dict[str, Any]:
    """Return the Usage `name` that lets one consumer of a tier move; it never waits."""
    annotations = {names.ANNOTATION_GENERATION: generation}
    reason = f"{who} may move to its new wiring"
    return of_itself(tier, reason, {"name": name, "annotations": annotations})


def of_itself(tier: tuple[str, str], reason: str, metadata: dict[str, Any]) -> dict[str, Any]:
    """Return a tier's Usage of itself; it has no `by`, and so never waits."""
    spec = {"of": _tier_reference({"name": tier[1]}), "reason": reason}
    return _document(spec, {**metadata, "labels": {names.LABEL_OWN_USAGE: names.reference(*tier)}})


def of_needed(tier: tuple[str, str], needed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Usage by which `tier` (namespace, name) marks the tier that it needs.

    It has no `by`, and so never waits: the tier's own consumers keep it, and with it this.
    """
    namespace, name = tier
    used = access.text(needed, "metadata", "name")
    labels = {names.LABEL_USED_TIER: names.reference(namespace, used)}
    fleet = access.texts(needed, "metadata", "labels").get(names.LABEL_FLEET)
    if fleet:
        labels[names.LABEL_USED_FLEET] = names.reference(namespace, fleet)
    annotations = {
        names.ANNOTATION_CONSUMER: _consumer_text(Consumer(namespace, "KVOffloadTier", name)),
        names.ANNOTATION_USED_TIER: f"{namespace}/{used}",
    }
    reason = f"KVOffloadTier {namespace}/{name} keeps its blocks there"
    spec = {"of": _tier_reference({"name": used}), "reason": reason}
    return _document(spec, {"labels": labels, "annotations": annotations})


@dataclass(frozen=True)
class Marked:
    """A Usage of the consumer: its key, the labels of its tier and fleet, its model strings."""

    key: str
    namespace: str
    tier: str
    fleet: str
    models: frozenset[str]


def observed(call: Call) -> list[Marked]:
    """Return the Usages of the consumer that core observes."""
    return [
        _marked(key, {"metadata": call.observed_value(key, "metadata")})
        for key in _composed_before(call)
    ]


def _marked(key: str, usage: Mapping[str, Any]) -> Marked:
    labels = access.texts(usage, "metadata", "labels")
    tier, fleet = (labels.get(it, "") for it in (names.LABEL_USED_TIER, names.LABEL_USED_FLEET))
    models = frozenset(share.model for share in shares(usage))
    return Marked(key, access.text(usage, "metadata", "namespace"), tier, fleet, models)


def kept(
    call: Call, before: Iterable[Marked], record: records.Record, by: UsageOwner, progress: str
) -> dict[str, dict[str, Any]]:
    """Return the observed Usages of a record's tier and models, as they are composed now.

    `by`: what owns the tier now; a release before this one wrote the consumer itself. Where it has
    Usages in its own namespace, those of others stay with their own engines; where it has none, as
    that release composed one for all namespaces, it gets its own. `progress`: what those that said
    so before go on to say of the tier's wiring.
    """
    held = [it for it in before if _is_of(it, record) and _used(it, record)]
    found = {}
    here = [it for it in held if it.namespace == by.namespace]
    for it in here or held:
        found[it.key] = _recomposed(call, it.key, by)
        if progress and progress == call.observed_value(it.key, *_PROGRESS):
            found[it.key]["metadata"]["annotations"][names.ANNOTATION_PROGRESS] = progress
    who = consumer(call.composite)
    if by.namespace and not here and not who.namespace:
        for it in held:
            of = access.texts(call.observed_value(it.key, "spec", "of"), "resourceRef")
            tier = of.get("namespace", ""), of.get("name", "")
            for model in _used(it, record):
                key = _key(who, tier, model, by)
                found.setdefault(key, _recomposed(call, it.key, by, by.namespace))
    return found


def unreleased(
    call: Call, made: Mapping[str, Mapping[str, Any]], stays: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """Return the observed Usages of tiers that core still sees an engine wired to.

    Core drops what is composed no more before it applies what leaves the tier. `made`: what is
    composed already, by key; `stays`: keys of what goes on to run. A cluster-scoped consumer has a
    Usage in each namespace: one of another that protects the same is enough.
    """
    if made.keys() >= set(_composed_before(call)):
        return {}  # at rest none of them is read
    before = observed(call)
    dropped = [it for it in before if it.key not in made]
    others = {
        (it.tier, model)
        for it in (_marked(key, made[key]) for key in {it.key for it in before} & made.keys())
        for model in it.models
    }
    found: dict[str, dict[str, Any]] = {}
    for engine in sorted(stays):
        text = call.observed_value(engine, "metadata", "annotations", names.ANNOTATION_RECORD)
        record, _ = records.load(text if isinstance(text, str) else "")
        if record is None or not record.wired:
            continue
        by = owner(call, engine, call.desired(engine))
        dropped = [it for it in dropped if it.key not in found]
        for it in dropped:
            models = {m for m in _used(it, record) if (it.tier, m) not in others}
            if _is_of(it, record) and models:
                found[it.key] = _recomposed(call, it.key, by)
    return found


def _is_of(usage: Marked, record: records.Record) -> bool:
    return _is_labelled((usage.tier, usage.fleet), record.tier, record.child)


def _used(usage: Marked, record: records.Record) -> frozenset[str]:
    """Return the models of a Usage that a record's engines serve; all where it has no engine."""
    return usage.models & record.models if record.engines else usage.models


def _is_labelled(labels: tuple[object, object], reference: str, child: str) -> bool:
    """Return whether a Usage is of the tier `reference` ("namespace/name"), or of its child.

    `labels`: of the Usage, for the tier and for its fleet. A record of before 0.1 does not name the
    child: any Usage of the fleet counts.
    """
    namespace, _, name = reference.partition("/")
    tier, fleet = labels
    named = {names.reference(namespace, it) for it in (name, child) if it}
    return tier in named or (not child and fleet in named)


def marks(call: Call, reference: str, child: str = "") -> bool:
    """Return whether the consumer's own Usage names a tier ("namespace/name"), or its child."""
    own = ("metadata", "labels")
    return any(
        _is_labelled(
            (
                call.observed_value(key, *own, names.LABEL_USED_TIER),
                call.observed_value(key, *own, names.LABEL_USED_FLEET),
            ),
            reference,
            child,
        )
        for key in _composed_before(call)
    )


def said_progress(call: Call) -> set[str]:
    """Return how far the consumer's Usages last said that it is."""
    return {str(call.observed_value(key, *_PROGRESS)) for key in _composed_before(call)}


def _composed_before(call: Call) -> list[str]:
    return [key for key in call.observed_keys() if key.startswith(_KEY)]


def _recomposed(call: Call, key: str, by: UsageOwner, namespace: str = "") -> dict[str, Any]:
    """Return an observed Usage as the consumer composes it now, for its present owner.

    Its tier is closed, gone or cannot be judged, or the engine is about to leave it. `namespace`:
    another one than it has.
    """
    who = consumer(call.composite)
    metadata = call.observed_value(key, "metadata") or {}
    kept: dict[str, Any] = {
        "labels": _own_keys(metadata.get("labels", {})),
        "annotations": _own_keys(metadata.get("annotations", {}))
        | {names.ANNOTATION_CONSUMER: _consumer_text(who)},
    }
    kept["annotations"].pop(names.ANNOTATION_PROGRESS, None)
    if not who.namespace:
        kept["namespace"] = namespace or metadata.get("namespace", "")
    spec = dict(call.observed_value(key, "spec") or {})
    if who.namespace or by.namespace in ("", kept["namespace"]):
        spec["by"] = _owner_reference(by)
    return _document(spec, kept)


def _own_keys(values: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in values.items() if key.startswith(f"{names.GROUP}/")}


def shares(usage: Mapping[str, Any]) -> list[Share]:
    """Return what the consumer of a Usage shares; [] where the annotation cannot be read."""
    text = access.texts(usage, "metadata", "annotations").get(names.ANNOTATION_SHARES, "[]")
    try:
        rows = json.loads(text)
        return [Share(_unicode(row[0]), _unicode(row[1])) for row in rows]
    except (ValueError, TypeError, IndexError, KeyError, RecursionError):
        return []


def is_left(usage: dict[str, Any]) -> bool:
    """Return whether no consumer composes a Usage any more: it was orphaned, or is deleted.

    Its engine may run on, and is protected; nobody moves it.
    """
    owners = access.objects(usage, "metadata", "ownerReferences")
    if owners and not access.controller(owners):
        return True
    deleted = access.text(usage, *_DELETED)
    kept = access.texts(usage, "metadata", "annotations").get(names.ANNOTATION_KEPT)
    return bool(deleted) and deleted != kept


def keep(call: Call, key: str, manifest: dict[str, Any]) -> None:
    """Note on a Usage that is deleted that its consumer goes on to compose it.

    It waits for its engine, which runs on: somebody deleted it by hand, or a core that saw an older
    consumer did.
    """
    if deleted := call.observed_value(key, *_DELETED):
        manifest["metadata"]["annotations"][names.ANNOTATION_KEPT] = str(deleted)


def user(usage: dict[str, Any]) -> Consumer:
    """Return the consumer of a Usage.

    The namespace is the Usage's own: the annotation only says whether the consumer is
    cluster-scoped. Anyone who may write a Usage may write it: other teams read the names.
    """
    namespace = access.text(usage, "metadata", "namespace")
    text = access.texts(usage, "metadata", "annotations").get(names.ANNOTATION_CONSUMER)
    if text is None:  # of a release that named the consumer in `by`
        by = access.mapping(usage, "spec", "by")
        kind, name = access.text(by, "kind"), access.text(by, "resourceRef", "name")
        scope = namespace
    else:
        try:
            said = json.loads(text)
            scope, kind, name = (str(said.get(key, "")) for key in ("namespace", "kind", "name"))
        except (ValueError, AttributeError, RecursionError):
            return Consumer(namespace, "", "")
    if not (_KIND.fullmatch(kind) and _OBJECT_NAME.fullmatch(name)):
        return Consumer(namespace, "", "")
    return Consumer(namespace if scope else "", kind, name)


def _unicode(value: object) -> str:
    """Return a value as text. Raise ValueError for half of a pair, which JSON can spell."""
    text = str(value)
    text.encode()
    return text

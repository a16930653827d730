"""The state of tiers and their consumers, from documents of a control plane."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from function import names
from function.api.tier import TierSpec
from function.composers import usage
from function.composers.conditions import CONDITION_AGENTS, CONDITION_CONTROL_PLANE, TIER_CONDITIONS
from function.composers.consumer.composer import CONDITION
from function.kube import access
from function.reasons import Reason
from kv_offload.docs.reasons import REASONS

Document = dict[str, Any]

# Of a tier's own things on its cluster, by default.
NAMESPACE = str(TierSpec.model_fields["namespace"].default)
# What users choose: no problem of the consumer.
_CHOSEN = frozenset({Reason.TURNED_OFF, Reason.NOT_REQUESTED})
# Core's circuit breaker: news of the tier comes late, and nothing is wrong with it.
_RESPONSIVE = "Responsive"
# Core's own come last: they only repeat what ours say.
_ORDER = (*TIER_CONDITIONS, "Synced", "Ready")


@dataclass(frozen=True)
class Problem:
    """A condition that is not True, and what to type next."""

    condition: str
    status: str
    reason: str
    message: str
    look: str


@dataclass(frozen=True)
class TierState:
    """One KVOffloadTier. `fleet`: the name of the one that composed it, "" for others.

    `cluster`: as its status says, for a fleet how many of its clusters are ready. `notes`: what
    moves without being wrong.
    """

    namespace: str
    name: str
    fleet: str
    backend: str
    cluster: str
    agents: str
    capacity_gib: int
    consumers: str
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]

    @property
    def reference(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class ConsumerState:
    """One composite with our condition. `tiers`: those that it uses, by its Usages.

    `chosen`: not wired, since its users turned it off or no longer ask. `stale`: why the condition
    may be of an older spec, "" where it is not.
    """

    kind: str
    namespace: str
    name: str
    tiers: tuple[str, ...]
    wired: bool
    chosen: bool
    reason: str
    message: str
    fix: str
    stale: str

    @property
    def has_problem(self) -> bool:
        return bool(self.stale) or not (self.wired or self.chosen)


@dataclass(frozen=True)
class Status:
    """All tiers and consumers, each by namespace and name."""

    tiers: tuple[TierState, ...]
    consumers: tuple[ConsumerState, ...]

    @property
    def has_problem(self) -> bool:
        return any(t.problems for t in self.tiers) or any(c.has_problem for c in self.consumers)

    def as_json(self) -> Document:
        """Return what `-o json` prints."""
        return {
            "tiers": [asdict(tier) for tier in self.tiers],
            "consumers": [asdict(consumer) for consumer in self.consumers],
        }


def status(documents: Sequence[Document], only: str = "") -> Status:
    """Return the state of every tier and consumer among the documents.

    `only`: a tier's name or namespace/name; its fleet's children and its consumers stay with it,
    and so do consumers that may ask for it in vain.
    """
    found = [_tier(d) for d in documents if _is_tier(d)]
    used: dict[usage.Consumer, set[str]] = defaultdict(set)
    for each in documents:
        if each.get("kind") == "Usage":
            named = access.texts(each, "metadata", "annotations").get(names.ANNOTATION_USED_TIER)
            used[usage.user(each)] |= {named} if named else set()
    consumers = [_consumer(d, c, used) for d in documents if (c := access.condition(d, CONDITION))]
    if only:
        found = [t for t in found if only in _called(t)]
        kept = {t.reference for t in found}
        consumers = [c for c in consumers if kept & set(c.tiers) or _may_be_refused(c)]
    return Status(
        tuple(sorted(found, key=lambda t: (t.namespace, t.fleet or t.name, bool(t.fleet), t.name))),
        tuple(sorted(consumers, key=lambda c: (c.namespace, c.kind, c.name))),
    )


def _called(tier: TierState) -> set[str]:
    """Return the names of a tier and of its fleet, without and with the namespace."""
    plain = {tier.name, tier.fleet} - {""}
    return plain | {f"{tier.namespace}/{name}" for name in plain}


def _may_be_refused(consumer: ConsumerState) -> bool:
    """Return whether any tier may be meant: a Usage may be of the one that the consumer left."""
    return consumer.has_problem and not (consumer.wired and consumer.tiers)


def _is_tier(document: Document) -> bool:
    group, _, _ = access.text(document, "apiVersion").partition("/")
    return document.get("kind") == "KVOffloadTier" and group == names.GROUP


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _tier(document: Document) -> TierState:
    _, namespace, name = access.named(document)
    state = access.mapping(document, "status")
    agents = access.mapping(state, "agents")
    return TierState(
        namespace=namespace,
        name=name,
        fleet=access.texts(document, "metadata", "labels").get(names.LABEL_FLEET, ""),
        backend=access.text(document, "spec", "backend"),
        cluster=access.text(state, "cluster"),
        agents=f"{_number(agents.get('ready'))}/{_number(agents.get('desired'))}",
        capacity_gib=_number(state.get("capacityGiB")),
        consumers=access.text(state, "consumers"),
        problems=tuple(_problems(document)),
        notes=tuple(_notes(document)),
    )


def _conditions(document: Document) -> list[Document]:
    return [c for c in access.objects(document, "status", "conditions") if c.get("type")]


def _problems(document: Document) -> Iterator[Problem]:
    """Yield the conditions that are not True; core's Ready only where no other one tells why."""
    _, namespace, name = access.named(document)
    said = {str(c.get("type")): c for c in _conditions(document)}
    said.pop(_RESPONSIVE, None)
    ordered = [*(kind for kind in _ORDER if kind in said), *sorted(set(said) - set(_ORDER))]
    wrong = [said[kind] for kind in ordered if said[kind].get("status") != "True"]
    if "Ready" not in said:
        unseen = "Crossplane has not reconciled it yet."
        wrong.append({"type": "Ready", "status": "Unknown", "message": unseen})
    cluster = access.text(document, "status", "cluster")
    for each in [c for c in wrong if c["type"] != "Ready"] or wrong:
        kind = str(each["type"])
        look = f"kubectl describe kvoffloadtier --namespace {namespace} {name}"
        if kind in (CONDITION_CONTROL_PLANE, CONDITION_AGENTS) and cluster and "/" not in cluster:
            there = access.text(document, "spec", "namespace") or NAMESPACE
            selector = f"app.kubernetes.io/instance={names.remote_name(namespace, name)}"
            look = f"on {cluster}: kubectl get pods --namespace {there} --selector {selector}"
        said_by = {key: str(each.get(key, "")) for key in ("status", "reason", "message")}
        yield Problem(condition=kind, **said_by, look=look)


def _notes(document: Document) -> Iterator[str]:
    metadata, state = access.mapping(document, "metadata"), access.mapping(document, "status")
    if metadata.get("deletionTimestamp"):
        yield f"being deleted; used by {access.text(state, 'consumers') or 'nobody'}"
    if _is_older(document, access.condition(document, "Ready")):
        yield "its newest edit is not reconciled yet"
    if access.condition(document, _RESPONSIVE).get("status") == "False":
        yield (
            "Crossplane drops some of its watch events, so that its status is late: raise "
            "--circuit-breaker-burst (docs/install.md)"
        )
    wiring = access.mapping(state, "wiring")
    if wiring.get("behind"):
        named = wiring.get("moving") or wiring.get("turns")
        moving = ", ".join(map(str, named)) if isinstance(named, list) else "nobody"
        yield f"its wiring rolls: {wiring['behind']} consumers are behind, now {moving}"


def _is_older(document: Document, condition: Document) -> bool:
    """Return whether a condition is of an older spec than the document's."""
    seen = condition.get("observedGeneration")
    return isinstance(seen, int) and seen < _number(
        access.mapping(document, "metadata").get("generation")
    )


def _stale(document: Document, condition: Document) -> str:
    synced = access.condition(document, "Synced")
    if synced.get("status") == "False":
        return f"Crossplane cannot reconcile it: {synced.get('message', '')}"
    return "its newest edit is not reconciled yet" if _is_older(document, condition) else ""


def _consumer(
    document: Document, condition: Document, used: dict[usage.Consumer, set[str]]
) -> ConsumerState:
    kind, namespace, name = access.named(document)
    reason = str(condition.get("reason", ""))
    wired = condition.get("status") == "True"
    known = {str(row.name): row.fix for row in REASONS.values()}
    return ConsumerState(
        kind=kind,
        namespace=namespace,
        name=name,
        tiers=tuple(sorted(used.get(usage.consumer(document), ()))),
        wired=wired,
        chosen=reason in _CHOSEN,
        reason=reason,
        message=str(condition.get("message", "")),
        fix="" if wired or reason in _CHOSEN else known.get(reason, ""),
        stale=_stale(document, condition),
    )


def lines(found: Status) -> Iterator[str]:
    """Yield what people read; a message of theirs has no line breaks and no control characters."""
    for line in _lines(found):
        yield "".join(each if each.isprintable() else " " for each in line)


def _lines(found: Status) -> Iterator[str]:
    for tier in found.tiers:
        yield _title(tier)
        indent = "    " if tier.fleet else "  "
        for problem in tier.problems:
            reason = f" ({problem.reason})" if problem.reason else ""
            yield f"{indent}{problem.condition}={problem.status}{reason}: {problem.message}"
            yield f"{indent}look: {problem.look}"
        yield from (f"{indent}{note}" for note in tier.notes)
    for consumer in found.consumers:
        mark = "✘" if consumer.has_problem else "✔" if consumer.wired else "·"
        name = "/".join(filter(None, (consumer.namespace, consumer.name)))
        tiers = f" to {', '.join(consumer.tiers)}" if consumer.tiers else ""
        yield f"{mark} {consumer.kind} {name}: {consumer.reason}{tiers}"
        said = ("" if consumer.wired else consumer.message, consumer.stale)
        yield from (f"  {text}" for text in said if text)
        if consumer.fix:
            yield f"  fix: {consumer.fix}"


def _title(tier: TierState) -> str:
    mark = "✘" if tier.problems else "✔"
    where = f"{tier.backend} on {tier.cluster}" if tier.cluster else tier.backend
    used = f"used by {tier.consumers}" if tier.consumers else "used by nobody yet"
    held = f", {tier.capacity_gib} GiB" if tier.capacity_gib else ""
    indent = "  " if tier.fleet else ""
    return f"{indent}{mark} {tier.reference}: {where}, agents {tier.agents}{held}, {used}"

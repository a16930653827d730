"""The state of tiers and their consumers, from documents of a control plane."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from function import names
from function.api.tier import TierSpec
from function.composers import usage
from function.composers.agents import MISSING
from function.composers.conditions import (
    CONDITION_AGENTS,
    CONDITION_CONTROL_PLANE,
    CONDITION_ROLLED_OUT,
    CONDITION_SERVING,
    REASON_INVALID,
    REASON_NOT_OBSERVED,
    REASON_UPDATE_TIMED_OUT,
    REASON_UPDATING,
    TIER_CONDITIONS,
)
from function.composers.consumer.composer import CONDITION
from function.composers.refusal import KEPT
from function.composers.rollout import Progress, reference
from function.composers.serving import CONSUMER_CONDITION
from function.composers.waves import State
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
# A fleet's edit that goes its way.
_MOVES = frozenset({State.PROGRESSING, State.PAUSED})
_NAMED = re.compile(r"KVOffloadTier ([\w.-]+)/([\w-]+(?:\.[\w-]+)*)", re.ASCII)
# Core's own come last: they only repeat what ours say.
_ORDER = (*TIER_CONDITIONS, "Synced", "Ready")


@dataclass(frozen=True)
class Problem:
    """A condition that is not True, since when, and what to type next."""

    condition: str
    status: str
    reason: str
    message: str
    since: str
    look: str


@dataclass(frozen=True)
class TierState:
    """One KVOffloadTier. `fleet`: the name of the one that composed it, "" for others.

    `context`: of the kubeconfig, "" for files. `cluster`: as its status says, for a fleet how many
    of its clusters are ready. `consumers`: how many composites' Usages name it, or a child of it.
    `hits`, `used`: of its observer, in steps. `notes`: what moves without being wrong.
    """

    context: str
    namespace: str
    name: str
    fleet: str
    backend: str
    cluster: str
    agents: str
    capacity_gib: int
    consumers: int
    hits: str
    used: str
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]

    @property
    def reference(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def state(self) -> str:
        """Return Ready, Problem, or Unknown where no condition says that something is wrong."""
        if not self.problems:
            return "Ready"
        return "Unknown" if all(p.status == "Unknown" for p in self.problems) else "Problem"


@dataclass(frozen=True)
class ConsumerState:
    """One composite with our condition. `tiers`: those that it uses, by its Usages.

    `named`: the tier that its message names, "" for none. `chosen`: not wired, since its users
    turned it off or no longer ask. `stale`: why the condition may be of an older spec, "" where it
    is not. `serving`: why its engines do not use the tier.
    """

    context: str
    kind: str
    namespace: str
    name: str
    tiers: tuple[str, ...]
    named: str
    wired: bool
    chosen: bool
    reason: str
    message: str
    fix: str
    stale: str
    serving: str

    @property
    def has_problem(self) -> bool:
        return bool(self.stale or self.serving) or not (self.wired or self.chosen)

    @property
    def path(self) -> str:
        return "/".join(filter(None, (self.namespace, self.name)))


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


def merged(found: Iterable[Status]) -> Status:
    """Return the state of several control planes as one."""
    every = list(found)
    return Status(
        tuple(tier for each in every for tier in each.tiers),
        tuple(consumer for each in every for consumer in each.consumers),
    )


def status(documents: Sequence[Document], only: str = "", context: str = "") -> Status:
    """Return the state of every tier and consumer among the documents of one control plane.

    `only`: a tier's name or namespace/name; its fleet's children and its consumers stay with it,
    and so do consumers that may ask for it in vain.
    """
    used: dict[usage.Consumer, set[str]] = defaultdict(set)
    users: dict[str, set[usage.Consumer]] = defaultdict(set)
    moving: dict[str, set[str]] = defaultdict(set)
    for each in documents:
        annotations = access.texts(each, "metadata", "annotations")
        named = annotations.get(names.ANNOTATION_USED_TIER)
        if each.get("kind") == "Usage" and named:
            who = usage.user(each)
            used[who].add(named)
            users[named].add(who)
            users[access.texts(each, "metadata", "labels").get(names.LABEL_USED_FLEET, "")].add(who)
            if annotations.get(names.ANNOTATION_PROGRESS) == Progress.MOVING:
                moving[named].add(reference(who))
    found = []
    for each in documents:
        if _is_tier(each):
            place = access.named(each)[1:]
            own = "/".join(place)
            count = len(users[own] | users[names.reference(*place)])
            found.append(_tier(each, context, count, sorted(moving[own])))
    consumers = [
        _consumer(d, c, used, context) for d in documents if (c := access.condition(d, CONDITION))
    ]
    if only:
        others = {t.reference for t in found if only not in _called(t)}
        found = [t for t in found if only in _called(t)]
        kept = {t.reference for t in found}
        consumers = [
            c
            for c in consumers
            if kept & {*c.tiers, c.named} or (_may_be_refused(c) and c.named not in others)
        ]
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


def _tier(document: Document, context: str, users: int, moving: Sequence[str]) -> TierState:
    _, namespace, name = access.named(document)
    state = access.mapping(document, "status")
    agents = access.mapping(state, "agents")
    serving = access.mapping(state, "serving")
    return TierState(
        context=context,
        namespace=namespace,
        name=name,
        fleet=access.texts(document, "metadata", "labels").get(names.LABEL_FLEET, ""),
        backend=access.text(document, "spec", "backend"),
        cluster=access.text(state, "cluster"),
        agents=f"{_number(agents.get('ready'))}/{_number(agents.get('desired'))}",
        capacity_gib=_number(state.get("capacityGiB")),
        consumers=users,
        hits=access.text(serving, "hits"),
        used=access.text(serving, "used"),
        problems=tuple(_problems(document)),
        notes=tuple(_notes(document, users, moving)),
    )


def _conditions(document: Document) -> list[Document]:
    return [c for c in access.objects(document, "status", "conditions") if c.get("type")]


def _problems(document: Document) -> Iterator[Problem]:
    """Yield the conditions that are not True, or whose update is late.

    Core's Ready comes only where no other one tells why.
    """
    said = {str(c.get("type")): c for c in _conditions(document)}
    said.pop(_RESPONSIVE, None)
    said = {kind: c for kind, c in said.items() if not (_is_note(c) or _is_echo(c))}
    ordered = [*(kind for kind in _ORDER if kind in said), *sorted(set(said) - set(_ORDER))]
    wrong = [
        said[kind]
        for kind in ordered
        if said[kind].get("status") != "True" or said[kind].get("reason") == REASON_UPDATE_TIMED_OUT
    ]
    if "Ready" not in said:
        unseen = "Crossplane has not reconciled it yet."
        wrong.append({"type": "Ready", "status": "Unknown", "message": unseen})
    for each in [c for c in wrong if c["type"] != "Ready"] or wrong:
        said_by = {key: str(each.get(key, "")) for key in ("status", "reason", "message")}
        since = str(each.get("lastTransitionTime", ""))
        problem = Problem(condition=str(each["type"]), **said_by, since=since, look="")
        yield replace(problem, look=_look(document, problem))


def _look(document: Document, problem: Problem) -> str:
    """Return what to type next."""
    _, namespace, name = access.named(document)
    cluster = access.text(document, "status", "cluster")
    config = access.text(document, "status", "providerConfigRef", "name")
    if problem.reason == REASON_NOT_OBSERVED and config:
        kinds = "clusterproviderconfigs.kubernetes.m.crossplane.io"
        return f"kubectl get {kinds} {config} --output yaml, and the Secret that it names"
    on_cluster = problem.condition in (CONDITION_CONTROL_PLANE, CONDITION_AGENTS)
    if not on_cluster or "/" in (cluster or "/"):
        return f"kubectl describe kvoffloadtier --namespace {namespace} {name}"
    there = access.text(document, "spec", "namespace") or NAMESPACE
    selector = f"app.kubernetes.io/instance={names.remote_name(namespace, name)}"
    what = "describe daemonsets" if MISSING in problem.message else "get pods --output wide"
    return f"on {cluster}: kubectl {what} --namespace {there} --selector {selector}"


def _is_echo(condition: Document) -> bool:
    """Return whether a condition only repeats that Accepted is False."""
    if condition["type"] == "Synced":
        return _is_refusal(condition)
    return condition.get("reason") == REASON_INVALID and condition.get("status") == "Unknown"


def _is_refusal(synced: Document) -> bool:
    """Return whether core repeats that the spec is refused."""
    return KEPT in str(synced.get("message"))


def _is_note(condition: Document) -> bool:
    """Return whether a condition says what moves without anything being wrong."""
    kind, reason = condition.get("type"), condition.get("reason")
    if condition.get("status") == "True":
        return reason == REASON_UPDATING
    if kind == CONDITION_ROLLED_OUT:
        return condition.get("status") == "False" and reason in _MOVES
    return kind == CONDITION_SERVING and condition.get("status") == "Unknown"


def _notes(document: Document, users: int, moving: Sequence[str]) -> Iterator[str]:
    metadata, state = access.mapping(document, "metadata"), access.mapping(document, "status")
    if metadata.get("deletionTimestamp"):
        yield f"being deleted; used by {users or 'nobody'}"
    if _is_refusal(access.condition(document, "Synced")):
        yield "its newest edit is refused: what runs is kept"
    elif _is_older(document, access.condition(document, "Ready")):
        yield "its newest edit is not reconciled yet"
    if access.condition(document, _RESPONSIVE).get("status") == "False":
        yield (
            "Crossplane drops some of its watch events, so that its status is late: raise "
            "--circuit-breaker-burst (docs/install.md)"
        )
    for each in filter(_is_note, _conditions(document)):
        yield f"{each['type']} ({each.get('reason')}): {each.get('message', '')}"
    remaining = access.text(state, "wiring", "remaining")
    if remaining not in ("", "0"):
        now = ", ".join(moving) or "nobody"
        yield f"its wiring rolls: {remaining} consumers remain, now {now}"


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
    document: Document, condition: Document, used: dict[usage.Consumer, set[str]], context: str
) -> ConsumerState:
    kind, namespace, name = access.named(document)
    reason = str(condition.get("reason", ""))
    wired = condition.get("status") == "True"
    known = {str(row.name): row.fix for row in REASONS.values()}
    serving = access.condition(document, CONSUMER_CONDITION)
    idle = f"{serving.get('reason')}: {serving.get('message', '')}"
    message = str(condition.get("message", ""))
    place = _NAMED.search(message)
    fix = "" if wired or reason in _CHOSEN else known.get(reason, "")
    return ConsumerState(
        context=context,
        kind=kind,
        namespace=namespace,
        name=name,
        tiers=tuple(sorted(used.get(usage.consumer(document), ()))),
        named="/".join(place.groups()) if place else "",
        wired=wired,
        chosen=reason in _CHOSEN,
        reason=reason,
        message=message,
        fix=fix.replace("NAMESPACE NAME", " ".join(place.groups())) if place else fix,
        stale=_stale(document, condition),
        serving=idle if wired and serving.get("status") == "False" else "",
    )


def lines(found: Status) -> Iterator[str]:
    """Yield what people read; a message of theirs has no line breaks and no control characters."""
    return map(printable, _lines(found))


def wide(found: Status) -> Iterator[str]:
    """Yield two tables, a row for each tier and for each consumer."""
    tiers = [
        (
            *(t.context, t.namespace, t.name, t.fleet, t.backend, t.cluster, t.agents),
            *(str(t.capacity_gib or ""), str(t.consumers), t.hits, t.used, t.state),
            " ".join(f"{p.condition}={p.status}({p.reason})" for p in t.problems),
        )
        for t in found.tiers
    ]
    head = "CONTEXT NAMESPACE TIER FLEET BACKEND CLUSTER AGENTS GIB USED-BY HITS USED STATE WHY"
    yield from _table(head.split(), tiers)
    consumers = [
        (
            c.context,
            c.namespace,
            c.kind,
            c.name,
            ",".join(c.tiers) or c.named,
            c.reason,
            c.serving or c.stale or ("" if c.wired else c.message),
        )
        for c in found.consumers
    ]
    if consumers:
        yield ""
        yield from _table(
            ["CONTEXT", "NAMESPACE", "KIND", "NAME", "TIERS", "REASON", "WHY"], consumers
        )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    table = [head, *([printable(cell) or "-" for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        yield "  ".join(f"{c:{w}}" for c, w in zip(row, widths, strict=True)).rstrip()


def printable(text: str) -> str:
    """Return the text without control characters and line breaks."""
    return "".join(each if each.isprintable() else " " for each in text)


def _lines(found: Status) -> Iterator[str]:
    contexts = dict.fromkeys(
        [*(tier.context for tier in found.tiers), *(c.context for c in found.consumers)]
    )
    for context in contexts:
        if len(contexts) > 1:
            yield f"Context {context}:"
        yield from _of_context(
            [each for each in found.tiers if each.context == context],
            [each for each in found.consumers if each.context == context],
        )


def _of_context(tiers: Iterable[TierState], consumers: Iterable[ConsumerState]) -> Iterator[str]:
    for tier in tiers:
        yield _title(tier)
        indent = "    " if tier.fleet else "  "
        for problem in tier.problems:
            reason = f" ({problem.reason})" if problem.reason else ""
            since = f" since {problem.since}" if problem.since else ""
            yield f"{indent}{problem.condition}={problem.status}{reason}{since}: {problem.message}"
        yield from dict.fromkeys(f"{indent}look: {problem.look}" for problem in tier.problems)
        yield from (f"{indent}{note}" for note in tier.notes)
    for consumer in consumers:
        mark = "✘" if consumer.has_problem else "✔" if consumer.wired else "·"
        used = ", ".join(consumer.tiers) or consumer.named
        to = f" to {used}" if used else ""
        unused = ", and not used" if consumer.serving else ""
        yield f"{mark} {consumer.kind} {consumer.path}: {consumer.reason}{to}{unused}"
        said = ("" if consumer.wired else consumer.message, consumer.stale, consumer.serving)
        yield from (f"  {text}" for text in said if text)
        if consumer.fix:
            yield f"  fix: {consumer.fix}"


def _title(tier: TierState) -> str:
    mark = "✘" if tier.problems else "✔"
    where = f"{tier.backend} on {tier.cluster}" if tier.cluster else tier.backend
    used = f"used by {tier.consumers}" if tier.consumers else "used by nobody"
    seen = any(problem.reason == REASON_NOT_OBSERVED for problem in tier.problems)
    held = f", {tier.capacity_gib} GiB" if tier.capacity_gib else ""
    held += f", {tier.used} used" if tier.used else ""
    held += f", hits {tier.hits}" if tier.hits else ""
    indent = "  " if tier.fleet else ""
    agents = f"agents {tier.agents}" + (" when seen last" if seen else "")
    return f"{indent}{mark} {tier.reference}: {where}, {agents}{held}, {used}"

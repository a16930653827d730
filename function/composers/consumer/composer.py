"""Any composite whose pods may name a tier: what earlier steps desire is wired, all else stays.

The manners of a step among others: pods are patched in place; keys, names, kinds, readiness,
context and status of others stay untouched; on a composite that is not ours conditions only. A
workload that has never run is held back until it can be created wired (policy Required); one that
was wired stays wired from its record, whatever becomes of its tier, until somebody unwires it.

Rejected: wiring in a mutating webhook on the workload clusters. It would be one more thing to
install, secure and keep alive on every cluster, and its effect would be visible in no render.
"""

from typing import Any

from function.api.input import Input
from function.composers import usage
from function.composers.consumer import companions, identity_conflicts, lookup
from function.composers.consumer.decision import (
    HELD,
    REASON_NOT_REQUESTED,
    REASON_WIRED,
    REPLAYED,
    WIRED,
    Decider,
    Outcome,
    plan_of,
)
from function.edge.answer import (
    FALSE,
    TRUE,
    TTL_SETTLED,
    TTL_UNSETTLED,
    TTL_WITH_REQUIREMENTS,
    UNKNOWN,
    Answer,
    Composed,
    Condition,
)
from function.edge.memo import Memo
from function.edge.request import Call
from function.kube import objects
from function.pods import asking as targets
from function.pods import record as records
from function.pods import wire
from function.pods.asking import Target

CONDITION = "KVOffloadReady"

REASON_NOTHING = "NothingToWire"

_targets = Memo(4096)


def compose(call: Call, given: Input) -> Answer:
    """Wire every workload that names a tier; pass everything else through."""
    return _ConsumerComposer(call, given).compose()


def is_wired(answer: Answer) -> bool:
    """Whether an answer of `compose` says that everything that asks is wired."""
    return any(c.type == CONDITION and c.status == TRUE for c in answer.conditions)


class _ConsumerComposer:
    def __init__(self, call: Call, given: Input) -> None:
        self.call = call
        self.given = given
        self.decider = Decider(call, given, companions.name(call.composite))
        self.targets: list[Target] = []
        self.outcomes: list[Outcome] = []
        self.answer = Answer(ttl=TTL_SETTLED)

    def compose(self) -> Answer:
        self.find_targets()
        if not self.targets:
            self.say_nothing_is_wired()
            return self.answer
        self.require_tiers()
        self.outcomes = [self.decider.decide(t) for t in self.targets]
        self.refuse_identity_conflicts()
        self.hold_back_together()
        self.patch()
        self.compose_files()
        self.mark_used()
        self.derive_condition()
        self.choose_ttl()
        return self.answer

    # What there is ---------------------------------------------------------------------------

    def find_targets(self) -> None:
        self.field_ref = targets.composite_reference(self.call.composite)
        for key, desired in self.call.desired().items():
            text = self.call.observed_value(key, "metadata", "annotations", records.ANNOTATION)
            found = self._target(key, desired, text or "")
            if found is not None:
                self.targets.append(found)

    def _target(self, key: str, desired: dict[str, Any], record: str) -> Target | None:
        if self.field_ref is not None:
            return targets.target(key, desired, self.field_ref, self.given, record)
        return _targets.get(
            lambda: targets.target(key, desired, None, self.given, record),
            desired,
            self.given,
            key=(key, record),
        )

    def require_tiers(self) -> None:
        for target in self.targets:
            if target.ref is not None:
                models = self.decider.models(target)
                self.answer.requirements |= lookup.requirements(target.ref, models)

    # All workloads of the composite together -------------------------------------------------

    def refuse_identity_conflicts(self) -> None:
        """Two consumers of one tier whose blocks would be mixed up: the later one is refused."""
        for i, outcome in enumerate(self.outcomes):
            if outcome.action == REPLAYED or not outcome.shares or outcome.found is None:
                continue
            planned = plan_of(outcome.found)
            others = lookup.users(
                self.call,
                outcome.target.ref,
                self.decider.models(outcome.target),
                outcome.found.document,
            )
            message = identity_conflicts.message(
                planned.tier, outcome.shares, self._own_shares(i), others, self.call.composite
            )
            if message:
                self.outcomes[i] = self.decider.fall_back(
                    outcome.target, identity_conflicts.REASON, message, outcome.found
                )

    def _own_shares(self, but: int) -> list[usage.Share]:
        return [s for i, o in enumerate(self.outcomes) if i != but for s in o.shares]

    def hold_back_together(self) -> None:
        """A composite's engines start together: one that waits holds back those not yet there."""
        if not any(o.action == HELD for o in self.outcomes):
            return
        for outcome in self.outcomes:
            if outcome.action == WIRED and not self.call.is_observed(outcome.target.key):
                outcome.action = HELD
                outcome.message = "Held back with the composite's other engines."
        self.answer.ready = False

    # The answer ------------------------------------------------------------------------------

    def patch(self) -> None:
        for outcome in self.outcomes:
            if outcome.action == HELD:
                self.answer.removed.add(outcome.target.key)
            elif outcome.manifest is not None:
                self.answer.patched[outcome.target.key] = wire.put_back(
                    outcome.target, outcome.manifest, outcome.record
                )

    def compose_files(self) -> None:
        """One ConfigMap for all that the consumer's pods mount, on their cluster."""
        wired = [o for o in self.outcomes if o.action in (WIRED, REPLAYED) and o.record]
        for key, manifest in companions.compose(
            self.call.composite, [(o.target, o.record) for o in wired]
        ).items():
            there = self.call.is_observed(key) and not objects.is_object(manifest)
            ready = there or self.call.observed_ready(key, by_existing=True)
            self.answer.resources[key] = Composed(manifest, ready)

    def mark_used(self) -> None:
        if any(o.action == REPLAYED for o in self.outcomes):
            # The tier may be gone or closed to us; what is wired still counts as a user of it.
            for key, manifest in usage.observed(self.call).items():
                self.answer.resources[key] = Composed(manifest, True)
        marked: dict[tuple[str, str], tuple[str, list[usage.Share]]] = {}
        for outcome in self.outcomes:
            uses = outcome.action in (WIRED, REPLAYED) or outcome.reason == lookup.NOT_READY
            document = outcome.found.document if outcome.found else None
            if not uses or document is None or outcome.found is None:
                continue
            tier = (document["metadata"].get("namespace", ""), document["metadata"]["name"])
            _, shares = marked.setdefault(tier, (outcome.found.fleet, []))
            shares += outcome.shares
        for tier, (fleet, shares) in sorted(marked.items()):
            for key, manifest in usage.compose(self.call.composite, tier, fleet, shares).items():
                # A marker, never something the consumer's readiness waits for.
                self.answer.resources[key] = Composed(manifest, True)

    def derive_condition(self) -> None:
        off = [o for o in self.outcomes if o.reason != REASON_WIRED]
        off.sort(key=lambda o: o.action != HELD)
        self.answer.refusals = [o.reason for o in off]
        lines = [f"{o.target.key}: {o.message}" for o in self.outcomes]
        if not off:
            condition = Condition(CONDITION, TRUE, REASON_WIRED, " ".join(lines))
        else:
            unresolved = all(o.reason == lookup.UNRESOLVED for o in off)
            status = UNKNOWN if unresolved else FALSE
            condition = Condition(CONDITION, status, off[0].reason, " ".join(lines))
        self.answer.conditions = [condition]

    def say_nothing_is_wired(self) -> None:
        """A field that names a tier for nothing; or a condition that core still keeps from before.

        A composite that has never asked for anything gets no condition at all.
        """
        if self.field_ref is not None:
            message = (
                "kvOffloadTierRef names a tier, and nothing that this composite desires is known to"
                " be an engine. Annotate its pod template, or name it under `paths` or"
                " `engineImages` of the step's input."
            )
            self.answer.conditions = [Condition(CONDITION, FALSE, REASON_NOTHING, message)]
            self.answer.refusals = [REASON_NOTHING]
            return
        known = self.call.composite_value("status", "conditions") or []
        if any(entry.get("type") == CONDITION for entry in known):
            message = "No pod of this composite names a tier."
            self.answer.conditions = [Condition(CONDITION, FALSE, REASON_NOT_REQUESTED, message)]

    def choose_ttl(self) -> None:
        if self.answer.requirements:
            settled = all(o.settled for o in self.outcomes)
            self.answer.ttl = TTL_WITH_REQUIREMENTS if settled else TTL_UNSETTLED

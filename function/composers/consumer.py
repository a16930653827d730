"""Any composite whose pods may name a tier: what earlier steps desire is wired, all else stays.

The manners of a step among others: pods are patched in place; keys, names, kinds, readiness,
context and status of others stay untouched; on a composite that is not ours conditions only. A
workload that has never run is held back until it can be created wired (policy Required); one that
was wired stays wired from its record, whatever becomes of its tier, until somebody unwires it.

Rejected: wiring in a mutating webhook on the workload clusters. It would be one more thing to
install, secure and keep alive on every cluster, and its effect would be visible in no render.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from function.answer import (
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
from function.api.input import Input
from function.backends import base
from function.composers import files, identity_conflicts, tiers, usage
from function.composers import tier as tier_composer
from function.edge.request import Call
from function.edge.structs import encode
from function.kube import objects
from function.problems import Refused
from function.wiring import record as records
from function.wiring import target as targets
from function.wiring import wire
from function.wiring.record import Record
from function.wiring.target import Target

CONDITION = "KVOffloadReady"

# What became of one workload.
WIRED, REPLAYED, HELD, LEFT = "Wired", "Replayed", "Held", "Left"

REASON_WIRED = "Wired"
REASON_OFF = "TurnedOff"
REASON_UNWIRED = "Unwired"
REASON_NOT_REQUESTED = "NotRequested"
REASON_INVALID_TIER = "InvalidTier"
REASON_NOTHING = "NothingToWire"


@dataclass
class _Outcome:
    """One workload's answer: what to do with it, and the reason and message that say why."""

    target: Target
    action: str
    reason: str
    message: str
    manifest: Mapping[str, Any] | None = None
    record: Record | None = None
    found: tiers.Found | None = None
    shares: list[usage.Share] = field(default_factory=list)


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
        self.namespace = str(call.composite_value("metadata", "namespace") or "")
        self.targets: list[Target] = []
        self.outcomes: list[_Outcome] = []
        self.answer = Answer(ttl=TTL_SETTLED)

    def compose(self) -> Answer:
        self.find_targets()
        if not self.targets:
            self.say_nothing_is_wired()
            return self.answer
        self.require_tiers()
        self.outcomes = [self.decide(t) for t in self.targets]
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
        self.field_ref = ref = targets.composite_reference(self.call.composite)
        for key, desired in self.call.desired().items():
            found = targets.target(key, desired, ref, self.given, self._record(key))
            if found is not None:
                self.targets.append(found)

    def _record(self, key: str) -> Record | None:
        text = self.call.observed_value(key, "metadata", "annotations", records.ANNOTATION)
        return records.load(text)[0]

    def require_tiers(self) -> None:
        for ref in sorted({t.ref for t in self.targets if t.ref is not None}, key=str):
            self.answer.requirements.update(tiers.requirements(ref))

    # One workload ----------------------------------------------------------------------------

    def decide(self, target: Target) -> _Outcome:
        """What becomes of one workload: the table of design section 3, top to bottom."""
        if target.refused is not None:
            return self._fall_back(target, target.refused.reason, str(target.refused), None)
        if target.ref is None:
            return _Outcome(target, LEFT, REASON_NOT_REQUESTED, "It names no tier any more.")
        if target.policy == "Off":
            return _Outcome(target, LEFT, REASON_OFF, "The policy is Off: unwired on purpose.")
        found = tiers.resolve(self.call, target.ref, target.provider_config, self.namespace)
        if found.document is None:
            return self._fall_back(target, found.state, found.message, found)
        planned = self._plan(found.document)
        if planned.problems or planned.tier is None:
            message = f"KVOffloadTier {target.ref} is not valid: see its Accepted condition."
            return self._fall_back(target, REASON_INVALID_TIER, message, found)
        if self._stays_unwired(target, found):
            return self._unwired(target, found)
        return self._wire(target, found, planned.tier)

    def _plan(self, document: dict[str, Any]) -> Any:
        metadata, spec = document["metadata"], document.get("spec", {})
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        return tier_composer.plan(namespace, name, spec, encode(spec))

    def _wire(self, target: Target, found: tiers.Found, tier: base.Tier) -> _Outcome:
        try:
            wired = wire.wire(target, tier, self.given, self._files_name())
        except Refused as refused:
            return self._fall_back(target, refused.reason, str(refused), found)
        runs_wired = _was_wired(target)
        if found.state == tiers.NOT_READY and not runs_wired:
            outcome = self._fall_back(target, found.state, found.message, found)
        else:
            reason = REASON_WIRED if found.state == tiers.READY else found.state
            message = f"{wired.summary} {found.message}".strip()
            outcome = _Outcome(target, WIRED, reason, message, wired.manifest, wired.record, found)
        outcome.shares = [
            usage.Share(model, identity, outcome.action == WIRED)
            for model, identity in wired.shares
        ]
        return outcome

    def _fall_back(
        self, target: Target, reason: str, message: str, found: tiers.Found | None
    ) -> _Outcome:
        """Not wired now: wired before stays wired, never created waits, else as the user wrote."""
        if _was_wired(target):
            try:
                manifest = wire.replay(target, target.record, self.given)
            except Refused as refused:
                message = f"{message} The recorded wiring does not fit the pod any more: {refused}"
                return _Outcome(target, LEFT, reason, message, found=found)
            message = f"Still wired as recorded. {message}"
            return _Outcome(target, REPLAYED, reason, message, manifest, target.record, found)
        if reason == tiers.UNRESOLVED or reason in wire.LEFT_ALONE:
            return _Outcome(target, LEFT, reason, message, found=found)
        if target.policy == "Optional":
            return self._unwired(target, found, reason, message)
        if not self.call.is_observed(target.key):
            return _Outcome(target, HELD, reason, f"Held back. {message}", found=found)
        return _Outcome(target, LEFT, reason, f"Runs unwired. {message}", found=found)

    def _stays_unwired(self, target: Target, found: tiers.Found) -> bool:
        """Optional's choice holds until the pod template changes."""
        record = target.record
        return (
            target.policy == "Optional"
            and record is not None
            and not record.wired
            and record.template == target.digest
        )

    def _unwired(
        self,
        target: Target,
        found: tiers.Found | None,
        reason: str = REASON_UNWIRED,
        message: str = "",
    ) -> _Outcome:
        why = message or "The tier was not ready when the pods were created."
        text = f"Unwired until the pod template changes (policy Optional). {why}"
        record = wire.unwired(target)
        return _Outcome(target, LEFT, reason, text, target.manifest, record, found)

    def _files_name(self) -> str:
        return files.name(self.call.composite)

    # All workloads of the composite together -------------------------------------------------

    def refuse_identity_conflicts(self) -> None:
        """Two consumers of one tier whose blocks would be mixed up: the later one is refused."""
        for i, outcome in enumerate(self.outcomes):
            if outcome.action == REPLAYED or not outcome.shares or outcome.found is None:
                continue
            planned = self._plan(outcome.found.document)
            others = tiers.other_users(self.call, outcome.target.ref, outcome.found.document)
            message = identity_conflicts.message(
                planned.tier, outcome.shares, self._own_shares(i), others, self.call.composite
            )
            if message:
                self.outcomes[i] = self._fall_back(
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
        for key, manifest in files.compose(
            self.call.composite, [(o.target, o.record) for o in wired]
        ).items():
            there = self.call.is_observed(key) and not objects.is_object(manifest)
            ready = there or self.call.observed_condition(key, "Ready") == TRUE
            self.answer.resources[key] = Composed(manifest, ready)

    def mark_used(self) -> None:
        if any(o.action == REPLAYED for o in self.outcomes):
            # The tier may be gone or closed to us; what is wired still counts as a user of it.
            for key, manifest in usage.observed(self.call).items():
                self.answer.resources[key] = Composed(manifest, True)
        marked: dict[tuple[str, str], tuple[str, list[usage.Share]]] = {}
        for outcome in self.outcomes:
            uses = outcome.action in (WIRED, REPLAYED) or outcome.reason == tiers.NOT_READY
            document = outcome.found.document if outcome.found else None
            if not uses or document is None or outcome.found is None:
                continue
            tier = (document["metadata"].get("namespace", ""), document["metadata"]["name"])
            _, shares = marked.setdefault(tier, (outcome.found.fleet, []))
            shares += outcome.shares
        for tier, (fleet, shares) in sorted(marked.items()):
            key, manifest = usage.compose(self.call.composite, tier, fleet, shares)
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
            unresolved = all(o.reason == tiers.UNRESOLVED for o in off)
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
        waiting = {HELD, REPLAYED}
        unsettled = any(
            o.action in waiting
            or (o.found is not None and o.found.state != tiers.READY)
            or o.reason == tiers.UNRESOLVED
            for o in self.outcomes
        )
        if self.answer.requirements:
            self.answer.ttl = TTL_UNSETTLED if unsettled else TTL_WITH_REQUIREMENTS


def _was_wired(workload: Target) -> bool:
    return workload.record is not None and workload.record.wired

"""Decide one workload: wire, replay, hold back, refuse or leave untouched.

| asks for a tier | tier | seen before | its pod template | then |
|---|---|---|---|---|
| no longer, or policy Off | | | | left as its author wrote it |
| yes | not yet looked up | unwired | | left as it is until the tier is looked up |
| yes | not yet looked up | wired | changed | what runs stays, or is wired as recorded |
| yes | any | wired | the same | wired as recorded |
| yes, another | ready | wired | the same | wired anew: another name, cluster or backend |
| yes | ready, its turn | wired | the same | wired anew (rollout.py) |
| yes | ready | wired | changed | wired anew; or refused, and what runs stays |
| yes | not usable | wired | changed | the edit waits: what runs stays |
| yes | ready | never, or unwired | | wired, or refused with a reason |
| yes, Required | not usable, or refused | never | | held back |
| yes, Required | not usable, or refused | unwired | | left; wired as soon as it can be |
| yes, Optional | not usable, or refused | | not as it was wired | unwired until it changes |

A workload whose record cannot be read is judged as if its template had changed.
"""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from function.api.base import present
from function.api.input import Input
from function.api.tier import WiringUpdate
from function.backends.registry import Registry
from function.command.budget import CallSpent
from function.composers import auto, tier_names, usage
from function.composers.consumer import lookup, recorded, turns, work
from function.composers.consumer.observed import LACKS, Observed
from function.composers.consumer.outcome import Action, Outcome
from function.composers.rollout import Progress
from function.composers.tier_plan import TierPlan
from function.edge.answer import Requirement
from function.edge.request import Call
from function.engines import events
from function.kube import access
from function.pods import replay, running, wire
from function.pods.gang import LEFT_ALONE
from function.pods.offload_request import OffloadRequest
from function.pods.record import Record
from function.pods.refs import Ref
from function.problems import Refused, internal_error
from function.reasons import Policy, Reason

_EDIT_WAITS = "; the change of their template waits"
_NOT_RUNNING = "the pods do not run as it says"
# What is decided of pods that a tier takes.
_TAKES = (Action.WIRED, Reason.WIRED)


class Decider:
    """Decides for the workloads of one composite, one at a time.

    `requirements`: what core must look up for all of them. `bugs`: tracebacks, for the log.
    """

    def __init__(self, call: Call, step_input: Input, backends: Registry, files_name: str) -> None:
        self.call = call
        self.step_input = step_input
        self.backends = backends
        self.observed = Observed(call, step_input)
        self.files_name = files_name
        self.namespace = str(call.composite_value("metadata", "namespace") or "")
        self.requirements: dict[str, Requirement] = {}
        self.who = usage.consumer(call.composite)
        self.bugs: list[str] = []

    def decide(self, request: OffloadRequest) -> Outcome:
        """Apply the table, top to bottom; a bug becomes this one workload's condition."""
        try:
            outcome = self._decide(self._without_forged_record(request))
            if outcome.plan is None and outcome.is_wired:
                return replace(outcome, progress=turns.unfinished(self.call, request))
            return self.observed.as_applied(outcome) if outcome.reason is Reason.WIRED else outcome
        except CallSpent as spent:
            return self._refuse(request, Refused(Reason.ARGS_NOT_PATCHABLE, str(spent)))
        except Exception as bug:  # a stranger's document may have any content
            self.bugs.append(traceback.format_exc())
            return self._keep_running(request, internal_error(bug))

    def _decide(self, request: OffloadRequest) -> Outcome:
        if request.refused is not None:
            is_bug = request.refused.reason is Reason.INTERNAL_ERROR
            refuse = self._keep_running if is_bug else self.fall_back
            return refuse(request, request.refused)
        if request.ref is None:
            message = "It names no tier any more."
            return Outcome(request, Action.UNTOUCHED, Reason.NOT_REQUESTED, message, settled=True)
        is_auto = auto.is_auto(request.ref)
        if not is_auto:
            self.requirements |= lookup.requirements(request.ref, request)
        if request.policy is Policy.OFF:
            message = "The policy is Off: unwired on purpose."
            return Outcome(request, Action.UNTOUCHED, Reason.TURNED_OFF, message, settled=True)
        decide = self._decide_auto if is_auto else self._decide_named
        return decide(request, request.ref)

    def _decide_auto(self, request: OffloadRequest, ref: Ref) -> Outcome:
        """Decide with the tier that the record has, or else with the first that takes the pods."""
        if chosen := auto.recorded(request.record):
            self.requirements |= lookup.requirements(chosen, request)
            outcome = self._decide_as(request, chosen)
            return replace(outcome, message=f"{outcome.message} {auto.why(ref, {})}")
        if recorded.chose_unwired(request):
            return self._leave_unwired(request, None)
        self.requirements |= auto.requirements(ref)
        refused: dict[Ref, Refused] = {}
        try:
            candidates = auto.candidates(self.call, request, ref, self.namespace)
            for each in candidates:  # at once: core asks six times, and then gives up
                self.requirements |= lookup.requirements(each, request)
            waits: Refused | None = None
            edited: Ref | None = None
            takes: Ref | None = None
            for each, tier in candidates.items():
                outcome = self._decide_as(request, each)
                if outcome.reason is Reason.TIER_UNRESOLVED:
                    waits = waits or Refused(outcome.reason, outcome.message)
                    continue  # what the others need is asked for as well
                if (outcome.action, outcome.reason) == _TAKES:
                    if waits is None and edited is None:
                        said = f"{outcome.message} {auto.why(ref, refused)}"
                        return replace(outcome, message=said)
                    takes = takes or each
                    continue
                refused[each] = Refused(outcome.reason, outcome.message)
                is_required = request.policy is Policy.REQUIRED
                if waits is None and is_required and auto.may_take(tier, outcome.reason):
                    edited = edited or each
            if waits is not None and edited is None:
                raise waits
            if edited and takes:
                raise auto.waits_for(ref, edited, takes, refused[edited])
            raise auto.none_takes(ref, refused)
        except Refused as none:
            return self.fall_back(request, none)

    def _decide_as(self, request: OffloadRequest, ref: Ref) -> Outcome:
        """Decide as if the pods named the tier; equal calls make one request of it."""
        named = work.recall(
            request.resource, lambda: replace(request, ref=ref), request, key=("naming", str(ref))
        )
        return self._decide_named(named, ref)

    def _decide_named(self, request: OffloadRequest, ref: Ref) -> Outcome:
        found: lookup.Found | None = None
        try:
            found = lookup.resolve(self.call, ref, request, self.namespace, self.requirements)
            plan = lookup.plan(self.call, ref, found, self.backends, self.requirements)
            wired = self._wire(request, plan)
            if recorded.chose_unwired(request):
                return self._leave_unwired(request, found)
        except lookup.NotAdmitted as refused:
            return self.fall_back(self._known(request, refused.tier), refused)
        except Refused as refused:
            return self.fall_back(request, refused, found)
        if found.unready and not self.observed.may_run(request, wired):
            outcome = self._wait_for_tier(request, wired, found, plan.tier.spec.wiring)
        elif recorded.has_recorded_template(request) and recorded.is_record_of(request, found):
            outcome = self._keep_recorded_wiring(request, wired, found, plan.tier.spec.wiring)
        elif (
            request.policy is Policy.REQUIRED
            and (edit := tier_names.uncomposed(found.document))
            and not self.call.is_observed(request.key)
        ):
            why = Refused(Reason.TIER_NOT_READY, lookup.unready(ref, edit))
            outcome = self.fall_back(request, why, found)
        else:
            outcome = self._wire_new_template(request, wired, found, plan.tier.spec.wiring)
        return replace(outcome, plan=plan, planned=wired.record, engines=wired.engines)

    def _wait_for_tier(
        self, request: OffloadRequest, wired: wire.Wired, found: lookup.Found, update: WiringUpdate
    ) -> Outcome:
        """Keep what runs while the tier is not ready; how far it has rolled stays true."""
        outcome = self.fall_back(request, Refused(Reason.TIER_NOT_READY, found.unready), found)
        record = outcome.record
        rolls = update.update == "Rolling" and recorded.is_record_of(request, found)
        if record is None or not rolls or not outcome.is_wired:
            return outcome
        same = recorded.has_recorded_template(request)
        is_behind = same and wired.record.wiring != record.wiring
        progress = Progress.BEHIND if is_behind else turns.progress_of_pods(self.call, request)
        return replace(outcome, progress=progress)

    def _without_forged_record(self, request: OffloadRequest) -> OffloadRequest:
        """Drop a record that no backend could have written; the annotation can be forged."""
        record = request.record
        if record is None or not (record.wired or record.templates):
            return request
        problem = f"no backend is called {record.backend!r}"
        if not record.wired:
            problem = "it holds the pod templates of a wiring, and says Unwired"
        elif not record.templates:
            problem = "it holds no pod template"
        elif record.backend in self.backends.specs:
            allows = self.backends[record.backend].allows
            injections = (kept.injection for kept in record.templates.values())
            found = (allows.problem(injection, events.flags()) for injection in injections)
            problem = next((f"{record.backend} never injects {it}" for it in found if it), "")
        return replace(request, record=None, unreadable=problem) if problem else request

    def _known(self, request: OffloadRequest, tier: Mapping[str, Any]) -> OffloadRequest:
        """Drop the record of a consumer that the record's tier has never served.

        `tier`: the one that does not admit the namespace. The consumer may have named another when
        it was wired; then only its own Usage of that one counts.
        """
        record = request.record
        if record is None or not tier or usage.marks(self.call, record.tier, record.child):
            return request
        is_its_tier = recorded.is_record_of(request, lookup.Found(dict(tier)))
        if is_its_tier and usage.marks(self.call, "/".join(access.named(tier)[1:])):
            return request
        return replace(request, record=None, unreadable="the tier has never served this consumer")

    def _wire(self, request: OffloadRequest, plan: TierPlan) -> wire.Wired:
        return work.recall(
            request.resource,
            lambda: wire.wire(
                request, plan.tier, plan.backend, self.files_name, self.namespace, plan.description
            ),
            request,
            plan,
            key=(self.files_name, self.namespace),
        )

    def _rewire(self, request: OffloadRequest, wired: wire.Wired, found: lookup.Found) -> Outcome:
        notes = [found.unready] if found.unready else []
        if request.unreadable:
            notes.append(f"Its record was replaced: {request.unreadable}.")
        return Outcome(
            request,
            Action.WIRED,
            Reason.TIER_NOT_READY if found.unready else Reason.WIRED,
            " ".join([wired.summary, *notes]),
            wired.manifest,
            wired.record,
            found,
            settled=not found.unready,
        )

    def _wire_new_template(
        self, request: OffloadRequest, wired: wire.Wired, found: lookup.Found, update: WiringUpdate
    ) -> Outcome:
        """Wire a template that never was, or has changed; a Pinned one keeps its old wiring."""
        before = request.record
        pinned = update.update == "Pinned" and recorded.is_record_of(request, found)
        if pinned and before and before.wired and self.observed.was_applied(request, before):
            wired = replay.carry_over(request, before, wired, self.step_input) or wired
        outcome = self._rewire(request, wired, found)
        if update.update != "Rolling":
            return outcome
        moves = self.call.is_observed(request.key)
        return replace(
            outcome,
            progress=Progress.MOVING if moves else Progress.CURRENT,
            settled=outcome.settled and not moves,
        )

    def _keep_recorded_wiring(
        self, request: OffloadRequest, wired: wire.Wired, found: lookup.Found, update: WiringUpdate
    ) -> Outcome:
        """Keep the wiring that the template was given, until it is the workload's turn to move."""
        record, now, message = present(request.record), wired.record, wired.summary
        is_behind = now.wiring != record.wiring
        rolls = update.update == "Rolling"
        if is_behind and rolls and turns.is_turn(self.call, self.who, found, self.requirements):
            outcome = self._rewire(request, wired, found)
            return replace(outcome, progress=Progress.MOVING, settled=False)
        if is_behind:
            message += (
                f" It keeps wiring {record.wiring}; the tier's is {now.wiring} now, and"
                f" comes {_COMES[update.update]}."
            )
            message += _kept_identities(record, now)
            message += turns.waits_for(found, self.who) if rolls else ""
        outcome = self._replay(
            request,
            record,
            Reason.WIRED,
            message,
            found,
            derived=(record.templates, record.engines) == (now.templates, now.engines),
            same_pods=record.applied == now.applied,
            anew=lambda why: self._wire_new_template(
                replace(request, record=None, unreadable=why), wired, found, update
            ),
        )
        if outcome.action is Action.WIRED:
            return outcome
        settled = outcome.action is Action.REPLAYED
        if not rolls:
            return replace(outcome, settled=settled)
        progress = Progress.BEHIND if is_behind else turns.progress_of_pods(self.call, request)
        return replace(outcome, progress=progress, settled=settled and progress is Progress.CURRENT)

    def fall_back(
        self, request: OffloadRequest, refused: Refused, found: lookup.Found | None = None
    ) -> Outcome:
        """Decide for a workload that cannot be wired now (see the table)."""
        reason, message = refused.reason, str(refused)
        if recorded.has_recorded_template(request):
            text = f"Still wired as recorded. {message}"
            try:
                return self._replay(request, present(request.record), reason, text, found)
            except CallSpent as spent:
                refused = Refused(Reason.ARGS_NOT_PATCHABLE, str(spent))
        return self._refuse(request, refused, found)

    def _refuse(
        self, request: OffloadRequest, refused: Refused, found: lookup.Found | None = None
    ) -> Outcome:
        """Decide for a workload that can neither be wired nor replayed now."""
        reason, message = refused.reason, str(refused)
        if reason is Reason.TIER_UNRESOLVED:
            return self._await_tier(request, refused, found)
        if request.policy is Policy.OPTIONAL:
            return self._leave_unwired(request, found, refused)
        if reason in LEFT_ALONE:
            return Outcome(request, Action.UNTOUCHED, reason, message, found=found, settled=True)
        if not self.call.is_observed(request.key):
            return Outcome(request, Action.DEFERRED, reason, f"Held back. {message}", found=found)
        return self._keep_running(request, refused, found)

    def _await_tier(
        self, request: OffloadRequest, refused: Refused, found: lookup.Found | None
    ) -> Outcome:
        """Decide for a changed template while its tier is looked up; what is wired stays wired."""
        reason, message, record = refused.reason, str(refused), request.record
        if record is None or not record.wired:
            return Outcome(request, Action.UNTOUCHED, reason, message, found=found)
        kept = self._keep_running(request, refused, found)
        if kept.is_wired:
            return kept
        return self._replay(request, record, reason, f"Wired as recorded. {message}", found)

    def _replay(
        self,
        request: OffloadRequest,
        record: Record,
        reason: Reason,
        message: str,
        found: lookup.Found | None,
        *,
        derived: bool = False,
        same_pods: bool = False,
        anew: Callable[[str], Outcome] | None = None,
    ) -> Outcome:
        """Apply a record that the tier gives just so (`derived`), or that the pods run with.

        `anew`: what else is done, and why, with pods that do not, or with a record that does not
        fit where the tier gives the `same_pods`; without it they are kept as they run.
        """
        try:
            manifest = work.recall(
                request.resource,
                lambda: replay.replay(request, record, self.step_input),
                request,
                record,
                self.step_input,
            )
        except Refused as refused:
            if anew is not None and (
                same_pods or not self.observed.runs_as_applied(request, record)
            ):
                return anew(f"it does not fit the pod any more: {refused}")
            message = f"{message} The recorded wiring does not fit the pod any more: {refused}"
            return self._keep_running(request, Refused(reason, message), found)
        if not (
            derived
            or running.has(request, manifest, self.observed.workload(request))
            or self.observed.was_applied(request, record)
        ):
            why = f"The record is not applied: {_NOT_RUNNING}."
            if anew is not None:
                if not (request.is_bare and self.observed.was_applied(request, record, some=True)):
                    return anew(_NOT_RUNNING)
                why, reason = LACKS, Reason.NOT_APPLIED
            message = f"{message} {why}"
            return self._keep_running(request, Refused(reason, message), found)
        return Outcome(
            request,
            Action.REPLAYED,
            reason,
            message,
            manifest,
            record,
            found,
            repeats_observed=not derived,
        )

    def _keep_running(
        self, request: OffloadRequest, refused: Refused, found: lookup.Found | None = None
    ) -> Outcome:
        """Keep pods that run wired; else leave them unwired."""
        record, reason, message = request.record, refused.reason, str(refused)
        if record is not None and record.wired:
            manifest = replay.with_running_templates(
                request,
                record,
                self.observed.workload(request),
                self.step_input,
                lambda: self.observed.runs_wired(request, record),
            )
            if manifest is not None:
                edit = "" if recorded.has_recorded_template(request) else _EDIT_WAITS
                text = f"Its pods stay as they run{edit}. {message}"
                kept = Outcome(request, Action.REPLAYED, reason, text, manifest, record, found)
                return replace(kept, keeps_running_template=True, repeats_observed=True)
        if recorded.chose_unwired(request):
            return self._leave_unwired(request, found, refused)
        if request.unreadable:
            message = f"{message} Its record is of no use: {request.unreadable}."
        if reason is Reason.INTERNAL_ERROR and not self.call.is_observed(request.key):
            return Outcome(request, Action.DEFERRED, reason, f"Held back. {message}", found=found)
        return Outcome(request, Action.UNTOUCHED, reason, f"Runs unwired. {message}", found=found)

    def _leave_unwired(
        self, request: OffloadRequest, found: lookup.Found | None, refused: Refused | None = None
    ) -> Outcome:
        why = str(refused or "It could not be wired when its pods were created.")
        return Outcome(
            request,
            Action.UNTOUCHED,
            refused.reason if refused else Reason.UNWIRED,
            f"Unwired until the pod template changes (policy Optional). {why}",
            request.manifest,
            wire.unwired(request),
            found,
            settled=True,
        )


_COMES = {
    "OnChange": "with the next change of the pod template",
    "Rolling": "with the next change of the pod template, or in its turn",
    "Pinned": "when spec.wiring.update of the tier lets it",
}


def _kept_identities(before: Record, now: Record) -> str:
    """Return a sentence on the cache identities that stay with the kept wiring, "" for none."""
    kept, comes = (
        {facts.get("identity", "") for facts in record.engines.values()} for record in (before, now)
    )
    gone = sorted(kept - comes - {""})
    return f" Until then its cache identity is {', '.join(gone)}." if gone else ""

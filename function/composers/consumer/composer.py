"""Wire the workloads that earlier steps desire, in any composite whose pods may name a tier.

The manners of a step among others: pods are patched in place; keys, names, kinds, readiness,
context and status of others stay untouched; on a composite that is not ours conditions only. A
workload that has never run is held back until it can be created wired (policy Required); one that
was wired stays wired from its record, whatever becomes of its tier, until somebody unwires it.

Rejected: wiring in a mutating webhook on the workload clusters. It would be one more thing to
install, secure and keep alive on every cluster, and its effect would be visible in no render.
"""

from collections.abc import Collection
from dataclasses import replace
from functools import cached_property, partial

from function import names
from function.api.input import Input
from function.backends.registry import Registry
from function.command import budget
from function.composers import serving, usage
from function.composers.consumer import (
    applied,
    brought,
    companions,
    turns,
)
from function.composers.consumer.decision import Decider
from function.composers.consumer.marks import Marks
from function.composers.consumer.outcome import Action, Outcome
from function.composers.consumer.requests import Requests
from function.edge import response, structs
from function.edge.answer import (
    FALSE,
    TRUE,
    TTL_SETTLED,
    TTL_UNSETTLED,
    TTL_WATCHED_UNSETTLED,
    TTL_WITH_REQUIREMENTS,
    UNKNOWN,
    Answer,
    Composed,
    Condition,
)
from function.edge.request import Call
from function.kube import access, objects
from function.kube.access import Json
from function.pods import wire
from function.pods.record import Record
from function.problems import Refused
from function.reasons import Reason
from function.workloads import kinds
from function.workloads.rolled import COUNTED

CONDITION = "KVOffloadReady"


def compose(call: Call, step_input: Input, backends: Registry) -> Answer:
    """Wire every workload that names a tier; pass everything else through."""
    return _ConsumerComposer(call, step_input, backends).compose()


def is_wired(answer: Answer) -> bool:
    """Return whether an answer of `compose` says that every requesting workload is wired."""
    return any(c.type == CONDITION and c.status == TRUE for c in answer.conditions)


class _ConsumerComposer:
    def __init__(self, call: Call, step_input: Input, backends: Registry) -> None:
        self.call = call
        self.step_input = step_input
        self.decider = Decider(call, step_input, backends, companions.name(call.composite))
        self.requests = Requests(call, step_input)
        self.workloads = self.requests.workloads()
        self.ignored_annotations = self.requests.ignored_annotations(self.workloads)
        self.outcomes: list[Outcome] = []
        self.answer = Answer(ttl=TTL_SETTLED)

    def compose(self) -> Answer:
        if not self.workloads:
            self.remove_brought()
            self.say_nothing_is_wired()
            self.say_whether_it_serves()
            self.compose_companions()
            self.keep_until_left()
            self.warn()
            return self.answer
        self.decide()
        self.answer.requirements = self.decider.requirements
        self.answer.bugs = self.requests.bugs + self.decider.bugs
        self.keep_pairs()
        self.refuse_disagreement()
        self.refuse_taken_companions()
        self.hold_back_together()
        self.patch()
        self.remove_brought()
        self.compose_companions()
        self.mark_used()
        self.derive_condition()
        self.say_whether_it_serves()
        self.warn()
        self.choose_ttl()
        self.keep_until_left()
        return self.answer

    def decide(self) -> None:
        """Decide for every workload, those that run first. Edits have a budget of their own."""
        budget.current().counted.clear()
        first = sorted(self.workloads, key=lambda w: (w.record is None, w.key))
        decided = {workload.key: self.decider.decide(workload) for workload in first}
        self.outcomes = [decided[workload.key] for workload in self.workloads]

    # All workloads of the composite together -------------------------------------------------

    def keep_pairs(self) -> None:
        """Keep a running half of a pair as it runs while the edit of the other half waits."""
        stays = {str(o.request.ref): o for o in self.outcomes if o.keeps_running_template}
        for i, outcome in enumerate(self.outcomes):
            half = stays.get(str(outcome.request.ref))
            if half is None or outcome.keeps_running_template or not outcome.moves_to:
                continue
            pairs = outcome.plan is not None and outcome.plan.description.pairs_phases
            if pairs and self.call.is_observed(outcome.request.key):
                said = f"The edit of its other half, {half.request.key}, waits too."
                self.outcomes[i] = self._fallen_back(outcome, Refused(half.reason, said))

    def refuse_disagreement(self) -> None:
        """Refuse engines of one tier that do not go together, such as a prefill and decode pair.

        Those that wait for a turn would be refused in it.
        """
        together: dict[str, dict[int, Record | None]] = {}
        for i, outcome in enumerate(self.outcomes):
            if outcome.is_wired and outcome.plan is not None and not outcome.keeps_running_template:
                together.setdefault(str(outcome.request.ref), {})[i] = outcome.moves_to
        for moves in together.values():
            plan = self.outcomes[next(iter(moves))].plan
            engines = [engine for i in moves for engine in self.outcomes[i].engines]
            moving = [i for i, moves_to in moves.items() if moves_to]
            try:
                if plan is not None and moving:
                    plan.backend.agree(plan.tier, engines)
            except Refused as refused:
                for i in moving:
                    self.outcomes[i] = self._fallen_back(self.outcomes[i], refused)

    def _fallen_back(self, outcome: Outcome, refused: Refused) -> Outcome:
        """Return the outcome of a workload that may not move now; it asks for no turn."""
        before = outcome.request.record
        progress = turns.unfinished(self.call, outcome.request)
        moves_to = outcome.moves_to if outcome.progress else None
        if before and moves_to and before.wiring == moves_to.wiring:
            progress = turns.progress_of_pods(self.call, outcome.request)
        back = self.decider.fall_back(outcome.request, refused, outcome.found)
        return replace(back, progress=progress)

    def refuse_taken_companions(self) -> None:
        """Refuse to wire anew where an earlier step uses the key of what the pods would mount."""
        if not any(key.startswith(companions.KEY) for key in self.call.desired_keys()):
            return
        made = self._companions([replace(o, record=o.moves_to or o.record) for o in self.outcomes])
        taken = {at: key for at, (key, it) in made.items() if self.call.is_taken(key, it)}
        for i, outcome in enumerate(self.outcomes if taken else ()):
            if record := outcome.moves_to:
                own = companions.config_maps(
                    self.decider.namespace, "", [(outcome.request, record)]
                )
                if mounted := {taken[at] for at in taken.keys() & own.keys()}:
                    refused = Refused(Reason.POD_CONFLICT, response.taken(mounted))
                    self.outcomes[i] = self._fallen_back(outcome, refused)

    def hold_back_together(self) -> None:
        """Hold back every engine that does not run yet while one of the composite waits."""
        if not any(o.action is Action.DEFERRED for o in self.outcomes):
            return
        message = "Held back with the composite's other engines."
        for i, outcome in enumerate(self.outcomes):
            if outcome.action is Action.WIRED and not self.call.is_observed(outcome.request.key):
                self.outcomes[i] = replace(outcome, action=Action.DEFERRED, message=message)
        self.answer.ready = False

    # The answer ------------------------------------------------------------------------------

    def patch(self) -> None:
        for outcome in self.outcomes:
            if outcome.action is Action.DEFERRED:
                self.answer.removed.add(outcome.request.key)
            elif outcome.manifest is not None:
                key = outcome.request.key
                patched = wire.put_back(outcome.request, outcome.manifest, outcome.record)
                is_repeated = outcome.repeats_observed
                self.answer.patched[key] = self._as_read(key, patched) if is_repeated else patched

    def _as_read(self, key: str, patched: Json) -> Json:
        """Return a resource that core applies only to the version that it has read.

        Core's cache may be behind core's own writes; it then begins anew.
        """
        version = self.call.observed_value(key, "metadata", "resourceVersion")
        if not version:
            return patched
        return patched | {"metadata": patched["metadata"] | {"resourceVersion": version}}

    def remove_brought(self) -> None:
        """Remove records and labels that earlier steps bring along, with a note on each."""
        outcomes = {outcome.request.key: outcome for outcome in self.outcomes}
        for key in self.call.desired_keys():
            if key not in self.answer.removed and self.call.desired_mentions(key, names.KEY_PREFIX):
                self._remove_brought(key, outcomes.get(key))

    def _remove_brought(self, key: str, outcome: Outcome | None) -> None:
        came = self.call.desired(key)
        found = structs.derived(came).get(lambda: brought.places(came), key=("brought",))
        if not found:
            return
        record = outcome.record if outcome and key in self.answer.patched else None
        document = dict(self.answer.patched.get(key, came))
        without, notes = brought.removed(self.call, key, found, document, record)
        if notes:
            self.answer.patched[key] = without
            self.ignored_annotations += [f"{key}: {note}" for note in notes]

    def compose_companions(self) -> None:
        """Compose what the consumer's pods mount or reference, on their cluster."""
        for place, (key, manifest) in self._companions(self.outcomes).items():
            ready = self.call.is_observed(key)
            if ready and objects.is_object(manifest):
                ready = self.call.observed_ready(key, by_existing=True)
                self._check_files(place, key, manifest)
            self.answer.resources[key] = Composed(manifest, ready)

    def _check_files(self, place: companions.Place, key: str, resource: Json) -> None:
        """Say of engines that are wired that the cluster does not have the files they mount."""
        files = access.mapping(objects.unwrap(resource), "data")
        why = applied.problem(
            self.call, key, resource, lambda there: access.holds(there.get("data"), files)
        )
        for i, outcome in enumerate(self.outcomes if why else ()):
            if outcome.reason is Reason.WIRED and place in self._files_of(outcome):
                message = (
                    f"The cluster does not have the files that its pods mount ({key}): {why}"
                    f" {outcome.message}"
                )
                self.outcomes[i] = replace(
                    outcome, reason=Reason.NOT_APPLIED, message=message, settled=False
                )

    def _files_of(self, outcome: Outcome) -> Collection[companions.Place]:
        """Return where the pods of a workload mount files of its record."""
        wired = [(outcome.request, outcome.record)] if outcome.is_wired and outcome.record else []
        return companions.config_maps(self.decider.namespace, "", wired)

    def _companions(self, outcomes: list[Outcome]) -> dict[companions.Place, tuple[str, Json]]:
        wired = [(o.request, o.record) for o in outcomes if o.is_wired and o.record]
        place = self.decider.namespace, self.decider.files_name
        return companions.compose(self.call, *place, wired, self._is_left, self._left_by)

    def _left_by(self, before: Collection[str] | None) -> Collection[str]:
        """Return who may still run with a wiring that it has left: kinds that count no pods.

        Nothing says when the last of them is gone. `before`: who had that wiring, None for an
        earlier release, which did not write it down.
        """
        return self._leave if before is None else self._uncounted.intersection(before)

    @cached_property
    def _uncounted(self) -> set[str]:
        keys = self.call.desired_keys()
        return {k for k in keys if self.call.desired_kind(k)[1] not in COUNTED}

    @cached_property
    def _leave(self) -> set[str]:
        """Return the workloads that count no pods and lose their record with this call."""
        path = ("metadata", "annotations", names.ANNOTATION_RECORD)
        stay = {outcome.request.key for outcome in self.outcomes if outcome.record}
        return {key for key in self._uncounted - stay if self.call.observed_value(key, *path)}

    def _is_left(self) -> bool:
        """Return whether no pod runs with an earlier wiring, as far as the clusters reported."""
        records = {o.request.key: o.record.text for o in self.outcomes if o.record}
        path = ("metadata", "annotations", names.ANNOTATION_RECORD)
        asked = {workload.key: workload for workload in self.workloads}
        for key in self.call.desired_keys():
            before = self.call.observed_value(key, *path)
            if before and before != records.get(key):
                return False
            is_engine = key in asked or kinds.is_known(*self.call.desired_kind(key))
            if is_engine and not turns.is_up(self.call, key):
                return False
            if key in records and str(asked[key].manifest.get("kind")) not in COUNTED:
                return False  # nothing says when the last of its old pods is gone
        return True

    def mark_used(self) -> None:
        """Mark the tiers that the engines use, by Usages that the consumer never awaits."""
        who, namespace = self.decider.who, self.decider.namespace
        marks = Marks(self.call, who, namespace, self.answer.requirements)
        for key, manifest in marks.of(self.outcomes).items():
            self.answer.resources[key] = Composed(manifest, True)

    def keep_until_left(self) -> None:
        """Keep the Usages of tiers that the engines leave until core sees that they have left."""
        stays = set(self.call.desired_keys()) - self.answer.removed
        made = {key: it.manifest for key, it in self.answer.resources.items()}
        for key, manifest in usage.unreleased(self.call, made, stays).items():
            self.answer.resources[key] = Composed(manifest, True)
            self.answer.ttl = TTL_UNSETTLED

    def derive_condition(self) -> None:
        off = [o for o in self.outcomes if o.reason is not Reason.WIRED]
        off.sort(key=lambda o: o.action is not Action.DEFERRED)
        # Every reconcile begins before core has looked a tier up.
        self.answer.refusals = [o.reason for o in off if o.reason is not Reason.TIER_UNRESOLVED]
        lines = [f"{o.request.key}: {o.message}" for o in self.outcomes]
        half = self.requests.half_asked([o.request for o in self.outcomes])
        notes = [*self.ignored_annotations, *half]
        text = " ".join([*lines, *notes])
        if len(text) > response.LONGEST:  # it is cut, and each note is news to `warn`
            text = " ".join([*notes, *lines])
        if not off:
            condition = Condition(CONDITION, TRUE, Reason.WIRED, text)
        else:
            unresolved = all(o.reason is Reason.TIER_UNRESOLVED for o in off)
            status = UNKNOWN if unresolved else FALSE
            condition = Condition(CONDITION, status, off[0].reason, text)
        self.answer.conditions = [condition]

    def say_whether_it_serves(self) -> None:
        """Add KVOffloadServing where a tier has an observer: the hardest of several tiers.

        One of before, which core keeps, becomes Unknown.
        """
        engines: dict[str, list[Outcome]] = {}
        for outcome in self.outcomes:
            if outcome.is_wired and outcome.found is not None:
                engines.setdefault(str(outcome.request.ref), []).append(outcome)
        found = [
            serving.of_consumer(
                self.call,
                outcomes[0].found.document,
                [served for outcome in outcomes for served in _served(outcome)],
                runs=partial(self._run, outcomes),
            )
            for outcomes in engines.values()
            if outcomes[0].found is not None
        ]
        said = [condition for condition in found if condition is not None]
        if said:
            order = (FALSE, UNKNOWN, TRUE)
            self.answer.conditions.append(min(said, key=lambda it: order.index(it.status)))
        else:
            kind = serving.CONSUMER_CONDITION
            self.answer.conditions += serving.unjudged(self.call, kind=kind)

    def _run(self, outcomes: list[Outcome]) -> bool:
        """Return whether all are applied, have a ready new pod, are ready and stay."""
        return all(
            o.reason is not Reason.NOT_APPLIED
            and turns.has_ready_pods(self.call, o.request.key)
            and turns.is_ready(self.call, o.request)
            and not self.call.is_leaving(o.request.key)
            for o in outcomes
        )

    def warn(self) -> None:
        """Emit an event for each ignored annotation once: when the condition first names it."""
        if not self.ignored_annotations:
            return
        said = str(self.call.composite_condition(CONDITION).get("message"))
        now = " ".join(response.said(c.message) for c in self.answer.conditions)
        shown = ((each, response.said(each)) for each in self.ignored_annotations)
        self.answer.warnings = [each for each, text in shown if text in now and text not in said]

    def say_nothing_is_wired(self) -> None:
        """Report a request that has no engine, or clear a condition that core still keeps.

        A composite that has never asked for anything gets no condition at all.
        """
        if self.ignored_annotations:
            text = " ".join(self.ignored_annotations)
            self.answer.conditions = [Condition(CONDITION, FALSE, Reason.REQUEST_IGNORED, text)]
            self.answer.refusals = [Reason.REQUEST_IGNORED]
            return
        if self.requests.reference is not None:
            message = (
                "kvOffloadTierRef names a tier, and nothing that this composite desires is known to"
                " be an engine. Annotate its pod template, or name it under `paths` or"
                " `engineImages` of the step's input."
            )
            self.answer.conditions = [Condition(CONDITION, FALSE, Reason.NOTHING_TO_WIRE, message)]
            self.answer.refusals = [Reason.NOTHING_TO_WIRE]
            return
        if self.call.composite_condition(CONDITION):
            message = "No pod of this composite names a tier."
            self.answer.conditions = [Condition(CONDITION, FALSE, Reason.NOT_REQUESTED, message)]

    def choose_ttl(self) -> None:
        if self.answer.requirements:
            settled = all(o.settled for o in self.outcomes)
            is_watched = self.call.is_watched(self.answer.requirements)
            waiting = TTL_WATCHED_UNSETTLED if is_watched else TTL_UNSETTLED
            self.answer.ttl = TTL_WITH_REQUIREMENTS if settled else waiting


def _served(outcome: Outcome) -> list[tuple[str, list[str]]]:
    """Return the namespace of each engine's pods, and the names under which it may serve."""
    if not outcome.engines and outcome.record is not None:
        facts = outcome.record.engines.values()
        namespace = outcome.request.remote_namespace
        return [(namespace, [engine.get("model", "")]) for engine in facts]
    return [
        (engine.namespace, [engine.model, *(engine.flag("--served-model-name") or "").split()])
        for engine in outcome.engines
    ]

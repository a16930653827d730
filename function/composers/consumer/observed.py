"""What of its wiring a workload has, as far as core has read it."""

from dataclasses import replace
from functools import partial

from function import names
from function.api.input import Input
from function.composers import tier_names, usage
from function.composers.consumer import applied, turns
from function.composers.consumer.outcome import Outcome
from function.edge.request import Call
from function.kube import objects
from function.kube.access import Json
from function.pods import replay, running, wire
from function.pods.offload_request import OffloadRequest
from function.pods.record import Record
from function.reasons import Reason

LACKS = (
    "The pods lack a part of their recorded wiring: a webhook or their kind's schema may have"
    " taken it away."
)


class Observed:
    """What core has read of the workloads of one composite."""

    def __init__(self, call: Call, step_input: Input) -> None:
        self.call = call
        self.step_input = step_input

    def workload(self, request: OffloadRequest) -> Json:
        """Return the workload as it is observed, {} where it is not."""
        return objects.unwrap(self.call.observed(request.key) or {}) or {}

    def may_run(self, request: OffloadRequest, wired: wire.Wired) -> bool:
        """Return whether its record is lost or damaged, and it may run with this wiring."""
        return bool(request.unreadable) or (
            request.record is None and running.has(request, wired.manifest, self.workload(request))
        )

    def runs_wired(self, request: OffloadRequest, record: Record) -> bool:
        """Return whether a bare workload is wired, by a Usage of the record's tier or by its pods.

        A digest does not show it: the API server sets defaults, and others take things away. A
        record that a team brings along has no such Usage, and no pods that start with its wiring.
        """
        return request.is_bare and (
            usage.marks(self.call, record.tier, record.child)
            or self.was_applied(request, record, some=True)
        )

    def runs_as_applied(self, request: OffloadRequest, record: Record) -> bool:
        """Return whether the pods are, to the letter, what the record's wiring made of them."""
        now = self.workload(request)
        return replay.with_running_templates(request, record, now, self.step_input) is not None

    def was_applied(self, request: OffloadRequest, record: Record, *, some: bool = False) -> bool:
        """Return whether its pods carry a record's wiring. `some`: a part of it is enough."""
        now = self.workload(request)
        return running.was_applied(request, record, now, self.step_input, some=some)

    def as_applied(self, outcome: Outcome) -> Outcome:
        """Say that a cluster does not have the wiring, or that some of its pods may not."""
        request = outcome.request
        if not self.call.is_observed(request.key):
            return outcome
        if why := self._not_applied(outcome):
            message = f"{why} {outcome.message}"
            return replace(outcome, reason=Reason.NOT_APPLIED, message=message, settled=False)
        notes = [
            turns.left_over(self.call, request.key),
            tier_names.unreconciled(self.call, outcome.found.document) if outcome.found else "",
        ]
        return replace(outcome, message=" ".join(filter(None, [outcome.message, *notes])))

    def _not_applied(self, outcome: Outcome) -> str:
        """Return why the cluster does not have the wiring, "" where it has it or soon will."""
        request, manifest, record = outcome.request, outcome.manifest, outcome.record
        if manifest is None or record is None:
            return ""
        is_wired = partial(self._is_wired_as, request, manifest, record)
        # Core writes the record and the pods at once.
        path = ("metadata", "annotations", names.ANNOTATION_RECORD)
        is_written = self.call.observed_value(request.key, *path) == record.text
        if is_written and not is_wired(self._written(request)):
            return LACKS
        if request.is_bare:
            return ""
        why = applied.problem(self.call, request.key, request.resource, is_wired)
        return f"The cluster does not have this: {why}" if why else ""

    def _is_wired_as(
        self, request: OffloadRequest, manifest: Json, record: Record, there: Json
    ) -> bool:
        """Return whether a workload has the wiring of `manifest`; others may have added to it."""
        return running.has(request, manifest, there) or running.was_applied(
            request, record, there, self.step_input
        )

    def _written(self, request: OffloadRequest) -> Json:
        """Return of the workload as core has written it what holds its wiring."""
        if request.is_bare:
            return self.workload(request)
        return applied.without_status(self.call, request.key, objects.MANIFEST)

"""Find the workloads of a composite that name a tier, and what nothing reads of its annotations."""

import traceback
from collections.abc import Iterable, Sequence
from functools import cached_property

from function import names, workloads
from function.api.input import Input
from function.command import budget
from function.composers.consumer import disaggregation, work
from function.edge import structs
from function.edge.request import Call
from function.kube import objects
from function.kube.access import Json
from function.pods import offload_request, siblings
from function.pods.ignored_annotations import (
    IgnoredAnnotation,
    ignored_annotations,
    on_pod_templates,
)
from function.pods.offload_request import OffloadRequest
from function.pods.siblings import SiblingResources
from function.problems import Refused, internal_error
from function.reasons import Reason
from function.workloads import kinds


class Requests:
    """What a composite and its desired resources ask for.

    `reference`: the tier that the composite names for all of them. `bugs`: tracebacks, for the log.
    """

    def __init__(self, call: Call, step_input: Input) -> None:
        self.call = call
        self.step_input = step_input
        self.reference = offload_request.composite_reference(call.composite)
        self.bugs: list[str] = []

    def workloads(self) -> list[OffloadRequest]:
        """Return the workloads that ask for a tier, or were wired to one, by their keys."""
        path = ("metadata", "annotations", names.ANNOTATION_RECORD)
        records = {key: self.call.observed_value(key, *path) for key in self.call.desired_keys()}
        asking: list[OffloadRequest] = []
        # What runs is read first: a new workload may use up the call's budget.
        for key in sorted(records, key=lambda key: (not records[key], key)):
            text = records[key]
            if not text and not self.could_ask(key):
                continue
            found = self._find(key, self.call.desired(key), text if isinstance(text, str) else "")
            if found is not None:
                asking.append(found)
        asking.sort(key=lambda workload: workload.key)
        if any(w.ref is not None and not w.doubtful for w in asking):
            return [w for w in asking if not w.doubtful or w.record is not None]
        return asking

    def could_ask(self, key: str) -> bool:
        """Return whether a desired resource may hold a workload; most cannot."""
        api_version, kind = self.call.desired_kind(key)
        return (
            kinds.is_known(api_version, kind)
            or any(p.resource == key or p.kind == kind for p in self.step_input.paths)
            or self.call.desired_mentions(key, names.KEY_PREFIX)
        )

    @cached_property
    def siblings(self) -> SiblingResources:
        """Return what the pods of this composite may refer to."""
        keys = self.call.desired_keys()
        found = (
            k
            for k in keys
            if self.call.desired_kind(k)[1] in siblings.KINDS
            or self.call.desired_mentions(k, siblings.LABEL)
        )
        return SiblingResources.among(self.call.desired(key) for key in found)

    def _find(self, key: str, desired: Json, record: str) -> OffloadRequest | None:
        try:
            return self._find_once(key, desired, record)
        except budget.CallSpent as spent:
            why = Refused(Reason.ARGS_NOT_PATCHABLE, str(spent))
            return offload_request.unread(key, desired, record, why)
        except Exception as bug:  # whatever a stranger's document has made of us
            self.bugs.append(traceback.format_exc())
            return offload_request.unread(key, desired, record, internal_error(bug))

    def _find_once(self, key: str, desired: Json, record: str) -> OffloadRequest | None:
        return work.recall(
            desired,
            lambda: offload_request.find(
                key, desired, self.reference, self.step_input, record, self.siblings
            ),
            self.step_input,
            key=(key, record, str(self.reference), self.siblings),
        )

    # What nothing reads ----------------------------------------------------------------------

    def ignored_annotations(self, asking: Iterable[OffloadRequest]) -> list[str]:
        """Return the annotations that nothing reads, of desired resources and the composite."""
        found = {workload.key: workload for workload in asking}
        bare = names.ANNOTATION_TIER.removeprefix(f"{names.GROUP}/")
        ignored = [
            f"{key}: {each}"
            for key in self.call.desired_keys()
            if self.call.desired_mentions(key, names.KEY_PREFIX, bare)
            for each in self._ignored_annotations(key, found.get(key))
        ]
        own = self.call.composite_value("metadata", "annotations") or {}
        on_composite = {"metadata": {"annotations": own}}
        return ignored + [str(s) for s in ignored_annotations(on_composite, (), on_pod_templates())]

    def _ignored_annotations(
        self, key: str, workload: OffloadRequest | None
    ) -> tuple[IgnoredAnnotation, ...]:
        desired = self.call.desired(key)
        return structs.derived(desired).get(
            lambda: offload_request.ignored_annotations_in(key, desired, self.step_input, workload),
            self.step_input,
            key=("strays", key),
        )

    def half_asked(self, asking: Sequence[OffloadRequest]) -> list[str]:
        """Return notes on prefill and decode pairs of which only one phase names a tier."""
        groups = [group for it in asking for group in disaggregation.requested_groups(it)]
        if not any(group.asks for group in groups):
            return []
        asked = {it.key for it in asking}
        silent = [k for k in self.call.desired_keys() if k not in asked and self.could_ask(k)]
        return disaggregation.notes(
            [*groups, *(group for key in silent for group in self._silent(key))]
        )

    def _silent(self, key: str) -> list[disaggregation.PhaseGroup]:
        """Return the phases of a desired resource that names no tier."""
        manifest = objects.unwrap(self.call.desired(key))
        try:
            found = workloads.find(manifest) if manifest else None
        except Refused:  # nobody asked for it to be read
            found = None
        return disaggregation.silent_groups(key, found) if found else []

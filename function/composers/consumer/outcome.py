"""What is decided about one workload."""

from dataclasses import dataclass
from enum import StrEnum

from function.composers import usage
from function.composers.consumer import lookup, recorded
from function.composers.rollout import Progress
from function.composers.tier_plan import TierPlan
from function.contract.engine import Engine
from function.kube.access import Json
from function.pods.offload_request import OffloadRequest
from function.pods.record import Record
from function.reasons import Reason
from function.redact import redacted


class Action(StrEnum):
    """What is done with a workload."""

    WIRED = "Wired"  # its pods are wired anew
    REPLAYED = "Replayed"  # they are wired from the record
    DEFERRED = "Held"  # they are not created yet
    UNTOUCHED = "Left"  # they stay as their author wrote them


@dataclass(frozen=True)
class Outcome:
    """What is done with one workload, and the reason and message of its condition.

    `settled`: nothing is awaited, so no short TTL is needed. `engines`: as the present template has
    them. `keeps_running_template`: its pods run as recorded, and the change of their template
    waits. `repeats_observed`: the manifest repeats what core has read, which may be old.
    """

    request: OffloadRequest
    action: Action
    reason: Reason
    message: str
    manifest: Json | None = None
    record: Record | None = None
    found: lookup.Found | None = None
    plan: TierPlan | None = None
    planned: Record | None = None  # as the plan wires the present template
    engines: tuple[Engine, ...] = ()
    settled: bool = False
    progress: Progress | None = None  # where the tier rolls its wiring out
    keeps_running_template: bool = False
    repeats_observed: bool = False

    @property
    def is_wired(self) -> bool:
        """Return whether its pods carry a wiring after this call."""
        return self.action in (Action.WIRED, Action.REPLAYED)

    @property
    def moves_to(self) -> Record | None:
        """Return the wiring that its pods get now, or in its turn; None where it gets none."""
        if self.action is Action.WIRED:
            return self.record
        return self.planned if self.progress is Progress.BEHIND else None

    @property
    def shares(self) -> list[usage.Share]:
        """Return what its engines share on the tier; [] where that is not known."""
        if self.action is not Action.REPLAYED:
            engines = self.engines if self.plan else ()
            return [usage.Share(redacted(e.model), e.identity) for e in engines]
        record = self.request.record
        if record is None or not record.wired or not recorded.names_tier(self.request, self.found):
            return []
        return recorded.shares(record)

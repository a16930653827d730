"""What becomes of one workload that names a tier, or was wired before: the decision table.

| asks for a tier | tier | seen before | then |
|---|---|---|---|
| not any more, or policy Off | | | left as its author wrote it |
| yes | not yet looked up | unwired | left; nothing is decided on a guess |
| yes | anything but usable | wired | wired again from the record, and the condition says so |
| yes | usable | | wired, or refused with a reason |
| yes, Required | not usable, or refused | never | held back |
| yes, Required | not usable, or refused | unwired | left; wired as soon as it can be |
| yes, Optional | not usable, or refused | | unwired until its pod template changes |
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from function import names
from function.api.input import Input
from function.backends.registry import Registry
from function.composers import usage
from function.composers.consumer import lookup
from function.composers.tier_plan import Refusal, TierPlan
from function.contract.engine import Engine
from function.edge.answer import Requirement
from function.edge.memo import Memo
from function.edge.request import Call
from function.pods import wire
from function.pods.asking import Asking
from function.pods.record import Record
from function.problems import Refused
from function.reasons import Policy, Reason


class Action(StrEnum):
    """What is done with a workload."""

    WIRED = "Wired"  # its pods are wired anew
    REPLAYED = "Replayed"  # they are wired from the record
    HELD = "Held"  # they are not created yet
    LEFT = "Left"  # they stay as their author wrote them


_wired = Memo(2048)


@dataclass
class Outcome:
    """What is done with one workload, and the reason and message that say why.

    `settled`: nothing is awaited, so that nobody has to look again soon.
    """

    asking: Asking
    action: Action
    reason: Reason
    message: str
    manifest: Mapping[str, Any] | None = None
    record: Record | None = None
    found: lookup.Found | None = None
    plan: TierPlan | None = None
    engines: tuple[Engine, ...] = ()
    settled: bool = False

    @property
    def is_wired(self) -> bool:
        """Whether its pods carry a wiring after this call."""
        return self.action in (Action.WIRED, Action.REPLAYED)

    @property
    def shares(self) -> list[usage.Share]:
        """What it may share on its tier, and whether it is wired already."""
        wired = self.action is Action.WIRED
        return [usage.Share(engine.model, engine.identity, wired) for engine in self.engines]


class Decider:
    """Decides for the workloads of one composite, one at a time.

    `requirements`: what core must look up for all of them.
    """

    def __init__(self, call: Call, step_input: Input, backends: Registry, files_name: str) -> None:
        self.call = call
        self.step_input = step_input
        self.backends = backends
        self.files_name = files_name
        self.namespace = str(call.composite_value("metadata", "namespace") or "")
        self.requirements: dict[str, Requirement] = {}

    def decide(self, asking: Asking) -> Outcome:
        """The table, top to bottom."""
        if asking.ref is not None:
            self.requirements |= lookup.requirements(asking.ref, asking.models)
        if asking.unreadable:
            return self._keep_running(asking)
        if asking.refused is not None:
            return self.fall_back(asking, asking.refused.reason, str(asking.refused), None)
        if asking.ref is None:
            message = "It names no tier any more."
            return Outcome(asking, Action.LEFT, Reason.NOT_REQUESTED, message, settled=True)
        if asking.policy is Policy.OFF:
            message = "The policy is Off: unwired on purpose."
            return Outcome(asking, Action.LEFT, Reason.TURNED_OFF, message, settled=True)
        found = lookup.resolve(self.call, asking, self.namespace)
        if found.document is None:
            return self.fall_back(asking, found.state, found.message, found)
        planned = lookup.plan(self.call, asking.ref, found, self.backends)
        self.requirements |= planned.requirements
        if planned.state is not None:
            return self.fall_back(asking, planned.state, planned.message, found)
        if isinstance(planned.plan, Refusal) or planned.plan is None:
            message = f"KVOffloadTier {asking.ref} is not valid: see its Accepted condition."
            return self.fall_back(asking, Reason.INVALID_TIER, message, found)
        if _chose_unwired(asking):
            return self._unwired(asking, found)
        return self._wire(asking, found, planned.plan)

    def _wire(self, asking: Asking, found: lookup.Found, plan: TierPlan) -> Outcome:
        try:
            wired = _wired.get(
                lambda: wire.wire(asking, plan.tier, plan.backend, self.files_name),
                asking,
                plan,
                key=(self.files_name,),
            )
        except Refused as refused:
            return self.fall_back(asking, refused.reason, str(refused), found)
        ready = found.state is Reason.WIRED
        if ready or _was_wired(asking):
            message = f"{wired.summary} {found.message}".strip()
            outcome = Outcome(
                asking, Action.WIRED, found.state, message, wired.manifest, wired.record, found
            )
            outcome.settled = ready
        else:
            outcome = self.fall_back(asking, found.state, found.message, found)
        outcome.plan, outcome.engines = plan, wired.engines
        return outcome

    def fall_back(
        self, asking: Asking, reason: Reason, message: str, found: lookup.Found | None
    ) -> Outcome:
        """It cannot be wired now: what then (see the table)."""
        if asking.record is not None and asking.record.wired:
            return self._replay(asking, asking.record, reason, message, found)
        if reason is Reason.TIER_UNRESOLVED:
            return Outcome(asking, Action.LEFT, reason, message, found=found)
        if reason in wire.LEFT_ALONE:
            return Outcome(asking, Action.LEFT, reason, message, found=found, settled=True)
        if asking.policy is Policy.OPTIONAL:
            return self._unwired(asking, found, reason, message)
        if not self.call.is_observed(asking.key):
            return Outcome(asking, Action.HELD, reason, f"Held back. {message}", found=found)
        return Outcome(asking, Action.LEFT, reason, f"Runs unwired. {message}", found=found)

    def _replay(
        self,
        asking: Asking,
        record: Record,
        reason: Reason,
        message: str,
        found: lookup.Found | None,
    ) -> Outcome:
        try:
            manifest = wire.replay(asking, record, self.step_input)
        except Refused as refused:
            message = f"{message} The recorded wiring does not fit the pod any more: {refused}"
            return Outcome(asking, Action.LEFT, reason, message, found=found)
        message = f"Still wired as recorded. {message}"
        return Outcome(asking, Action.REPLAYED, reason, message, manifest, record, found)

    def _keep_running(self, asking: Asking) -> Outcome:
        """A record of a newer function, or a broken one: the pods stay as they run."""
        message = (
            f"{asking.unreadable}. Its pods stay as they run; changes of the pod template wait."
            f" Upgrade the function, or remove the annotation {names.RECORD}."
        )
        observed = self.call.observed(asking.key) or {}
        manifest = wire.observed_manifest(asking, observed)
        return Outcome(asking, Action.REPLAYED, Reason.RECORD_UNREADABLE, message, manifest)

    def _unwired(
        self,
        asking: Asking,
        found: lookup.Found | None,
        reason: str = Reason.UNWIRED,
        message: str = "",
    ) -> Outcome:
        why = message or "The tier was not ready when the pods were created."
        text = f"Unwired until the pod template changes (policy Optional). {why}"
        record = wire.unwired(asking)
        return Outcome(
            asking, Action.LEFT, reason, text, asking.manifest, record, found, settled=True
        )


def _was_wired(asking: Asking) -> bool:
    return asking.record is not None and asking.record.wired


def _chose_unwired(asking: Asking) -> bool:
    """Optional's choice holds until the pod template changes."""
    record = asking.record
    return (
        asking.policy is Policy.OPTIONAL
        and record is not None
        and not record.wired
        and record.template == asking.digest
    )

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
from dataclasses import dataclass, field
from typing import Any

from function.api.input import Input
from function.composers import tier as tier_composer
from function.composers import usage
from function.composers.consumer import lookup
from function.contract.backend import Tier
from function.edge.memo import Memo
from function.edge.request import Call
from function.edge.structs import encode
from function.pods import record as records
from function.pods import wire
from function.pods.asking import Target
from function.pods.record import Record
from function.problems import Refused

# What is done with a workload: the pods are wired anew, wired from the record, not created yet,
# or stay as their author wrote them.
WIRED, REPLAYED, HELD, LEFT = "Wired", "Replayed", "Held", "Left"

REASON_WIRED = "Wired"
REASON_OFF = "TurnedOff"
REASON_UNWIRED = "Unwired"
REASON_NOT_REQUESTED = "NotRequested"
REASON_INVALID_TIER = "InvalidTier"
REASON_RECORD = "RecordUnreadable"


_wired = Memo(2048)
_models = Memo(2048)


@dataclass
class Outcome:
    """What is done with one workload, and the reason and message that say why.

    `settled`: nothing is awaited, so that nobody has to look again soon.
    """

    target: Target
    action: str
    reason: str
    message: str
    manifest: Mapping[str, Any] | None = None
    record: Record | None = None
    found: lookup.Found | None = None
    shares: list[usage.Share] = field(default_factory=list)
    settled: bool = False


class Decider:
    """Decides for the workloads of one composite, one at a time."""

    def __init__(self, call: Call, given: Input, files_name: str) -> None:
        self.call = call
        self.given = given
        self.files_name = files_name
        self.namespace = str(call.composite_value("metadata", "namespace") or "")

    def decide(self, target: Target) -> Outcome:
        """The table, top to bottom."""
        if target.unreadable:
            return self._keep_running(target)
        if target.refused is not None:
            return self.fall_back(target, target.refused.reason, str(target.refused), None)
        if target.ref is None:
            return Outcome(
                target, LEFT, REASON_NOT_REQUESTED, "It names no tier any more.", settled=True
            )
        if target.policy == "Off":
            message = "The policy is Off: unwired on purpose."
            return Outcome(target, LEFT, REASON_OFF, message, settled=True)
        models = self.models(target)
        found = lookup.resolve(
            self.call, target.ref, models, target.provider_config, self.namespace
        )
        if found.document is None:
            return self.fall_back(target, found.state, found.message, found)
        planned = plan_of(found)
        if planned.problems or planned.tier is None:
            message = f"KVOffloadTier {target.ref} is not valid: see its Accepted condition."
            return self.fall_back(target, REASON_INVALID_TIER, message, found)
        if _chose_unwired(target):
            return self._unwired(target, found)
        return self._wire(target, found, planned.tier)

    def models(self, target: Target) -> tuple[str, ...]:
        """The model strings of the target's engines."""
        return _models.get(lambda: wire.models(target, self.given), target, self.given)

    def _wire(self, target: Target, found: lookup.Found, tier: Tier) -> Outcome:
        try:
            wired = _wired.get(
                lambda: wire.wire(target, tier, self.given, self.files_name),
                target,
                tier,
                self.given,
                key=(self.files_name,),
            )
        except Refused as refused:
            return self.fall_back(target, refused.reason, str(refused), found)
        ready = found.state == lookup.READY
        if ready or _was_wired(target):
            reason = REASON_WIRED if ready else found.state
            message = f"{wired.summary} {found.message}".strip()
            outcome = Outcome(
                target, WIRED, reason, message, wired.manifest, wired.record, found, settled=ready
            )
        else:
            outcome = self.fall_back(target, found.state, found.message, found)
        outcome.shares = [
            usage.Share(model, identity, outcome.action == WIRED)
            for model, identity in wired.shares
        ]
        return outcome

    def fall_back(
        self, target: Target, reason: str, message: str, found: lookup.Found | None
    ) -> Outcome:
        """It cannot be wired now: what then (see the table)."""
        if target.record is not None and target.record.wired:
            return self._replay(target, target.record, reason, message, found)
        if reason == lookup.UNRESOLVED:
            return Outcome(target, LEFT, reason, message, found=found)
        if reason in wire.LEFT_ALONE:
            return Outcome(target, LEFT, reason, message, found=found, settled=True)
        if target.policy == "Optional":
            return self._unwired(target, found, reason, message)
        if not self.call.is_observed(target.key):
            return Outcome(target, HELD, reason, f"Held back. {message}", found=found)
        return Outcome(target, LEFT, reason, f"Runs unwired. {message}", found=found)

    def _replay(
        self,
        target: Target,
        record: Record,
        reason: str,
        message: str,
        found: lookup.Found | None,
    ) -> Outcome:
        try:
            manifest = wire.replay(target, record, self.given)
        except Refused as refused:
            message = f"{message} The recorded wiring does not fit the pod any more: {refused}"
            return Outcome(target, LEFT, reason, message, found=found)
        message = f"Still wired as recorded. {message}"
        return Outcome(target, REPLAYED, reason, message, manifest, record, found)

    def _keep_running(self, target: Target) -> Outcome:
        """A record of a newer function, or a broken one: the pods stay as they run."""
        message = (
            f"{target.unreadable}. Its pods stay as they run; changes of the pod template wait."
            f" Upgrade the function, or remove the annotation {records.ANNOTATION}."
        )
        observed = self.call.observed(target.key) or {}
        manifest = wire.observed_manifest(target, observed)
        return Outcome(target, REPLAYED, REASON_RECORD, message, manifest)

    def _unwired(
        self,
        target: Target,
        found: lookup.Found | None,
        reason: str = REASON_UNWIRED,
        message: str = "",
    ) -> Outcome:
        why = message or "The tier was not ready when the pods were created."
        text = f"Unwired until the pod template changes (policy Optional). {why}"
        record = wire.unwired(target)
        return Outcome(target, LEFT, reason, text, target.manifest, record, found, settled=True)


def plan_of(found: lookup.Found) -> Any:
    """The plan of the tier that was found: its spec validated, remembered by content."""
    document = found.document or {}
    metadata, spec = document.get("metadata", {}), document.get("spec", {})
    namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
    return tier_composer.plan(namespace, name, spec, encode(spec))


def _was_wired(target: Target) -> bool:
    return target.record is not None and target.record.wired


def _chose_unwired(target: Target) -> bool:
    """Optional's choice holds until the pod template changes."""
    record = target.record
    return (
        target.policy == "Optional"
        and record is not None
        and not record.wired
        and record.template == target.digest
    )

"""Mark the tiers that a composite's engines use, by Usages that it never awaits."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from function.composers import auto, rollout, usage
from function.composers.consumer import lookup, recorded
from function.composers.consumer.outcome import Outcome
from function.edge.answer import Requirement
from function.edge.request import Call
from function.kube import access
from function.kube.access import Json
from function.pods.offload_request import OffloadRequest
from function.pods.record import Record


@dataclass
class _Mark:
    """The marks on one tier: its fleet, what each engine shares, and the rollout's progress."""

    fleet: str
    held: list[tuple[usage.Share, usage.UsageOwner]] = field(default_factory=list)
    progress: set[rollout.Progress] = field(default_factory=set)


class Marks:
    """The Usages of one composite. `requirements`: what core must look up for them is added."""

    def __init__(
        self,
        call: Call,
        who: usage.Consumer,
        namespace: str,
        requirements: dict[str, Requirement],
    ) -> None:
        self.call, self.who, self.namespace = call, who, namespace
        self.requirements = requirements

    def of(self, outcomes: Iterable[Outcome]) -> dict[str, Json]:
        """Return the Usages of all that is wired, by their keys."""
        marks: dict[tuple[str, str], _Mark] = {}
        kept: list[tuple[Outcome, usage.UsageOwner]] = []
        for outcome in outcomes:
            if not outcome.is_wired:
                continue
            by = usage.owner(self.call, outcome.request.key, outcome.request.resource)
            if outcome.found is None or not outcome.found.document or not outcome.shares:
                kept.append((outcome, by))
                continue
            _, namespace, name = access.named(outcome.found.document)
            mark = marks.setdefault((namespace, name), _Mark(outcome.found.fleet))
            mark.held += [(share, by) for share in outcome.shares]
            mark.progress |= {outcome.progress} if outcome.progress else set()
        made: dict[str, Json] = {}
        for tier, mark in sorted(marks.items()):
            made |= usage.compose(self.who, tier, mark.fleet, mark.held, _said(mark.progress))
        progress = _said({outcome.progress for outcome, _ in kept if outcome.progress})
        for outcome, by in kept:
            made = self._kept(outcome, by, progress) | made
        for key, manifest in made.items():
            usage.keep(self.call, key, manifest)
        return made

    def _kept(self, outcome: Outcome, by: usage.UsageOwner, progress: str) -> dict[str, Json]:
        """Return the Usages of what is wired to a tier that is gone or closed.

        The first engine holds it, as it did.
        """
        record = outcome.record
        if record is None:
            return {}
        found = usage.kept(self.call, self._usages, record, by, progress)
        if not usage.marks(self.call, record.tier, record.child):
            found |= self._late(outcome.request, record, by)
        return found

    @cached_property
    def _usages(self) -> list[usage.Marked]:
        return usage.observed(self.call)

    def _late(
        self, request: OffloadRequest, record: Record, by: usage.UsageOwner
    ) -> dict[str, Json]:
        """Mark the tier of a record where core ended before it wrote the Usage.

        Teams can write records: a tier counts that admits the namespace.
        """
        ref = auto.recorded(record)
        if ref is None:
            return {}
        self.requirements |= lookup.requirements(ref, request)
        tier = lookup.wired_to(self.call, ref, request, record, self.namespace)
        if tier is None:
            return {}
        _, namespace, name = access.named(tier.document)
        held = [(share, by) for share in recorded.shares(record)]
        return usage.compose(self.who, (namespace, name), tier.fleet, held)


def _said(progress: set[rollout.Progress]) -> str:
    return rollout.worst(progress).value if progress else ""

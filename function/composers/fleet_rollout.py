"""Read how far the children of a fleet are with its last edit, and say so.

A child that may not take the edit yet is composed with its observed spec again. Its labels and
annotations say which revision that was. `waves` decides.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from function import names
from function.api.base import parse
from function.api.tier import RolloutStrategy
from function.composers import conditions as c
from function.composers import overrides, tier_names, tier_plan, waves
from function.composers.tier_plan import TierPlan
from function.composers.waves import FleetCluster, State
from function.edge.answer import FALSE, TRUE, UNKNOWN, Condition
from function.edge.request import Call
from function.kube import access, naming
from function.kube.access import Json
from function.problems import cut

# Of the resource keys of children.
PREFIX = "tier-"

# Of a fleet's spec, what its children do not get.
FLEET_FIELDS = (
    *("clusterSelector", "rollout", "removal", overrides.FIELD),
    *("crossplane", "inferenceClusterRef"),
)

# Of `status.rollout.waiting`, and of a message.
_MOST = 16
# Of a quoted problem, in characters.
_LONGEST = 512

_DELETION = ("metadata", "deletionTimestamp")
_REVISION = ("metadata", "labels", names.LABEL_REVISION)
_UNREADY = ("metadata", "annotations", names.ANNOTATION_UNREADY)
_PREVIOUS = ("metadata", "annotations", names.ANNOTATION_PREVIOUS)
# What a child says while its agents start or are replaced.
_BUSY = frozenset({c.REASON_STARTING, c.REASON_UPDATING})
# What passes by waiting alone; "" is a child that has no condition yet.
_PASSING = _BUSY | {"", c.REASON_RESOLVING}
# What a cluster says then is old, or it says nothing.
_UNSEEN = frozenset(
    {
        c.REASON_NOT_OBSERVED,
        c.REASON_CLUSTER_NOT_FOUND,
        c.REASON_NO_PROVIDER_CONFIG,
        c.REASON_WAITING,
    }
)


@dataclass(frozen=True)
class Stamp:
    """What a child is composed with.

    `unready`: the revision that it took while not ready. `previous`: the fleet's revision before
    the edit in which the child took its own; "" if it took it in none.
    """

    spec: Json
    revision: str
    unready: str = ""
    previous: str = ""


def stamped(spec: Mapping[str, object]) -> Json:
    """Return what of a fleet's (or a child's) spec a child carries."""
    return {key: value for key, value in spec.items() if key not in FLEET_FIELDS}


def revision(spec: Json) -> str:
    """Return the revision of a fleet's spec: a digest of all that its children get of it."""
    rows = spec.get(overrides.FIELD) or []
    return naming.digest(
        _text(stamped(spec)), *([json.dumps(rows, sort_keys=True)] if rows else [])
    )


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


class FleetRollout:
    """The rollout of a fleet's spec over its clusters.

    `clusters`: those that match the selector. `labels`: theirs; None while unresolved.
    """

    def __init__(
        self,
        call: Call,
        plan: TierPlan,
        spec: Json,
        clusters: Iterable[str],
        labels: Mapping[str, Mapping[str, str]] | None,
    ) -> None:
        self.call = call
        self.plan = plan
        self.tier = plan.tier
        self.clusters = tuple(clusters)
        self.labels = labels
        self.spec = spec
        self.revision = revision(spec)
        self.rollout = plan.tier.spec.rollout or RolloutStrategy.model_construct()
        self._targets: dict[tuple[int, ...], Json] = {}
        self._filled: dict[str, Json] = {}
        self._conflicts: dict[tuple[int, ...], str] = {}

    @cached_property
    def _by_cluster(self) -> dict[str, FleetCluster]:
        """Return the members; those that prove nothing of what others are to take: `untouched`.

        - A cluster whose labels change takes other overrides of the same revision: only one with
          those overrides shows that they work. So does an edit that sets overrides back: a cluster
          without them ran its revision before.
        - One that has another revision and the fleet's present spec all the same: the edit touches
          others alone, or it sets back a part of the one before, or this function computes
          revisions in another way. It counts where others are to take the same, unless it ran that
          before any edit.

        What fails in a fleet that is Done was not broken by what one cluster takes later.
        """
        found = {cluster: self._member(cluster) for cluster in self.clusters}
        old = [m for m in found.values() if m.exists and not m.updated]
        if not old:
            return found
        targets = {self._overrides(m.cluster) for m in old}
        is_edit = any(m.revision != self.revision for m in old)
        running = waves.stable(old)

        def compared(m: FleetCluster) -> FleetCluster:
            if not m.updated:
                return m
            alike = self._overrides(m.cluster) in targets
            if m.revision == self.revision:
                counts = alike or (is_edit and self._took_edit(m.cluster))
            else:
                counts = alike and m.revision != running
            excused = m.excused or (self._was_done and not m.done)
            return replace(m, untouched=not counts, excused=excused)

        return {cluster: compared(m) for cluster, m in found.items()}

    @cached_property
    def _previous(self) -> str:
        """Return the fleet's revision before its last edit, "" if it is not known."""
        before = self._before
        was = "previous" if before.get("revision") == self.revision else "revision"
        return str(before.get(was) or "")

    def _took_edit(self, cluster: str) -> bool:
        """Return whether a child took its revision in the fleet's last edit, if that is known."""
        taken = access.text(self._child(cluster), *_PREVIOUS)
        return not self._previous or taken == self._previous

    @cached_property
    def members(self) -> list[FleetCluster]:
        """Return every cluster of the fleet, with what its child shows."""
        return list(self._by_cluster.values())

    @cached_property
    def _stable(self) -> str:
        return waves.stable(self.members)

    @cached_property
    def decision(self) -> waves.Decision:
        """Return who takes the edit now. A finished rollout stays Done, whatever fails later."""
        found = waves.decide(self.members, self.rollout)
        stays = all((m.updated or not m.exists) and not m.refused for m in self.members)
        return replace(found, state=State.DONE, waiting=()) if self._was_done and stays else found

    @property
    def _was_done(self) -> bool:
        was = self._before.get("revision"), self._before.get("state")
        return was == (self.revision, State.DONE)

    @cached_property
    def _before(self) -> Json:
        found: Json = self.call.composite_value("status", "rollout") or {}
        return found

    def stamp(self, cluster: str) -> Stamp | None:
        """Return what a cluster's child is composed with; None while a new one waits."""
        member = self._by_cluster[cluster]
        if member.exists:
            # One with this spec and another revision is as good; that it works is known.
            is_other = member.revision != self.revision and member.done
            has = member.updated and not member.untouched and not is_other
            takes = has or cluster in self.decision.turns
        else:
            # What has not yet this revision's spec may have been edited by hand, or relabelled.
            takes = self.decision.newcomers or self._stable == self.revision
            takes = takes and not member.refused
        if takes:
            previous = self._previous_of(member)
            return Stamp(self.target(cluster), self.revision, self._unready(member), previous)
        return self.observed(cluster) if member.exists else self._running(cluster)

    def observed(self, cluster: str) -> Stamp | None:
        """Return what a cluster's child carries now, None where it has none."""
        child = self._child(cluster)
        spec = access.mapping(child, "spec")
        if not spec:
            return None
        revision = access.text(child, *_REVISION)
        unready = access.text(child, *_UNREADY)
        kept = unready if unready == revision else ""
        return Stamp(stamped(spec), revision, kept, access.text(child, *_PREVIOUS))

    def _child(self, cluster: str) -> Json:
        """Return a cluster's child, {} where there is none. An unchanged one is decoded once."""
        return self.call.observed(PREFIX + cluster) or {}

    def target(self, cluster: str) -> Json:
        """Return what a cluster's child gets of the fleet's present spec."""
        positions = self._overrides(cluster)
        if positions not in self._targets:
            merged = overrides.merged(type(self.tier.spec), self.spec, positions)
            self._targets[positions] = stamped(merged)
        return self._targets[positions]

    def _overrides(self, cluster: str) -> tuple[int, ...]:
        return overrides.matching(self.spec, (self.labels or {}).get(cluster, {}))

    def _is_target(self, cluster: str, spec: Json) -> bool:
        """Return whether a child's spec is the target, defaults of the API server aside.

        No API server fills them in below an override.
        """
        wanted = self.target(cluster)
        return spec == wanted or self._with_defaults(spec) == self._with_defaults(wanted)

    def _with_defaults(self, spec: Json) -> Json:
        key = _text(spec)
        if key not in self._filled:
            on_a_cluster = {**spec, "inferenceClusterRef": {"name": "any"}}
            parsed, _ = parse(type(self.tier.spec), on_a_cluster)
            self._filled[key] = spec if parsed is None else parsed.dump()
        return self._filled[key]

    def _running(self, cluster: str) -> Stamp | None:
        """Return what a new cluster's equals run: those with the same overrides.

        None where there are none, or where they differ: an edit that takes overrides away makes
        equals of clusters that run different ones.
        """
        positions = self._overrides(cluster)
        return None if self._by_cluster[cluster].refused else self._equals.get(positions)

    @cached_property
    def _equals(self) -> dict[tuple[int, ...], Stamp | None]:
        """Return what the clusters run that do not have the edit, by their overrides."""
        found: dict[tuple[int, ...], Stamp | None] = {}
        for member in self.members:
            runs = self.observed(member.cluster) if member.exists else None
            old = not member.updated and member.revision == self._stable
            if runs is None or not (old or member.untouched):
                continue
            runs = replace(runs, unready=runs.revision, previous="")
            first = found.setdefault(self._overrides(member.cluster), runs)
            if first and self._with_defaults(first.spec) != self._with_defaults(runs.spec):
                found[self._overrides(member.cluster)] = None
        return found

    def _previous_of(self, member: FleetCluster) -> str:
        """Return the mark of the edit in which a child takes the revision, or took it."""
        if not member.exists:
            return ""
        is_there = member.updated and member.revision == self.revision
        return access.text(self._child(member.cluster), *_PREVIOUS) if is_there else self._previous

    def _unready(self, member: FleetCluster) -> str:
        """Return the mark of a child that takes the edit unready; it keeps it until it works."""
        if member.updated:
            return self.revision if member.excused and not member.done else ""
        excused = self._in_progress and waves.excuses(member, self._stable)
        return self.revision if excused else ""

    @cached_property
    def _in_progress(self) -> bool:
        return any(m.exists and not m.updated for m in self.members)

    def _member(self, cluster: str) -> FleetCluster:
        found, child = self.observed(cluster), self._child(cluster)
        labels = (self.labels or {}).get(cluster, {})
        if found is None or access.text(child, *_DELETION):
            return FleetCluster(cluster, labels, refused=bool(self.conflict(cluster)))
        updated = self._is_target(cluster, found.spec)
        ready = tier_names.is_ready(child) and _serves(child)
        reason, judged = _reason(child), _is_judged(child)
        return FleetCluster(
            cluster,
            labels,
            exists=True,
            updated=updated,
            done=updated and judged and ready and not reason and self._lasts(child),
            ready=ready,
            failed=judged and reason not in _PASSING,
            busy=not updated and (not judged or reason in _BUSY),
            lost=reason in _UNSEEN,
            excused=bool(found.unready),
            revision=found.revision,
            untouched=updated and found.revision != self.revision,
            refused=bool(not updated and self.conflict(cluster)),
        )

    def conflict(self, cluster: str) -> str:
        """Return why a cluster's overrides do not fit together; each alone is judged before."""
        positions = self._overrides(cluster)
        if len(positions) < 2:
            return ""
        if positions not in self._conflicts:
            problems = tier_plan.problems_with(self.plan, self.spec, positions)
            named = " and ".join(f"[{i}]" for i in positions)
            said = f"spec.{overrides.FIELD}{named} do not fit together: {min(problems, default='')}"
            self._conflicts[positions] = cut(said, _LONGEST) if problems else ""
        return self._conflicts[positions]

    def _lasts(self, child: Json) -> bool:
        """Return whether a child has been ready for long enough, and its engines have moved."""
        wanted = self.rollout.min_ready_seconds
        passed = not wanted or self.call.has_passed(_since(child) + wanted)
        return passed and not _moves_engines(child)

    # What is said of it --------------------------------------------------------------------------

    def status(self) -> Json:
        """Return `status.rollout`, {} where there is no cluster."""
        if self.labels is None:
            return self._before
        if not self.members:
            return {}
        known = {"previous": self._previous} if self._previous else {}
        # An edit that changes no cluster has no wave.
        waves_ = {"wave": self.decision.wave, "waves": self.decision.waves}
        return {
            "revision": self.revision,
            **known,
            "state": str(self.decision.state),
            **(waves_ if self.decision.waves else {}),
            "updated": sum(1 for m in self.members if m.updated and m.settled),
            "waiting": list(self.decision.waiting[:_MOST]),
        }

    def condition(self) -> Condition:
        """Return RolledOut: whether every cluster has the edit, or who keeps it from the others."""
        kind = c.CONDITION_ROLLED_OUT
        if self.labels is None:
            return Condition(kind, UNKNOWN, c.REASON_RESOLVING)
        if not self.members:
            return Condition(kind, FALSE, c.REASON_NO_CLUSTERS)
        state = self.decision.state
        if state is State.DONE:
            said = f"Every selected cluster has revision {self.revision}."
            if not self.decision.waves:
                said = f"Revision {self.revision} changes nothing on the selected clusters."
            return Condition(kind, TRUE, str(state), said)
        return Condition(kind, FALSE, str(state), " ".join(self._sentences(state)))

    def _sentences(self, state: State) -> Iterable[str]:
        has = sum(1 for m in self.members if m.updated)
        total, wave = len(self.members), f"wave {self.decision.wave} of {self.decision.waves}"
        yield f"{has} of {total} clusters have revision {self.revision} ({wave})."
        waiting = self._waiting()
        if state is State.PAUSED:
            yield "The others keep theirs until spec.rollout.paused is false."
        elif state is State.HALTED:
            yield f"Halted by {waiting}; the other clusters keep their revision."
            yield from self._remedy()
        elif waiting:
            yield f"Waiting for {waiting}."

    def _waiting(self) -> str:
        shown = self.decision.waiting[:_MOST]
        more = len(self.decision.waiting) - len(shown)
        said = [f"{cluster} ({self._why(cluster)})" for cluster in shown]
        return ", ".join(said) + (f" and {more} more" if more else "")

    def _why(self, cluster: str) -> str:
        child = self._child(cluster)
        if self._by_cluster[cluster].refused:
            return self.conflict(cluster)
        if not child:
            return "no child yet"
        if cluster in self.decision.turns:
            return "takes it now"
        if not _is_judged(child):
            return "not judged yet"
        if reason := _reason(child):
            return reason
        if not tier_names.is_ready(child):
            return "not ready"
        moves = "its engines move to the new wiring"
        return moves if _moves_engines(child) else "ready, for too short a time"

    def _remedy(self) -> Iterable[str]:
        cluster = self.decision.waiting[0]
        if self._by_cluster[cluster].refused:
            yield "Correct them, or the labels of the InferenceCluster."
            return
        child = naming.label(self.tier.name, cluster, limit=63)
        yield (
            f"kubectl describe kvot -n {self.tier.namespace} {child} says why. It goes on when that"
            " tier is ready. Correct the edit or set it back; or take the cluster out of the fleet:"
            " remove a label of spec.clusterSelector from its InferenceCluster (what runs there"
            " stays; see spec.removal)."
        )


def _is_judged(child: Json) -> bool:
    """Return whether a child's status and conditions are of its present spec.

    Core writes the fields of a status before its conditions, each with a call of the fleet: its own
    condition tells when both are of one generation. A spec that the child refuses leaves the fields
    as they were.
    """
    generation = access.mapping(child, "metadata").get("generation")
    seen = access.mapping(child, "status").get("observedGeneration")
    of_conditions = access.condition(child, "Synced").get("observedGeneration")
    return generation is None or (
        of_conditions in (None, generation) and (seen == generation or tier_names.is_refused(child))
    )


def _moves_engines(child: Json) -> bool:
    """Return whether consumers still go over to a child's new wiring."""
    return access.text(child, "status", "wiring", "remaining") not in ("", "0")


def _since(child: Json) -> float:
    """Return when a child's conditions changed last, in seconds since 1970."""
    times = [0.0]
    for entry in access.objects(child, "status", "conditions"):
        if entry.get("type") in ("Ready", *c.TIER_CONDITIONS):
            try:
                at = datetime.fromisoformat(str(entry.get("lastTransitionTime")))
            except ValueError:
                continue
            times.append(at.timestamp())
    return max(times)


# Reasons of a condition that is True, and not of the edit.
_NOT_THROUGH = (c.REASON_UPDATING, c.REASON_UPDATE_TIMED_OUT)


def _reason(child: Json) -> str:
    """Return the reason of the first of a child's conditions that keeps an edit from being done."""
    by_type = {e.get("type"): e for e in access.objects(child, "status", "conditions")}
    for kind in c.TIER_CONDITIONS:
        entry = by_type.get(kind, {})
        reason = str(entry.get("reason", ""))
        if entry and (entry.get("status") != TRUE or reason in _NOT_THROUGH):
            return reason
    return "" if _serves(child) else access.condition(child, c.CONDITION_SERVING).get("reason", "")


def _serves(child: Json) -> bool:
    """Return False if a child's observer found its cache of no use."""
    return access.condition(child, c.CONDITION_SERVING).get("status") != FALSE

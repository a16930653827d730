"""Decide which spec each child of a fleet is composed with while an edit rolls out.

The children show how far the edit is, and `waves` decides which clusters take it now. A child that
may not take it yet is composed with its observed spec again. Its labels and annotations hold the
revision of that spec. `fleet_rollout_report` reports the rollout.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from function import names
from function.api.base import parse
from function.api.tier import RolloutStrategy
from function.composers import conditions as c
from function.composers import overrides, tier_names, tier_plan, waves
from function.composers.tier_plan import TierPlan
from function.composers.waves import FleetCluster, State
from function.edge.answer import FALSE, TRUE
from function.edge.request import Call
from function.kube import access, naming
from function.kube.access import Json
from function.problems import cut

# Resource keys of children are this and the cluster's name.
PREFIX = "tier-"

# Fields of a fleet's spec that its children do not get.
FLEET_FIELDS = (
    *("clusterSelector", "rollout", "removal", overrides.FIELD),
    *("crossplane", "inferenceClusterRef"),
)

# Of a quoted problem, in characters.
_LONGEST = 512

_DELETION = ("metadata", "deletionTimestamp")
_REVISION = ("metadata", "labels", names.LABEL_REVISION)
_UNREADY = ("metadata", "annotations", names.ANNOTATION_UNREADY)
_PREVIOUS = ("metadata", "annotations", names.ANNOTATION_PREVIOUS)
_UNPROVEN = ("metadata", "annotations", names.ANNOTATION_UNPROVEN)
_VERSION = ("metadata", "resourceVersion")
# How many children, and how large a fleet must be to have none.
_MOST_GUARDED, _GUARDED_BELOW = 8, 400
# Of minReadySeconds, for Serving: an observer calls an engine idle after an hour.
_MOST_SERVING = 1800
# Reasons of a child while its agents start or are replaced.
_BUSY = frozenset({c.REASON_STARTING, c.REASON_UPDATING})
# Reasons that end without an act of anybody; "" is a child without a condition yet.
_PASSING = _BUSY | {"", c.REASON_RESOLVING}
# Reasons with which a child's other fields are old, or missing.
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
    the edit in which the child took its own; "" if it took it in none. `unproven`: it has not
    worked since an edit changed it. `version`: the resourceVersion that a child must still have,
    which waits for an edit.
    """

    spec: Json
    revision: str
    unready: str = ""
    previous: str = ""
    unproven: bool = False
    version: str = ""


def stamped(spec: Mapping[str, object]) -> Json:
    """Return the fields of a fleet's or a child's spec that a child is composed with."""
    return {key: value for key, value in spec.items() if key not in FLEET_FIELDS}


def revision(spec: Json) -> str:
    """Return the revision of a fleet's spec: a digest of all that its children get of it."""
    rows = spec.get(overrides.FIELD)
    return naming.digest(_text(stamped(spec)), *([_text(rows)] if rows else []))


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


class FleetRollout:
    """The rollout of a fleet's spec over its clusters, as its children show it on this call.

    `clusters`: those that match the selector. `labels`: their labels, None while unresolved.
    `anew`: those of them whose child is of a cluster that had the name before. `before`:
    `status.rollout` as the last call wrote it.
    """

    def __init__(
        self,
        call: Call,
        plan: TierPlan,
        spec: Json,
        clusters: Iterable[str],
        labels: Mapping[str, Mapping[str, str]] | None,
        anew: Collection[str] = (),
    ) -> None:
        self.call = call
        self.plan = plan
        self.tier = plan.tier
        self.clusters = tuple(clusters)
        self.anew = anew
        self.labels = labels or {}
        self.resolved = labels is not None
        self.spec = spec
        self.revision = revision(spec)
        self.strategy = plan.tier.spec.rollout or RolloutStrategy.model_construct()
        self.before: Json = call.composite_value("status", "rollout") or {}
        self._targets: dict[tuple[int, ...], Json] = {}
        self._filled: dict[str, Json] = {}
        self._conflicts: dict[tuple[int, ...], str] = {}

    @cached_property
    def _shown(self) -> dict[str, FleetCluster]:
        """Return what each cluster's child shows, before clusters are compared."""
        return {cluster: self._read(cluster) for cluster in self.clusters}

    @cached_property
    def _old(self) -> list[FleetCluster]:
        """Return the clusters whose child does not have the edit."""
        return [m for m in self._shown.values() if m.exists and not m.updated]

    @cached_property
    def _stable(self) -> str:
        return waves.stable(self._old)

    @cached_property
    def by_cluster(self) -> dict[str, FleetCluster]:
        """Return the clusters; `untouched` marks those that prove nothing for the ones that wait.

        - Only a cluster with the same overrides shows that they work. A label that changes gives a
          cluster other overrides of the same revision. An edit that sets overrides back changes
          nothing on the clusters that never had them.
        - What fails once all have the edit, and has worked with it, was broken by no edit. So was a
          cluster that joined by then: it never worked.
        - A child can have the fleet's present spec under another revision: the edit touches other
          clusters alone, it sets back a part of the one before, or this function computes
          revisions differently. It counts where the ones that wait get the same overrides, unless
          it ran that revision before any edit.

        """
        if not self._old:  # the first spec of a fleet has worked nowhere before
            found = self._shown.items()
            return {cluster: _excused(m) for cluster, m in found} if self.previous else self._shown
        targets = {self._overrides(m.cluster) for m in self._old}
        is_edit = any(m.revision != self.revision for m in self._old)

        def compared(m: FleetCluster) -> FleetCluster:
            if not m.updated:
                return m
            alike = self._overrides(m.cluster) in targets
            if m.revision == self.revision:
                counts = alike or (is_edit and self._took_edit(m.cluster))
            else:
                counts = alike and m.revision != self._stable
            return replace(m, untouched=not counts)

        return {cluster: compared(m) for cluster, m in self._shown.items()}

    @cached_property
    def members(self) -> list[FleetCluster]:
        """Return every cluster of the fleet, with what its child shows."""
        return list(self.by_cluster.values())

    @cached_property
    def previous(self) -> str:
        """Return the fleet's revision before its last edit, "" if it is not known."""
        was = "previous" if self.before.get("revision") == self.revision else "revision"
        return str(self.before.get(was) or "")

    def _took_edit(self, cluster: str) -> bool:
        """Return whether a child took its revision in the fleet's last edit, if that is known."""
        taken = access.text(self.child(cluster), *_PREVIOUS)
        return not self.previous or taken == self.previous

    @cached_property
    def decision(self) -> waves.Decision:
        """Return who takes the edit now. A finished rollout stays Done, whatever fails later.

        Not where a cluster has no child, or is back with one that an edit broke.
        """
        found = waves.decide(self.members, self.strategy)
        settled = all(m.exists and not (m.refused or m.unproven) for m in self.members)
        stays = settled and not self._old
        return replace(found, state=State.DONE, waiting=()) if self._was_done and stays else found

    @property
    def _was_done(self) -> bool:
        was = self.before.get("revision"), self.before.get("state")
        return was == (self.revision, State.DONE)

    def stamp(self, cluster: str) -> Stamp | None:
        """Return what a cluster's child is composed with; None while a new one waits."""
        member = self.by_cluster[cluster]
        if member.exists:
            # A child that works with this spec keeps its older revision.
            is_other = member.revision != self.revision and member.done
            has = member.updated and not member.untouched and not is_other
            takes = has or cluster in self.decision.turns
        else:
            # A child of this revision with another spec was edited by hand, or relabelled.
            takes = self.decision.newcomers or self._stable == self.revision
            takes = takes and not member.refused
        if takes:
            unready, previous = self._unready(member), self._previous_of(member)
            changes = member.exists and not member.updated
            unproven = not unready and (changes or member.unproven)
            return Stamp(self.target(cluster), self.revision, unready, previous, unproven)
        if not member.exists:
            return self._running(cluster)
        if (kept := self.observed(cluster)) is None:
            return None
        kept = replace(kept, unproven=member.unproven)
        if not member.updated:
            return replace(kept, version=self._guard(cluster))
        # A child of an older release has no revision, and needs one to be marked.
        own = kept.revision or self.revision
        unready = own if member.excused and not member.done else ""
        return replace(kept, revision=kept.revision or unready, unready=unready)

    def _guard(self, cluster: str) -> str:
        """Return the resourceVersion that a child which waits must still have, "" for any.

        Core's cache can be behind core's own writes: what a child has just been given would be
        taken back, and given again, for as long as it is (seed 1000014614 of the worlds). With a
        version core begins anew instead. Only the children that get the edit next have one, and
        fewer in a large fleet: a status that changes while core applies makes core begin anew too.
        """
        return access.text(self.child(cluster), *_VERSION) if cluster in self._next else ""

    @cached_property
    def _next(self) -> frozenset[str]:
        """Return the first of the clusters that wait for the edit, and work."""
        number = min(_MOST_GUARDED, _GUARDED_BELOW // len(self.clusters))
        waiting = [it for it in self.decision.pending if it not in self.decision.turns]
        return frozenset(waiting[:number])

    def observed(self, cluster: str) -> Stamp | None:
        """Return what a cluster's child carries now, None where it has none."""
        child = self.child(cluster)
        spec = access.mapping(child, "spec")
        if not spec:
            return None
        revision = access.text(child, *_REVISION)
        unready = access.text(child, *_UNREADY)
        kept = unready if unready == revision else ""
        previous, unproven = access.text(child, *_PREVIOUS), access.text(child, *_UNPROVEN)
        return Stamp(stamped(spec), revision, kept, previous, unproven == "true")

    def child(self, cluster: str) -> Json:
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
        return overrides.matching(self.spec, self.labels.get(cluster, {}))

    def _is_target(self, cluster: str, spec: Json) -> bool:
        """Return whether a child's spec is the target, defaults of the API server aside.

        No API server fills them in below an override.
        """
        wanted = self.target(cluster)
        return spec == wanted or self._with_defaults(spec) == self._with_defaults(wanted)

    def differing(self, cluster: str) -> str:
        """Return a field in which a child with the present revision is not as the fleet has it."""
        found = self.observed(cluster)
        if found is None or found.revision != self.revision:
            return ""
        specs = found.spec, self.target(cluster)
        return access.first_difference(*map(self._with_defaults, specs))

    def _with_defaults(self, spec: Json) -> Json:
        key = _text(spec)
        if key not in self._filled:
            on_a_cluster = {**spec, "inferenceClusterRef": {"name": "any"}}
            parsed, _ = parse(type(self.tier.spec), on_a_cluster)
            self._filled[key] = spec if parsed is None else parsed.dump()
        return self._filled[key]

    def _running(self, cluster: str) -> Stamp | None:
        """Return what the clusters run that have a new cluster's overrides.

        None where there are none, or where they differ: after an edit that removes overrides,
        clusters with the same overrides may still run different ones.
        """
        positions = self._overrides(cluster)
        return None if self.by_cluster[cluster].refused else self._equals.get(positions)

    @cached_property
    def _equals(self) -> dict[tuple[int, ...], Stamp | None]:
        """Return what clusters without the edit run, by their overrides; None where they differ."""
        found: dict[tuple[int, ...], Stamp | None] = {}
        for member in self.members:
            runs = self.observed(member.cluster) if member.exists else None
            old = not member.updated and member.revision == self._stable
            if runs is None or not (old or member.untouched):
                continue
            runs = replace(runs, unready=runs.revision, previous="", unproven=False)
            first = found.setdefault(self._overrides(member.cluster), runs)
            if first and self._with_defaults(first.spec) != self._with_defaults(runs.spec):
                found[self._overrides(member.cluster)] = None
        return found

    def _previous_of(self, member: FleetCluster) -> str:
        """Return the mark of the edit in which a child takes the revision, or took it."""
        if not member.exists:
            return ""
        is_there = member.updated and member.revision == self.revision
        return access.text(self.child(member.cluster), *_PREVIOUS) if is_there else self.previous

    def _unready(self, member: FleetCluster) -> str:
        """Return the mark of a child that takes the edit unready; it keeps it until it works."""
        if member.updated:
            return self.revision if member.excused and not member.done else ""
        return self.revision if self._old and waves.excuses(member, self._stable) else ""

    def _read(self, cluster: str) -> FleetCluster:
        found, child = self.observed(cluster), self.child(cluster)
        labels = self.labels.get(cluster, {})
        if found is None or cluster in self.anew or access.text(child, *_DELETION):
            return FleetCluster(cluster, labels, refused=bool(self.conflict(cluster)))
        updated = self._is_target(cluster, found.spec)
        is_old = bool(tier_names.unreconciled(self.call, child))
        ready = tier_names.is_ready(child) and _serves(child) and not is_old
        reason, judged = unfinished(child), tier_names.is_judged(child)
        works = judged and ready and not reason and self._lasts(child, unproven=found.unproven)
        unproven = found.unproven and not works
        # What core fails at may be the edit. A pause says nothing of it.
        halts = is_old and unproven and not tier_names.is_paused(child)
        failed = halts or (judged and reason not in _PASSING)
        lost = reason in _UNSEEN or (is_old and not halts)
        return FleetCluster(
            cluster,
            labels,
            exists=True,
            updated=updated,
            done=updated and works,
            ready=ready,
            failed=failed,
            busy=not is_old and (not judged or reason in _BUSY),
            lost=lost,
            # What fails in a fleet that is Done was broken by no edit; each later one must know.
            excused=bool(found.unready) or (self._was_done and not unproven and (failed or lost)),
            unproven=unproven,
            revision=found.revision,
            untouched=updated and found.revision != self.revision,
            refused=bool(not updated and self.conflict(cluster)),
            misses=updated and (not judged or tier_names.is_refused(child)),
        )

    def conflict(self, cluster: str) -> str:
        """Return why a cluster's overrides do not fit together, "" if they do.

        Each of them alone was validated before.
        """
        positions = self._overrides(cluster)
        if len(positions) < 2:
            return ""
        if positions not in self._conflicts:
            problems = tier_plan.problems_with(self.plan, self.spec, positions)
            named = " and ".join(f"[{i}]" for i in positions)
            said = f"spec.{overrides.FIELD}{named} do not fit together: {min(problems, default='')}"
            self._conflicts[positions] = cut(said, _LONGEST) if problems else ""
        return self._conflicts[positions]

    def _lasts(self, child: Json, *, unproven: bool) -> bool:
        """Return whether a child has been ready for long enough, and its engines have moved.

        Serving changes with the traffic: it counts until the child has worked once, and for less
        time than it takes to change again. Else an edit of busy clusters would never end.
        """
        wanted = self.strategy.min_ready_seconds
        ends = [_since(child, "Ready", *c.TIER_CONDITIONS) + wanted] if wanted else []
        if wanted and unproven:
            ends.append(_since(child, c.CONDITION_SERVING) + min(wanted, _MOST_SERVING))
        passed = all(map(self.call.has_passed, ends))
        return passed and not moves_engines(child)


def _excused(member: FleetCluster) -> FleetCluster:
    fails = (member.failed or member.lost) and not member.unproven
    return replace(member, excused=member.excused or fails)


def moves_engines(child: Json) -> bool:
    """Return whether consumers still move to a child's new wiring."""
    return access.text(child, "status", "wiring", "remaining") not in ("", "0")


def _since(child: Json, *kinds: str) -> float:
    """Return when a child's conditions of these types changed last, in seconds since 1970."""
    entries = access.objects(child, "status", "conditions")
    return access.latest(e.get("lastTransitionTime") for e in entries if e.get("type") in kinds)


# Reasons of a condition that is True while the edit is not done.
_NOT_THROUGH = (c.REASON_UPDATING, c.REASON_UPDATE_TIMED_OUT)


def unfinished(child: Json) -> str:
    """Return the reason of the first condition of a child that keeps an edit from being done."""
    by_type = {e.get("type"): e for e in access.objects(child, "status", "conditions")}
    for kind in c.TIER_CONDITIONS:
        entry = by_type.get(kind, {})
        reason = str(entry.get("reason", ""))
        if entry and (entry.get("status") != TRUE or reason in _NOT_THROUGH):
            return reason
    return "" if _serves(child) else access.condition(child, c.CONDITION_SERVING).get("reason", "")


def _serves(child: Json) -> bool:
    """Return False if a child's observer found that its cache serves nobody."""
    return access.condition(child, c.CONDITION_SERVING).get("status") != FALSE

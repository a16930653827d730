"""Report how far a fleet's edit is: `status.rollout` and the condition RolledOut.

`fleet_rollout` decides; nothing here changes what a child is composed with.
"""

from collections.abc import Iterable, Sequence

from function.composers import conditions as c
from function.composers import fleet_rollout, tier_names
from function.composers.fleet_rollout import FleetRollout
from function.composers.waves import State
from function.edge.answer import FALSE, TRUE, UNKNOWN, Condition
from function.kube import access, naming
from function.kube.access import Json

# Clusters in `status.rollout.waiting`, and in a message.
_MOST = 16


def status(rollout: FleetRollout) -> Json:
    """Return `status.rollout`: as it was while unresolved, {} where there is no cluster."""
    if not rollout.resolved:
        return rollout.before
    if not rollout.members:
        return {}
    decision = rollout.decision
    done = decision.state is State.DONE
    return {
        "revision": rollout.revision,
        **({"previous": rollout.previous} if rollout.previous else {}),
        "state": str(decision.state),
        # An edit that changes no cluster has no wave.
        **({"wave": decision.wave, "waves": decision.waves} if decision.waves else {}),
        "updated": sum(1 for m in rollout.members if m.updated and (m.done if done else m.settled)),
        "waiting": list(decision.waiting[:_MOST]),
    }


def condition(rollout: FleetRollout) -> Condition:
    """Return RolledOut: whether every cluster has the edit, or what the others wait for."""
    kind = c.CONDITION_ROLLED_OUT
    if not rollout.resolved:
        return Condition(kind, UNKNOWN, c.REASON_RESOLVING)
    if not rollout.members:
        return Condition(kind, FALSE, c.REASON_NO_CLUSTERS)
    state = rollout.decision.state
    if state is State.DONE:
        text = f"Every selected cluster has revision {rollout.revision}."
        if not rollout.decision.waves:
            text = f"Revision {rollout.revision} changes nothing on the selected clusters."
        return Condition(kind, TRUE, str(state), text + _broken(rollout))
    return Condition(kind, FALSE, str(state), " ".join(_sentences(rollout)))


def _broken(rollout: FleetRollout) -> str:
    """Return a sentence on clusters that fail and hold up no edit: no edit made them fail."""
    broken = [m.cluster for m in rollout.members if m.failed or m.lost]
    return f" Failing, but not halting it: {_named(rollout, broken)}." if broken else ""


def _sentences(rollout: FleetRollout) -> Iterable[str]:
    """Yield the sentences about a rollout that is not Done."""
    decision, waiting = rollout.decision, _named(rollout, rollout.decision.waiting)
    has = sum(1 for m in rollout.members if m.updated)
    total, wave = len(rollout.members), f"wave {decision.wave} of {decision.waves}"
    yield f"{has} of {total} clusters have revision {rollout.revision} ({wave})."
    if decision.state is State.PAUSED:
        yield "The others keep theirs until spec.rollout.paused is false."
    elif decision.state is State.HALTED:
        keep = "; the other clusters keep their revision" if has < total else ""
        yield f"Halted by {waiting}{keep}."
        yield _remedy(rollout)
    elif waiting:
        yield f"Waiting for {waiting}."


def _named(rollout: FleetRollout, clusters: Sequence[str]) -> str:
    more = len(clusters) - _MOST
    named = [f"{cluster} ({_why(rollout, cluster)})" for cluster in clusters[:_MOST]]
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")


def _why(rollout: FleetRollout, cluster: str) -> str:
    """Return why the rollout waits for a cluster."""
    child = rollout.child(cluster)
    if rollout.by_cluster[cluster].refused:
        return rollout.conflict(cluster)
    if cluster in rollout.anew:
        return "the tier of the cluster that had the name before is still there"
    if not child:
        return "no child yet"
    if cluster in rollout.decision.turns:
        # It has the edit, and another writer holds a field against core.
        other = rollout.differing(cluster)
        return f"takes it now; its child's spec.{other} is another's" if other else "takes it now"
    if tier_names.unreconciled(rollout.call, child):
        return "Crossplane does not reconcile its child"
    if not tier_names.is_judged(child):
        return "not judged yet"
    if reason := fleet_rollout.unfinished(child):
        return reason
    if not tier_names.is_ready(child):
        return "not ready"
    if not fleet_rollout.moves_engines(child):
        return "ready, for too short a time"
    late = access.text(child, "status", "wiring", "waitsFor")
    return "its engines move to the new wiring" + (f", and wait for {late}" if late else "")


def _remedy(rollout: FleetRollout) -> str:
    """Return what ends a halt."""
    tier, cluster = rollout.tier, rollout.decision.waiting[0]
    if rollout.by_cluster[cluster].refused:
        return "Correct them, or the labels of the InferenceCluster."
    child = naming.label(tier.name, cluster, limit=63)
    return (
        f"kubectl describe kvot -n {tier.namespace} {child} says why. It goes on when that tier is"
        " ready. Correct the edit or set it back; or take the cluster out of the fleet: remove a"
        " label of spec.clusterSelector from its InferenceCluster (what runs there stays; see"
        " spec.removal)."
    )

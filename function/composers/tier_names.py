"""Look up a tier by a name: its own, or that of its fleet."""

from collections.abc import Callable, Mapping
from typing import Any

from function import names
from function.composers.conditions import CONDITION_ACCEPTED, CONDITION_SERVING
from function.edge.answer import FALSE, TRUE, Requirement
from function.edge.request import Call
from function.kube import access

TIER = (names.API_VERSION, "KVOffloadTier")

# Core's own are about core, or only sum up; whether engines use a tier keeps it from nothing.
_SAY_NOTHING = ("Responsive", "Ready", CONDITION_SERVING)
_DELETION = ("metadata", "deletionTimestamp")
# Seconds after which what a tier says is old.
_OLD = 300


def requirements(
    key: str, children_key: str, namespace: str, name: str, provider_config: str = ""
) -> dict[str, Requirement]:
    """Require both that the name may mean: the tier itself and a fleet's children.

    `provider_config`: the ClusterProviderConfig of the one child that is wanted, "" for all.
    """
    labels = {names.LABEL_FLEET: name}
    if provider_config:
        labels[names.LABEL_PROVIDER_CONFIG] = names.provider_config(provider_config)
    return {
        key: Requirement(*TIER, name=name, namespace=namespace),
        children_key: Requirement(*TIER, labels=labels, namespace=namespace),
    }


def is_refused(tier: Mapping[str, Any]) -> bool:
    """Return whether the spec that a tier has is not the one that runs."""
    return access.condition(tier, CONDITION_ACCEPTED).get("status") == FALSE


def _refuses(tier: Mapping[str, Any]) -> bool:
    """Return whether a tier is refused as it is: one that is paused was refused before."""
    return is_refused(tier) and not is_paused(tier)


def is_judged(tier: Mapping[str, Any]) -> bool:
    """Return whether a tier's status and conditions are of its present spec.

    Core writes the fields of a status before its conditions, and each write calls who reads them:
    its own condition tells when both are of one generation. A spec that the tier refuses leaves the
    fields as they were.
    """
    generation = access.mapping(tier, "metadata").get("generation")
    seen = access.mapping(tier, "status").get("observedGeneration")
    of_conditions = access.condition(tier, "Synced").get("observedGeneration")
    return generation is None or (
        of_conditions in (None, generation) and (seen == generation or _refuses(tier))
    )


def uncomposed(tier: Mapping[str, Any]) -> str:
    """Return a sentence on an edit of a tier that core has not composed yet, "" for none.

    A status that names no generation is of an older function or XRD, and will never name one.
    """
    seen = access.mapping(tier, "status").get("observedGeneration")
    if seen is None or is_judged(tier):
        return ""
    return f"the edit of its spec is not composed yet. {if_it_stays(tier)}"


def if_it_stays(tier: Mapping[str, Any]) -> str:
    """Return what to do where core does not compose an edit of a tier."""
    _, namespace, name = access.named(tier)
    return (
        f"If it stays so, kubectl describe kvot -n {namespace} {name} says why: a condition Synced"
        " that is not True, or the annotation crossplane.io/paused."
    )


def unreconciled(call: Call, tier: Mapping[str, Any]) -> str:
    """Return that Crossplane does not reconcile a tier, whose status is old then, "" otherwise.

    A function that starts again fails for seconds, of each tier at once: nobody repeats that. One
    that is refused is reconciled.
    """
    synced = access.condition(tier, "Synced")
    if _refuses(tier) or not _is_unreconciled(call, synced):
        return ""
    _, namespace, name = access.named(tier)
    return (
        f"Crossplane does not reconcile KVOffloadTier {namespace}/{name}"
        f" ({synced.get('reason', '')}), and what it says may be old: kubectl describe kvot"
        f" -n {namespace} {name}."
    )


def is_paused(tier: Mapping[str, Any]) -> bool:
    """Return whether somebody keeps Crossplane from reconciling a tier."""
    return access.condition(tier, "Synced").get("reason") == "ReconcilePaused"


def _is_unreconciled(call: Call, synced: Mapping[str, Any]) -> bool:
    if synced.get("status") != FALSE:
        return False
    since = access.moment(synced.get("lastTransitionTime"))
    return since is None or call.has_passed(since + _OLD)


def is_ready(tier: Mapping[str, Any]) -> bool:
    """Return whether a tier is ready by its present spec and is not being deleted."""
    return not access.text(tier, *_DELETION) and _is_ready(
        lambda kind: access.condition(tier, kind).get("status", "")
    )


def is_ready_child(call: Call, key: str) -> bool:
    """Return whether a composed tier is ready, by what is not old, and is not being deleted."""
    if call.is_leaving(key):
        return False
    is_old = _is_unreconciled(call, call.observed_whole_condition(key, "Synced"))
    return not is_old and _is_ready(lambda kind: call.observed_condition(key, kind))


def _is_ready(status: Callable[[str], str]) -> bool:
    """Return whether Ready is of the present spec: core leaves it when an edit is refused."""
    return status("Ready") == TRUE and status(CONDITION_ACCEPTED) != FALSE


def unready(tier: Mapping[str, Any]) -> str:
    """Return what keeps a tier from being ready: its deletion, or its conditions."""
    if access.text(tier, *_DELETION):
        return "it is being deleted."
    found = sorted(
        f"{each.get('type')}={each.get('status')} ({each.get('reason', '')})"
        for each in access.objects(tier, "status", "conditions")
        if each.get("status") != TRUE and each.get("type") not in _SAY_NOTHING
    )
    return "; ".join(found) or "its status has no condition Ready=True yet."

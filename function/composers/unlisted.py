"""Find what a composite has composed where it does not list it any more.

Core knows what a composite composes by `spec.crossplane.resourceRefs`. Who replaces the composite
(`kubectl replace`, Argo CD with `Replace=true`) takes that list away, and core then observes
nothing. A fleet would look new, and its edit would reach every cluster at once; an engine would
look as if it had never run. Core's label leads to what is there, which is taken for observed.
"""

from function import names
from function.composers import conditions
from function.edge.answer import Requirement
from function.edge.request import Call
from function.kube import naming, objects
from function.workloads import kinds

# Requirements of this module begin with this.
_PREFIX = "unlisted/"
# A composite without any of these has had no answer of this function yet.
_ANSWERED = (conditions.CONDITION_ACCEPTED, "KVOffloadReady", "KVOffloadTiersReady")
# What this function composes by itself, and what is looked up at most with the step's own kinds.
_KINDS = (
    (names.API_VERSION, "KVOffloadTier"),
    (names.USAGE_API_VERSION, "Usage"),
    (objects.API_VERSION, "Object"),
)
_MOST = 16
_KIND = ("apiVersion", "kind")


def requirements(call: Call) -> dict[str, Requirement]:
    """Return what must be looked up for a composite that core observes nothing of, {} else."""
    if call.anything_observed:
        return {}
    said = call.composite_value("status", "conditions") or ()
    if not any(each.get("type") in _ANSWERED for each in said):
        return {}
    root = call.composite_value("metadata", "labels", naming.COMPOSITE_LABEL)
    labels = {naming.COMPOSITE_LABEL: str(root or call.composite_value("metadata", "name"))}
    desired = {
        (api_version, kind)
        for key in call.desired_keys()
        for api_version, kind in [[call.desired_value(key, each) for each in _KIND]]
        if isinstance(api_version, str) and isinstance(kind, str)
    }
    engines_first = sorted(desired, key=lambda each: (not kinds.is_known(*each), each))
    place = call.composite_value("metadata", "namespace") or None
    return {
        f"{_PREFIX}{api_version}/{kind}": Requirement(
            api_version, kind, labels=labels, namespace=place
        )
        for api_version, kind in [*dict.fromkeys([*_KINDS, *engines_first])][:_MOST]
    }

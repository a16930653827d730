"""Find what a composite has composed where it does not list it any more.

Core knows what a composite composes by `spec.crossplane.resourceRefs`. Who replaces the composite
(`kubectl replace`, Argo CD with `Replace=true`) takes that list away, and core then observes
nothing. A fleet would look new, and its edit would reach every cluster at once; an engine would
look as if it had never run. Core's label leads to what is there, which is taken for observed.
"""

from function import names
from function.composers.cluster import CONDITION_TIERS
from function.composers.conditions import CONDITION_ACCEPTED
from function.composers.consumer.composer import CONDITION
from function.edge.answer import Composed, Requirement
from function.edge.request import Call
from function.kube import access, naming, objects
from function.workloads import kinds

# Requirements of this module begin with this.
_PREFIX = "unlisted/"
# A composite without any of these has had no answer of this function yet.
_ANSWERED = (CONDITION_ACCEPTED, CONDITION_TIERS, CONDITION)
# What this function composes by itself, and what is looked up at most with the step's own kinds.
_KINDS = (
    (names.API_VERSION, "KVOffloadTier"),
    (names.USAGE_API_VERSION, "Usage"),
    (objects.API_VERSION, "Object"),
)
_FILES = ("v1", "ConfigMap")
_MOST = 16
_METADATA = ("name", "namespace", "labels", "annotations")


def requirements(call: Call) -> dict[str, Requirement]:
    """Return what must be looked up for a composite that core observes nothing of, {} else."""
    if call.anything_observed:
        return {}
    said = call.composite_value("status", "conditions") or ()
    if not any(each.get("type") in _ANSWERED for each in said):
        return {}
    root = call.composite_value("metadata", "labels", naming.COMPOSITE_LABEL)
    labels = {naming.COMPOSITE_LABEL: str(root or call.composite_value("metadata", "name"))}
    desired = {call.desired_own_kind(key) for key in call.desired_keys()}
    # The files of bare workloads are bare too; for others core may have no right to read them.
    own = [*_KINDS, *((_FILES,) if any(kinds.is_known(*it) for it in desired if all(it)) else ())]
    engines_first = sorted(filter(all, desired), key=lambda it: (not kinds.is_known(*it), it))
    place = call.composite_value("metadata", "namespace") or None
    return {
        f"{_PREFIX}{api_version}/{kind}": Requirement(
            api_version, kind, labels=labels, namespace=place
        )
        for api_version, kind in [*dict.fromkeys([*own, *engines_first])][:_MOST]
    }


def usages(call: Call) -> dict[str, Composed]:
    """Return the Usages that only the lookups found, as they are, by key.

    Composed once more they are listed, and the next call drops what is not needed. Nobody else
    would, and what they are of could not be deleted.
    """
    found = {}
    for key in sorted(call.taken_for_observed.difference(call.desired_keys())):
        document = call.observed(key) or {}
        if document.get("kind") != "Usage" or call.is_leaving(key):
            continue
        kept = {k: v for k, v in access.mapping(document, "metadata").items() if k in _METADATA}
        api_version, kind, spec = (document.get(k) for k in ("apiVersion", "kind", "spec"))
        manifest = {"apiVersion": api_version, "kind": kind, "metadata": kept, "spec": spec}
        found[key] = Composed(manifest, True)
    return found

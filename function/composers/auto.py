"""Find the tiers that may be chosen for a workload that names `auto` instead of one.

Platform teams label them (`names.LABEL_AUTO`). Chosen is the first that takes the pods as they are;
the record keeps it, so that no tier that comes later moves an engine.
"""

from collections.abc import Mapping

from function import names
from function.composers import tier_names
from function.composers.admission import admits
from function.edge.answer import Requirement
from function.edge.request import Call
from function.kube import access
from function.kube.access import Json
from function.pods.offload_request import OffloadRequest
from function.pods.record import Record
from function.pods.refs import Ref
from function.problems import Refused
from function.reasons import Reason

MOST = 8  # tiers that are tried


def is_auto(ref: Ref) -> bool:
    """Return whether a workload asks for whichever tier takes it."""
    return ref.name == names.AUTO


def is_labelled(tier: Json) -> bool:
    """Return whether a tier may be chosen."""
    return access.texts(tier, "metadata", "labels").get(names.LABEL_AUTO) == "true"


def recorded(record: Record | None) -> Ref | None:
    """Return the tier that was chosen when the workload was wired, None where it was not."""
    if record is None or not record.wired:
        return None
    namespace, _, name = record.tier.partition("/")
    return Ref(namespace, name) if namespace and name else None


def requirements(ref: Ref) -> dict[str, Requirement]:
    """Return what must be looked up to choose."""
    labels = {names.LABEL_AUTO: "true"}
    return {_key(ref): Requirement(*tier_names.TIER, labels=labels, namespace=ref.namespace)}


def candidates(call: Call, request: OffloadRequest, ref: Ref, namespace: str) -> dict[Ref, Json]:
    """Return the tiers on the workload's cluster that admit `namespace`, in the order of trying.

    Ready ones first, then those that name the namespace, then by name. Raise Refused for none.
    """
    labelled = call.required(_key(ref))
    if labelled is None:
        what = f"the KVOffloadTiers in {ref.namespace} with label {names.LABEL_AUTO}"
        raise Refused(Reason.TIER_UNRESOLVED, f"Waiting for Crossplane to look up {what}.")
    here = [
        tier
        for tier in labelled
        if admits(tier, namespace)
        and access.text(tier, "status", "providerConfigRef", "name") == request.provider_config
    ]
    if not here:
        raise Refused(
            Reason.TIER_NOT_FOUND,
            f"{ref} means any KVOffloadTier in {ref.namespace} with label {names.LABEL_AUTO}:"
            f' "true", and none of them is on this workload\'s cluster and admits namespace'
            f" {namespace!r}. Name a tier, or ask the platform team for such a label.",
        )
    found: dict[Ref, Json] = {}
    for tier in sorted(here, key=_rank):
        found.setdefault(_ref(tier), tier)
    return dict(list(found.items())[:MOST])


def may_take(tier: Json, reason: Reason) -> bool:
    """Return whether a tier that does not take the pods now may do so once core composed its edit.

    The choice is for good: it waits for that.
    """
    return reason is Reason.TIER_NOT_READY and bool(tier_names.uncomposed(tier))


def waits_for(ref: Ref, edited: Ref, takes: Ref, why: Refused) -> Refused:
    """Return that the edit of an earlier tier is awaited, although another one takes the pods."""
    message = f"{ref} waits for {edited}. {takes} takes the pods now: name it not to wait. {why}"
    return Refused(Reason.TIER_NOT_READY, message)


def none_takes(ref: Ref, refused: Mapping[Ref, Refused]) -> Refused:
    """Return why none of the tiers is chosen; one that gets ready may still be."""
    reasons = [each.reason for each in refused.values()]
    waits = Reason.TIER_NOT_READY in reasons
    said = " ".join(f"{tier}: {each}" for tier, each in refused.items())
    message = f"{ref} finds no tier that takes the pods now. {said}"
    return Refused(Reason.TIER_NOT_READY if waits else reasons[0], message)


def why(ref: Ref, refused: Mapping[Ref, Refused]) -> str:
    """Return a sentence on the choice: which tiers before it were left."""
    left = ", ".join(f"{tier.name}: {each.reason}" for tier, each in refused.items())
    return f"Chosen by {ref}{f' (not {left})' if left else ''}."


def _key(ref: Ref) -> str:
    return f"auto/{ref.namespace}"


def _ref(tier: Json) -> Ref:
    _, namespace, name = access.named(tier)
    return Ref(namespace, access.texts(tier, "metadata", "labels").get(names.LABEL_FLEET, name))


def _rank(tier: Json) -> tuple[bool, bool, str]:
    is_open = access.mapping(tier, "spec", "allowedNamespaces").get("from") == "All"
    return not tier_names.is_ready(tier), is_open, access.text(tier, "metadata", "name")

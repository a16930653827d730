"""Find the tier that a consumer names, on the consumer's cluster.

A name resolves to the tier of that name, or to the child of a fleet tier of that name; see
`requirements` for what is looked up when. "Not yet resolved", "resolved and absent" and "present"
stay three states.
"""

from dataclasses import dataclass

from function import names
from function.backends.registry import Registry
from function.composers import pinned, quarantine, tier_names, tier_plan
from function.composers.admission import admits, is_judged
from function.composers.needed import Needed
from function.composers.tier_plan import InvalidTier, TierPlan
from function.edge.answer import Requirement
from function.edge.request import Call
from function.edge.structs import encode
from function.kube import access
from function.kube.access import Json
from function.pods.offload_request import OffloadRequest
from function.pods.record import Record, wired_tiers
from function.pods.refs import Ref
from function.problems import Refused
from function.reasons import Reason


@dataclass(frozen=True)
class Found:
    """The tier that a name means on one cluster.

    `fleet`: the fleet tier whose child it is. `unready`: a sentence on why it cannot serve yet, ""
    for a ready one.
    """

    document: Json
    fleet: str = ""
    unready: str = ""


class NotAdmitted(Refused):
    """Raised for a consumer's namespace that the `tier` does not admit; {} where none is here."""

    def __init__(self, ref: Ref | None, namespace: str, tier: Json) -> None:
        super().__init__(
            Reason.NAMESPACE_NOT_ALLOWED,
            f"KVOffloadTier {ref} does not allow consumers in namespace {namespace!r}. The platform"
            " team adds it under spec.allowedNamespaces.",
        )
        self.tier = tier


def requirements(ref: Ref, request: OffloadRequest) -> dict[str, Requirement]:
    """Return what is looked up first for one named tier.

    That is a fleet's child on the workload's cluster, and for pods that no child serves yet the
    tier of that name. Each change of a fleet calls who requires it, and so does that of a child.
    """
    named, place = f"tier/{ref}", (ref.namespace, ref.name, request.provider_config)
    found = tier_names.requirements(named, _here(ref, request), *place)
    if _serves_child(request, ref):
        del found[named]
    return found


def resolve(
    call: Call,
    ref: Ref,
    request: OffloadRequest,
    namespace: str,
    requirements: dict[str, Requirement],
) -> Found:
    """Return the tier `ref` that a workload names, on its cluster, for a consumer in `namespace`.

    Raise Refused where there is none. The one tier on that cluster is chosen before it is asked
    whether it admits the namespace: another tier's admission is no help. Where none is found there,
    all of the name are looked up (added to `requirements`): a child of an older release has no
    label of its cluster.
    """
    named, here = call.required(f"tier/{ref}"), call.required(_here(ref, request))
    everywhere = call.required(f"children/{ref}")
    single = [t for t in named or () if access.mapping(t, "spec", "inferenceClusterRef")]
    children, is_served = everywhere if here is None else here, _serves_child(request, ref)
    first = (here or []) + ([] if is_served else single)
    if not any(_provider_config(t) == request.provider_config for t in first):
        if here is not None:
            requirements |= tier_names.requirements(
                f"tier/{ref}", f"children/{ref}", ref.namespace, ref.name
            )
        children = everywhere
    if children is None or (named is None and not is_served):
        message = f"Waiting for Crossplane to look up KVOffloadTier {ref}."
        raise Refused(Reason.TIER_UNRESOLVED, message)
    named = named or []
    candidates = single + children
    if not named and not candidates:
        raise Refused(
            Reason.TIER_NOT_FOUND,
            f"There is no KVOffloadTier {ref}. Correct the name, or ask the platform team for it.",
        )
    here = [t for t in candidates if _provider_config(t) == request.provider_config]
    if not here:
        raise _elsewhere(ref, named, candidates, request.provider_config, namespace)
    if len(here) > 1:
        names_ = ", ".join(sorted(access.text(t, "metadata", "name") for t in here))
        raise Refused(
            Reason.TIER_CONFLICT,
            f"{ref} means several tiers on this cluster: {names_}. Rename the single one, or take"
            " the cluster out of the fleet's clusterSelector.",
        )
    tier = here[0]
    if not admits(tier, namespace):
        raise NotAdmitted(ref, namespace, tier)
    if not is_judged(tier, namespace):
        edit = "the edit of spec.allowedNamespaces is not judged yet."
        raise _unjudged(ref, tier, edit)
    waits = "" if tier_names.is_ready(tier) else unready(ref, tier_names.unready(tier))
    return Found(tier, _fleet(tier), waits)


def wired_to(
    call: Call, ref: Ref, request: OffloadRequest, record: Record, namespace: str
) -> Found | None:
    """Return the tier `ref` that a record's pods are wired to, if it admits `namespace`."""
    wired = wired_tiers(record.templates)
    for key in (_here(ref, request), f"tier/{ref}", f"children/{ref}"):
        for tier in call.required(key) or ():
            _, own, name = access.named(tier)
            if names.remote_name(own, name) in wired and admits(tier, namespace):
                return Found(tier, _fleet(tier))
    return None


def plan(
    call: Call, ref: Ref, found: Found, backends: Registry, requirements: dict[str, Requirement]
) -> TierPlan:
    """Return the plan of the tier that was found; add what else it needs to `requirements`.

    Raise Refused where it is refused, or not judged yet: its spec is not what runs then.
    """
    invalid = Refused(
        Reason.INVALID_TIER, f"KVOffloadTier {ref} is not valid: see its Accepted condition."
    )
    if tier_names.is_refused(found.document):
        raise invalid
    spec = access.mapping(found.document, "spec")
    namespace = access.text(found.document, "metadata", "namespace")
    name = access.text(found.document, "metadata", "name")
    identity = (namespace, name, spec, encode(spec), backends)
    drafted = tier_plan.draft(*identity)
    if isinstance(drafted, InvalidTier):
        raise invalid
    needed = Needed.of(call, drafted, backends, f"needs/{ref}")
    requirements |= needed.requirements
    if needed.unresolved:
        message = "Waiting for Crossplane to look up " + ", ".join(needed.unresolved) + "."
        raise Refused(Reason.TIER_UNRESOLVED, message)
    if why := "; ".join(map(str, needed.problems)) or " ".join(needed.waiting):
        raise Refused(Reason.TIER_NOT_READY, unready(ref, why))
    whole = tier_plan.plan(*identity, needed.documents, quarantine.numbers(found.document))
    if isinstance(whole, InvalidTier):
        raise invalid
    if edit := pinned.unjudged(found.document, whole):
        raise _unjudged(ref, found.document, edit)
    return whole


def unready(ref: Ref | None, why: str) -> str:
    """Return the sentence that a tier is not ready, with why."""
    return f"KVOffloadTier {ref} is not ready: {why}"


def _unjudged(ref: Ref, tier: Json, edit: str) -> Refused:
    return Refused(Reason.TIER_NOT_READY, unready(ref, f"{edit} {tier_names.if_it_stays(tier)}"))


def _elsewhere(
    ref: Ref | None,
    named: list[Json],
    candidates: list[Json],
    provider_config: str,
    namespace: str,
) -> Refused:
    """Return why no tier of that name is on the cluster; only the admitted learn where it is."""
    if not any(admits(tier, namespace) for tier in (*named, *candidates)):
        return NotAdmitted(ref, namespace, {})
    if not candidates or any(not _provider_config(t) for t in candidates):
        message = f"KVOffloadTier {ref} is not on its cluster yet: see its conditions."
        return Refused(Reason.TIER_NOT_READY, message)
    path = ("spec", "inferenceClusterRef", "name")
    where = ", ".join(sorted(access.text(t, *path) for t in candidates))
    return Refused(
        Reason.CLUSTER_MISMATCH,
        f"KVOffloadTier {ref} runs on {where}, and this workload on the cluster of"
        f" {_named(provider_config)}."
        " Name a tier of that cluster, or add the cluster to the tier.",
    )


def _named(provider_config: str) -> str:
    kind, _, name = provider_config.rpartition("/")
    return f"{kind or 'ClusterProviderConfig'} {name or '(none: the control plane itself)'}"


def _fleet(tier: Json) -> str:
    return access.texts(tier, "metadata", "labels").get(names.LABEL_FLEET, "")


def _here(ref: Ref, request: OffloadRequest) -> str:
    return f"here/{ref}/{request.provider_config}"


def _serves_child(request: OffloadRequest, ref: Ref) -> bool:
    """Return whether the record says that a child of this fleet serves the pods."""
    record = request.record
    if record is None or record.tier != str(ref):
        return False
    return record.child not in ("", ref.name)


def _provider_config(tier: Json) -> str:
    return access.text(tier, "status", "providerConfigRef", "name")

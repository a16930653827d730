"""Finding the tier that a consumer names, on the consumer's cluster.

A name resolves to the tier of that name, or to the child of a fleet tier of that name; both are
asked for at once. "Not yet resolved", "resolved and absent" and "present" stay three states.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from function import names
from function.backends.registry import Registry
from function.composers import pinned, tier_names, tier_plan
from function.composers.admission import admits
from function.composers.needed import Needed
from function.composers.tier_plan import Refusal, TierPlan
from function.edge.answer import Requirement
from function.edge.request import Call
from function.edge.structs import encode
from function.kube import access
from function.pods.offload_request import OffloadRequest
from function.pods.refs import Ref
from function.reasons import Reason


@dataclass(frozen=True)
class Found:
    """What a name leads to on one cluster. `document` is the tier where there is one to use.

    `state`: the reason that a consumer's condition has for it, WIRED where the tier is ready.
    """

    state: Reason
    message: str = ""
    document: dict[str, Any] | None = None
    fleet: str = ""


@dataclass(frozen=True)
class Planned:
    """The plan of a tier that was found. `state`: why there is none yet, with its `message`."""

    plan: TierPlan | Refusal | None = None
    state: Reason | None = None
    message: str = ""
    requirements: Mapping[str, Requirement] = field(default_factory=dict)


def requirements(ref: Ref) -> dict[str, Requirement]:
    """Return everything that must be looked up for one named tier."""
    return tier_names.requirements(f"tier/{ref}", f"children/{ref}", ref.namespace, ref.name)


def resolve(call: Call, request: OffloadRequest, namespace: str) -> Found:
    """The tier that a workload names, for a consumer in `namespace`, on the workload's cluster.

    The one tier on that cluster is chosen first, and then asked whether it admits the namespace:
    another tier's admission is no help.
    """
    ref = request.ref
    named, children = call.required(f"tier/{ref}"), call.required(f"children/{ref}")
    if named is None or children is None:
        message = f"Waiting for Crossplane to look up KVOffloadTier {ref}."
        return Found(Reason.TIER_UNRESOLVED, message)
    single = [t for t in named if access.mapping(t, "spec", "inferenceClusterRef")]
    candidates = single + children
    if not named and not candidates:
        return Found(
            Reason.TIER_NOT_FOUND,
            f"There is no KVOffloadTier {ref}. Correct the name, or ask the platform team for it.",
        )
    here = [t for t in candidates if _provider_config(t) == request.provider_config]
    if not here:
        return _elsewhere(ref, named, candidates, request.provider_config, namespace)
    if len(here) > 1:
        names_ = ", ".join(sorted(access.text(t, "metadata", "name") for t in here))
        return Found(
            Reason.TIER_CONFLICT,
            f"{ref} means several tiers on this cluster: {names_}. Rename the single one, or take"
            " the cluster out of the fleet's clusterSelector.",
        )
    tier = here[0]
    if not admits(tier, namespace):
        return _not_allowed(ref, namespace)
    if not tier_names.is_ready(tier):
        return Found(
            Reason.TIER_NOT_READY,
            f"KVOffloadTier {ref} is not ready: {tier_names.unready(tier)}",
            tier,
            _fleet(tier),
        )
    return Found(Reason.WIRED, "", tier, _fleet(tier))


def _not_allowed(ref: Ref | None, namespace: str) -> Found:
    return Found(
        Reason.NAMESPACE_NOT_ALLOWED,
        f"KVOffloadTier {ref} does not allow consumers in namespace {namespace!r}. The platform"
        " team adds it under spec.allowedNamespaces.",
    )


def plan(call: Call, ref: Ref, found: Found, backends: Registry) -> Planned:
    """The plan of the tier that was found, with whatever else it needs.

    What runs is not what its spec says where that is refused, or has not been judged yet.
    """
    if tier_names.is_refused(found.document or {}):
        return Planned(Refusal(()))
    spec = access.mapping(found.document, "spec")
    namespace = access.text(found.document, "metadata", "namespace")
    name = access.text(found.document, "metadata", "name")
    identity = (namespace, name, spec, encode(spec))
    drafted = tier_plan.draft(*identity, backends)
    if isinstance(drafted, Refusal):
        return Planned(drafted)
    needed = Needed.of(call, drafted, backends, f"needs/{ref}")
    if needed.unresolved:
        message = "Waiting for Crossplane to look up " + ", ".join(needed.unresolved) + "."
        return Planned(None, Reason.TIER_UNRESOLVED, message, needed.requirements)
    if needed.problems:
        message = f"KVOffloadTier {ref} is not ready: " + "; ".join(map(str, needed.problems))
        return Planned(None, Reason.TIER_NOT_READY, message, needed.requirements)
    if needed.waiting:
        message = f"KVOffloadTier {ref} is not ready: " + " ".join(needed.waiting)
        return Planned(None, Reason.TIER_NOT_READY, message, needed.requirements)
    whole = tier_plan.plan(*identity, backends, needed.documents)
    if isinstance(whole, TierPlan) and (edit := pinned.unjudged(found.document or {}, whole)):
        message = f"KVOffloadTier {ref} is not ready: {edit}"
        return Planned(None, Reason.TIER_NOT_READY, message, needed.requirements)
    return Planned(whole, requirements=needed.requirements)


def _elsewhere(
    ref: Ref | None,
    named: list[dict[str, Any]],
    candidates: list[dict[str, Any]],
    provider_config: str,
    namespace: str,
) -> Found:
    """Nothing of that name on the cluster. Where tiers are is told to whom they admit only."""
    if not any(admits(tier, namespace) for tier in (*named, *candidates)):
        return _not_allowed(ref, namespace)
    if not candidates or any(not _provider_config(t) for t in candidates):
        message = f"KVOffloadTier {ref} is not on its cluster yet: see its conditions."
        return Found(Reason.TIER_NOT_READY, message)
    path = ("spec", "inferenceClusterRef", "name")
    where = ", ".join(sorted(access.text(t, *path) for t in candidates))
    return Found(
        Reason.CLUSTER_MISMATCH,
        f"KVOffloadTier {ref} runs on {where}, and this workload on the cluster of"
        f" ClusterProviderConfig {provider_config or '(none: the control plane itself)'}."
        " Name a tier of that cluster, or add the cluster to the tier.",
    )


def _provider_config(tier: dict[str, Any]) -> str:
    return access.text(tier, "status", "providerConfigRef", "name")


def _fleet(tier: dict[str, Any]) -> str:
    return access.texts(tier, "metadata", "labels").get(names.LABEL_FLEET, "")

"""Finding the tier that a consumer names, on the consumer's cluster.

A name resolves to the tier of that name, or to the child of a fleet tier of that name; both are
asked for at once. "Not yet resolved", "resolved and absent" and "present" stay three states.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from function import names
from function.composers.usage import model_label, usages_of
from function.edge.answer import TRUE, Requirement
from function.edge.request import Call
from function.pods.refs import Ref

# States of a named tier, seen from one consumer on one cluster. All but the last two are reasons
# of the closed list; READY and NOT_READY come with a tier that can be wired to.
UNRESOLVED = "TierUnresolved"
NOT_FOUND = "TierNotFound"
NOT_ALLOWED = "NamespaceNotAllowed"
MISMATCH = "ClusterMismatch"
NOT_READY = "TierNotReady"
READY = "Ready"


@dataclass(frozen=True)
class Found:
    """What a name leads to on one cluster. `document` is the tier where there is one to use."""

    state: str
    message: str = ""
    document: dict[str, Any] | None = None
    fleet: str = ""


def requirements(ref: Ref, models: Iterable[str]) -> dict[str, Requirement]:
    """Everything that must be looked up for one named tier, and engines of these model strings."""
    found = {
        f"tier/{ref}": Requirement(
            names.TIER_API_VERSION, "KVOffloadTier", name=ref.name, namespace=ref.namespace
        ),
        f"children/{ref}": Requirement(
            names.TIER_API_VERSION,
            "KVOffloadTier",
            labels={names.LABEL_FLEET: ref.name},
            namespace=ref.namespace,
        ),
    }
    for model in models:
        for prefix, label in _USERS.items():
            found[_users(prefix, ref, model)] = usages_of(label, ref.namespace, ref.name, model)
    return found


# Consumers may know one tier by its own name or by its fleet's.
_USERS = {"users": names.LABEL_USED_TIER, "fleet-users": names.LABEL_USED_FLEET}


def _users(prefix: str, ref: Ref, model: str) -> str:
    return f"{prefix}/{ref}/{model_label(model)}"


def resolve(
    call: Call, ref: Ref, models: Iterable[str], provider_config: str, namespace: str
) -> Found:
    """The tier that `ref` means for a consumer in `namespace` on the cluster `provider_config`."""
    users = [call.required(_users(prefix, ref, m)) for m in models for prefix in _USERS]
    named, children = call.required(f"tier/{ref}"), call.required(f"children/{ref}")
    if named is None or children is None or None in users:
        return Found(UNRESOLVED, f"Waiting for Crossplane to look up KVOffloadTier {ref}.")
    single = [t for t in named if "inferenceClusterRef" in t.get("spec", {})]
    candidates = single + children
    if not named and not candidates:
        return Found(
            NOT_FOUND,
            f"There is no KVOffloadTier {ref}. Correct the name, or ask the platform team for it.",
        )
    if not any(_allows(t, namespace) for t in named + candidates):
        return Found(
            NOT_ALLOWED,
            f"KVOffloadTier {ref} does not allow consumers in namespace {namespace!r}. The platform"
            " team adds it under spec.allowedNamespaces.",
        )
    here = [t for t in candidates if _provider_config(t) == provider_config]
    if not here:
        return _elsewhere(ref, candidates, provider_config)
    tier = here[0]
    if not _ready(tier):
        return Found(NOT_READY, _waiting(ref, tier), tier, _fleet(tier))
    return Found(READY, "", tier, _fleet(tier))


def users(
    call: Call, ref: Ref, models: Iterable[str], tier: dict[str, Any]
) -> list[dict[str, Any]]:
    """The Usages of the tier that was found, of these models, by whichever name."""
    used: list[dict[str, Any]] = []
    for model in models:
        for prefix in _USERS:
            found = call.required(_users(prefix, ref, model)) or []
            used += [u for u in found if u not in used]
    metadata = tier["metadata"]
    value = f"{metadata.get('namespace', '')}/{metadata['name']}"
    return [
        u
        for u in used
        if u.get("metadata", {}).get("annotations", {}).get(names.ANNOTATION_TIER) == value
    ]


def _elsewhere(ref: Ref, candidates: list[dict[str, Any]], provider_config: str) -> Found:
    if not candidates or any(not _provider_config(t) for t in candidates):
        return Found(
            NOT_READY, f"KVOffloadTier {ref} is not on its cluster yet: see its conditions."
        )
    where = ", ".join(sorted(t["spec"]["inferenceClusterRef"]["name"] for t in candidates))
    return Found(
        MISMATCH,
        f"KVOffloadTier {ref} runs on {where}, and this workload on the cluster of"
        f" ClusterProviderConfig {provider_config or '(none: the control plane itself)'}."
        " Name a tier of that cluster, or add the cluster to the tier.",
    )


def _waiting(ref: Ref, tier: dict[str, Any]) -> str:
    conditions = tier.get("status", {}).get("conditions", [])
    unready = sorted(
        f"{x.get('type')}={x.get('status')} ({x.get('reason', '')})"
        for x in conditions
        if x.get("status") != TRUE and x.get("type") not in ("Responsive", "Ready")
    )
    return f"KVOffloadTier {ref} is not ready: " + ("; ".join(unready) or "it has just been made.")


def _provider_config(tier: dict[str, Any]) -> str:
    return tier.get("status", {}).get("providerConfigRef", {}).get("name", "")


def _fleet(tier: dict[str, Any]) -> str:
    return tier.get("metadata", {}).get("labels", {}).get(names.LABEL_FLEET, "")


def _ready(tier: dict[str, Any]) -> bool:
    conditions = tier.get("status", {}).get("conditions", [])
    return any(x.get("type") == "Ready" and x.get("status") == TRUE for x in conditions)


def _allows(tier: dict[str, Any], namespace: str) -> bool:
    allowed = tier.get("spec", {}).get("allowedNamespaces", {})
    source = allowed.get("from", "Same")
    if source == "Names":
        return namespace in allowed.get("names", [])
    return source == "All" or namespace == tier.get("metadata", {}).get("namespace", "")

"""Compose a standalone InferenceCluster, or report the tiers on Modelplane's.

Standalone, an existing cluster's kubeconfig Secret becomes its ClusterProviderConfig, and tiers
declared inline become child tiers. Beside Modelplane the cluster is Modelplane's: only conditions
are written, and `status.kvOffloadTiers` where its XRD declares that field (an undeclared status
field would make core fail the whole status apply).

An inline tier that is taken out of the list while it is used stays desired, as it was: a denied
delete would make core stop at it.
"""

from collections.abc import Mapping, Sequence

from function import names
from function.api.base import parse, present
from function.api.cluster import InferenceClusterSpec
from function.api.input import Input
from function.backends.registry import Registry
from function.composers import conditions as c
from function.composers import fleet, tier_conflicts, tier_names
from function.composers.in_use import is_in_use
from function.composers.refusal import refused
from function.edge.answer import (
    FALSE,
    TRUE,
    TTL_SETTLED,
    TTL_UNSETTLED,
    TTL_WITH_REQUIREMENTS,
    UNKNOWN,
    Answer,
    Composed,
    Condition,
    Requirement,
)
from function.edge.request import Call
from function.kube import access
from function.kube.access import Json
from function.problems import cut

CONDITION_TIERS = "KVOffloadTiersReady"
REASON_NO_TIERS = "NoTiers"
REASON_CONFLICT = "TierConflict"

# Modelplane keeps the kubeconfigs of existing clusters there.
SECRET_NAMESPACE = names.TIER_NAMESPACE
PROVIDER_CONFIG_KEY = "clusterproviderconfig"
REQUIRED_TIERS = "tiers"
REQUIRED_SCHEMA = "inferencecluster"

# Of the conflicts in a message, in characters.
_LONGEST = 2048

_LEAVES = (
    "ClusterProviderConfig {} is being deleted: what runs on the cluster stays, and nothing new is"
    " composed there until the last Object that uses it is gone and it is made again."
)


def compose(call: Call, step_input: Input, backends: Registry) -> Answer:
    """Compose the ClusterProviderConfig of an existing cluster, and a child per inline tier."""
    document = call.composite
    name = access.text(document, "metadata", "name")
    spec, problems = parse(InferenceClusterSpec, document.get("spec", {}), "spec")
    if spec is None or problems:
        return refused(call, "cluster", problems)
    secret = present(spec.cluster.existing).secret_ref
    leaves = call.is_leaving(PROVIDER_CONFIG_KEY)
    message = _LEAVES.format(name) if leaves else ""
    answer = Answer(conditions=[Condition(c.CONDITION_ACCEPTED, TRUE, c.REASON_VALID, message)])
    # Existing is ready: a ClusterProviderConfig has no readiness of its own.
    config = _provider_config(name, secret.name, secret.key)
    there = call.is_observed(PROVIDER_CONFIG_KEY) and not leaves
    answer.resources[PROVIDER_CONFIG_KEY] = Composed(config, there)
    tiers, removed = {}, _removed(call, document)
    for inline in document.get("spec", {}).get("kvOffloadTiers", []):
        body = {k: v for k, v in inline.items() if k != "name"}
        child = fleet.child(inline["name"], name, step_input.tier_namespace, body, name)
        tiers[inline["name"]] = child
    kept = {tier: it for tier, it in removed.items() if is_in_use(call, fleet.PREFIX + tier)}
    rows, why = [], {}
    for tier, manifest in sorted((tiers | kept).items()):
        key = f"{fleet.PREFIX}{tier}"
        ready = tier_names.is_ready_child(call, key)
        answer.resources[key] = Composed(manifest, ready)
        rows.append(_inline_row(tier, manifest, ready))
        why[tier] = tier_names.unready(call.observed(key) or {})
    # Core adopts that of a deleted cluster of this name, at the first call unseen. What used it now
    # would keep it for ever.
    named = {"providerConfigRef": {"name": name}} if there else {}
    answer.status = {**named, "kvOffloadTiers": rows}
    clash = tier_conflicts.of_documents([*(tiers | kept).values()], backends)
    answer.conditions.append(_tiers_condition(rows, why, sorted(kept), clash))
    answer.ready = all(r.ready for r in answer.resources.values())
    settled = TTL_WITH_REQUIREMENTS if removed else TTL_SETTLED
    answer.ttl = settled if answer.ready else TTL_UNSETTLED
    return answer


def _removed(call: Call, document: Json) -> dict[str, Json]:
    """Return the inline tiers that still run but are declared no more, by name.

    The observed document serves the tier that it is: only what `fleet.child` writes is taken over.
    """
    declared = {t["name"] for t in document.get("spec", {}).get("kvOffloadTiers", [])}
    cluster = access.text(document, "metadata", "name")
    out = {}
    for key in call.observed_keys():
        tier = key.removeprefix(fleet.PREFIX)
        observed = (
            call.observed(key) if key.startswith(fleet.PREFIX) and tier not in declared else None
        )
        if observed is None:
            continue
        namespace = access.text(observed, "metadata", "namespace")
        child = fleet.child(tier, cluster, namespace, access.mapping(observed, "spec"), cluster)
        child["metadata"]["name"] = access.text(observed, "metadata", "name")
        out[tier] = child
    return out


def _inline_row(tier: str, child: Json, ready: bool) -> Json:
    return {
        "name": tier,
        "tier": child["metadata"]["name"],
        "namespace": child["metadata"]["namespace"],
        "backend": child["spec"].get("backend", ""),
        "ready": ready,
    }


def report(call: Call, _: Input, backends: Registry) -> Answer:
    """Report the tiers on a cluster that another function composes, in conditions."""
    name = call.composite_value("metadata", "name")
    tiers = call.required(REQUIRED_TIERS)
    answer = Answer(
        requirements={REQUIRED_TIERS: Requirement(names.API_VERSION, "KVOffloadTier")},
        schemas={REQUIRED_SCHEMA: (names.API_VERSION, "InferenceCluster")},
    )
    if tiers is None:
        answer.conditions = [Condition(CONDITION_TIERS, UNKNOWN, c.REASON_RESOLVING)]
        answer.ttl = TTL_UNSETTLED
        return answer
    here = [t for t in tiers if _cluster_of(t) == name]
    found = [(_row(call, tier), tier) for tier in here]
    rows = sorted((row for row, _ in found), key=lambda row: row["name"])
    why = {row["name"]: tier_names.unready(tier) for row, tier in found}
    clash = tier_conflicts.of_documents(here, backends)
    answer.conditions = [_tiers_condition(rows, why, (), clash)]
    if call.declares_status(REQUIRED_SCHEMA, "kvOffloadTiers"):
        answer.status = {"kvOffloadTiers": rows}
    settled = all(row["ready"] for row in rows)
    answer.ttl = TTL_WITH_REQUIREMENTS if settled else TTL_UNSETTLED
    return answer


def _provider_config(name: str, secret: str, key: str) -> Json:
    return {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
        "kind": "ClusterProviderConfig",
        # Named after the cluster: people and other compositions refer to it.
        "metadata": {"name": name},
        "spec": {
            "credentials": {
                "source": "Secret",
                "secretRef": {"namespace": SECRET_NAMESPACE, "name": secret, "key": key},
            }
        },
    }


def _tiers_condition(
    rows: list[Json],
    why: Mapping[str, str],
    kept: Sequence[str] = (),
    clash: Sequence[str] = (),
) -> Condition:
    """Return the condition of all tiers of a cluster.

    `why`: what keeps each from being ready. `kept`: the tiers that are no longer declared, and go
    when nothing uses them. `clash`: what two tiers cannot both have.
    """
    if not rows:
        return Condition(CONDITION_TIERS, TRUE, REASON_NO_TIERS)
    message = ""
    if kept:
        message = (
            f". No longer in spec.kvOffloadTiers, and kept until nothing uses it: {', '.join(kept)}"
        )
    waiting = [row["name"] for row in rows if not row["ready"]]
    if clash:
        said = cut("; ".join(clash), _LONGEST)
        late = f". Not ready yet: {', '.join(waiting)}" if waiting else ""
        message = f"Two tiers cannot have the same: {said}. Change or remove one{late}{message}"
        return Condition(CONDITION_TIERS, FALSE, REASON_CONFLICT, message)
    if waiting:
        said = ", ".join(f"{name} ({why[name].removesuffix('.')})" for name in waiting)
        message = f"Not ready yet: {said}{message}"
        return Condition(CONDITION_TIERS, FALSE, c.REASON_STARTING, message)
    listed = ", ".join(row["name"] for row in rows)
    return Condition(CONDITION_TIERS, TRUE, c.REASON_READY, f"Ready: {listed}{message}")


def _cluster_of(tier: Json) -> str:
    return access.text(tier, "spec", "inferenceClusterRef", "name")


def _row(call: Call, tier: Json) -> Json:
    name = access.text(tier, "metadata", "name")
    return {
        "name": access.text(tier, "metadata", "labels", names.LABEL_FLEET) or name,
        "tier": name,
        "namespace": access.text(tier, "metadata", "namespace"),
        "backend": access.text(tier, "spec", "backend"),
        "ready": tier_names.is_ready(tier) and not tier_names.unreconciled(call, tier),
    }

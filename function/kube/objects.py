"""provider-kubernetes Objects: wrapping a manifest for a workload cluster, and reading one back.

Source: provider-kubernetes v1.2.1, `kubernetes.m.crossplane.io/v1alpha1` (namespaced) and the
legacy `kubernetes.crossplane.io/v1alpha2`; the field layout under `spec` is the same.
"""

from typing import Any

from function.kube import access

Manifest = dict[str, Any]

API_VERSION = "kubernetes.m.crossplane.io/v1alpha1"
GROUPS = ("kubernetes.m.crossplane.io", "kubernetes.crossplane.io")

# Everything but Delete: what outlives the composite that asked for it.
KEEP_POLICIES = ["Create", "LateInitialize", "Observe", "Update"]
OBSERVE_POLICIES = ["Observe"]


def wrap(
    manifest: Manifest,
    provider_config: str,
    *,
    ready: str = "",
    watch: bool = False,
    keep: bool = False,
    observe: bool = False,
    annotations: dict[str, str] | None = None,
) -> Manifest:
    """An Object for `manifest` on the cluster of ClusterProviderConfig `provider_config`.

    `ready`: a CEL query over `object`; "" means that existing is being ready. `keep`: it stays when
    the Object goes. `observe`: it is looked at, and never written.

    The readiness policy and the external name are what the provider would add by itself in a first
    write to each new Object; every such write costs the composite two to four of the 100 events
    after which core's circuit breaker opens (measured: 133 for a tier of four Objects).
    """
    spec: dict[str, Any] = {
        "forProvider": {"manifest": manifest},
        "providerConfigRef": {"kind": "ClusterProviderConfig", "name": provider_config},
    }
    if keep:
        spec["managementPolicies"] = KEEP_POLICIES
    if observe:
        spec["managementPolicies"] = OBSERVE_POLICIES
    spec["readiness"] = (
        {"policy": "DeriveFromCelQuery", "celQuery": ready}
        if ready
        else {"policy": "SuccessfulCreate"}
    )
    if watch:
        spec["watch"] = True
    external_name = {"crossplane.io/external-name": manifest["metadata"]["name"]}
    metadata = {"annotations": {**external_name, **(annotations or {})}}
    return {"apiVersion": API_VERSION, "kind": "Object", "metadata": metadata, "spec": spec}


def is_object(resource: Manifest) -> bool:
    """Whether a composed resource is an Object of either provider-kubernetes group."""
    api_version = resource.get("apiVersion")
    group = api_version.partition("/")[0] if isinstance(api_version, str) else ""
    return resource.get("kind") == "Object" and group in GROUPS


MANIFEST = ("spec", "forProvider", "manifest")
# The manifest as its cluster has it, as provider-kubernetes saw it last.
STATUS_MANIFEST = ("status", "atProvider", "manifest")


def unwrapped(resource: Manifest) -> Manifest | None:
    """The manifest inside an Object, or the resource itself when it is none; None without one."""
    if not is_object(resource):
        return resource
    manifest = access.at(resource, *MANIFEST)
    return manifest if isinstance(manifest, dict) else None


def provider_config(resource: Manifest) -> str:
    """The name of an Object's ProviderConfig, "" where it has none."""
    return access.text(resource, "spec", "providerConfigRef", "name")


def rewrapped(resource: Manifest, manifest: Manifest) -> Manifest:
    """The Object with another manifest; everything else is shared with the original."""
    spec = resource["spec"]
    return {
        **resource,
        "spec": {**spec, "forProvider": {**spec["forProvider"], "manifest": manifest}},
    }


def wrapped_like(resource: Manifest, manifest: Manifest) -> Manifest:
    """`manifest` beside what `resource` composes: in an Object of its kind and cluster, or bare."""
    if not is_object(resource):
        return manifest
    wrapped = wrap(manifest, "")
    # What a cluster-scoped composite composes says its namespace itself.
    namespace = access.text(resource, "metadata", "namespace")
    return {
        **wrapped,
        "metadata": wrapped["metadata"] | ({"namespace": namespace} if namespace else {}),
        "apiVersion": resource["apiVersion"],
        "spec": {
            **wrapped["spec"],
            "providerConfigRef": resource["spec"].get("providerConfigRef", {}),
        },
    }

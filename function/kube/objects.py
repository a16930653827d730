"""provider-kubernetes Objects: wrap and unwrap manifests for workload clusters.

Source: provider-kubernetes v1.2.1, `kubernetes.m.crossplane.io/v1alpha1` (namespaced) and the
legacy `kubernetes.crossplane.io/v1alpha2`; the field layout under `spec` is the same.
"""

from typing import Any

from function.kube import access

Manifest = dict[str, Any]

API_VERSION = "kubernetes.m.crossplane.io/v1alpha1"
GROUPS = ("kubernetes.m.crossplane.io", "kubernetes.crossplane.io")

# Everything but Delete: the resource outlives the composite.
KEEP_POLICIES = ["Create", "LateInitialize", "Observe", "Update"]


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
    """Return an Object for `manifest` on the cluster of a ClusterProviderConfig.

    `ready`: a CEL query over `object`; with "" the Object is ready as soon as the resource exists.
    `keep`: the resource stays when the Object is deleted. `observe`: the provider never writes it.

    The readiness policy and the external name are what the provider would add by itself in a first
    write to each new Object; every such write costs the composite two to four of the 100 events
    after which core's circuit breaker opens (measured: 133 for a tier of four Objects).
    """
    spec: dict[str, Any] = {
        "forProvider": {"manifest": manifest},
        "providerConfigRef": {"kind": "ClusterProviderConfig", "name": provider_config},
    }
    if observe or keep:
        spec["managementPolicies"] = ["Observe"] if observe else KEEP_POLICIES
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


def may_write(policies: Any, *, exists: bool = True) -> bool:
    """Return whether a provider may write the resource of an Object with these managementPolicies.

    Without a list it may. `exists`: whether the resource is there.
    """
    writing = ("*", "Update") if exists else ("*", "Update", "Create")
    return not isinstance(policies, list) or any(it in policies for it in writing)


def is_object(resource: Manifest) -> bool:
    """Return whether a resource is an Object of either provider-kubernetes group."""
    api_version = resource.get("apiVersion")
    group = api_version.partition("/")[0] if isinstance(api_version, str) else ""
    return resource.get("kind") == "Object" and group in GROUPS


MANIFEST = ("spec", "forProvider", "manifest")
# The manifest as provider-kubernetes last observed it on its cluster.
STATUS_MANIFEST = ("status", "atProvider", "manifest")


def unwrap(resource: Manifest) -> Manifest | None:
    """Return the manifest inside an Object, None where it holds none.

    Any other resource is its own manifest.
    """
    if not is_object(resource):
        return resource
    manifest = access.at(resource, *MANIFEST)
    return manifest if isinstance(manifest, dict) else None


def provider_config(resource: Manifest) -> str:
    """Return the name of an Object's ClusterProviderConfig, "" for what is no Object.

    A namespaced ProviderConfig may have the name of another cluster's: it is `ProviderConfig/name`
    here, as no ClusterProviderConfig is called. What an Object leaves out its CRD sets.
    """
    if not is_object(resource):
        return ""
    ref = access.mapping(resource, "spec", "providerConfigRef")
    name, kind = (access.text(ref, field) for field in ("name", "kind"))
    found = name or "default"
    return found if kind in ("", "ClusterProviderConfig") else f"{kind}/{found}"


def with_manifest(resource: Manifest, manifest: Manifest) -> Manifest:
    """Return the Object with another manifest; all else is shared with the original."""
    spec = resource["spec"]
    return {
        **resource,
        "spec": {**spec, "forProvider": {**spec["forProvider"], "manifest": manifest}},
    }


def wrap_like(resource: Manifest, manifest: Manifest) -> Manifest:
    """Return `manifest` in the form in which `resource` composes its own.

    Either in an Object of the same API version and ProviderConfig, or bare.
    """
    if not is_object(resource):
        return manifest
    wrapped = wrap(manifest, "")
    # Resources of a cluster-scoped composite set their namespace themselves.
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

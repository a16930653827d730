"""RDMA devices of a tier's own pods and of engines': by a device plugin, or by a claim."""

from dataclasses import dataclass, field

from function.api.base import present
from function.contract.backend import AnyTier, Manifest, Part
from function.contract.injection import Json
from function.kube import manifests as k

# Only root can register memory: the capability to lock it has no effect for other users, unless
# the runtime raises memlock.
CAPABILITIES = ("IPC_LOCK",)
_CLAIM = "rdma"
ENGINE_CLAIM = "kv-offload-rdma"


@dataclass(frozen=True)
class Device:
    """Additions to a pod and its container, empty without RDMA.

    `parts`: objects that must exist first.
    """

    capabilities: tuple[str, ...] = ()
    extended: dict[str, int] = field(default_factory=dict)
    pod_claims: tuple[Manifest, ...] = ()
    container_claims: tuple[Manifest, ...] = ()
    parts: tuple[Part, ...] = ()


def device(tier: AnyTier) -> Device:
    """Return the device of `spec.rdma`, empty with source None."""
    rdma = tier.spec.rdma
    if rdma.source == "None":
        return Device()
    if rdma.device_plugin is not None:
        extended = {rdma.device_plugin.resource_name: rdma.device_plugin.count}
        return Device(CAPABILITIES, extended)
    dra, name = present(rdma.dra), f"{tier.remote_name}-rdma"
    exactly: Manifest = {"allocationMode": "ExactCount", "count": dra.count}
    if dra.selectors:
        exactly["selectors"] = [{"cel": {"expression": each.cel}} for each in dra.selectors]
    meta = k.metadata(name, tier.remote_namespace, tier.labels)
    template = k.claim_template(meta, _CLAIM, dra.device_class_name, **exactly)
    return Device(
        CAPABILITIES,
        pod_claims=({"name": _CLAIM, "resourceClaimTemplateName": name},),
        container_claims=({"name": _CLAIM},),
        parts=(Part("resourceclaimtemplate-rdma", template),),
    )


def engine_device(tier: AnyTier, claim_template: str | None) -> Json:
    """Return the RDMA device of an engine's pod, as fields of its Injection.

    `claim_template`: with source DRA; None where the pod claims its device itself.
    """
    rdma = tier.spec.rdma
    if rdma.source == "None":
        return {}
    wiring: Json = {"capabilities": CAPABILITIES}
    if rdma.device_plugin is not None:
        wiring["resources"] = {rdma.device_plugin.resource_name: rdma.device_plugin.count}
    elif claim_template is not None:
        claim = {"name": ENGINE_CLAIM, "resourceClaimTemplateName": claim_template}
        wiring["claims"] = (claim,)
    return wiring

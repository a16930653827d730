"""RDMA devices of a tier's own pods: by a device plugin, or by a resource claim."""

from dataclasses import dataclass, field

from function.api.base import present
from function.contract.backend import AnyTier, Manifest, Part
from function.kube import manifests as k

# Only root can register memory: the capability to lock it has no effect for other users, unless
# the runtime raises memlock.
CAPABILITIES = ("IPC_LOCK",)
_CLAIM = "rdma"


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
    request: Manifest = {
        "name": "rdma",
        "exactly": {
            "deviceClassName": dra.device_class_name,
            "allocationMode": "ExactCount",
            "count": dra.count,
        },
    }
    if dra.selectors:
        request["exactly"]["selectors"] = [
            {"cel": {"expression": selector.cel}} for selector in dra.selectors
        ]
    template = k.claim_template(k.metadata(name, tier.remote_namespace, tier.labels), request)
    return Device(
        CAPABILITIES,
        pod_claims=({"name": _CLAIM, "resourceClaimTemplateName": name},),
        container_claims=({"name": _CLAIM},),
        parts=(Part("resourceclaimtemplate-rdma", template),),
    )

"""RDMA: how a pod gets its device, and what makes Mooncake fail instead of falling back to TCP."""

from dataclasses import dataclass, field

from function.backends.mooncake import facts
from function.backends.mooncake.facts import Tier
from function.contract.backend import Manifest, Part
from function.kube import manifests as k

RDMA = "rdma"
CAPABILITIES = ("IPC_LOCK",)
_CLAIM = "rdma"


@dataclass(frozen=True)
class Device:
    """What a store's pod and container get; empty without RDMA."""

    uid: int = facts.UID
    capabilities: tuple[str, ...] = ()
    extended: dict[str, int] = field(default_factory=dict)
    pod_claims: tuple[Manifest, ...] = ()
    container_claims: tuple[Manifest, ...] = ()
    parts: tuple[Part, ...] = ()


def device(tier: Tier) -> Device:
    """A store's RDMA device. Memory can only be registered by root: the capability to lock it is
    not effective for any other user."""
    if facts.spec(tier).protocol != RDMA:
        return Device()
    rdma = tier.spec.rdma
    if rdma.device_plugin is not None:
        extended = {rdma.device_plugin.resource_name: rdma.device_plugin.count}
        return Device(uid=0, capabilities=CAPABILITIES, extended=extended)
    name = facts.name(tier, "rdma")
    request: Manifest = {
        "name": "rdma",
        "exactly": {
            "deviceClassName": rdma.dra.device_class_name,
            "allocationMode": "ExactCount",
            "count": rdma.dra.count,
        },
    }
    if rdma.dra.selectors:
        request["exactly"]["selectors"] = [
            {"cel": {"expression": selector.cel}} for selector in rdma.dra.selectors
        ]
    template: Manifest = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": k.metadata(name, tier.remote_namespace, tier.labels),
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    return Device(
        uid=0,
        capabilities=CAPABILITIES,
        pod_claims=({"name": _CLAIM, "resourceClaimTemplateName": name},),
        container_claims=({"name": _CLAIM},),
        parts=(Part("resourceclaimtemplate-rdma", template),),
    )


def device_names(tier: Tier) -> str:
    """The devices Mooncake may use, as it takes them; "" lets it pick."""
    return ",".join(tier.spec.rdma.devices) if facts.spec(tier).protocol == RDMA else ""


def env(tier: Tier) -> dict[str, str]:
    """Variables of every process that moves blocks by RDMA, store and engine alike."""
    spec = facts.spec(tier)
    if spec.protocol != RDMA:
        return {}
    # Without it a process that finds no device only logs that, and goes on by TCP.
    out = {"MC_FORCE_HCA": "1"}
    if spec.rdma_gid_index is not None:
        out["MC_GID_INDEX"] = str(spec.rdma_gid_index)
    return out

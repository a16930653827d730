"""RDMA: how a pod gets its device, and what makes Mooncake fail instead of falling back to TCP."""

from function.backends import rdma
from function.backends.mooncake import facts
from function.backends.mooncake.facts import Tier
from function.backends.rdma import Device

RDMA = "rdma"


def device(tier: Tier) -> Device:
    """A store's RDMA device; empty with protocol tcp."""
    return rdma.device(tier) if facts.spec(tier).protocol == RDMA else Device()


def uid(tier: Tier) -> int:
    """The user of a store: memory for RDMA can only be registered by root."""
    return 0 if facts.spec(tier).protocol == RDMA else facts.UID


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

"""RDMA: the device of a pod, and no silent fallback to TCP."""

from function.backends import rdma
from function.backends.mooncake import facts
from function.backends.mooncake.facts import Tier
from function.backends.rdma import Device

RDMA = "rdma"


def device(tier: Tier) -> Device:
    """Return a store's RDMA device, empty with protocol tcp."""
    return rdma.device(tier) if tier.settings.protocol == RDMA else Device()


def uid(tier: Tier) -> int:
    """Return the user of a store: only root can register memory for RDMA."""
    return 0 if tier.settings.protocol == RDMA else facts.UID


def device_names(tier: Tier) -> str:
    """Return the devices in Mooncake's form; with "" it chooses."""
    return ",".join(tier.spec.rdma.devices) if tier.settings.protocol == RDMA else ""


def env(tier: Tier) -> dict[str, str]:
    """Return the variables of all processes that move blocks by RDMA."""
    spec = tier.settings
    if spec.protocol != RDMA:
        return {}
    # Without it a process without a device only logs that, and continues by TCP.
    out = {"MC_FORCE_HCA": "1"}
    if spec.rdma_gid_index is not None:
        out["MC_GID_INDEX"] = str(spec.rdma_gid_index)
    return out

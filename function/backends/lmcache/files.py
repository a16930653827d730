"""Levels that are files: where they lie in the agents' pod, and what keeps them under their size.

LMCache counts what a server wrote since its own start: files of an earlier process, or of another
node on a shared file system, are in nobody's count, and its limit alone bounds nothing. Its own
eviction begins at 80 % of the size and knows what is in use; beside it the sweeper (`programs`,
`sweep`) looks at the disk and holds the directory at 95 %, oldest first. A block that is gone is a
miss.
"""

from function.backends.lmcache.facts import Tier
from function.backends.lmcache.level import Swept
from function.contract.backend import Manifest
from function.kube import manifests as k

_ROOT = "/var/lib/kv-offload"
_FULL_PERCENT = 95

# Seconds between two sweeps: a shared file system is walked by every node.
LOCAL_PERIOD = 30
SHARED_PERIOD = 300

# Removes the least recently used fifth when the count of this process reaches 80 % of the size.
EVICTION = {"eviction_policy": "LRU", "trigger_watermark": 0.8, "eviction_ratio": 0.2}


def mount_path(level: str) -> str:
    """Where a level's volume is mounted."""
    return f"{_ROOT}/{level}"


def directory(tier: Tier, level: str, sub_path: str | None = None) -> str:
    """Where a level's files are: a directory of the tier's own, so that two may share a disk."""
    return f"{mount_path(level)}/{sub_path or tier.remote_name}"


def volume_name(level: str) -> str:
    """The name of a level's volume in the pod."""
    return f"l2-{level}"


def mount(level: str) -> Manifest:
    """The mount of a level's volume."""
    return {"name": volume_name(level), "mountPath": mount_path(level)}


def host_path(level: str, path: str) -> Manifest:
    """A directory of the node as a level's volume; created as root where it is missing."""
    return {
        "name": volume_name(level),
        "hostPath": {"path": path, "type": "DirectoryOrCreate"},
    }


def ephemeral(tier: Tier, level: str, storage_class: str | None, size_gib: int) -> Manifest:
    """A volume that is claimed with the pod and deleted with it."""
    template = {
        "metadata": {"labels": tier.labels},
        "spec": k.claim(storage_class, size_gib),
    }
    return {"name": volume_name(level), "ephemeral": {"volumeClaimTemplate": template}}


def swept(path: str, size_gib: int, period: int) -> Swept:
    """A level's directory, kept under its size."""
    return Swept(path, size_gib * 2**30 * _FULL_PERCENT // 100, period)

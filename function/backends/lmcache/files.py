"""Levels that are files: their directories and the evictor that bounds them.

LMCache counts only bytes that a server wrote since its own start, not files of an earlier process
or of other nodes on a shared file system. So its limit alone bounds nothing. LMCache's own eviction
starts at 80 % of the size and knows which blocks are in use; the evictor measures the disk and
keeps the directory below 95 %. A removed block is a miss.
"""

from collections.abc import Sequence

from function.backends import evictor
from function.backends.evictor import BoundedDirectory
from function.backends.lmcache import facts
from function.backends.lmcache.facts import Tier
from function.backends.lmcache.level import Level
from function.contract.backend import Manifest, Part
from function.kube import manifests as k

_ROOT = "/var/lib/kv-offload"

# Removes the least recently used fifth when the count of this process reaches 80 % of the size.
EVICTION = {"eviction_policy": "LRU", "trigger_watermark": 0.8, "eviction_ratio": 0.2}


def mount_path(level: str) -> str:
    return f"{_ROOT}/{level}"


def directory(tier: Tier, level: str, sub_path: str | None = None) -> str:
    """Return the directory of a level's files.

    Each tier has its own, so that two can share a disk.
    """
    return f"{mount_path(level)}/{sub_path or tier.remote_name}"


def volume_name(level: str) -> str:
    return f"l2-{level}"


def mount(level: str) -> Manifest:
    return {"name": volume_name(level), "mountPath": mount_path(level)}


def host_path(level: str, path: str) -> Manifest:
    """Return a directory of the node as a volume; root creates a missing one."""
    return {"name": volume_name(level), "hostPath": {"path": path, "type": "DirectoryOrCreate"}}


def ephemeral(tier: Tier, level: str, storage_class: str | None, size_gib: int) -> Manifest:
    """Return a volume that is claimed with the pod and deleted with it."""
    template = {"metadata": {"labels": tier.labels}, "spec": k.claim(storage_class, size_gib)}
    return {"name": volume_name(level), "ephemeral": {"volumeClaimTemplate": template}}


def program(tier: Tier, levels: Sequence[Level]) -> list[Part]:
    """Return the evictor's ConfigMap, if any level is files."""
    return [evictor.program(tier)] if _bounded(levels) else []


def containers(tier: Tier, levels: Sequence[Level]) -> list[Manifest]:
    """Return the evictor's container, if any level is files."""
    bounded = _bounded(levels)
    if not bounded:
        return []
    mounts = [dict(level.data) for level in levels if level.bounded and level.data]
    settings = tier.settings.evictor
    return [evictor.container(facts.image(tier), facts.PYTHON, settings, bounded, mounts)]


def volumes(tier: Tier, levels: Sequence[Level]) -> list[Manifest]:
    """Return the evictor's volume, if any level is files."""
    return [evictor.volume(tier)] if _bounded(levels) else []


def ports(levels: Sequence[Level]) -> dict[str, int]:
    """Return the evictor's metrics port, if any level is files."""
    return {evictor.PORT_NAME: evictor.PORT} if _bounded(levels) else {}


def _bounded(levels: Sequence[Level]) -> list[BoundedDirectory]:
    return [level.bounded for level in levels if level.bounded is not None]

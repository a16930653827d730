"""Levels that are files: where they lie in the agents' pod, and what keeps them under their size.

LMCache counts what a server wrote since its own start: files of an earlier process, or of another
node on a shared file system, are in nobody's count, and its limit alone bounds nothing. Its own
eviction begins at 80 % of the size and knows what is in use; beside it the evictor looks at the
disk and holds the directory under 95 %. A block that is gone is a miss.
"""

from collections.abc import Sequence

from function.backends import evictor
from function.backends.evictor import Directory
from function.backends.lmcache import facts
from function.backends.lmcache.facts import Tier
from function.backends.lmcache.level import Level
from function.contract.backend import Manifest, Part
from function.kube import manifests as k

_ROOT = "/var/lib/kv-offload"

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


def program(tier: Tier, levels: Sequence[Level]) -> list[Part]:
    """The program that keeps the levels' directories under their sizes, where there are any."""
    return [evictor.program(tier)] if _bounded(levels) else []


def containers(tier: Tier, levels: Sequence[Level]) -> list[Manifest]:
    """The container that does it; at most one."""
    bounded = _bounded(levels)
    if not bounded:
        return []
    mounts = [dict(level.data) for level in levels if level.bounded and level.data]
    settings = tier.settings.evictor
    return [evictor.container(facts.image(tier), facts.PYTHON, settings, bounded, mounts)]


def volumes(tier: Tier, levels: Sequence[Level]) -> list[Manifest]:
    """What that container needs beside the levels' own."""
    return [evictor.volume(tier)] if _bounded(levels) else []


def ports(levels: Sequence[Level]) -> dict[str, int]:
    """Further ports that are measured."""
    return {evictor.PORT_NAME: evictor.PORT} if _bounded(levels) else {}


def _bounded(levels: Sequence[Level]) -> list[Directory]:
    return [level.bounded for level in levels if level.bounded is not None]

"""The evictor of file tiers (`programs.evictor`), as what a tier composes: one for all backends.

Its text comes from a ConfigMap of the tier, and is taken up by running containers when it changes:
a release of the function rolls no agent for it. Any image with Python 3.9 will do.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import programs
from function.api.evictor import Evictor
from function.backends import agents
from function.contract.backend import AnyTier, Manifest, Part
from function.contract.image import Image
from function.kube import manifests as k

NAME = "evictor"
PORT = 8081
PORT_NAME = "evictor"
# Of a tier that asks for dryRun.
IDLE = "evictor.dryRun is on: nothing is removed, and the files grow until the disk is full."
_ABOVE = "/etc/kv-offload"

# Seconds between two walks at least; a long walk has longer pauses (`programs.evictor.directory`).
LOCAL_PERIOD = 30
SHARED_PERIOD = 60


@dataclass(frozen=True)
class Directory:
    """A directory in the pod and what it may hold. `files`: inodes, 0 for any number.

    `empties`: directories that stay empty are removed: only where whoever writes makes them again.
    """

    path: str
    size_gib: int
    period: int
    files: int = 0
    empties: bool = False


def program(tier: AnyTier) -> Part:
    """The ConfigMap with the program's text, in the tier's namespace."""
    return Part(f"configmap-{NAME}", program_in(tier, tier.remote_namespace))


def program_in(tier: AnyTier, namespace: str) -> Manifest:
    """The same in another namespace."""
    meta = k.metadata(_config_map(tier), namespace, tier.labels)
    data = programs.texts("evictor")
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def volume(tier: AnyTier) -> Manifest:
    """The pod's volume with the program."""
    return {"name": NAME, "configMap": {"name": _config_map(tier)}}


def container(
    image: Image,
    python: str,
    settings: Evictor,
    directories: Iterable[Directory],
    mounts: Sequence[Manifest],
    **fields: Manifest,
) -> Manifest:
    """The container that works for the directories, or waits until the one that does is gone.

    `fields`: of the container, beside these. Beside an agent its readiness is nobody's: an agent
    serves from memory whatever becomes of its files.
    """
    config = {
        "directories": [_row(settings, directory) for directory in directories],
        "defaults": _defaults(settings),
        "port": PORT,
    }
    return agents.container(
        image,
        NAME,
        command=[python, "-m", NAME],
        args=[k.literal(json.dumps(config, separators=(",", ":")))],
        workingDir=_ABOVE,
        ports=agents.ports(**{PORT_NAME: PORT}),
        resources={
            "requests": {"cpu": "10m", "memory": "64Mi"},
            "limits": {"memory": "128Mi"},
        },
        livenessProbe=k.http_probe("/healthz", PORT_NAME, period=60, failures=3),
        volumeMounts=[
            *mounts,
            {"name": NAME, "mountPath": f"{_ABOVE}/{NAME}", "readOnly": True},
        ],
        **fields,
    )


def _row(settings: Evictor, directory: Directory) -> Manifest:
    row: Manifest = {
        "path": directory.path,
        "bytes": directory.size_gib * 2**30 * settings.high_percent // 100,
        "period": directory.period,
    }
    if directory.files:
        row["inodes"] = directory.files * settings.high_percent // 100
    if directory.empties:
        row["empties"] = True
    return row


def _defaults(settings: Evictor) -> Manifest:
    """The low mark is a share of the high one there."""
    found: Manifest = {
        "low": settings.low_percent * 100 // settings.high_percent,
        "free": settings.keep_free_percent,
    }
    if settings.dry_run:
        found["dry_run"] = True
    return found


def _config_map(tier: AnyTier) -> str:
    return f"{tier.remote_name}-{NAME}"

"""The evictor of file tiers (`programs.evictor`), as a container and a ConfigMap.

Running containers reload its text when the ConfigMap changes: a release of the function rolls no
agent for it. Any image with Python 3.9 can run it.
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
DRY_RUN_WARNING = "evictor.dryRun is true: nothing is removed; files grow until the disk is full."
_PROGRAM_ROOT = "/etc/kv-offload"

# Shortest seconds between two walks; a long walk has longer pauses (`programs.evictor.directory`).
LOCAL_PERIOD = 30
SHARED_PERIOD = 60


@dataclass(frozen=True)
class BoundedDirectory:
    """A directory in the pod and its bounds. `files`: inodes, 0 for no bound.

    `empties`: whether empty directories are removed. Set it only if their writer recreates them.
    """

    path: str
    size_gib: int
    period: int
    files: int = 0
    empties: bool = False


def program(tier: AnyTier) -> Part:
    """Return the ConfigMap with the program's text, in the tier's namespace."""
    return Part(f"configmap-{NAME}", config_map(tier, tier.remote_namespace))


def config_map(tier: AnyTier, namespace: str) -> Manifest:
    """Return the manifest of that ConfigMap in any namespace."""
    meta = k.metadata(_config_map_name(tier), namespace, tier.labels)
    return k.config_map(meta, programs.texts("evictor"))


def volume(tier: AnyTier) -> Manifest:
    """Return the pod's volume with the program."""
    return {"name": NAME, "configMap": {"name": _config_map_name(tier)}}


def container(
    image: Image,
    python: str,
    settings: Evictor,
    directories: Iterable[BoundedDirectory],
    mounts: Sequence[Manifest],
    **fields: Manifest,
) -> Manifest:
    """Return the container that evicts from the directories.

    Of several for one directory all but the elected one wait. `fields`: other fields of the
    container. As a sidecar of an agent it has no readiness probe: an agent serves from memory
    without files.
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
        workingDir=_PROGRAM_ROOT,
        ports=agents.ports(**{PORT_NAME: PORT}),
        resources=agents.HELPER_RESOURCES,
        livenessProbe=k.http_probe("/healthz", PORT_NAME, period=60, failures=3),
        volumeMounts=[
            *mounts,
            {"name": NAME, "mountPath": f"{_PROGRAM_ROOT}/{NAME}", "readOnly": True},
        ],
        **fields,
    )


def _row(settings: Evictor, directory: BoundedDirectory) -> Manifest:
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
    """Return the default settings; the low mark is a share of the high one there."""
    defaults: Manifest = {
        "low": settings.low_percent * 100 // settings.high_percent,
        "free": settings.keep_free_percent,
    }
    if settings.dry_run:
        defaults["dry_run"] = True
    return defaults


def _config_map_name(tier: AnyTier) -> str:
    return f"{tier.remote_name}-{NAME}"

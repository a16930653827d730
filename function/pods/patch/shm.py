"""`/dev/shm` of the serving container, in every form it is met in.

What is there is the user's and stays: an emptyDir in memory without a limit holds anything the
pod's memory does; one with a limit must be large enough; the node's own (hostPath or hostIPC) is
as large as the node made it. An absent one is added, and one gives way: an emptyDir in memory, of
the serving container alone, where the tier shares the node's own. It was nothing but memory.
"""

import posixpath

from function.contract.injection import Json, SharedMemory
from function.kube import quantity
from function.pods.patch import volumes
from function.pods.patch.draft import Draft, conflict
from function.problems import Refused
from function.reasons import Reason

PATH = "/dev/shm"
NAME = "kv-offload-shm"

# The engine's own use beside the connector's: vLLM's message queues, NCCL and PyTorch workers.
HEADROOM = 1024**3

_NODES_OWN = ("/dev/shm", "/run/shm")


def merge(draft: Draft, shared: SharedMemory | None) -> None:
    """Make `/dev/shm` fit `shared`.

    Raise SharedMemoryTooSmall where the user's limit is below what the connector keeps there, and
    PodConflict where what is mounted there cannot serve.
    """
    if shared is None:
        return
    mount = volumes.mount_at(draft.container, PATH)
    if mount is None:
        _add(draft, shared)
        return
    path = draft.at(f"volumeMounts[{PATH}]")
    if mount.get("readOnly"):
        raise conflict("/dev/shm is mounted read-only; remove readOnly", path)
    volume = volumes.volume(draft, mount["name"])
    if volume is None:
        raise conflict(f"there is no volume {mount['name']!r} in the pod", path)
    if shared.host:
        _share(draft, volume, mount)
    else:
        _require_memory(volume, mount, shared.bytes)


def _add(draft: Draft, shared: SharedMemory) -> None:
    if draft.spec.get("hostIPC"):
        return  # The container sees the node's own /dev/shm already.
    source: Json = {"emptyDir": {"medium": "Memory"}}
    if shared.host:
        source = {"hostPath": {"path": PATH, "type": "Directory"}}
    volumes.merge(draft, [{"name": NAME, **source}], [{"name": NAME, "mountPath": PATH}])


def _is_nodes_own(volume: Json, mount: Json) -> bool:
    host_path = (volume.get("hostPath") or {}).get("path", "")
    return posixpath.normpath(host_path) in _NODES_OWN and not mount.get("subPath")


def _share(draft: Draft, volume: Json, mount: Json) -> None:
    """Replace what is mounted there by the node's own."""
    if _is_nodes_own(volume, mount):
        return
    empty_dir = volumes.source(volume).get("emptyDir") or {}
    plain = empty_dir.get("medium") == "Memory" and not mount.get("subPath")
    if not plain or _others_mount(draft, volume["name"]):
        raise conflict(
            "the tier shares the node's /dev/shm with its agent, and this pod mounts another "
            "volume there, which other containers or other mounts need; let the tier use isolated "
            "IPC (vLLM), or remove the volume",
            f"spec.volumes[{volume['name']}]",
        )
    if volumes.volume(draft, NAME) is not None:
        raise conflict("the name is the tier's own; rename yours", f"spec.volumes[{NAME}]")
    ours = {"name": NAME, "hostPath": {"path": PATH, "type": "Directory"}}
    draft.spec["volumes"] = [ours if v is volume else v for v in draft.spec["volumes"]]
    mount["name"] = NAME


def _others_mount(draft: Draft, name: str) -> bool:
    """Return whether a volume is mounted anywhere but at the serving container's /dev/shm."""
    containers = [
        *(draft.spec.get("containers") or ()),
        *(draft.spec.get("initContainers") or ()),
        *(draft.spec.get("ephemeralContainers") or ()),
    ]
    mounts = [m for c in containers for m in c.get("volumeMounts") or () if m.get("name") == name]
    return len(mounts) > 1


def _require_memory(volume: Json, mount: Json, size: int) -> None:
    path = f"spec.volumes[{volume['name']}]"
    if _is_nodes_own(volume, mount):
        return
    empty_dir = volumes.source(volume).get("emptyDir")
    if empty_dir is None or empty_dir.get("medium") != "Memory":
        raise conflict(
            "/dev/shm is not in memory here; use an emptyDir with medium: Memory, or remove it",
            path,
        )
    limit = empty_dir.get("sizeLimit")
    if limit is None or not size:
        return
    try:
        have = quantity.parse(limit)
    except ValueError as e:
        raise conflict(str(e), f"{path}.emptyDir.sizeLimit") from None
    # A limit of 0 is no limit (core/v1 EmptyDirVolumeSource).
    if 0 < have < size + HEADROOM:
        raise Refused(
            Reason.SHARED_MEMORY_TOO_SMALL,
            f"/dev/shm is limited to {limit}; the tier keeps {quantity.format_bytes(size)} there "
            f"and the engine needs about {quantity.format_bytes(HEADROOM)} besides: raise it to "
            f"{quantity.format_bytes(size + HEADROOM)}, or leave sizeLimit out",
            f"{path}.emptyDir.sizeLimit",
        )

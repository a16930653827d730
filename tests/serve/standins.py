"""Substitutes for what a machine without a GPU cannot do.

Each changes one thing of an emitted template and records what and why for the table of proofs.
`differences` compares, so that no change stays unrecorded.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.conformance.manifests import Manifest

SHM = "/dev/shm"


@dataclass(frozen=True)
class StandIn:
    """`instead_of`: what a GPU would do. `what`: what is done here. `apply`: changes a template."""

    instead_of: str
    what: str
    apply: Callable[[Manifest], Manifest]


def _share_memory(template: Manifest) -> Manifest:
    out = copy.deepcopy(template)
    spec = out["spec"]
    for container in spec["containers"]:
        mounts = [m for m in container.get("volumeMounts", ()) if m["mountPath"] != SHM]
        container["volumeMounts"] = [*mounts, {"name": "node-shm", "mountPath": SHM}]
    used = {
        mount["name"] for container in spec["containers"] for mount in container["volumeMounts"]
    }
    volumes = [volume for volume in spec.get("volumes", ()) if volume["name"] in used]
    spec["volumes"] = [*volumes, {"name": "node-shm", "hostPath": {"path": SHM}}]
    return out


SHARED_MEMORY = StandIn(
    "CUDA IPC, by which LMCache's server maps the engine's KV pool",
    "POSIX memory in the node's /dev/shm, LMCache's own way on a CPU",
    _share_memory,
)

CLAIM, SHIM = "offload-on-cpu", "/mnt/offload-on-cpu"


def _load_shim(template: Manifest) -> Manifest:
    out = copy.deepcopy(template)
    spec = out["spec"]
    claim = {"claimName": CLAIM, "readOnly": True}
    spec["volumes"] = [
        *spec.get("volumes", ()),
        {"name": CLAIM, "persistentVolumeClaim": claim},
    ]
    for container in spec["containers"]:
        mount = {"name": CLAIM, "mountPath": SHIM, "readOnly": True}
        container["volumeMounts"] = [*container.get("volumeMounts", ()), mount]
        env = {variable["name"]: variable for variable in container["env"]}
        paths = [*filter(None, [env.get("PYTHONPATH", {}).get("value")]), SHIM]
        env["PYTHONPATH"] = {"name": "PYTHONPATH", "value": ":".join(paths)}
        container["env"] = list(env.values())
    return out


MEMMOVE = StandIn(
    "the copies of vLLM's offloading worker between a GPU and pinned memory",
    "memmove between two places of the same memory (shims/vllm)",
    _load_shim,
)

PLAIN_MEMORY = StandIn(
    "SGLang's kernels, pinned memory, and HiCache's copies between a GPU and the host",
    "placeholders, plain memory and torch's copies, in the author's pod (shims/sglang)",
    copy.deepcopy,
)

MOTO = StandIn(
    "a store of buckets",
    "moto 5.2.5, in memory, which checks no signature",
    copy.deepcopy,
)

CUDA12 = StandIn(
    "NIXL for CUDA 13, whose OBJ plugin lacks a library (1.5.1)",
    "NIXL for CUDA 12",
    copy.deepcopy,
)

HOST_POOL = StandIn(
    "NIXL's registration of a GPU's memory, which it refuses where there is no driver",
    "that of the host's, where the KV pool is (shims/sglang)",
    copy.deepcopy,
)


PAYLOAD_CLAIM = "payload"


def _run_payload(template: Manifest) -> Manifest:
    out = copy.deepcopy(template)
    spec = out["spec"]
    claim = {"claimName": PAYLOAD_CLAIM, "readOnly": True}
    spec["volumes"] = [
        *spec.get("volumes", ()),
        {"name": PAYLOAD_CLAIM, "persistentVolumeClaim": claim},
    ]
    for container in spec.get("initContainers", ()):
        if container["name"] == "kv-offload-payload":
            container["command"] = ["python3", "-I", "/payload-program/payload.py"]
            container["volumeMounts"] = [
                *container["volumeMounts"],
                {"name": PAYLOAD_CLAIM, "mountPath": "/payload", "subPath": "packages"},
                {"name": PAYLOAD_CLAIM, "mountPath": "/payload-program", "subPath": "program"},
            ]
    return out


PAYLOAD = StandIn(
    "the payload image, whose wheels are for Python 3.12 and CUDA",
    "its program, and wheels of the same releases for this Python and no CUDA",
    _run_payload,
)


def differences(before: Manifest, after: Manifest) -> list[str]:
    """What was changed, a line each: path, old value, new value."""
    return sorted(_differ("", before, after))


def _differ(path: str, before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}):
            yield from _differ(f"{path}.{key}".lstrip("."), before.get(key), after.get(key))
    elif isinstance(before, list) and isinstance(after, list) and _named(before + after):
        old, new = ({item["name"]: item for item in items} for items in (before, after))
        yield from _differ(path, old, new)
    elif before != after:
        yield f"{path}: {before!r} -> {after!r}"


def _named(items: list[Any]) -> bool:
    return all(isinstance(item, Mapping) and "name" in item for item in items)

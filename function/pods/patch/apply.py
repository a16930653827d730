"""Apply one `Injection` to one pod template."""

from collections.abc import Mapping, Sequence
from typing import Any

from function.contract.injection import Injection, Json
from function.pods.patch import (
    env,
    payload,
    ports,
    resources,
    scheduling,
    security,
    shm,
    volumes,
    waits,
)
from function.pods.patch.draft import Draft, child, conflict


def apply(
    template: Json,
    container_index: int,
    injection: Injection,
    command_changes: Mapping[str, Any] | None = None,
    files_volume: Json | None = None,
    brought: Sequence[Json] = (),
) -> Json:
    """Return a wired copy of a PodTemplateSpec; applying it to the copy again changes nothing.

    `container_index`: the serving container. `command_changes`: its new `command` and `args`, only
    the keys that change. `files_volume`: the Volume that holds `injection.files` (a ConfigMap's),
    mounted at `injection.files_path`. `brought`: the variables of its ConfigMaps. Raise Refused
    (PodConflict, SharedMemoryTooSmall, NodeMismatch) with a path from the template.
    """
    injection = payload.with_volume(injection)
    draft = Draft(template, container_index)
    draft.container.update(command_changes or {})
    env.merge(draft, injection, brought)
    all_volumes, mounts = list(injection.volumes), list(injection.mounts)
    if files_volume is not None:
        all_volumes.append(files_volume)
        mounts.append(
            {"name": files_volume["name"], "mountPath": injection.files_path, "readOnly": True}
        )
    volumes.merge(draft, all_volumes, mounts)
    ports.merge(draft, injection.ports)
    payload.merge(draft, injection.payload)
    waits.merge(draft, injection.waits)
    shm.merge(draft, injection.shm)
    amounts = {"memory": _memory(injection), "ephemeral-storage": injection.storage_bytes}
    resources.merge(draft, amounts, injection.hugepages, injection.resources, injection.claims)
    security.merge(draft, injection.capabilities)
    scheduling.merge(draft, injection.node_selector, injection.node_expressions)
    _labels(draft, injection.labels)
    # A Service named `vllm` would put VLLM_PORT=tcp://... into the pod. The user's own value stays.
    if draft.spec.get("enableServiceLinks") is None:
        draft.spec["enableServiceLinks"] = False
    return draft.template


def _memory(injection: Injection) -> int:
    """Return the bytes that count against the pod: the node's own /dev/shm does not."""
    shared = injection.shm.bytes if injection.shm and not injection.shm.host else 0
    return injection.memory_bytes + shared


def _labels(draft: Draft, labels: Mapping[str, str]) -> None:
    if not labels:
        return
    have = child(child(draft.template, "metadata"), "labels")
    for key in sorted(labels):
        if have.setdefault(key, labels[key]) != labels[key]:
            raise conflict(
                f"the label is {have[key]!r}, and a pod of this tier carries {labels[key]!r}; "
                "remove it",
                f"metadata.labels[{key}]",
            )

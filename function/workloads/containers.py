"""Which container of a pod template serves the model: named, or proven, never a sidecar."""

from collections.abc import Callable, Sequence
from typing import Any

from function.contract.image_reference import ImageReference
from function.problems import Refused
from function.reasons import Reason

Json = dict[str, Any]

# Names that serving stacks give the engine's container, the most telling first: Modelplane, KServe,
# llm-d and production-stack, OME, kthena, KubeAI, LeaderWorkerSet examples, KubeRay.
NAMES: tuple[str, ...] = (
    "engine",
    "kserve-container",
    "main",
    "vllm",
    "sglang",
    "ome-container",
    "runner",
    "inference-server",
    "model-server",
    "server",
    "vllm-leader",
    "vllm-worker",
    "sglang-leader",
    "sglang-worker",
    "leader",
    "worker",
    "ray-head",
    "ray-worker",
)

# Containers beside an engine: proxies, meshes, log and metrics shippers, downloaders.
SIDECAR_NAMES = frozenset(
    (
        "routing-proxy",
        "routing-sidecar",
        "llm-d-routing-sidecar",
        "istio-proxy",
        "linkerd-proxy",
        "envoy",
        "queue-proxy",
        "kube-rbac-proxy",
        "oauth-proxy",
        "cloud-sql-proxy",
        "vault-agent",
        "fluent-bit",
        "fluentd",
        "otel-collector",
        "otc-container",
        "dcgm-exporter",
        "node-exporter",
        "aibrix-runtime",
        "runtime-sidecar",
        "storage-initializer",
        "modelcar",
        "lora-sidecar",
        "tokenizer",
        "proxy",
        "sidecar",
    )
)

# The same by the last element of the image's repository.
SIDECAR_IMAGES = frozenset(
    (
        "llm-d-routing-sidecar",
        "llm-d-router-disagg-sidecar",
        "proxyv2",
        "proxy",
        "envoy",
        "nginx",
        "haproxy",
        "kube-rbac-proxy",
        "oauth2-proxy",
        "fluent-bit",
        "fluentd",
        "opentelemetry-collector",
        "opentelemetry-collector-contrib",
        "dcgm-exporter",
        "busybox",
        "pause",
        "storage-initializer",
        "sgl-model-gateway",
        "sglang-router",
    )
)


def serving(
    pod_spec: Json,
    *,
    name: str = "",
    proves: Callable[[Json], bool] = lambda container: False,
) -> int:
    """The index of the engine's container in `pod_spec["containers"]`.

    `name`: the step Input's `container`, which wins where a container has that name. `proves`:
    whether a container's argv (or image) shows that an engine is started there. Native sidecars
    stand in `initContainers` and are not looked at. Raises Refused(EngineContainerMissing) when
    there is none, or more than one.
    """
    containers = pod_spec.get("containers")
    if not isinstance(containers, list) or not all(isinstance(c, dict) for c in containers):
        raise _missing("there is no list of containers", ())
    for i, container in enumerate(containers):
        if name and container.get("name") == name:
            return i
    candidates = [i for i, c in enumerate(containers) if not is_sidecar(c)]
    proven = [i for i in candidates if proves(containers[i])]
    named = [i for i in candidates if containers[i].get("name") in NAMES]
    # Proof beats a name; among several that are proven, or named, the most telling name decides.
    for group in (proven,) if proven else (named, candidates):
        if len(group) == 1:
            return group[0]
    for telling in NAMES:
        for i in proven or named:
            if containers[i].get("name") == telling:
                return i
    if not candidates:
        raise _missing("every container here is a sidecar", containers)
    raise _missing("several containers could be the engine's", containers)


def is_sidecar(container: Json) -> bool:
    """Whether a container is known to stand beside an engine, by its name or its image."""
    return (
        container.get("name") in SIDECAR_NAMES
        or ImageReference.parse(str(container.get("image") or "")).name in SIDECAR_IMAGES
    )


def _missing(why: str, containers: Sequence[Json]) -> Refused:
    names = ", ".join(str(c.get("name", "?")) for c in containers) or "none"
    return Refused(
        Reason.ENGINE_CONTAINER_MISSING,
        f"{why} (containers: {names}); name the engine's container `engine`, or name it in the "
        "step's input; where none is an engine, remove the request for a tier",
        "spec.containers",
    )

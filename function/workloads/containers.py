"""The container of a pod template that serves the model: by name or by proof."""

from collections.abc import Callable, Sequence
from typing import Any

from function import names
from function.contract.image_reference import ImageReference
from function.problems import Refused
from function.reasons import Reason

Json = dict[str, Any]

# Names that serving stacks give the engine's container, the most specific first: Modelplane,
# KServe, llm-d and production-stack, OME, kthena, KubeAI, LeaderWorkerSet examples, KubeRay.
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

# Names of containers that are no engine: proxies, meshes, log and metrics shippers, downloaders.
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


def find_engine_container(
    pod_spec: Json,
    *,
    name: str = "",
    proves: Callable[[Json], bool] = lambda container: False,
) -> int:
    """Return the index of the engine's container in `pod_spec["containers"]`.

    `name`: the step Input's `container`, which wins where a container has that name. `proves`:
    whether a container's argv (or image) shows that it starts an engine. Native sidecars are in
    `initContainers`, which are not searched. Raise Refused(EngineContainerMissing) when there is
    none, or more than one.
    """
    containers = pod_spec.get("containers")
    if not isinstance(containers, list) or not all(isinstance(c, dict) for c in containers):
        raise _missing("The pod has no list of containers", ())
    for i, container in enumerate(containers):
        if name and container.get("name") == name:
            return i
    candidates = [i for i, c in enumerate(containers) if not is_sidecar(c)]
    proven = [i for i in candidates if proves(containers[i])]
    named = [i for i in candidates if containers[i].get("name") in NAMES]
    # Proof beats a name; among several proven or named ones, the most specific name decides.
    for group in (proven,) if proven else (named, candidates):
        if len(group) == 1:
            return group[0]
    for specific in NAMES:
        for i in proven or named:
            if containers[i].get("name") == specific:
                return i
    if not candidates:
        raise _missing("Every container is a known sidecar", containers)
    raise _missing("Several containers could be the engine", containers)


def is_sidecar(container: Json) -> bool:
    """Return whether a container's name or image is that of a known sidecar."""
    return (
        container.get("name") in SIDECAR_NAMES
        or ImageReference.parse(str(container.get("image") or "")).name in SIDECAR_IMAGES
    )


def _missing(why: str, containers: Sequence[Json]) -> Refused:
    listed = ", ".join(str(c.get("name", "?")) for c in containers) or "none"
    return Refused(
        Reason.ENGINE_CONTAINER_MISSING,
        f"{why} (containers: {listed}). Name the engine's container `engine`, or set `container` "
        "in the step's Input. If none is an engine, remove the annotation "
        f"{names.ANNOTATION_TIER}.",
        "spec.containers",
    )

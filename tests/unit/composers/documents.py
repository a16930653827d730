"""The documents that this folder's tables vary."""

from typing import Any

from tests.unit.composers.calls import READY

Document = dict[str, Any]

MODEL = "Qwen/Qwen3-32B"
COMPOSE = {"apiVersion": "kvoffload.fn.modelplane.ai/v1alpha1", "kind": "Input", "mode": "Compose"}


def cluster(name: str = "gpu", *, provider_config: str | None = "gpu") -> Document:
    status = {"providerConfigRef": {"name": provider_config}} if provider_config else {}
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "InferenceCluster",
        "metadata": {"name": name, "labels": {"fleet": "prod"}},
        "status": status,
    }


def tier(name: str = "chat", **spec: Any) -> Document:
    """The smallest LMCache tier; keyword arguments replace fields of its spec."""
    body = {
        "inferenceClusterRef": {"name": "gpu"},
        "allowedNamespaces": {"from": "Names", "names": ["team-a"]},
        "backend": "LMCache",
        "lmcache": {"l1": {"sizeGiB": 200}},
        **spec,
    }
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "KVOffloadTier",
        "metadata": {"name": name, "namespace": "modelplane-system", "uid": f"uid-{name}"},
        "spec": {k: v for k, v in body.items() if v is not None},
    }


def ready_tier(name: str = "chat", *, provider_config: str = "gpu", **spec: Any) -> Document:
    """A tier as consumers find it, ready on its cluster."""
    status = {"providerConfigRef": {"name": provider_config}, "conditions": [READY]}
    return {**tier(name, **spec), "status": status}


def refused_tier(name: str = "chat", **spec: Any) -> Document:
    """A tier whose edit was refused: core leaves Ready as it was for the spec before."""
    found = ready_tier(name, **spec)
    accepted = {"type": "Accepted", "status": "False", "reason": "Invalid"}
    found["status"]["conditions"] = [READY, accepted]
    return found


def edited_tier(name: str = "chat", **spec: Any) -> Document:
    """A tier whose edit of what is pinned no call has seen yet."""
    found = ready_tier(name, **spec)
    found["status"]["pinned"] = {"spec.backend": "LMCache", "spec.lmcache.chunkTokens": "512"}
    return found


def unready_tier(name: str = "chat", **spec: Any) -> Document:
    waiting = {"type": "AgentsReady", "status": "False", "reason": "Starting"}
    conditions = [{**READY, "status": "False", "reason": "Creating"}, waiting]
    status = {"providerConfigRef": {"name": "gpu"}, "conditions": conditions}
    return {**tier(name, **spec), "status": status}


def replica(name: str = "qwen", namespace: str = "team-a", **spec: Any) -> Document:
    """Modelplane's ModelReplica, as far as this function looks at it."""
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelReplica",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
        "spec": {"clusterName": "gpu", **spec},
    }


IMAGE = "vllm/vllm-openai:v0.32.0"


def engine(
    annotations: dict[str, str] | None = None,
    *,
    args: list[str] | None = None,
    image: str = IMAGE,
    provider_config: str = "gpu",
) -> Document:
    """A Deployment in an Object, as Modelplane's native backend desires it."""
    container = {
        "name": "engine",
        "image": image,
        "args": [MODEL] if args is None else args,
        "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],
    }
    metadata: Document = {"labels": {"modelplane.ai/workload": "qwen"}}
    if annotations is None:
        annotations = {"modelplane.ai/kv-offload-tier": "chat"}
    if annotations:
        metadata["annotations"] = annotations
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "qwen", "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"modelplane.ai/workload": "qwen"}},
            "template": {
                "metadata": metadata,
                "spec": {
                    "containers": [container],
                    "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
                },
            },
        },
    }
    return {
        "apiVersion": "kubernetes.m.crossplane.io/v1alpha1",
        "kind": "Object",
        "spec": {
            "forProvider": {"manifest": manifest},
            "providerConfigRef": {"kind": "ClusterProviderConfig", "name": provider_config},
            "watch": True,
        },
    }


# SGLang's client of LMCache shares memory with its agent: a tier for it.
SHARED_MEMORY = {"lmcache": {"l1": {"sizeGiB": 200}, "ipc": "SharedMemory"}}


def sglang_engine(*args: str) -> Document:
    """An SGLang engine that a tier of SHARED_MEMORY can wire, with these further arguments."""
    found = engine(args=list(args), image="lmcache/sglang:v0.5.6")
    pod = found["spec"]["forProvider"]["manifest"]["spec"]["template"]["spec"]
    command = ["sglang", "serve", "--model-path", MODEL]
    pod["volumes"] = []
    pod["containers"][0] |= {"command": command, "volumeMounts": []}
    return found


def requirements(
    *tiers: Document,
    name: str = "chat",
    children: tuple[Document, ...] = (),
) -> dict[str, list[Document]]:
    """What core resolves for a consumer that names `name`."""
    ref = f"modelplane-system/{name}"
    return {
        f"tier/{ref}": list(tiers),
        f"children/{ref}": list(children),
    }


def wired_pod(document: Document) -> Document:
    """The pod template inside an engine's Object."""
    return document["spec"]["forProvider"]["manifest"]["spec"]["template"]

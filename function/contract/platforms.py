"""Kubernetes platforms: how their GPU nodes are labelled and tainted, and how an agent sees a GPU.

An agent claims no GPU, since the engines have claimed them all: it must see them by other means,
and which ones there are is the platform's. `docs/platforms.md` is written from these rows. None of
them was run on a GPU by us; what a source does not state is not in the table.
"""

from dataclasses import dataclass

from function.api.placement import Nodes, Toleration

_GPU = Toleration(key="nvidia.com/gpu", operator="Exists")
# The key alone says nothing of GPUs: other values of it keep other pods away.
_SKU = Toleration(key="sku", operator="Equal", value="gpu")
_IS_GPU = Toleration(key="is_gpu", operator="Exists")


@dataclass(frozen=True)
class Platform:
    """One platform, or one way to install the GPUs of any.

    `labels`: of its GPU nodes, `key=value`, or `key=` where the value is the type of the GPU or of
    the machine. `taints`: what they carry, `key=value:Effect`; `by_itself`: without anyone having
    asked for it. `tolerated`: by the agents, unless the tier says otherwise. `runtime_class`:
    whether a RuntimeClass `nvidia` is there. `sources`: the values of spec.gpuVisibility.source
    that fit, the first to be preferred. `needs`: what must be set beside them.
    """

    name: str
    labels: tuple[str, ...]
    taints: tuple[str, ...]
    by_itself: bool
    tolerated: Toleration | None
    runtime_class: bool
    sources: tuple[str, ...]
    needs: str
    read: str


PLATFORMS: tuple[Platform, ...] = (
    Platform(
        "Modelplane's own clusters",
        ("modelplane.ai/pool=",),
        ("nvidia.com/gpu:NoSchedule",),
        True,
        _GPU,
        False,
        ("DRAAdminAccess",),
        "The DRA driver that Modelplane installs, on Kubernetes 1.34 or newer. "
        "[example/modelplane/tier.yaml](../example/modelplane/tier.yaml) is such a tier.",
        "Modelplane v0.3.1 (compositions of its clusters); modelplane PR 340 for Nebius",
    ),
    Platform(
        "GKE",
        ("cloud.google.com/gke-accelerator=",),
        ("nvidia.com/gpu=present:NoSchedule",),
        True,
        _GPU,
        False,
        ("DRAAdminAccess",),
        "NVIDIA's DRA driver and Kubernetes 1.34. GKE's own device plugin shows a GPU to those who "
        "claim it and to nobody else. With the GPU Operator on GKE, see its rows below.",
        "cloud.google.com/kubernetes-engine/docs/how-to/gpus and /gpu-operator; LMCache PR 4580",
    ),
    Platform(
        "EKS, Amazon Linux 2023 (NVIDIA)",
        (
            "eks.amazonaws.com/instance-gpu-manufacturer=nvidia",
            "karpenter.k8s.aws/instance-gpu-manufacturer=nvidia",
            "node.kubernetes.io/instance-type=",
        ),
        ("nvidia.com/gpu:NoSchedule",),
        False,
        _GPU,
        False,
        ("DefaultRuntime",),
        "The first label is of Auto Mode, the second of Karpenter; managed node groups have the "
        "third alone.",
        "amazon-eks-ami issue 2236 and PR 1974 (nodeadm makes nvidia the default runtime); "
        "docs.aws.amazon.com/eks (AMIs)",
    ),
    Platform(
        "EKS, Bottlerocket (NVIDIA)",
        ("node.kubernetes.io/instance-type=",),
        ("nvidia.com/gpu:NoSchedule",),
        False,
        _GPU,
        False,
        ("DefaultRuntime",),
        "`settings.nvidia-container-runtime.visible-devices-envvar-when-unprivileged = true`; it "
        "is false by default, and agents are unprivileged.",
        "bottlerocket.dev/en/os (settings.nvidia-container-runtime)",
    ),
    Platform(
        "AKS",
        ("kubernetes.azure.com/accelerator=nvidia",),
        ("sku=gpu:NoSchedule",),
        False,
        _SKU,
        False,
        ("DefaultRuntime",),
        "Node pools with AKS' own driver. With the GPU Operator (`--gpu-driver none`), see its "
        "rows below.",
        "Azure AgentBaker PR 175 (nvidia is the runtime of containerd on N-series nodes); "
        "learn.microsoft.com/azure/aks (GPUs, taints)",
    ),
    Platform(
        "CoreWeave (CKS)",
        ("gpu.nvidia.com/class=", "node.kubernetes.io/instance-type="),
        ("is_gpu=true:PreferNoSchedule",),
        True,
        _IS_GPU,
        False,
        ("DefaultRuntime",),
        "Nodes of the interruptible pool carry `qos.coreweave.cloud/interruptable:NoExecute` too, "
        "which a tier tolerates only if spec.nodes.tolerations says so.",
        "docs.coreweave.com (workload scheduling); public manifests for the taint; marin issue "
        "3608; that the default runtime shows GPUs is not stated",
    ),
    Platform(
        "Nebius",
        ("node.kubernetes.io/instance-type=",),
        (),
        False,
        None,
        False,
        ("DefaultRuntime",),
        "Node groups with preinstalled drivers. With the GPU Operator, see its rows below.",
        "LMCache PR 4580 (default_runtime_name is nvidia, no RuntimeClass); skypilot issue 5749",
    ),
    Platform(
        "GPU Operator before 25.10, or `cdi.enabled=false`",
        ("nvidia.com/gpu.present=true",),
        ("nvidia.com/gpu:NoSchedule",),
        False,
        _GPU,
        True,
        ("RuntimeClass", "DefaultRuntime"),
        "Nothing. The toolkit makes nvidia the default runtime too, unless told otherwise.",
        "docs.nvidia.com/datacenter/cloud-native/gpu-operator (cdi)",
    ),
    Platform(
        "GPU Operator 25.10 or newer (CDI)",
        ("nvidia.com/gpu.present=true",),
        ("nvidia.com/gpu:NoSchedule",),
        False,
        _GPU,
        True,
        ("RuntimeClass",),
        "Nothing: with CDI alone the RuntimeClass stays, and an annotation is read by nobody.",
        "docs.nvidia.com/datacenter/cloud-native/gpu-operator (cdi)",
    ),
    Platform(
        "GPU Operator 26.3 or newer, `cdi.nriPluginEnabled=true`",
        ("nvidia.com/gpu.present=true",),
        ("nvidia.com/gpu:NoSchedule",),
        False,
        _GPU,
        False,
        ("CDI",),
        "Container Toolkit 1.20 or newer, with spec.namespace of the tier in its environment "
        "`NRI_MANAGEMENT_CDI_DEVICE_NAMESPACES` (`toolkit.env` of the chart): outside of the "
        "operator's own namespace the device `management.nvidia.com/gpu=all` is given to nobody "
        "else. NRI must be on in containerd.",
        "gpu-operator PR 1950; Container Toolkit's page on NRI; LMCache PR 5057; NVSentinel 1717",
    ),
    Platform(
        "k3s, RKE2",
        ("nvidia.com/gpu.present=true",),
        (),
        False,
        None,
        True,
        ("RuntimeClass",),
        "The label comes from GPU Feature Discovery, where that is installed.",
        "k3s issue 9702; docs.rke2.io (GPU operators)",
    ),
    Platform(
        "Bare: NVIDIA's device plugin alone",
        (),
        (),
        False,
        None,
        False,
        ("DefaultRuntime", "RuntimeClass"),
        "containerd's default runtime is nvidia (`nvidia-ctk runtime configure --set-as-default`), "
        "or a RuntimeClass `nvidia` of handler nvidia that you create. Label the nodes yourself.",
        "NVIDIA k8s-device-plugin's README and PR 1304",
    ),
)


def tolerations(nodes: Nodes) -> tuple[Toleration, ...]:
    """What agents on engines' nodes tolerate: the tier's own list, or the usual taints."""
    return usual_tolerations() if nodes.tolerations is None else tuple(nodes.tolerations)


def usual_tolerations() -> tuple[Toleration, ...]:
    """What agents on engines' nodes tolerate, where the tier does not say."""
    found = (platform.tolerated for platform in PLATFORMS if platform.tolerated is not None)
    return tuple(dict.fromkeys(found))


def platforms_with(source: str) -> tuple[str, ...]:
    """The platforms on which a value of spec.gpuVisibility.source is to be preferred."""
    return tuple(platform.name for platform in PLATFORMS if platform.sources[0] == source)


def label_keys() -> tuple[str, ...]:
    """The labels by which platforms tell their GPU nodes, the best of each, without values."""
    first = (platform.labels[0] for platform in PLATFORMS if platform.labels)
    return tuple(dict.fromkeys(label.partition("=")[0] for label in first))

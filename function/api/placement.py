"""Parts of a tier's spec: nodes, devices and images of its agents."""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, FieldRule, union

_Device = Annotated[str, f.text(r"^[A-Za-z0-9_.-]+$", most=63)]


class LocalRef(ApiModel):
    """A reference by name."""

    name: f.DnsName
    """Name of the object."""


class HostPath(ApiModel):
    """A directory of the node."""

    path: f.AbsolutePath
    """The directory, created if absent and kept when the pod is deleted."""


class VolumeClass(ApiModel):
    """The class of a volume."""

    storage_class_name: f.DnsName | None = None
    """StorageClass. Absent: the cluster's default."""


class ServerImage(ApiModel):
    """The image of a server that a tier runs beside its agents."""

    repository: f.ImageRepository
    """Repository without tag."""
    tag: f.ImageTag
    """Tag."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """When the kubelet pulls the image."""


class Toleration(ApiModel):
    """A Kubernetes toleration of the agents' pods."""

    rules = (
        FieldRule(
            "self.operator == 'Exists' || has(self.key)",
            "key must be set when operator is Equal",
            "key",
        ),
        FieldRule(
            "self.operator == 'Equal' || !has(self.value)",
            "value may only be set when operator is Equal",
            "value",
        ),
        FieldRule(
            "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            "tolerationSeconds may only be set when effect is NoExecute",
            "tolerationSeconds",
        ),
    )

    key: f.Qualified | None = None
    """Taint key. Absent with operator Exists: every taint."""
    operator: Literal["Exists", "Equal"] = "Equal"
    """Exists matches any value of the key, Equal the given one."""
    value: f.LabelValue | None = None
    """Taint value, with Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Taint effect. Absent: every effect."""
    toleration_seconds: Annotated[int, Field(ge=0, le=31536000)] | None = None
    """How long a NoExecute taint is tolerated, in seconds."""


class Nodes(ApiModel):
    """The nodes that run an agent, and therefore the nodes that wired engines need."""

    selector: f.Labels = {}
    """Labels of the nodes. An empty map: every node."""
    tolerations: Annotated[list[Toleration], f.items(16)] | None = None
    """Tolerations of the tier's pods. Absent: agents on engines' nodes tolerate the usual taints of
    GPU nodes (docs/platforms.md). A list replaces those; an empty one tolerates nothing."""
    priority_class_name: f.DnsName | None = None
    """PriorityClass of the agents' pods. When an agent is evicted, its node's cache is lost."""


class CDI(ApiModel):
    """GPUs through the Container Device Interface, by annotation."""

    annotation_prefix: f.DnsName = "nvidia.cdi.k8s.io"
    """Prefix of the annotation: PREFIX/container.NAME holds the device."""
    device: Annotated[str, f.text(r"^[-a-zA-Z0-9_.]+/[-a-zA-Z0-9_.]+=[-a-zA-Z0-9_.:]+$")] = (
        "management.nvidia.com/gpu=all"
    )
    """CDI device, vendor/class=name."""


class DRAAdminAccess(ApiModel):
    """GPUs through a resource claim with admin access, which allocates no device."""

    device_class_name: f.DnsName = "gpu.nvidia.com"
    """DeviceClass of the GPUs."""


class GPUVisibility(ApiModel):
    """How agents see the GPUs of their node without claiming one."""

    rules = union(
        "source",
        {"RuntimeClass": "runtime_class", "CDI": "cdi", "DRAAdminAccess": "dra_admin_access"},
        optional=("CDI", "DRAAdminAccess"),
    )

    source: Literal["RuntimeClass", "DefaultRuntime", "CDI", "DRAAdminAccess", "None"]
    """RuntimeClass: a runtime class that exposes all GPUs. DefaultRuntime: the nodes' default
    runtime exposes them by NVIDIA_VISIBLE_DEVICES (EKS, AKS, Nebius). CDI: an annotation, on nodes
    whose runtime injects devices (GPU Operator with NRI). DRAAdminAccess: a claim with admin access
    (Kubernetes 1.34; not yet tested on a GPU). None: something else exposes them, for example an
    admission policy. An agent without a visible GPU is not ready."""
    runtime_class: LocalRef | None = None
    """The RuntimeClass, with source RuntimeClass."""
    cdi: CDI | None = None
    """Settings of source CDI."""
    dra_admin_access: DRAAdminAccess | None = None
    """Settings of source DRAAdminAccess."""

    @property
    def cdi_or_default(self) -> CDI:
        """Return the CDI settings, or their defaults."""
        return self.cdi or CDI()

    @property
    def dra_or_default(self) -> DRAAdminAccess:
        """Return the admin-access settings, or their defaults."""
        return self.dra_admin_access or DRAAdminAccess()


class DevicePlugin(ApiModel):
    """RDMA devices as an extended resource of a device plugin."""

    resource_name: f.Qualified
    """Extended resource, e.g. rdma/hca."""
    count: Annotated[int, Field(ge=1, le=64)] = 1
    """Number that each pod requests."""


class DRASelector(ApiModel):
    """A condition on a device."""

    cel: Annotated[str, f.text(most=10240)]
    """DRA CEL expression over `device`."""


class DRA(ApiModel):
    """RDMA devices by a resource claim."""

    device_class_name: f.DnsName
    """DeviceClass of the RDMA devices."""
    count: Annotated[int, Field(ge=1, le=64)] = 1
    """Number of devices that each pod claims."""
    selectors: Annotated[list[DRASelector], f.items(8)] = []
    """Conditions on a device; all must hold."""


class RDMA(ApiModel):
    """How agents and wired engines get RDMA devices."""

    rules = (
        *union("source", {"DevicePlugin": "device_plugin", "DRA": "dra"}),
        FieldRule(
            "self.source != 'None' || size(self.devices) == 0",
            "devices may only be set when source is DevicePlugin or DRA",
            "devices",
        ),
        FieldRule(
            "self.source != 'None' || size(self.podAnnotations) == 0",
            "podAnnotations may only be set when source is DevicePlugin or DRA",
            "podAnnotations",
        ),
    )

    source: Literal["None", "DevicePlugin", "DRA"]
    """None: TCP only. DevicePlugin: an extended resource. DRA: a resource claim."""
    device_plugin: DevicePlugin | None = None
    """The extended resource, with source DevicePlugin."""
    dra: DRA | None = None
    """The claim, with source DRA."""
    pod_annotations: f.Annotations = {}
    """Annotations of the agents' pods that attach their RDMA network, e.g.
    k8s.v1.cni.cncf.io/networks (Multus). Engines need them in their own pod template."""
    devices: Annotated[
        list[Annotated[str, f.text(r"^[A-Za-z0-9_.-]+$", most=63)]], f.items(32)
    ] = []
    """Devices the transport may use, e.g. mlx5_0. Empty: it chooses."""


class PullSecret(ApiModel):
    """An image pull secret, in the pods' namespace of the workload cluster."""

    name: f.DnsName
    """Name of the Secret."""


class AgentImage(ApiModel):
    """The agents' image. Absent fields come from the backend's default."""

    rules = (
        FieldRule(
            "!has(self.digest) || has(self.version)",
            "version must be set when digest is set: a digest does not show the version",
            "version",
        ),
    )

    repository: f.ImageRepository | None = None
    """Repository without tag. Default: the backend's own."""
    tag: f.ImageTag | None = None
    """Tag. Default: the backend's own."""
    version: f.Version | None = None
    """Version of the backend in the image, which decides flags and config keys. Default: the tag,
    if it is a version."""
    digest: f.ImageDigest | None = None
    """Digest, used instead of the tag. Needs version."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """When the kubelet pulls the image."""
    pull_secrets: Annotated[list[PullSecret], f.items(8)] = []
    """Image pull secrets, in the agents' namespace."""

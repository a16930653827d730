"""Parts of a tier's spec: nodes, devices and images of its agents."""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, FieldRule, exactly_one, rows, union

_Device = Annotated[str, f.text(r"^[A-Za-z0-9_.-]+$", most=63)]


class LocalRef(ApiModel):
    """A reference by name."""

    name: f.DnsName


class HostPath(ApiModel):
    """A directory of the node."""

    path: f.AbsolutePath


class VolumeClass(ApiModel):
    """The class of a volume."""

    storage_class_name: f.DnsName | None = None


class ServerImage(ApiModel):
    """The image of a server that a tier runs beside its agents."""

    repository: f.ImageRepository
    tag: f.ImageTag
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"


class Toleration(ApiModel):
    """A Kubernetes toleration of the agents' pods."""

    rules = rows(FieldRule, __file__, "Toleration")

    key: f.Qualified | None = None
    operator: Literal["Exists", "Equal"] = "Equal"
    value: f.LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: Annotated[int, Field(ge=0, le=31536000)] | None = None


class Nodes(ApiModel):
    """The nodes that run an agent, and therefore the nodes that wired engines need."""

    selector: f.Labels = {}
    tolerations: Annotated[list[Toleration], f.items(16)] | None = None
    priority_class_name: f.DnsName | None = None


class CDI(ApiModel):
    """GPUs through the Container Device Interface, by annotation."""

    annotation_prefix: f.DnsName = "nvidia.cdi.k8s.io"
    device: Annotated[str, f.text(r"^[-a-zA-Z0-9_.]+/[-a-zA-Z0-9_.]+=[-a-zA-Z0-9_.:]+$")] = (
        "management.nvidia.com/gpu=all"
    )


class DRAAdminAccess(ApiModel):
    """GPUs through a resource claim with admin access, which allocates no device."""

    device_class_name: f.DnsName = "gpu.nvidia.com"


class GPUVisibility(ApiModel):
    """How agents see the GPUs of their node without claiming one."""

    rules = union(
        "source",
        {"RuntimeClass": "runtime_class", "CDI": "cdi", "DRAAdminAccess": "dra_admin_access"},
        optional=("CDI", "DRAAdminAccess"),
    )

    source: Literal["RuntimeClass", "DefaultRuntime", "CDI", "DRAAdminAccess", "None"]
    runtime_class: LocalRef | None = None
    cdi: CDI | None = None
    dra_admin_access: DRAAdminAccess | None = None

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
    count: Annotated[int, Field(ge=1, le=64)] = 1


class DRASelector(ApiModel):
    """A condition on a device."""

    cel: Annotated[str, f.text(most=10240)]


class DRA(ApiModel):
    """RDMA devices by a resource claim."""

    device_class_name: f.DnsName
    count: Annotated[int, Field(ge=1, le=64)] = 1
    selectors: Annotated[list[DRASelector], f.items(8)] = []


class RDMA(ApiModel):
    """How agents and wired engines get RDMA devices."""

    rules = (
        *union("source", {"DevicePlugin": "device_plugin", "DRA": "dra"}),
        *rows(FieldRule, __file__, "RDMA"),
    )

    source: Literal["None", "DevicePlugin", "DRA"]
    device_plugin: DevicePlugin | None = None
    dra: DRA | None = None
    pod_annotations: f.Annotations = {}
    devices: Annotated[
        list[Annotated[str, f.text(r"^[A-Za-z0-9_.-]+$", most=63)]], f.items(32)
    ] = []


class Payload(ApiModel):
    """The image whose packages replace unfitting ones in the engines' containers."""

    rules = (exactly_one("tag", "digest"),)

    repository: f.ImageRepository
    tag: f.ImageTag | None = None
    digest: f.ImageDigest | None = None

    @property
    def reference(self) -> str:
        """Return the image with its tag or digest."""
        return (
            f"{self.repository}@{self.digest}" if self.digest else f"{self.repository}:{self.tag}"
        )


class PullSecret(ApiModel):
    """An image pull secret, in the pods' namespace of the workload cluster."""

    name: f.DnsName


class AgentImage(ApiModel):
    """The agents' image. Absent fields come from the backend's default."""

    rules = rows(FieldRule, __file__, "AgentImage")

    repository: f.ImageRepository | None = None
    tag: f.ImageTag | None = None
    version: f.Version | None = None
    digest: f.ImageDigest | None = None
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    pull_secrets: Annotated[list[PullSecret], f.items(8)] = []

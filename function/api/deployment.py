"""ModelDeployment for use without Modelplane: engines on one cluster.

Fields that Modelplane has too keep its shape. In addition, the pod's spec is any PodSpec, the
cluster is named rather than scheduled, and the tier is a field.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from function.api import fields as f
from function.api.base import ApiModel, FieldRule, immutable
from function.api.consumer import KVOffloadTierRef
from function.api.placement import LocalRef

ENGINE_CONTAINER = "engine"


class Container(ApiModel):
    """A container; every field of a Kubernetes Container is accepted."""

    model_config = ConfigDict(extra="allow")

    name: f.DnsLabel
    image: Annotated[str, f.text(most=1024)]


class PodSpec(ApiModel):
    """The pods' spec; every field of a Kubernetes PodSpec is accepted."""

    model_config = ConfigDict(extra="allow")
    rules = (
        FieldRule(
            f"self.containers.exists_one(c, c.name == '{ENGINE_CONTAINER}')",
            f"containers must have exactly one container named {ENGINE_CONTAINER}",
            "containers",
        ),
    )

    containers: Annotated[list[Container], f.items(16, least=1)]


class PodMetadata(ApiModel):
    """Metadata of the pods."""

    rules = (
        FieldRule(
            "!has(self.labels) || self.labels.all(k, !k.startsWith('modelplane.ai/'))",
            "labels must not use the reserved prefix modelplane.ai/",
            "labels",
        ),
    )

    labels: f.Labels | None = None
    annotations: f.Annotations | None = None


class PodTemplate(ApiModel):
    """The template of a member's pods."""

    metadata: PodMetadata = PodMetadata.model_construct()
    spec: PodSpec


class Worker(ApiModel):
    """Settings of a Worker member."""

    nodes: Annotated[int, Field(ge=1, le=63)]


class Member(ApiModel):
    """One role in an engine."""

    rules = (
        FieldRule(
            "!has(self.worker) || self.role == 'Worker'",
            "worker may only be set when role is Worker",
            "worker",
        ),
    )

    # No schema default for `worker`: defaults are applied before CEL and would trip the rule.
    role: Literal["Standalone", "Leader", "Worker"] = "Standalone"
    worker: Worker | None = None
    template: PodTemplate

    @property
    def pods(self) -> int:
        """Return the pods of the member in one copy of its engine."""
        return self.worker.nodes if self.worker else 1


class EngineSpec(ApiModel):
    """One serving unit: a pod, or a gang of a Leader and its Workers."""

    rules = (
        FieldRule(
            "(self.members.size() == 1 && self.members[0].role == 'Standalone') || "
            "(self.members.size() == 2 && self.members.exists_one(m, m.role == 'Leader') && "
            "self.members.exists_one(m, m.role == 'Worker'))",
            "members must be one Standalone, or one Leader and one Worker",
            "members",
        ),
    )

    name: Annotated[str, f.text(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", most=40)]
    copies: Annotated[int, Field(ge=1, le=64)] = 1
    phase: Literal["Prefill", "Decode"] | None = None
    members: Annotated[list[Member], f.items(2, least=1)]


class Service(ApiModel):
    """The Service in front of the engines."""

    port: f.Port = 8000


class DeploymentSettings(ApiModel):
    """The settings of a replica."""

    rules = (immutable("inference_cluster_ref", "the old cluster would keep its pods"),)

    inference_cluster_ref: LocalRef
    engines: Annotated[list[EngineSpec], f.items(8, least=1, keys=("name",))]
    kv_offload_tier_ref: KVOffloadTierRef | None = None
    service: Service = Service.model_construct()


class DeploymentTemplate(ApiModel):
    """The template of a deployment's replicas."""

    spec: DeploymentSettings


class ModelDeploymentSpec(ApiModel):
    """A model served by engines on one cluster."""

    ignored_keys = frozenset({"crossplane"})

    replicas: Annotated[int, Field(ge=0, le=10)]
    template: DeploymentTemplate

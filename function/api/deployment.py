"""ModelDeployment for use without Modelplane: engines on one cluster.

Fields that Modelplane has too keep its shape. In addition, the pod's spec is any PodSpec, the
cluster is named rather than scheduled, and the tier is a field.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from function.api import fields as f
from function.api.base import ApiModel, FieldRule
from function.api.consumer import KVOffloadTierRef
from function.api.placement import LocalRef

ENGINE_CONTAINER = "engine"


class Container(ApiModel):
    """A container; every field of a Kubernetes Container is accepted."""

    model_config = ConfigDict(extra="allow")

    name: f.DnsLabel
    """Name; the container named engine runs the engine."""
    image: Annotated[str, f.text(most=1024)]
    """Container image."""


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
    """The pod's containers, one of them named engine."""


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
    """Labels of the pods."""
    annotations: f.Annotations | None = None
    """Annotations of the pods."""


class PodTemplate(ApiModel):
    """The template of a member's pods."""

    metadata: PodMetadata = PodMetadata.model_construct()
    """Metadata of the pods."""
    spec: PodSpec
    """Spec of the pods."""


class Worker(ApiModel):
    """Settings of a Worker member."""

    nodes: Annotated[int, Field(ge=1, le=63)]
    """Number of nodes with one worker pod each."""


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
    """Standalone is a lone pod. A Leader serves requests, and its Workers join it."""
    worker: Worker | None = None
    """Settings of a Worker; absent means one node."""
    template: PodTemplate
    """The member's pods."""

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
    """Name of the engine; part of its workloads' names."""
    copies: Annotated[int, Field(ge=1, le=64)] = 1
    """Identical copies of the engine in each replica."""
    phase: Literal["Prefill", "Decode"] | None = None
    """The engine's phase, if prefill and decode are separate engines."""
    members: Annotated[list[Member], f.items(2, least=1)]
    """One Standalone member, or a Leader and a Worker."""


class Service(ApiModel):
    """The Service in front of the engines."""

    port: f.Port = 8000
    """Port that the engines listen on."""


class DeploymentSettings(ApiModel):
    """The settings of a replica."""

    inference_cluster_ref: LocalRef
    """The InferenceCluster to run on."""
    engines: Annotated[list[EngineSpec], f.items(8, least=1, keys=("name",))]
    """The engines of a replica."""
    kv_offload_tier_ref: KVOffloadTierRef | None = None
    """The tier that the engines' pods are wired to."""
    service: Service = Service.model_construct()
    """The Service in front of the engines."""


class DeploymentTemplate(ApiModel):
    """The template of a deployment's replicas."""

    spec: DeploymentSettings
    """The settings of a replica."""


class ModelDeploymentSpec(ApiModel):
    """A model served by engines on one cluster."""

    ignored_keys = frozenset({"crossplane"})

    replicas: Annotated[int, Field(ge=1, le=10)]
    """How many replicas of the template run."""
    template: DeploymentTemplate
    """The template of the replicas."""

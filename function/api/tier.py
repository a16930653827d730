"""KVOffloadTier: an offload backend for one cluster or for a set of clusters."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Field, create_model

from function.api import fields as f
from function.api.backends import SPECS, field_name
from function.api.base import ApiModel, FieldRule, exactly_one, immutable, union
from function.api.events import Events
from function.api.placement import RDMA, AgentImage, GPUVisibility, LocalRef, Nodes


class ClusterSelector(ApiModel):
    """The InferenceClusters that carry all of these labels."""

    match_labels: f.Labels
    """Labels an InferenceCluster must carry. An empty map selects every cluster."""


class AllowedNamespaces(ApiModel):
    """The namespaces whose consumers may name the tier."""

    rules = (
        FieldRule(
            "self.from == 'Names' ? size(self.names) > 0 : size(self.names) == 0",
            "names must list at least one namespace when from is Names, and be empty otherwise",
            "names",
        ),
    )

    from_: Literal["Same", "All", "Names"] = "Same"
    """Same: the tier's own namespace. All: every namespace. Names: those listed."""
    names: Annotated[list[f.DnsLabel], f.items(64)] = []
    """Namespaces of consumers; only with from Names."""


class Monitoring(ApiModel):
    """Access of Prometheus to the agents, and the PodMonitor."""

    rules = (
        FieldRule(
            "size(self.namespaceLabels) > 0",
            "namespaceLabels must have at least one label: otherwise every pod of the cluster "
            "could read the agents' environment at a port without authentication",
            "namespaceLabels",
        ),
        FieldRule(
            "self.podMonitor || size(self.enginePorts) == 0",
            "enginePorts may only be set with podMonitor",
            "enginePorts",
        ),
    )

    namespace_labels: f.Labels = {"kubernetes.io/metadata.name": "monitoring"}
    """Labels of the namespaces whose pods may reach the agents' HTTP port, which has no
    authentication."""
    pod_monitor: bool = False
    """Compose a PodMonitor. Needs the Prometheus operator's CRDs."""
    pod_monitor_labels: f.Labels = {}
    """Labels of the PodMonitor that a Prometheus selects."""
    interval_seconds: Annotated[int, Field(ge=5, le=3600)] = 30
    """Scrape interval, in seconds."""
    engine_ports: Annotated[list[f.Port], f.items(8)] = []
    """Container ports at which wired engines serve /metrics (default 8000 for vLLM, 30000 for
    SGLang). A PodMonitor then scrapes the tier's engines in every namespace. Needs podMonitor, and
    network access of Prometheus to those pods."""


class UpgradePolicy(ApiModel):
    """How agents are replaced when the tier changes."""

    type: Literal["RollingUpdate", "OnDelete", "Recreate"] = "RollingUpdate"
    """RollingUpdate: node by node. OnDelete: when an administrator deletes the pod. Recreate: all
    at once; their blocks are lost. It is the only way between release lines that do not
    interoperate."""
    max_unavailable: f.CountOrPercent = 1
    """Number or percentage of agents that may be down at once."""


class WiringUpdate(ApiModel):
    """When engine pods get the new wiring after the tier was changed."""

    update: Literal["OnChange", "Rolling", "Pinned"] = "OnChange"
    """OnChange: with the next change of their pod template. Rolling: also without one,
    maxUnavailable consumers at a time. Pinned: never, as long as the engine in the pod template
    (version, cache identity, parallelism) is the same."""
    max_unavailable: f.CountOrPercent = 1
    """Number or percentage of consumers whose pods may be replaced at once, with Rolling."""


class Readiness(ApiModel):
    """When the agents count as ready."""

    min_available: f.CountOrPercent = "90%"
    """Number or percentage of agents that must be ready, also during updates. With less than 100% a
    single bad node does not block deployments."""
    min_nodes: Annotated[int, Field(ge=0, le=10000)] = 1
    """Smallest number of nodes that must run an agent. 0: the tier is ready without nodes, for
    clusters that scale from zero."""


# Users who may write to these namespaces must not gain the agents' access to nodes.
DISALLOWED_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


class TierBase(ApiModel):
    """The fields of every tier, whichever its backend and wherever it is declared."""

    rules: ClassVar[tuple[FieldRule, ...]] = (
        FieldRule(
            "!(self.__namespace__ in "
            + "["
            + ", ".join(f"'{name}'" for name in DISALLOWED_NAMESPACES)
            + "])",
            "namespace must not be " + " or ".join(DISALLOWED_NAMESPACES),
            "namespace",
        ),
    )

    namespace: f.DnsLabel = "kv-offload-system"
    """Namespace of agents and control plane on the workload cluster. Created if absent, never
    deleted."""
    allowed_namespaces: AllowedNamespaces = AllowedNamespaces.model_construct()
    """Namespaces whose consumers may name the tier."""
    nodes: Nodes = Nodes.model_construct()
    """The nodes that run an agent."""
    gpu_visibility: GPUVisibility | None = None
    """How agents see the GPUs of their node. Default, if agents need it: the RuntimeClass
    nvidia."""
    rdma: RDMA = RDMA.model_construct(source="None")
    """RDMA devices."""
    image: AgentImage = AgentImage.model_construct()
    """The agents' image."""
    readiness: Readiness = Readiness.model_construct()
    """When the agents count as ready."""
    startup_timeout_seconds: Annotated[int, Field(ge=30, le=7200)] = 300
    """How long an agent may take to start and an engine waits for it, in seconds."""
    monitoring: Monitoring | None = None
    """Absent: only wired engines reach the agents."""
    events: Events | None = None
    """Block events that engines publish for a router. Absent: none."""
    wiring: WiringUpdate = WiringUpdate.model_construct()
    """When engine pods get the new wiring after the tier was changed."""
    upgrade_policy: UpgradePolicy = UpgradePolicy.model_construct()
    """How agents are replaced when the tier changes."""


class TierSettings(TierBase):
    """A tier without its place: the fields that KVOffloadTier and inline tiers share.

    `with_backends` adds the settings of the backends and the values of `backend`.
    """

    rules: ClassVar[tuple[FieldRule, ...]] = (
        immutable("namespace", "the old namespace would keep its objects"),
    )

    backend: str
    """The backend; the object of that name holds its settings."""

    @property
    def settings(self) -> ApiModel:
        """Return the settings object of the tier's backend."""
        settings: ApiModel = getattr(self, field_name(self.backend))
        return settings


class TierSpec(TierSettings):
    """One offload backend, on one cluster or stamped onto many."""

    ignored_keys = frozenset({"crossplane"})
    rules: ClassVar[tuple[FieldRule, ...]] = (
        exactly_one("inference_cluster_ref", "cluster_selector"),
        FieldRule(
            "!has(oldSelf.inferenceClusterRef) || (has(self.inferenceClusterRef) &&"
            " self.inferenceClusterRef.name == oldSelf.inferenceClusterRef.name)",
            "inferenceClusterRef cannot be changed: the old cluster would keep its objects. "
            "Create a second tier and move the consumers",
            "inferenceClusterRef",
        ),
    )

    inference_cluster_ref: LocalRef | None = None
    """The InferenceCluster of the tier."""
    cluster_selector: ClusterSelector | None = None
    """The InferenceClusters that each get a child tier."""


Settings = TypeVar("Settings", bound=TierSettings)


def with_backends(
    name: str, base: type[Settings], specs: Mapping[str, type[ApiModel]]
) -> type[Settings]:
    """Return `base` with the enum of these backends, their objects and their rules."""
    fields: dict[str, Any] = {
        "backend": (Literal[tuple(specs)], base.model_fields["backend"]),
        **{
            field_name(backend): (
                spec | None,
                Field(default=None, description=f"Settings of backend {backend}."),
            )
            for backend, spec in specs.items()
        },
    }
    made: type[Settings] = create_model(
        name, __base__=base, __module__=base.__module__, __doc__=base.__doc__, **fields
    )
    made.rules = (
        *union("backend", {backend: field_name(backend) for backend in specs}),
        *(row.rule(backend) for backend, spec in specs.items() for row in spec.forbids),
    )
    return made


# What an API server holds, with every backend that there is.
KVOffloadTierSpec: type[TierSpec] = with_backends("KVOffloadTierSpec", TierSpec, SPECS)

"""KVOffloadTier: what a platform team declares, once per cluster or for a set of clusters."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Field, create_model

from function.api import fields as f
from function.api.backends import SPECS, field_name
from function.api.base import ApiModel, Rule, exactly_one, immutable, union
from function.api.events import Events
from function.api.placement import RDMA, GPUVisibility, Image, LocalRef, Nodes


class ClusterSelector(ApiModel):
    """The InferenceClusters that carry all of these labels."""

    match_labels: f.Labels = Field(
        description="Labels an InferenceCluster must carry. An empty map selects every cluster."
    )


class AllowedNamespaces(ApiModel):
    """Whose consumers may name the tier."""

    rules = (
        Rule(
            "self.from == 'Names' ? size(self.names) > 0 : size(self.names) == 0",
            "names must list at least one namespace when from is Names, and be empty otherwise",
            "names",
        ),
    )

    from_: Literal["Same", "All", "Names"] = Field(
        default="Same",
        description="Same: the tier's own namespace. All: every namespace. Names: those listed.",
    )
    names: Annotated[list[f.DnsLabel], f.items(64)] = Field(
        default=[], description="Namespaces of consumers; only with from Names."
    )


class Monitoring(ApiModel):
    """Who may scrape the agents, and whether a PodMonitor is composed."""

    rules = (
        Rule(
            "size(self.namespaceLabels) > 0",
            "namespaceLabels must name at least one label: none would open a port without"
            " authentication, which shows the agents' environment, to every pod of the cluster",
            "namespaceLabels",
        ),
        Rule(
            "self.podMonitor || size(self.enginePorts) == 0",
            "enginePorts may only be set with podMonitor",
            "enginePorts",
        ),
    )

    namespace_labels: f.Labels = Field(
        default={"kubernetes.io/metadata.name": "monitoring"},
        description="Labels of the namespaces whose pods may reach the agents' HTTP port, which "
        "has no authentication.",
    )
    pod_monitor: bool = Field(
        default=False,
        description="Compose a PodMonitor; the Prometheus operator's CRDs must be there.",
    )
    pod_monitor_labels: f.Labels = Field(
        default={}, description="Labels of the PodMonitor, by which a Prometheus selects it."
    )
    interval_seconds: Annotated[int, Field(ge=5, le=3600)] = Field(
        default=30, description="Scrape interval, in seconds."
    )
    engine_ports: Annotated[list[f.Port], f.items(8)] = Field(
        default=[],
        description="Container ports at which wired engines serve /metrics (8000 for vLLM, 30000 "
        "for SGLang, by default). Set, a PodMonitor scrapes the tier's engines in every namespace; "
        "needs podMonitor, and a Prometheus that may reach those pods.",
    )


class UpgradePolicy(ApiModel):
    """How agents are replaced when the tier changes."""

    type: Literal["RollingUpdate", "OnDelete", "Recreate"] = Field(
        default="RollingUpdate",
        description="RollingUpdate: node by node. OnDelete: when an administrator deletes the pod. "
        "Recreate: all at once, and what they hold is lost; the only way from one release line to "
        "another where the two do not interoperate.",
    )
    max_unavailable: f.CountOrPercent = Field(
        default=1, description="How many agents may be down at once: a number, or a percentage."
    )


class WiringUpdate(ApiModel):
    """When engine pods come to another wiring, after the tier was changed."""

    update: Literal["OnChange", "Rolling", "Pinned"] = Field(
        default="OnChange",
        description="OnChange: with the next change of their pod template. Rolling: that, or in"
        " turn, as maxUnavailable allows. Pinned: a changed pod template too keeps the wiring that"
        " it had, as long as the engine in it (version, cache identity, parallelism) is the same.",
    )
    max_unavailable: f.CountOrPercent = Field(
        default=1,
        description="Rolling: how many consumers may have their pods replaced at once: a number, or"
        " a percentage.",
    )


class Readiness(ApiModel):
    """When the agents count as ready."""

    min_available: f.CountOrPercent = Field(
        default="90%",
        description="How many agents must be ready, while they roll too: a number, or a percentage"
        " of the nodes that should run one. One bad node of many then freezes no deployment.",
    )
    min_nodes: Annotated[int, Field(ge=0, le=10000)] = Field(
        default=1,
        description="How many nodes must run an agent at the least. 0: nodes may come with the"
        " first engine (scale from zero); the tier is then ready without any.",
    )


# Namespaces whose pods are not a tier's: whoever may write there would own the nodes.
FOREIGN_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


class TierBase(ApiModel):
    """What every tier has, whichever the backend and wherever it is declared."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!(self.__namespace__ in "
            + "["
            + ", ".join(f"'{name}'" for name in FOREIGN_NAMESPACES)
            + "])",
            "namespace must be one of the tiers' own, not " + " or ".join(FOREIGN_NAMESPACES),
            "namespace",
        ),
    )

    namespace: f.DnsLabel = Field(
        default="kv-offload-system",
        description="Namespace of agents and control plane on the workload cluster. Created if "
        "absent, never deleted.",
    )
    allowed_namespaces: AllowedNamespaces = Field(
        default=AllowedNamespaces(), description="Whose consumers may name the tier."
    )
    nodes: Nodes = Field(default=Nodes(), description="The nodes that run an agent.")
    gpu_visibility: GPUVisibility | None = Field(
        default=None,
        description="How agents see the GPUs of their node. Default, where agents need it: the"
        " RuntimeClass nvidia.",
    )
    rdma: RDMA = Field(default=RDMA(source="None"), description="RDMA devices.")
    image: Image = Field(default=Image(), description="The agents' image.")
    readiness: Readiness = Field(default=Readiness(), description="When the agents count as ready.")
    startup_timeout_seconds: Annotated[int, Field(ge=30, le=7200)] = Field(
        default=300,
        description="How long an agent may take to start, and how long an engine waits for it, in "
        "seconds.",
    )
    monitoring: Monitoring | None = Field(
        default=None, description="Absent: nobody but wired engines reaches the agents."
    )
    events: Events | None = Field(
        default=None,
        description="What engines publish of their blocks, for a router. Absent: nothing.",
    )
    wiring: WiringUpdate = Field(
        default=WiringUpdate(),
        description="When engine pods come to another wiring, after the tier was changed.",
    )
    upgrade_policy: UpgradePolicy = Field(
        default=UpgradePolicy(), description="How agents are replaced when the tier changes."
    )


class TierSettings(TierBase):
    """A tier without its place: what a KVOffloadTier and an inline tier have in common.

    The settings of the backends, and which values `backend` has, come with `with_backends`.
    """

    rules: ClassVar[tuple[Rule, ...]] = (
        immutable("namespace", "what runs in the old one would be left behind"),
    )

    backend: str = Field(description="The backend; the object of that name holds its settings.")

    @property
    def settings(self) -> ApiModel:
        """The settings object of the tier's backend."""
        settings: ApiModel = getattr(self, field_name(self.backend))
        return settings


class TierSpec(TierSettings):
    """One offload backend, on one cluster or stamped onto many."""

    machinery = frozenset({"crossplane"})
    rules: ClassVar[tuple[Rule, ...]] = (
        exactly_one("inference_cluster_ref", "cluster_selector"),
        Rule(
            "!has(oldSelf.inferenceClusterRef) || (has(self.inferenceClusterRef) &&"
            " self.inferenceClusterRef.name == oldSelf.inferenceClusterRef.name)",
            "inferenceClusterRef cannot be changed: what runs on the old cluster would be left"
            " behind; make a second tier and move its consumers",
            "inferenceClusterRef",
        ),
    )

    inference_cluster_ref: LocalRef | None = Field(
        default=None, description="The InferenceCluster that the tier stands on."
    )
    cluster_selector: ClusterSelector | None = Field(
        default=None, description="The InferenceClusters that each get a tier of their own."
    )


Settings = TypeVar("Settings", bound=TierSettings)


def with_backends(
    name: str, base: type[Settings], specs: Mapping[str, type[ApiModel]]
) -> type[Settings]:
    """`base` with these backends: the enum, an optional object of each, and their rules."""
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

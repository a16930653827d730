"""KVOffloadTier: what a platform team declares, once per cluster or for a set of clusters."""

from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from function.api import fields as f
from function.api.backends import SPECS, field_name
from function.api.base import ApiModel, Rule, exactly_one, immutable, union
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
            lambda o: (o.from_ == "Names") == bool(o.names),
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


class TierBase(ApiModel):
    """What every tier has, whichever the backend and wherever it is declared."""

    namespace: f.DnsLabel = Field(
        default="kv-offload-system",
        description="Namespace of agents and control plane on the workload cluster. Created if "
        "absent, never deleted.",
    )
    allowed_namespaces: AllowedNamespaces = Field(
        default=AllowedNamespaces(), description="Whose consumers may name the tier."
    )
    nodes: Nodes = Field(default=Nodes(), description="The nodes that run an agent.")
    gpu_visibility: GPUVisibility = Field(
        default=GPUVisibility(source="RuntimeClass", runtime_class=LocalRef(name="nvidia")),
        description="How agents see the GPUs of their node.",
    )
    rdma: RDMA = Field(default=RDMA(source="None"), description="RDMA devices.")
    image: Image = Field(default=Image(), description="The agents' image.")
    startup_timeout_seconds: Annotated[int, Field(ge=30, le=7200)] = Field(
        default=300,
        description="How long an agent may take to start, and how long an engine waits for it, in "
        "seconds.",
    )
    monitoring: Monitoring | None = Field(
        default=None, description="Absent: nobody but wired engines reaches the agents."
    )
    upgrade_policy: UpgradePolicy = Field(
        default=UpgradePolicy(), description="How agents are replaced when the tier changes."
    )


_FIELDS = {name: field_name(name) for name in SPECS}

# The backends' part is derived from the table: the enum, one optional object each, the rules.
_Backed: Any = create_model(
    "_Backed",
    __base__=TierBase,
    __module__=__name__,
    backend=(
        Literal[tuple(SPECS)],
        Field(description="The backend; the object of that name holds its settings."),
    ),
    **{
        _FIELDS[name]: (
            spec | None,
            Field(default=None, description=f"Settings of backend {name}."),
        )
        for name, spec in SPECS.items()
    },
)


class TierSettings(_Backed):
    """A tier without its place: what a KVOffloadTier and an inline tier have in common."""

    rules = (
        *union("backend", _FIELDS),
        immutable("namespace", "what runs in the old one would be left behind"),
    )

    @property
    def backend_spec(self) -> Any:
        """The settings object of the tier's backend."""
        return getattr(self, _FIELDS[self.backend])


class KVOffloadTierSpec(TierSettings):
    """One offload backend, on one cluster or stamped onto many."""

    machinery = frozenset({"crossplane"})
    rules = (
        exactly_one("inference_cluster_ref", "cluster_selector"),
        Rule(
            "!has(oldSelf.inferenceClusterRef) || (has(self.inferenceClusterRef) &&"
            " self.inferenceClusterRef.name == oldSelf.inferenceClusterRef.name)",
            "inferenceClusterRef cannot be changed: what runs on the old cluster would be left"
            " behind; make a second tier and move its consumers",
            None,
            "inferenceClusterRef",
        ),
    )

    inference_cluster_ref: LocalRef | None = Field(
        default=None, description="The InferenceCluster that the tier stands on."
    )
    cluster_selector: ClusterSelector | None = Field(
        default=None, description="The InferenceClusters that each get a tier of their own."
    )

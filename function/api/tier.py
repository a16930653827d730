"""KVOffloadTier: an offload backend for one cluster or for a set of clusters."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import Field, create_model

from function.api import fields as f
from function.api.backends import SPECS, field_name
from function.api.base import ApiModel, FieldRule, exactly_one, immutable, rows, union
from function.api.events import Events
from function.api.placement import (
    RDMA,
    AgentImage,
    GPUVisibility,
    LocalRef,
    Nodes,
    Payload,
    ServerImage,
)


class ClusterSelector(ApiModel):
    """The InferenceClusters that carry all of these labels."""

    match_labels: f.Labels


class Wave(ApiModel):
    """Clusters of a fleet that take an edit together."""

    match_labels: f.Labels = {}
    clusters: f.CountOrPercent = "100%"


class RolloutStrategy(ApiModel):
    """How an edit of a fleet tier reaches its clusters."""

    waves: Annotated[list[Wave], f.items(16)] = []
    max_unavailable: f.CountOrPercent = "25%"
    min_ready_seconds: Annotated[int, Field(ge=0, le=604800)] = 0
    paused: bool = False


class ClusterOverride(ApiModel):
    """Settings of the tier that differ on some clusters of a fleet."""

    match_labels: f.Labels
    spec: dict[str, Any]


class AllowedNamespaces(ApiModel):
    """The namespaces whose consumers may name the tier."""

    rules = rows(FieldRule, __file__, "AllowedNamespaces")

    from_: Literal["Same", "All", "Names"] = "Same"
    names: Annotated[list[f.DnsLabel], f.items(64)] = []


class Monitoring(ApiModel):
    """What Prometheus scrapes of the tier, and when it alerts."""

    rules = rows(FieldRule, __file__, "Monitoring")

    namespace_labels: f.Labels = {"kubernetes.io/metadata.name": "monitoring"}
    pod_monitor: bool = False
    pod_monitor_labels: f.Labels = {}
    interval_seconds: Annotated[int, Field(ge=5, le=3600)] = 30
    engine_ports: Annotated[list[f.Port], f.items(8)] = []
    alerts: bool = False
    runbook_url: f.Text = "docs/runbook.md"


class Canary(ApiModel):
    """The canary, which compares computed answers with answers from the tier."""

    every_seconds: Annotated[int, Field(ge=60, le=86400)] = 1800
    prompt_tokens: Annotated[int, Field(ge=512, le=8192)] = 1024
    on_wrong_blocks: Literal["Report", "Quarantine"] = "Report"


class Observe(ApiModel):
    """The observer, which watches whether engines use the tier's cache."""

    image: ServerImage = ServerImage.model_construct(repository="python", tag="3.13-slim")
    namespaces: Annotated[list[f.DnsLabel], f.items(16, least=1)] = ["default"]
    engine_ports: Annotated[list[f.Port], f.items(8, least=1)] = [8000, 30000]
    interval_seconds: Annotated[int, Field(ge=5, le=300)] = 15
    canary: Canary | None = None
    nodes: Nodes = Nodes.model_construct()

    @property
    def quarantines(self) -> bool:
        """Return whether wrong blocks are left behind."""
        return self.canary is not None and self.canary.on_wrong_blocks == "Quarantine"


class UpgradePolicy(ApiModel):
    """How agents are replaced when the tier changes."""

    type: Literal["RollingUpdate", "OnDelete", "Recreate"] = "RollingUpdate"
    max_unavailable: f.CountOrPercent = 1


class WiringUpdate(ApiModel):
    """When engine pods get the new wiring after the tier was changed."""

    update: Literal["OnChange", "Rolling", "Pinned"] = "OnChange"
    max_unavailable: f.CountOrPercent = 1


class Readiness(ApiModel):
    """When the agents count as ready."""

    min_available: f.CountOrPercent = "90%"
    min_nodes: Annotated[int, Field(ge=0, le=10000)] = 1


# Users who may write to these namespaces must not gain the agents' access to nodes.
DISALLOWED_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


class TierBase(ApiModel):
    """The fields of every tier, whichever its backend and wherever it is declared."""

    rules: ClassVar[Sequence[FieldRule]] = (
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
    allowed_namespaces: AllowedNamespaces = AllowedNamespaces.model_construct()
    share_declared_identities: bool = False
    nodes: Nodes = Nodes.model_construct()
    gpu_visibility: GPUVisibility | None = None
    rdma: RDMA = RDMA.model_construct(source="None")
    image: AgentImage = AgentImage.model_construct()
    payload: Payload | None = None
    readiness: Readiness = Readiness.model_construct()
    startup_timeout_seconds: Annotated[int, Field(ge=30, le=7200)] = 300
    monitoring: Monitoring | None = None
    observe: Observe | None = None
    events: Events | None = None
    wiring: WiringUpdate = WiringUpdate.model_construct()
    upgrade_policy: UpgradePolicy = UpgradePolicy.model_construct()


class TierSettings(TierBase):
    """A tier without its place: the fields that KVOffloadTier and inline tiers share.

    `with_backends` adds the settings of the backends and the values of `backend`.
    """

    rules: ClassVar[Sequence[FieldRule]] = (
        immutable("namespace", "the old namespace would keep its objects"),
    )

    backend: str

    @property
    def settings(self) -> ApiModel:
        """Return the settings object of the tier's backend."""
        settings: ApiModel = getattr(self, field_name(self.backend))
        return settings


class TierSpec(TierSettings):
    """One offload backend, on one cluster or stamped onto many."""

    ignored_keys = frozenset({"crossplane"})
    rules: ClassVar[Sequence[FieldRule]] = (
        exactly_one("inference_cluster_ref", "cluster_selector"),
        *rows(FieldRule, __file__, "TierSpec"),
    )

    inference_cluster_ref: LocalRef | None = None
    cluster_selector: ClusterSelector | None = None
    rollout: RolloutStrategy | None = None
    removal: Literal["Keep", "Remove"] | None = None
    cluster_overrides: Annotated[list[ClusterOverride], f.items(32)] | None = None


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

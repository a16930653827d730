"""The fields that the function writes into a status, in addition to conditions.

It writes no times and no counters that flap: every change of a status field is an event for every
watcher.
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel

Count = Annotated[int, Field(ge=0)]
_Text = Annotated[str, f.text(most=512)]
_Endpoints = Annotated[dict[Annotated[str, f.text(most=63)], _Text], f.entries(16)]
_Pinned = Annotated[dict[Annotated[str, f.text(most=253)], _Text], f.entries(32)]


class AgentsStatus(ApiModel):
    """The agents of a tier."""

    desired: Count = 0
    """Nodes that should run an agent."""
    ready: Count = 0
    """Nodes whose agent is ready, in steps of a twentieth. While agents are replaced in turn,
    `upgradePolicy.maxUnavailable` count as not ready."""
    summary: Annotated[str, f.text(most=64)] | None = None
    """ready/desired, as text."""


class FleetEntry(ApiModel):
    """The tier's child on one cluster."""

    name: f.DnsName
    """Name of the InferenceCluster."""
    tier: f.DnsName
    """Name of the child KVOffloadTier."""
    ready: bool = False
    """Whether the child is ready."""
    reason: Annotated[str, f.text(most=63)] | None = None
    """Reason of the child's condition when it is not ready."""
    message: Annotated[str, f.text(most=1024)] | None = None
    """Message of the child's condition."""


class ProviderConfigRef(ApiModel):
    """The ProviderConfig of a workload cluster."""

    name: f.DnsName
    """Name of a provider-kubernetes ClusterProviderConfig."""


class WiringStatus(ApiModel):
    """Progress of the consumers under `spec.wiring.update: Rolling`."""

    remaining: Annotated[str, f.text(most=16)] = "0"
    """Number of consumers that still have another wiring than the tier's or move in their turn, in
    steps: 0, 1, 2+, 10+, 100+, 1000+, 10000+. Falls below four fifths of a step."""
    waits_for: Annotated[str, f.text(most=512)] | None = None
    """Consumers that the others wait for: those with a turn for over 30 minutes in which the tier
    was ready."""


class EventsStatus(ApiModel):
    """Where a router finds the events of the tier's engines."""

    pod_selector: Annotated[str, f.text(most=512)]
    """Label selector of the pods that publish, in any namespace."""
    port: f.Port
    """Port of the first rank; each further one adds its number."""
    replay_port: f.Port | None = None
    """Port for missed events, by rank in the same way."""
    topic_filter: Annotated[str, f.text(most=63)]
    """Prefix of the topic of every event."""
    block_tokens: Count | None = None
    """Tokens per block of every engine, if the tier sets it."""
    hash_seed: Count | None = None
    """PYTHONHASHSEED of every engine, if the tier sets it."""


class RolloutStatus(ApiModel):
    """How far a fleet's last edit is."""

    revision: Annotated[str, f.text(most=63)]
    """Digest of the fleet's spec. Children carry theirs in the label
    `modelplane.ai/kv-offload-revision`."""
    state: Literal["Progressing", "Paused", "Halted", "Done"]
    """Progressing: goes on by itself. Paused: by `spec.rollout.paused`. Halted: a cluster does not
    work with the edit. Done: every cluster has it."""
    previous: Annotated[str, f.text(most=63)] | None = None
    """Revision of the fleet's spec before its last edit."""
    wave: Count | None = None
    """Number of the present wave. Absent where the edit changes no cluster."""
    waves: Count | None = None
    """Number of waves."""
    updated: Count
    """Clusters that work with the edit."""
    waiting: Annotated[list[f.DnsName], f.items(16)] = []
    """Clusters that the wave waits for; of more than 16 the first."""


class ServingModel(ApiModel):
    """The engines that serve one model in one namespace of the cluster."""

    namespace: f.DnsLabel
    """Namespace of their pods."""
    name: Annotated[str, f.text(least=0, most=128)]
    """Name under which they serve; empty where no metrics tell it."""
    state: Annotated[str, f.text(most=32)]
    """As the tier's."""
    canary: Literal["Compared", "NotCompared", "KeyRequired", "NoAnswer"] | None = None
    """Compared: answers that came from the tier were compared within a day. NotCompared: none was
    known to. KeyRequired: the API demands a key. NoAnswer: no completion with log-probabilities."""
    message: Annotated[str, f.text(most=1024)] | None = None
    """What is wrong, and what to do."""


class ServingStatus(ApiModel):
    """What the observer sees of the tier's engines. It changes in steps, to change seldom."""

    state: Annotated[str, f.text(most=32)]
    """Hitting, Storing, Idle, WrongBlocks, Silent, NeverRead, Failing or Unreachable."""
    engines: Annotated[str, f.text(most=16)]
    """Number of engines, in steps."""
    hits: Annotated[str, f.text(most=16)] | None = None
    """Share of the prompts' tokens that came from the tier."""
    used: Annotated[str, f.text(most=16)] | None = None
    """Share of the tier's memory that is used."""
    models: Annotated[list[ServingModel], f.items(32)] = []
    """The models, those with a fault first."""


class QuarantinedModel(ApiModel):
    """A model whose engines have left its blocks behind."""

    namespace: f.DnsLabel
    """Namespace of its engines' pods."""
    name: Annotated[str, f.text(most=128)]
    """Name under which they serve."""
    number: Annotated[int, Field(ge=1)]
    """How many times; part of the cache identity."""
    open: bool = False
    """Whether the canary accuses engines of the model. It counts anew after this ended."""


class AllowedNamespacesStatus(ApiModel):
    """Whose consumers the tier has admitted; its spec's rules hold there."""

    from_: Literal["Same", "All", "Names"] = "Same"
    """As in the spec."""
    names: Annotated[list[f.DnsLabel], f.items(64)] = []
    """As in the spec."""


class KVOffloadTierStatus(ApiModel):
    """The observed state of a tier."""

    observed_generation: Count | None = None
    """Generation that this status is of."""
    cluster: Annotated[str, f.text(most=253)] | None = None
    """The tier's cluster, or the number of ready clusters of a fleet, e.g. 3/4 clusters."""
    provider_config_ref: ProviderConfigRef | None = None
    """The ClusterProviderConfig of that cluster."""
    agents: AgentsStatus | None = None
    """The agents on the cluster's nodes."""
    capacity_gib: Count | None = None
    """Memory that the ready agents hold for cached blocks, in GiB."""
    endpoints: _Endpoints | None = None
    """Addresses on the workload cluster, by purpose."""
    pod_security: Literal["privileged", "baseline", "restricted"] | None = None
    """The strictest Pod Security level that admits the tier's pods."""
    pinned: _Pinned | None = None
    """Settings in force that cannot change while pods run, by path."""
    events: EventsStatus | None = None
    """What a router needs to follow the engines' events."""
    serving: ServingStatus | None = None
    """What the observer sees, with `spec.observe`."""
    quarantine: Annotated[list[QuarantinedModel], f.items(32)] | None = None
    """Models whose engines read nothing of before, with `onWrongBlocks: Quarantine`. Rows stay."""
    wiring: WiringStatus | None = None
    """Progress of the consumers while the tier's wiring rolls."""
    consumers: Annotated[str, f.text(most=16)] | None = None
    """0, or 1+ where a Usage protects the tier. `kv-offload status --tier NAME` lists its users."""
    usage: Annotated[str, f.text(most=320)] | None = None
    """One Usage of the tier, as namespace/name; `-`, with the generation, of something else's."""
    allowed_namespaces: AllowedNamespacesStatus | None = None
    """The `spec.allowedNamespaces` that was accepted last."""
    closed_namespaces: Annotated[list[f.DnsLabel], f.items(256)] | None = None
    """Namespaces that it admits no longer, and whose consumers still run."""
    clusters: Annotated[list[FleetEntry], f.items(1024, keys=("name",))] | None = None
    """A fleet's child on each matching cluster."""
    rollout: RolloutStatus | None = None
    """How far a fleet's last edit is."""


class InlineTierEntry(ApiModel):
    """A tier of the cluster."""

    name: f.DnsName
    """Name of the tier, as consumers write it."""
    tier: f.DnsName
    """Name of its KVOffloadTier."""
    namespace: f.DnsLabel | None = None
    """Namespace of its KVOffloadTier."""
    backend: Annotated[str, f.text(most=32)] | None = None
    """Its backend."""
    ready: bool = False
    """Whether it is ready."""


class InferenceClusterStatus(ApiModel):
    """The observed state of a cluster."""

    provider_config_ref: ProviderConfigRef | None = None
    """The ClusterProviderConfig that reaches the cluster."""
    kv_offload_tiers: Annotated[list[InlineTierEntry], f.items(64, keys=("name",))] | None = None
    """The tiers on this cluster."""


class Replicas(ApiModel):
    """The replicas of a deployment."""

    total: Count = 0
    """Replicas that exist."""
    ready: Count = 0
    """Replicas whose engines are all ready."""


class ModelDeploymentStatus(ApiModel):
    """The observed state of a deployment."""

    replicas: Replicas | None = None
    """The deployment's replicas."""
    cluster: f.DnsName | None = None
    """The cluster it runs on."""
    endpoint: Annotated[str, f.text(most=512)] | None = None
    """Address of its Service on that cluster, host:port."""
    tier: Annotated[str, f.text(most=253)] | None = None
    """The tier its pods are wired to; absent when they are not."""

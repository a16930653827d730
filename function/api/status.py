"""The fields that the function writes into a status, in addition to conditions.

It writes no times and no counters that flap: every change of a status field is an event for every
watcher.
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel

Count = Annotated[int, Field(ge=0)]


class AgentsStatus(ApiModel):
    """The agents of a tier."""

    desired: Count = Field(default=0, description="Nodes that should run an agent.")
    ready: Count = Field(default=0, description="Nodes whose agent is ready.")
    summary: Annotated[str, f.text(most=32)] | None = Field(
        default=None, description="ready/desired, as text."
    )


class ConsumerEntry(ApiModel):
    """A composite that uses the tier."""

    namespace: f.DnsLabel | None = Field(
        default=None, description="Namespace of the consumer; absent for a cluster-scoped one."
    )
    kind: Annotated[str, f.text(most=63)] = Field(description="Kind of the consumer.")
    name: f.DnsName = Field(description="Name of the consumer.")
    identity: Annotated[str, f.text(most=253)] | None = Field(
        default=None, description="Its cache identity. Consumers with the same one share blocks."
    )


class FleetEntry(ApiModel):
    """The tier's child on one cluster."""

    name: f.DnsName = Field(description="Name of the InferenceCluster.")
    tier: f.DnsName = Field(description="Name of the child KVOffloadTier.")
    ready: bool = Field(default=False, description="Whether the child is ready.")
    reason: Annotated[str, f.text(most=63)] | None = Field(
        default=None, description="Reason of the child's condition when it is not ready."
    )
    message: Annotated[str, f.text(most=1024)] | None = Field(
        default=None, description="Message of the child's condition."
    )


class ProviderConfigRef(ApiModel):
    """The ProviderConfig of a workload cluster."""

    name: f.DnsName = Field(description="Name of a provider-kubernetes ClusterProviderConfig.")


class WiringStatus(ApiModel):
    """Progress of the consumers under `spec.wiring.update: Rolling`."""

    behind: Count = Field(
        default=0, description="Number of consumers with another wiring than the tier's."
    )
    moving: Annotated[list[Annotated[str, f.text(most=512)]], f.items(256)] = Field(
        default=[], description="Consumers whose pods are being replaced: kind/namespace/name."
    )
    turns: Annotated[list[Annotated[str, f.text(most=512)]], f.items(256)] = Field(
        default=[], description="Consumers that may replace their pods now."
    )


class EventsStatus(ApiModel):
    """Where a router finds the events of the tier's engines."""

    pod_selector: Annotated[str, f.text(most=512)] = Field(
        description="Label selector of the pods that publish, in any namespace."
    )
    port: f.Port = Field(description="Port of the first rank; each further one adds its number.")
    replay_port: f.Port | None = Field(
        default=None, description="Port for missed events, by rank in the same way."
    )
    topic_filter: Annotated[str, f.text(most=63)] = Field(
        description="Prefix of the topic of every event."
    )
    block_tokens: Count | None = Field(
        default=None, description="Tokens per block of every engine, if the tier sets it."
    )
    hash_seed: Count | None = Field(
        default=None, description="PYTHONHASHSEED of every engine, if the tier sets it."
    )


class KVOffloadTierStatus(ApiModel):
    """The observed state of a tier."""

    cluster: Annotated[str, f.text(most=253)] | None = Field(
        default=None,
        description="The tier's cluster, or the number of ready clusters of a fleet, e.g. 3/4 "
        "clusters.",
    )
    provider_config_ref: ProviderConfigRef | None = Field(
        default=None, description="The ClusterProviderConfig of that cluster."
    )
    agents: AgentsStatus | None = Field(
        default=None, description="The agents on the cluster's nodes."
    )
    capacity_gib: Count | None = Field(
        default=None, description="Memory that the ready agents hold for cached blocks, in GiB."
    )
    endpoints: (
        Annotated[
            dict[Annotated[str, f.text(most=63)], Annotated[str, f.text(most=512)]], f.entries(16)
        ]
        | None
    ) = Field(default=None, description="Addresses on the workload cluster, by purpose.")
    pod_security: Literal["privileged", "baseline", "restricted"] | None = Field(
        default=None, description="The strictest Pod Security level that admits the tier's pods."
    )
    pinned: (
        Annotated[
            dict[Annotated[str, f.text(most=253)], Annotated[str, f.text(most=512)]], f.entries(32)
        ]
        | None
    ) = Field(
        default=None,
        description="Settings in force that cannot change while pods run, by path.",
    )
    events: EventsStatus | None = Field(
        default=None, description="What a router needs to follow the engines' events."
    )
    wiring: WiringStatus | None = Field(
        default=None,
        description="Progress of the consumers while the tier's wiring rolls.",
    )
    consumers: Annotated[str, f.text(most=16)] | None = Field(
        default=None, description="Number of composites that use the tier, as text."
    )
    used_by: Annotated[list[ConsumerEntry], f.items(256)] | None = Field(
        default=None, description="The composites that use the tier; the first 256."
    )
    clusters: Annotated[list[FleetEntry], f.items(1024, keys=("name",))] | None = Field(
        default=None, description="A fleet's child on each matching cluster."
    )


class InlineTierEntry(ApiModel):
    """A tier of the cluster."""

    name: f.DnsName = Field(description="Name of the tier, as consumers write it.")
    tier: f.DnsName = Field(description="Name of its KVOffloadTier.")
    namespace: f.DnsLabel | None = Field(
        default=None, description="Namespace of its KVOffloadTier."
    )
    backend: Annotated[str, f.text(most=32)] | None = Field(
        default=None, description="Its backend."
    )
    ready: bool = Field(default=False, description="Whether it is ready.")


class InferenceClusterStatus(ApiModel):
    """The observed state of a cluster."""

    provider_config_ref: ProviderConfigRef | None = Field(
        default=None, description="The ClusterProviderConfig that reaches the cluster."
    )
    kv_offload_tiers: Annotated[list[InlineTierEntry], f.items(64, keys=("name",))] | None = Field(
        default=None, description="The tiers on this cluster."
    )


class Replicas(ApiModel):
    """The replicas of a deployment."""

    total: Count = Field(default=0, description="Replicas that exist.")
    ready: Count = Field(default=0, description="Replicas whose engines are all ready.")


class ModelDeploymentStatus(ApiModel):
    """The observed state of a deployment."""

    replicas: Replicas | None = Field(default=None, description="The deployment's replicas.")
    cluster: f.DnsName | None = Field(default=None, description="The cluster it runs on.")
    endpoint: Annotated[str, f.text(most=512)] | None = Field(
        default=None, description="Address of its Service on that cluster, host:port."
    )
    tier: Annotated[str, f.text(most=253)] | None = Field(
        default=None, description="The tier its pods are wired to; absent when they are not."
    )

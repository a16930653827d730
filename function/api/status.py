"""What the function writes into a status. Conditions are Crossplane's own and stand beside it.

No times, no counters that flap: every change of a status field is an event for every watcher.
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel

Count = Annotated[int, Field(ge=0)]


class Agents(ApiModel):
    """The agents of a tier."""

    desired: Count = Field(default=0, description="Nodes that should run an agent.")
    ready: Count = Field(default=0, description="Nodes whose agent is ready.")
    summary: Annotated[str, f.text(most=32)] | None = Field(
        default=None, description="ready/desired, for people."
    )


class ConsumerEntry(ApiModel):
    """A composite that uses the tier."""

    namespace: f.DnsLabel | None = Field(
        default=None, description="Namespace of the consumer; absent for a cluster-scoped one."
    )
    kind: Annotated[str, f.text(most=63)] = Field(description="Kind of the consumer.")
    name: f.DnsName = Field(description="Name of the consumer.")
    identity: Annotated[str, f.text(most=253)] | None = Field(
        default=None, description="Its cache identity: consumers with the same one share blocks."
    )


class FleetEntry(ApiModel):
    """The tier's child on one cluster."""

    name: f.DnsName = Field(description="Name of the InferenceCluster.")
    tier: f.DnsName = Field(description="Name of the child KVOffloadTier.")
    ready: bool = Field(default=False, description="Whether the child is ready.")
    reason: Annotated[str, f.text(most=63)] | None = Field(
        default=None, description="Why it is not, as the child's condition says."
    )
    message: Annotated[str, f.text(most=1024)] | None = Field(
        default=None, description="What to do, as the child's condition says."
    )


class ProviderConfigRef(ApiModel):
    """The way to a workload cluster."""

    name: f.DnsName = Field(description="Name of a provider-kubernetes ClusterProviderConfig.")


class WiringStatus(ApiModel):
    """How far the consumers are with the tier's wiring, under `spec.wiring.update: Rolling`."""

    behind: Count = Field(default=0, description="How many have another wiring than the tier's.")
    moving: Annotated[list[Annotated[str, f.text(most=512)]], f.items(256)] = Field(
        default=[], description="Whose pods are being replaced: kind/namespace/name."
    )
    turns: Annotated[list[Annotated[str, f.text(most=512)]], f.items(256)] = Field(
        default=[], description="Who may move now."
    )


class EventsStatus(ApiModel):
    """Where a router finds the events of the tier's engines."""

    pod_selector: Annotated[str, f.text(most=512)] = Field(
        description="Label selector of the pods that publish, in any namespace."
    )
    port: f.Port = Field(description="Of the first rank; each further one adds its number.")
    replay_port: f.Port | None = Field(
        default=None, description="For events that were missed, counted alike."
    )
    topic_filter: Annotated[str, f.text(most=63)] = Field(
        description="What the topic of every event begins with."
    )
    block_tokens: Count | None = Field(
        default=None, description="Tokens of a block in every engine, where the tier says it."
    )
    hash_seed: Count | None = Field(
        default=None, description="PYTHONHASHSEED of every engine, where the tier says it."
    )


class KVOffloadTierStatus(ApiModel):
    """What is there of a tier."""

    cluster: Annotated[str, f.text(most=253)] | None = Field(
        default=None,
        description="The cluster the tier stands on; of a fleet, how many of its clusters are "
        "ready, e.g. 3/4 clusters.",
    )
    provider_config_ref: ProviderConfigRef | None = Field(
        default=None, description="The ClusterProviderConfig of that cluster."
    )
    agents: Agents | None = Field(default=None, description="The agents on the cluster's nodes.")
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
        description="Settings that cannot change under what runs, by their path, as they are in "
        "force.",
    )
    events: EventsStatus | None = Field(
        default=None, description="What a router needs that follows the engines' events."
    )
    wiring: WiringStatus | None = Field(
        default=None,
        description="How far the consumers are with the tier's wiring, while it rolls.",
    )
    consumers: Annotated[str, f.text(most=16)] | None = Field(
        default=None, description="How many composites use the tier, for people."
    )
    used_by: Annotated[list[ConsumerEntry], f.items(256)] | None = Field(
        default=None, description="The composites that use the tier; the first 256."
    )
    clusters: Annotated[list[FleetEntry], f.items(1024, keys=("name",))] | None = Field(
        default=None, description="Of a fleet: its child on each matching cluster."
    )


class InlineTierEntry(ApiModel):
    """A tier of the cluster."""

    name: f.DnsName = Field(description="Name of the tier, as consumers write it.")
    tier: f.DnsName = Field(description="Name of its KVOffloadTier.")
    namespace: f.DnsLabel | None = Field(default=None, description="Namespace of that.")
    backend: Annotated[str, f.text(most=32)] | None = Field(
        default=None, description="Its backend."
    )
    ready: bool = Field(default=False, description="Whether it is ready.")


class InferenceClusterStatus(ApiModel):
    """What is there of a cluster."""

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
    """What is there of a deployment."""

    replicas: Replicas | None = Field(default=None, description="The deployment's replicas.")
    cluster: f.DnsName | None = Field(default=None, description="The cluster it runs on.")
    endpoint: Annotated[str, f.text(most=512)] | None = Field(
        default=None, description="Address of its Service on that cluster, host:port."
    )
    tier: Annotated[str, f.text(most=253)] | None = Field(
        default=None, description="The tier its pods are wired to; absent when they are not."
    )

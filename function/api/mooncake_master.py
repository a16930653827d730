"""`spec.mooncake.master` and `spec.mooncake.etcd`: who knows where each block is."""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, Rule, union

_FLAG_NAME = r"^[a-z][a-z0-9_]*$"
_FLAG_VALUE = r"^[^$]*$"
f.PATTERNS.update(
    {
        _FLAG_NAME: "a flag of mooncake_master without dashes in front",
        _FLAG_VALUE: "a value without $, which Kubernetes would expand",
    }
)


class MooncakeEviction(ApiModel):
    """When blocks leave memory, and how long a read protects them."""

    high_watermark_percent: Annotated[int, Field(ge=1, le=100)] = Field(
        default=90, description="Share of the pool in use at which eviction starts, in percent."
    )
    evict_percent: Annotated[int, Field(ge=1, le=100)] = Field(
        default=5, description="Share of the blocks that one eviction removes, in percent."
    )
    lease_seconds: Annotated[int, Field(ge=1, le=3600)] = Field(
        default=10, description="How long a read protects a block from eviction, in seconds."
    )
    soft_pin_seconds: Annotated[int, Field(ge=1, le=86400)] = Field(
        default=1800, description="How long a soft pin lasts, in seconds."
    )
    evict_soft_pinned: bool = Field(
        default=True, description="Evict soft-pinned blocks too when nothing else is left."
    )


class MooncakeReplication(ApiModel):
    """Further copies in memory of blocks that are read often."""

    mode: Literal["observe", "enforce"] = Field(
        description="observe: only count what would be copied. enforce: copy."
    )
    max_replicas: Annotated[int, Field(ge=2, le=16)] = Field(
        default=2, description="Copies of one block at most."
    )
    reads_per_minute: Annotated[int, Field(ge=1, le=1000000)] = Field(
        default=48, description="Reads of a block in a minute from which it is copied."
    )
    window_seconds: Annotated[int, Field(ge=1, le=3600)] = Field(
        default=10, description="Over how long reads are counted, in seconds."
    )


class MooncakeMaster(ApiModel):
    """The process that allocates blocks and knows where they are. It holds no block itself."""

    replicas: Annotated[int, Field(ge=1, le=5)] = Field(
        default=1,
        description="Masters. With more than one the others wait to take over (about 11 s were "
        "measured), and etcd must be set.",
    )
    oplog: bool = Field(
        default=False,
        description="Keep what the master knows in etcd, so that a new leader knows it too; "
        "otherwise every block is forgotten when the leader changes. It costs about 312 bytes of "
        "etcd for every block ever written and is never trimmed: when etcd's quota is used up, "
        "no block can be written any more until an administrator empties it.",
    )
    cpu_cores: Annotated[int, Field(ge=1, le=64)] = Field(
        default=2, description="CPU cores requested; there is no limit."
    )
    memory_gib: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=4,
        description="Memory, request and limit, in GiB: about 0.9 KB were measured for a block.",
    )
    rpc_threads: Annotated[int, Field(ge=1, le=256)] = Field(
        default=16, description="Threads that serve clients."
    )
    client_ttl_seconds: Annotated[int, Field(ge=5, le=600)] = Field(
        default=10,
        description="Silence after which a store and its blocks are forgotten, in seconds.",
    )
    eviction: MooncakeEviction = Field(
        default=MooncakeEviction(), description="When blocks leave memory."
    )
    replication: MooncakeReplication | None = Field(
        default=None, description="Further copies of blocks that are read often. Absent: none."
    )
    flags: Annotated[
        dict[
            Annotated[str, f.text(_FLAG_NAME, most=63)],
            Annotated[str, f.text(_FLAG_VALUE, least=0, most=256)],
        ],
        f.entries(32),
    ] = Field(
        default={},
        description="Further flags of mooncake_master without dashes, for what has no field here.",
    )


class MooncakeEtcdImage(ApiModel):
    """The image of an etcd that we run; it must have etcd on its path."""

    repository: f.ImageRepository = Field(
        default="registry.k8s.io/etcd", description="Repository without tag."
    )
    tag: f.ImageTag = Field(default="3.6.5-0", description="Tag.")
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = Field(
        default="IfNotPresent", description="When the kubelet pulls the image."
    )


class MooncakeManagedEtcd(ApiModel):
    """An etcd that we run beside the master, for this tier alone."""

    replicas: Literal[1, 3, 5] = Field(default=3, description="Members of the one cluster.")
    storage_gib: Annotated[int, Field(ge=1, le=64)] = Field(
        default=16, description="Volume of each member, in GiB."
    )
    quota_gib: Annotated[int, Field(ge=1, le=8)] = Field(
        default=4,
        description="Size of the database at which etcd refuses writes, in GiB; with oplog it is "
        "what bounds the number of blocks ever written.",
    )
    storage_class_name: f.DnsName | None = Field(
        default=None, description="StorageClass of the volumes. Absent: the cluster's default."
    )
    image: MooncakeEtcdImage = Field(default=MooncakeEtcdImage(), description="The image of etcd.")

    rules = (
        Rule(
            "self.quotaGiB < self.storageGiB",
            "quotaGiB must be less than storageGiB",
            "quotaGiB",
        ),
    )


class MooncakeEtcdEndpoint(ApiModel):
    """A member of an etcd that somebody else runs, without TLS and without a password."""

    host: f.Host = Field(description="Host.")
    port: f.Port = Field(default=2379, description="Port for clients.")


class MooncakeExternalEtcd(ApiModel):
    """An etcd that somebody else runs."""

    endpoints: Annotated[list[MooncakeEtcdEndpoint], f.items(9, least=1)] = Field(
        description="Its members."
    )


class MooncakeEtcd(ApiModel):
    """Where masters elect their leader."""

    rules = union("source", {"Managed": "managed", "External": "external"}, optional=("Managed",))

    source: Literal["Managed", "External"] = Field(
        description="Managed: we run it, for this tier alone. External: it exists."
    )
    managed: MooncakeManagedEtcd | None = Field(
        default=None, description="Settings of source Managed."
    )
    external: MooncakeExternalEtcd | None = Field(
        default=None, description="The etcd of source External."
    )

    @property
    def managed_or_default(self) -> MooncakeManagedEtcd:
        """The settings of an etcd of ours, written or not."""
        return self.managed or MooncakeManagedEtcd()

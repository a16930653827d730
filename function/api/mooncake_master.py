"""`spec.mooncake.master` and `spec.mooncake.etcd`: the index of all blocks."""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, FieldRule, union
from function.api.placement import ServerImage

_FLAG_NAME = r"^[a-z][a-z0-9_]*$"
_FLAG_VALUE = r"^[^$]*$"
f.PATTERNS.update(
    {
        _FLAG_NAME: "a flag of mooncake_master without dashes in front",
        _FLAG_VALUE: "a value without $, which Kubernetes would expand",
    }
)


class MooncakeEviction(ApiModel):
    """When blocks are evicted from memory, and how long a read protects them."""

    high_watermark_percent: Annotated[int, Field(ge=1, le=100)] = 90
    """Share of the pool in use at which eviction starts, in percent."""
    evict_percent: Annotated[int, Field(ge=1, le=100)] = 5
    """Share of the blocks that one eviction removes, in percent."""
    lease_seconds: Annotated[int, Field(ge=1, le=3600)] = 10
    """How long a read protects a block from eviction, in seconds."""
    soft_pin_seconds: Annotated[int, Field(ge=1, le=86400)] = 1800
    """How long a soft pin lasts, in seconds."""
    evict_soft_pinned: bool = True
    """Evict soft-pinned blocks when no others are left."""


class MooncakeReplication(ApiModel):
    """Additional copies in memory of blocks that are read often."""

    mode: Literal["observe", "enforce"]
    """observe: only count what would be copied. enforce: copy."""
    max_replicas: Annotated[int, Field(ge=2, le=16)] = 2
    """Largest number of copies of one block."""
    reads_per_minute: Annotated[int, Field(ge=1, le=1000000)] = 48
    """Reads of a block per minute from which it is copied."""
    window_seconds: Annotated[int, Field(ge=1, le=3600)] = 10
    """Window in which reads are counted, in seconds."""


class MooncakeMaster(ApiModel):
    """The process that allocates and indexes blocks. It stores none itself."""

    replicas: Annotated[int, Field(ge=1, le=5)] = 1
    """Number of masters. With more than one the others wait to take over (about 11 s measured), and
    etcd must be set."""
    oplog: bool = False
    """Store the master's index in etcd, so that a new leader can read it. Otherwise all blocks are
    lost when the leader changes. It takes about 312 bytes for every block ever written and is never
    trimmed. When etcd's quota is full, no block can be written until an administrator empties
    etcd."""
    cpu_cores: Annotated[int, Field(ge=1, le=64)] = 2
    """CPU cores requested; there is no limit."""
    memory_gib: Annotated[int, Field(ge=1, le=1024)] = 4
    """Memory request and limit, in GiB: about 0.9 KB per block measured."""
    rpc_threads: Annotated[int, Field(ge=1, le=256)] = 16
    """Threads that serve clients."""
    client_ttl_seconds: Annotated[int, Field(ge=5, le=600)] = 10
    """Silence after which the master drops a store and its blocks, in seconds."""
    eviction: MooncakeEviction = MooncakeEviction.model_construct()
    """When blocks are evicted."""
    replication: MooncakeReplication | None = None
    """Additional copies of blocks that are read often. Absent: none."""
    flags: Annotated[
        dict[
            Annotated[str, f.text(_FLAG_NAME, most=63)],
            Annotated[str, f.text(_FLAG_VALUE, least=0, most=256)],
        ],
        f.entries(32),
    ] = {}
    """Other flags of mooncake_master, without dashes."""


class MooncakeEtcdImage(ServerImage):
    """The image of a managed etcd; it needs etcd on its path."""

    repository: f.ImageRepository = "registry.k8s.io/etcd"
    tag: f.ImageTag = "3.6.5-0"


class MooncakeManagedEtcd(ApiModel):
    """An etcd that the tier runs for itself alone."""

    replicas: Literal[1, 3, 5] = 3
    """Number of members."""
    storage_gib: Annotated[int, Field(ge=1, le=64)] = 16
    """Volume of each member, in GiB."""
    quota_gib: Annotated[int, Field(ge=1, le=8)] = 4
    """Size of the database at which etcd refuses writes, in GiB. With oplog it bounds the number of
    blocks ever written."""
    storage_class_name: f.DnsName | None = None
    """StorageClass of the volumes. Absent: the cluster's default."""
    image: MooncakeEtcdImage = MooncakeEtcdImage.model_construct()
    """The image of etcd."""

    rules = (
        FieldRule(
            "self.quotaGiB < self.storageGiB",
            "quotaGiB must be less than storageGiB",
            "quotaGiB",
        ),
    )


class MooncakeEtcdEndpoint(ApiModel):
    """A member of an existing etcd, without TLS and without a password."""

    host: f.Host
    """Host."""
    port: f.Port = 2379
    """Port for clients."""


class MooncakeExternalEtcd(ApiModel):
    """An existing etcd."""

    endpoints: Annotated[list[MooncakeEtcdEndpoint], f.items(9, least=1)]
    """Members of the etcd."""


class MooncakeEtcd(ApiModel):
    """The etcd in which masters elect their leader."""

    rules = union("source", {"Managed": "managed", "External": "external"}, optional=("Managed",))

    source: Literal["Managed", "External"]
    """Managed: the tier runs its own. External: an existing one."""
    managed: MooncakeManagedEtcd | None = None
    """Settings of source Managed."""
    external: MooncakeExternalEtcd | None = None
    """The etcd of source External."""

    @property
    def managed_or_default(self) -> MooncakeManagedEtcd:
        """Return the settings of the managed etcd, or their defaults."""
        return self.managed or MooncakeManagedEtcd()

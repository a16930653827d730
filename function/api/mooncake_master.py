"""`spec.mooncake.master` and `spec.mooncake.etcd`: the index of all blocks."""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, FieldRule, rows, union
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
    evict_percent: Annotated[int, Field(ge=1, le=100)] = 5
    lease_seconds: Annotated[int, Field(ge=1, le=3600)] = 10
    soft_pin_seconds: Annotated[int, Field(ge=1, le=86400)] = 1800
    evict_soft_pinned: bool = True


class MooncakeReplication(ApiModel):
    """Additional copies in memory of blocks that are read often."""

    mode: Literal["observe", "enforce"]
    max_replicas: Annotated[int, Field(ge=2, le=16)] = 2
    reads_per_minute: Annotated[int, Field(ge=1, le=1000000)] = 48
    window_seconds: Annotated[int, Field(ge=1, le=3600)] = 10


class MooncakeMaster(ApiModel):
    """The process that allocates and indexes blocks. It stores none itself."""

    replicas: Annotated[int, Field(ge=1, le=5)] = 1
    oplog: bool = False
    cpu_cores: Annotated[int, Field(ge=1, le=64)] = 2
    memory_gib: Annotated[int, Field(ge=1, le=1024)] = 4
    rpc_threads: Annotated[int, Field(ge=1, le=256)] = 16
    client_ttl_seconds: Annotated[int, Field(ge=5, le=600)] = 10
    eviction: MooncakeEviction = MooncakeEviction.model_construct()
    replication: MooncakeReplication | None = None
    flags: Annotated[
        dict[
            Annotated[str, f.text(_FLAG_NAME, most=63)],
            Annotated[str, f.text(_FLAG_VALUE, least=0, most=256)],
        ],
        f.entries(32),
    ] = {}


class MooncakeEtcdImage(ServerImage):
    """The image of a managed etcd; it needs etcd on its path."""

    repository: f.ImageRepository = "registry.k8s.io/etcd"
    tag: f.ImageTag = "3.6.5-0"


class MooncakeManagedEtcd(ApiModel):
    """An etcd that the tier runs for itself alone."""

    replicas: Literal[1, 3, 5] = 3
    storage_gib: Annotated[int, Field(ge=1, le=64)] = 16
    quota_gib: Annotated[int, Field(ge=1, le=8)] = 4
    storage_class_name: f.DnsName | None = None
    image: MooncakeEtcdImage = MooncakeEtcdImage.model_construct()

    rules = rows(FieldRule, __file__, "MooncakeManagedEtcd")


class MooncakeEtcdEndpoint(ApiModel):
    """A member of an existing etcd, without TLS and without a password."""

    host: f.Host
    port: f.Port = 2379


class MooncakeExternalEtcd(ApiModel):
    """An existing etcd."""

    endpoints: Annotated[list[MooncakeEtcdEndpoint], f.items(9, least=1)]


class MooncakeEtcd(ApiModel):
    """The etcd in which masters elect their leader."""

    rules = union("source", {"Managed": "managed", "External": "external"}, optional=("Managed",))

    source: Literal["Managed", "External"]
    managed: MooncakeManagedEtcd | None = None
    external: MooncakeExternalEtcd | None = None

    @property
    def managed_or_default(self) -> MooncakeManagedEtcd:
        """Return the settings of the managed etcd, or their defaults."""
        return self.managed or MooncakeManagedEtcd()

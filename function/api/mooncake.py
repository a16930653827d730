"""`spec.mooncake` of a KVOffloadTier: a Mooncake Store pool on the network.

Values that Mooncake itself reads (`tcp`, `p2p`, `local_first`) keep its spelling; sizes are whole
numbers with the unit in the name, because Mooncake misreads most others. Facts are of 0.3.13. The
stores are in `function.api.mooncake_store`, the masters in `function.api.mooncake_master`.
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, FieldRule, ForbiddenField, rows
from function.api.mooncake_master import MooncakeEtcd, MooncakeMaster
from function.api.mooncake_store import MooncakeStore
from function.api.mooncake_tenants import MooncakeTenants
from function.api.placement import Nodes

_ADDRESS = (
    r"^(etcd://)?[A-Za-z0-9][-A-Za-z0-9.]*:[0-9]{1,5}(;[A-Za-z0-9][-A-Za-z0-9.]*:[0-9]{1,5})*$"
)
_HOST_PORT = r"^[A-Za-z0-9][-A-Za-z0-9.]*:[0-9]{1,5}$"
_METADATA = r"^(http://[A-Za-z0-9][-A-Za-z0-9.:]*/[-A-Za-z0-9._/]*|etcd://[-A-Za-z0-9.:;]+)$"
_CLUSTER_ID = r"^[A-Za-z0-9][-A-Za-z0-9_.]*$"
f.PATTERNS.update(
    {
        _ADDRESS: "HOST:PORT, or etcd://HOST:PORT with further HOST:PORT after ;",
        _HOST_PORT: "HOST:PORT",
        _METADATA: "http://HOST:PORT/PATH or etcd://HOST:PORT",
        _CLUSTER_ID: "a cluster id (letters, digits, -, _ and .)",
    }
)


class MooncakeExternal(ApiModel):
    """An existing master. It must be of the same release line as spec.image."""

    rules = rows(FieldRule, __file__, "MooncakeExternal")

    master_address: Annotated[str, f.text(_ADDRESS, most=1024)]
    admin_address: Annotated[str, f.text(_HOST_PORT)] | None = None
    metadata_server: Annotated[str, f.text(_METADATA, most=1024)] | None = None
    cluster_id: Annotated[str, f.text(_CLUSTER_ID, most=63)] | None = None


class MooncakeEngine(ApiModel):
    """Settings of wired engines."""

    buffer_mib: Annotated[int, Field(ge=64, le=65536)] = 512
    host_gib: Annotated[int, Field(ge=1, le=16384)] | None = None
    rdma_claim_template_name: f.DnsName | None = None


class MooncakePorts(ApiModel):
    """Ports of master and stores; fixed, so that a NetworkPolicy can name them."""

    rules = rows(FieldRule, __file__, "MooncakePorts")

    rpc: f.Port = 50051
    admin: f.Port = 9003
    metadata: f.Port = 8080
    health: f.Port = 9300
    transfer_first: f.Port = 15000
    transfer_last: f.Port = 15031
    segment_first: f.Port = 12300
    segment_last: f.Port = 12331


class MooncakeSpec(ApiModel):
    """The Mooncake backend."""

    forbids = rows(ForbiddenField, __file__, "forbids")

    protocol: Literal["tcp", "rdma"] = "tcp"
    metadata: Literal["p2p", "http", "etcd"] = "p2p"
    allocation_strategy: Literal[
        "random", "free_ratio_first", "local_first", "ssd_free_ratio_first"
    ] = "random"
    store: MooncakeStore | None = None
    master: MooncakeMaster | None = None
    tenants: MooncakeTenants | None = None
    etcd: MooncakeEtcd | None = None
    control_plane_nodes: Nodes = Nodes.model_construct()
    external: MooncakeExternal | None = None
    engine: MooncakeEngine = MooncakeEngine.model_construct()
    generated: bool = False
    ports: MooncakePorts = MooncakePorts.model_construct()
    admin_access: Literal["Pool", "Engines"] = "Pool"
    rdma_gid_index: Annotated[int, Field(ge=0, le=255)] | None = None

    rules = rows(FieldRule, __file__, "MooncakeSpec")

    @property
    def master_or_default(self) -> MooncakeMaster:
        """Return the master's settings, or their defaults."""
        return self.master or MooncakeMaster()

    @property
    def ha(self) -> bool:
        """Return whether masters elect a leader in etcd."""
        master = None if self.external else self.master
        return master is not None and (master.replicas > 1 or master.oplog)

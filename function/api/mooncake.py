"""`spec.mooncake` of a KVOffloadTier: a Mooncake Store pool on the network.

Values that Mooncake itself reads (`tcp`, `p2p`, `local_first`) keep its spelling; sizes are whole
numbers with the unit in the name, because Mooncake misreads most others. Facts are of 0.3.13. The
stores are in `function.api.mooncake_store`, the masters in `function.api.mooncake_master`.
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, FieldRule, ForbiddenField
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

    rules = (
        FieldRule(
            "self.masterAddress.startsWith('etcd://') || !self.masterAddress.contains(';')",
            "masterAddress may list several addresses only as etcd://HOST:PORT;HOST:PORT",
            "masterAddress",
        ),
    )

    master_address: Annotated[str, f.text(_ADDRESS, most=1024)]
    """HOST:PORT of the master, or etcd://HOST:PORT[;HOST:PORT] of the etcd with the leader."""
    admin_address: Annotated[str, f.text(_HOST_PORT)] | None = None
    """HOST:PORT of the master's admin server. Absent: stores do not drain, and SGLang does not wait
    for the pool when it starts."""
    metadata_server: Annotated[str, f.text(_METADATA, most=1024)] | None = None
    """Metadata server, http://HOST:PORT/metadata or etcd://HOST:PORT, with metadata http or
    etcd."""
    cluster_id: Annotated[str, f.text(_CLUSTER_ID, most=63)] | None = None
    """Cluster id of the masters, if it is not Mooncake's default."""


class MooncakeEngine(ApiModel):
    """Settings of wired engines."""

    buffer_mib: Annotated[int, Field(ge=64, le=65536)] = 512
    """Transfer buffer of each vLLM worker, in MiB; added to the pod's memory. Mooncake's default is
    4096. SGLang's is fixed at 16."""
    host_gib: Annotated[int, Field(ge=1, le=16384)] | None = None
    """Memory of each SGLang rank's host pool, in GiB (--hicache-size); added to the pod's memory. A
    size, ratio or fraction in the pod takes precedence. Absent: 16. Before SGLang 0.5.15, which
    requires more than the GPU's pool: SGLang's default, not added to the pod. See backend
    HiCache."""
    rdma_claim_template_name: f.DnsName | None = None
    """ResourceClaimTemplate in the engines' namespace that gives a pod its RDMA device, with
    spec.rdma.source DRA. Absent: the pod's own claim must hold one with the GPU, which is the only
    way to align the two."""


class MooncakePorts(ApiModel):
    """Ports of master and stores; fixed, so that a NetworkPolicy can name them."""

    rules = (
        FieldRule(
            "[self.rpc, self.admin, self.metadata].all(p, [self.rpc, self.admin, "
            "self.metadata].exists_one(q, p == q))",
            "rpc, admin and metadata must differ",
        ),
        FieldRule(
            "self.transferLast - self.transferFirst >= 7",
            "transferLast must be at least transferFirst + 7",
            "transferLast",
        ),
        FieldRule(
            "self.segmentLast - self.segmentFirst >= 7",
            "segmentLast must be at least segmentFirst + 7",
            "segmentLast",
        ),
        FieldRule(
            "self.transferLast < self.segmentFirst || self.segmentLast < self.transferFirst",
            "transferFirst to transferLast and segmentFirst to segmentLast must not overlap",
            "transferFirst",
        ),
        *(
            FieldRule(
                f"[self.rpc, self.admin, self.metadata, 8088, 2379, 2380].all(p,"
                f" p < self.{first} || p > self.{last})",
                f"{first} to {last} must not cover rpc, admin or metadata, nor 8088, 2379 and 2380:"
                " a NetworkPolicy opens the range to engines",
                first,
            )
            for first, last in (("transferFirst", "transferLast"), ("segmentFirst", "segmentLast"))
        ),
        FieldRule(
            "self.health < self.transferFirst || self.health > self.transferLast",
            "health must not be within transferFirst and transferLast",
            "health",
        ),
        FieldRule(
            "self.health < self.segmentFirst || self.health > self.segmentLast",
            "health must not be within segmentFirst and segmentLast",
            "health",
        ),
    )

    rpc: f.Port = 50051
    """The master's RPC port."""
    admin: f.Port = 9003
    """The master's admin and metrics port; it has no authentication."""
    metadata: f.Port = 8080
    """The master's HTTP metadata port, with metadata http."""
    health: f.Port = 9300
    """A store's health and metrics port."""
    transfer_first: f.Port = 15000
    """First port of a store's handshakes and data."""
    transfer_last: f.Port = 15031
    """Last port of a store's handshakes and data."""
    segment_first: f.Port = 12300
    """First port of the range for store segments."""
    segment_last: f.Port = 12331
    """Last port of the range for store segments."""


class MooncakeSpec(ApiModel):
    """The Mooncake backend."""

    forbids = (
        ForbiddenField("gpuVisibility", "Mooncake's processes use no GPU"),
        ForbiddenField(
            "rdma",
            "mooncake.protocol is tcp",
            "has(self.mooncake) && self.mooncake.protocol == 'tcp'",
        ),
    )

    protocol: Literal["tcp", "rdma"] = "tcp"
    """Transport of blocks. rdma needs spec.rdma; without a device it fails and never falls back to
    TCP."""
    metadata: Literal["p2p", "http", "etcd"] = "p2p"
    """How clients find each other. p2p: stores announce their addresses. http: the master stores
    them in memory. etcd: in etcd."""
    allocation_strategy: Literal[
        "random", "free_ratio_first", "local_first", "ssd_free_ratio_first"
    ] = "random"
    """Which store takes a new block. local_first: the one on the engine's node, if there is one.
    ssd_free_ratio_first: the one with most free space on its SSD."""
    store: MooncakeStore | None = None
    """The stores that form the pool. May be absent with external, whose pool is then used
    unchanged."""
    master: MooncakeMaster | None = None
    """The master. Absent: one, with defaults; with external: none."""
    tenants: MooncakeTenants | None = None
    """A bounded share of the memory for each namespace. Absent: all share one pool."""
    etcd: MooncakeEtcd | None = None
    """etcd, for several masters, the oplog and metadata etcd."""
    control_plane_nodes: Nodes = Nodes.model_construct()
    """The nodes of master and etcd, instead of spec.nodes. Default: any without a taint. They need
    no GPU, and an autoscaler may remove GPU nodes."""
    external: MooncakeExternal | None = None
    """An existing master, instead of one that the tier runs."""
    engine: MooncakeEngine = MooncakeEngine.model_construct()
    """Settings of wired engines."""
    ports: MooncakePorts = MooncakePorts.model_construct()
    """Ports of master and stores."""
    rdma_gid_index: Annotated[int, Field(ge=0, le=255)] | None = None
    """GID index of RoCE devices (MC_GID_INDEX), for stores and engines. Absent: Mooncake chooses
    one."""
    alerts: bool = False
    """Compose a PrometheusRule with alerts. Needs spec.monitoring and the Prometheus operator's
    CRDs."""

    rules = (
        FieldRule(
            "!has(self.external) || (size(self.controlPlaneNodes.selector) == 0"
            " && !has(self.controlPlaneNodes.tolerations)"
            " && !has(self.controlPlaneNodes.priorityClassName))",
            "controlPlaneNodes may not be set with external: the tier then runs no master",
            "controlPlaneNodes",
        ),
        FieldRule(
            "has(self.store) || has(self.external)",
            "store must be set unless external is set",
        ),
        FieldRule(
            "!has(self.master) || !has(self.external)",
            "master may not be set with external: the tier then runs no master",
            "master",
        ),
        FieldRule(
            "!has(self.etcd) || !has(self.external)",
            "etcd may not be set with external: name the existing etcd in external",
            "etcd",
        ),
        FieldRule(
            "!has(self.tenants) || !has(self.external)",
            "tenants may not be set with external: the tier cannot set quotas of an existing "
            "master",
            "tenants",
        ),
        FieldRule(
            "!has(self.tenants) || !has(self.store) || !has(self.store.offload)",
            "tenants may not be set with store.offload: Mooncake bounds memory only, and one "
            "namespace could fill the disk",
            "tenants",
        ),
        FieldRule(
            "!has(self.tenants) || !has(self.master) || !self.master.oplog",
            "tenants may not be set with master.oplog: recovery of a new leader is untested with "
            "tenants",
            "tenants",
        ),
        FieldRule(
            "has(self.etcd) || !has(self.master) || (self.master.replicas == 1 && "
            "!self.master.oplog)",
            "etcd must be set when master.replicas is more than 1 or master.oplog is true",
        ),
        FieldRule(
            "has(self.etcd) || has(self.external) || self.metadata != 'etcd'",
            "etcd must be set when metadata is etcd",
        ),
        FieldRule(
            "!has(self.etcd) || self.metadata == 'etcd' || (has(self.master) && "
            "(self.master.replicas > 1 || self.master.oplog))",
            "etcd may only be set with several masters, master.oplog or metadata etcd",
            "etcd",
        ),
        FieldRule(
            "self.metadata != 'http' || !has(self.master) || (self.master.replicas == 1 && "
            "!self.master.oplog)",
            "metadata http needs a single master without oplog: use p2p or etcd",
            "metadata",
        ),
        FieldRule(
            "!has(self.external) || (self.metadata == 'p2p') != has(self.external.metadataServer)",
            "external must have a metadataServer when metadata is http or etcd, and none with p2p",
            "external",
        ),
        FieldRule(
            "self.allocationStrategy != 'local_first' || self.metadata == 'http'",
            "allocationStrategy local_first needs metadata http: only there a client has its "
            "node's name",
            "allocationStrategy",
        ),
        FieldRule(
            "self.allocationStrategy != 'ssd_free_ratio_first' || (has(self.store) && "
            "has(self.store.offload))",
            "allocationStrategy ssd_free_ratio_first needs store.offload",
            "allocationStrategy",
        ),
    )

    @property
    def master_or_default(self) -> MooncakeMaster:
        """Return the master's settings, or their defaults."""
        return self.master or MooncakeMaster()

    @property
    def ha(self) -> bool:
        """Return whether masters elect a leader in etcd."""
        master = None if self.external else self.master
        return master is not None and (master.replicas > 1 or master.oplog)

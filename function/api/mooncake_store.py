"""`spec.mooncake.store`: the processes that hold the pool's blocks."""

from typing import Annotated, Literal

from pydantic import Field

from function.api.base import ApiModel, FieldRule, exactly_one
from function.api.placement import HostPath, VolumeClass


class MooncakeOffload(ApiModel):
    """A disk of each store, for blocks that leave its memory."""

    rules = (exactly_one("host_path", "claim"),)

    size_gib: Annotated[int, Field(ge=1, le=1048576)]
    """Space for blocks on each store's disk, in GiB. Least recently used blocks are evicted
    first."""
    host_path: HostPath | None = None
    """A directory of the node, given to the store's user. It keeps blocks over restarts."""
    claim: VolumeClass | None = None
    """A claim of that size. With a DaemonSet it is deleted with the pod, with a StatefulSet it is
    kept with the tier."""


class MooncakeDrain(ApiModel):
    """How a store's blocks move to other stores before it stops."""

    max_seconds: Annotated[int, Field(ge=0, le=7200)] = 300
    """Longest drain, in seconds; blocks left then are lost, counted and logged. 16 blocks per
    second were measured, after leases of 10 s ended. 0: no drain."""
    max_concurrency: Annotated[int, Field(ge=1, le=256)] = 16
    """Blocks that move at the same time."""


class MooncakeStore(ApiModel):
    """Stores: one on each node of spec.nodes, or a fixed number of them."""

    form: Literal["DaemonSet", "StatefulSet"] = "DaemonSet"
    """DaemonSet: one on each node of spec.nodes. StatefulSet: a number of replicas on nodes of
    spec.nodes, spread if possible; for pools outside of the GPU nodes."""
    replicas: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Number of stores, with form StatefulSet."""
    size_gib: Annotated[int, Field(ge=1, le=16384)]
    """Memory for blocks in each store, in GiB."""
    hugepages: Literal["2Mi", "1Gi"] | None = None
    """Take the memory from the node's pre-allocated hugepages of that size."""
    memory_gib: Annotated[int, Field(ge=1, le=32768)] | None = None
    """Memory request and limit of the pod without hugepages, in GiB. Absent: sizeGiB and 2 more, 4
    more with offload."""
    node_memory_gib: Annotated[int, Field(ge=1, le=32768)] | None = None
    """Allocatable memory of the smallest node, in GiB. If set, a store that does not fit is refused
    instead of staying Pending."""
    cpu_cores: Annotated[int, Field(ge=1, le=256)] = 4
    """CPU cores requested; there is no limit."""
    offload: MooncakeOffload | None = None
    """A disk below the memory. Absent: none."""
    drain: MooncakeDrain = MooncakeDrain.model_construct()
    """How blocks move away before a store stops."""

    rules = (
        FieldRule(
            "(self.form == 'StatefulSet') == has(self.replicas)",
            "replicas must be set when form is StatefulSet, and only then",
            "replicas",
        ),
        FieldRule(
            "!has(self.memoryGiB) || self.memoryGiB >= (has(self.hugepages) ? 0 : self.sizeGiB) + "
            "(has(self.offload) ? 3 : 1)",
            "memoryGiB must hold sizeGiB (unless hugepages do) and 1 more, 3 more with offload",
            "memoryGiB",
        ),
        FieldRule(
            "!has(self.nodeMemoryGiB) || self.sizeGiB + (has(self.offload) ? 4 : 2) <= "
            "self.nodeMemoryGiB",
            "sizeGiB and 2 more, 4 more with offload, must fit into nodeMemoryGiB",
            "sizeGiB",
        ),
        FieldRule(
            "!has(self.nodeMemoryGiB) || !has(self.memoryGiB) || self.memoryGiB + "
            "(has(self.hugepages) ? self.sizeGiB : 0) <= self.nodeMemoryGiB",
            "memoryGiB and hugepages of sizeGiB must fit into nodeMemoryGiB",
            "memoryGiB",
        ),
    )

    @property
    def pod_memory_gib(self) -> int:
        """Return the pod's memory without hugepages, in GiB."""
        beside = 2 if self.offload is None else 4
        return self.memory_gib or beside + (0 if self.hugepages else self.size_gib)

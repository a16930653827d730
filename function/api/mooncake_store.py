"""`spec.mooncake.store`: the processes that hold the pool's blocks."""

from typing import Annotated, Literal

from pydantic import Field

from function.api.base import ApiModel, FieldRule, exactly_one, rows
from function.api.placement import HostPath, VolumeClass


class MooncakeOffload(ApiModel):
    """A disk of each store, for blocks that leave its memory."""

    rules = (exactly_one("host_path", "claim"),)

    size_gib: Annotated[int, Field(ge=1, le=1048576)]
    host_path: HostPath | None = None
    claim: VolumeClass | None = None


class MooncakeDrain(ApiModel):
    """How a store's blocks move to other stores before it stops."""

    max_seconds: Annotated[int, Field(ge=0, le=7200)] = 300
    max_concurrency: Annotated[int, Field(ge=1, le=256)] = 16


class MooncakeStore(ApiModel):
    """Stores: one on each node of spec.nodes, or a fixed number of them."""

    form: Literal["DaemonSet", "StatefulSet"] = "DaemonSet"
    replicas: Annotated[int, Field(ge=1, le=1000)] | None = None
    size_gib: Annotated[int, Field(ge=1, le=16384)]
    hugepages: Literal["2Mi", "1Gi"] | None = None
    memory_gib: Annotated[int, Field(ge=1, le=32768)] | None = None
    node_memory_gib: Annotated[int, Field(ge=1, le=32768)] | None = None
    cpu_cores: Annotated[int, Field(ge=1, le=256)] = 4
    offload: MooncakeOffload | None = None
    drain: MooncakeDrain = MooncakeDrain.model_construct()

    rules = rows(FieldRule, __file__, "MooncakeStore")

    @property
    def pod_memory_gib(self) -> int:
        """Return the pod's memory without hugepages, in GiB."""
        overhead = 2 if self.offload is None else 4
        return self.memory_gib or overhead + (0 if self.hugepages else self.size_gib)

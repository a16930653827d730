"""`spec.hicache` of a KVOffloadTier: SGLang's own hierarchy of GPU, host memory and a store.

Nothing of it runs on the cluster: engines are told what to keep where. Values that SGLang itself
reads (`write_through`, `page_first`) keep its spelling. The storages are in
`function.api.hicache_storage`. Facts are of SGLang 0.5.5 to 0.5.23.
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api.base import ApiModel, ForbiddenField, Rule, exactly_one, present
from function.api.hicache_storage import HiCacheStorage


class HiCacheRatio(ApiModel):
    """Host memory by the GPU's KV pool, whose size SGLang knows only when it runs."""

    percent: Annotated[int, Field(ge=101, le=10000)] = Field(
        description="Size of the host pool in percent of the GPU's KV pool (--hicache-ratio)."
    )
    memory_gib: Annotated[int, Field(ge=1, le=16384)] = Field(
        description="What that comes to on the tier's GPUs at most, for each rank, in GiB: added to"
        " the pod's memory. Nobody else counts it."
    )


class HiCacheHost(ApiModel):
    """The host memory of an engine's pod; every rank has a pool of its own."""

    rules = (exactly_one("size_gib", "ratio"),)

    size_gib: Annotated[int, Field(ge=1, le=16384)] | None = Field(
        default=None,
        description="Memory of each rank's pool, in GiB (--hicache-size); the pod's memory request "
        "and limit, where it has them, are raised by that of its ranks.",
    )
    ratio: HiCacheRatio | None = Field(
        default=None, description="Memory of each rank's pool by that of its GPU."
    )
    buffer_only: bool = Field(
        default=False,
        description="Keep nothing in host memory: it is the buffer through which pages go to the "
        "storage (SGLang 0.5.19).",
    )

    @property
    def memory_gib(self) -> int:
        """Memory of one rank's pool, in GiB, at the most."""
        return self.size_gib if self.size_gib is not None else present(self.ratio).memory_gib


_RDMA_STORE = (
    "has(self.hicache) && has(self.hicache.storage) && has(self.hicache.storage.mooncake) &&"
    " has(self.hicache.storage.mooncake.external) &&"
    " self.hicache.storage.mooncake.external.protocol == 'rdma'"
)


_EVICTOR = "has(self.hicache) && has(self.hicache.storage) && has(self.hicache.storage.evictor)"


_NOTHING_RUNS = f"!({_EVICTOR})"


class HiCacheSpec(ApiModel):
    """The HiCache backend."""

    forbids = (
        ForbiddenField(
            "gpuVisibility", "HiCache runs inside the engines, and no agent looks at a GPU"
        ),
        ForbiddenField(
            "nodes",
            "without hicache.storage.evictor HiCache runs nothing: engines run where they like",
            _NOTHING_RUNS,
        ),
        ForbiddenField(
            "monitoring",
            "without hicache.storage.evictor HiCache runs nothing: SGLang's own metrics tell of it",
            _NOTHING_RUNS,
        ),
        ForbiddenField(
            "rdma",
            "only hicache.storage.mooncake.external with protocol rdma needs a device",
            f"!({_RDMA_STORE})",
        ),
    )

    host: HiCacheHost = Field(description="The memory that engines keep pages in.")
    write_policy: Literal["write_through", "write_through_selective", "write_back"] = Field(
        default="write_through",
        description="When a page goes down. write_through: at once. write_through_selective: once"
        " it was hit again. write_back: when its memory is needed.",
    )
    io_backend: Literal["kernel", "direct"] = Field(
        default="kernel", description="How pages move between GPU and host memory."
    )
    memory_layout: Literal["layer_first", "page_first", "page_first_direct"] = Field(
        default="page_first",
        description="How pages lie in host memory and in the storage. page_first_direct goes with "
        "ioBackend direct, page_first with kernel.",
    )
    page_tokens: Annotated[int, Field(ge=2, le=1024)] = Field(
        default=64,
        description="Tokens of a page (--page-size), where the pod does not say it. SGLang's own "
        "default would be 1 on CUDA.",
    )
    decode: Literal["Leave", "Offload"] = Field(
        default="Leave",
        description="Decode engines of a disaggregated pair. Leave: they are left alone; a prefix "
        "is found by the prefill engine. Offload: what they generate goes to the storage, so that "
        "the next turn finds it (SGLang 0.5.10).",
    )
    storage: HiCacheStorage | None = Field(
        default=None, description="A store below the host memory. Absent: none."
    )

    rules = (
        Rule(
            "self.memoryLayout == 'layer_first' || (self.memoryLayout == 'page_first') =="
            " (self.ioBackend == 'kernel')",
            "memoryLayout must be layer_first or page_first with ioBackend kernel, and layer_first"
            " or page_first_direct with direct: SGLang changes any other without a word",
            "memoryLayout",
        ),
        Rule(
            "self.memoryLayout != 'layer_first' || !has(self.storage) ||"
            " self.storage.type != 'Mooncake'",
            "memoryLayout layer_first does not go with storage.type Mooncake: SGLang changes it"
            " without a word",
            "memoryLayout",
        ),
        Rule(
            "!self.host.bufferOnly || has(self.storage)",
            "storage must be set when host.bufferOnly is true: pages would be kept nowhere",
        ),
        Rule(
            "!self.host.bufferOnly || self.writePolicy != 'write_back'",
            "writePolicy write_back does not go with host.bufferOnly: there is no memory to write"
            " back from",
            "writePolicy",
        ),
        Rule(
            "self.decode != 'Offload' || (has(self.storage) && !self.host.bufferOnly)",
            "decode Offload needs a storage, and host.bufferOnly false",
            "decode",
        ),
    )

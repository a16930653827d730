"""`spec.hicache` of a KVOffloadTier: SGLang's hierarchical cache.

No process runs on the cluster, except an evictor; engines get flags. Values that SGLang itself
reads (`write_through`, `page_first`) keep its spelling. The storages are in
`function.api.hicache_storage`. Facts are of SGLang 0.5.5 to 0.5.23.
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api.base import ApiModel, FieldRule, ForbiddenField, exactly_one, present
from function.api.hicache_storage import HiCacheStorage


class HiCacheRatio(ApiModel):
    """Host memory relative to the GPU's KV pool, whose size only SGLang knows."""

    percent: Annotated[int, Field(ge=101, le=10000)]
    """Size of the host pool in percent of the GPU's KV pool (--hicache-ratio)."""
    memory_gib: Annotated[int, Field(ge=1, le=16384)]
    """The largest resulting size for each rank on the tier's GPUs, in GiB; added to the pod's
    memory."""


class HiCacheHost(ApiModel):
    """The host memory of an engine's pod; every rank has its own pool."""

    rules = (exactly_one("size_gib", "ratio"),)

    size_gib: Annotated[int, Field(ge=1, le=16384)] | None = None
    """Memory of each rank's pool, in GiB (--hicache-size). The sum over its ranks is added to the
    pod's memory request and limit, if set."""
    ratio: HiCacheRatio | None = None
    """Memory of each rank's pool relative to its GPU's."""
    buffer_only: bool = False
    """Use host memory only as a buffer between GPU and storage (SGLang 0.5.19)."""

    @property
    def memory_gib(self) -> int:
        """Return the largest memory of one rank's pool, in GiB."""
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
        ForbiddenField("gpuVisibility", "HiCache has no agents that use a GPU"),
        ForbiddenField(
            "nodes",
            "without hicache.storage.evictor HiCache has no pods to place",
            _NOTHING_RUNS,
        ),
        ForbiddenField(
            "monitoring",
            "without hicache.storage.evictor HiCache has no pods to scrape; SGLang exports "
            "HiCache metrics",
            _NOTHING_RUNS,
        ),
        ForbiddenField(
            "rdma",
            "only hicache.storage.mooncake.external with protocol rdma needs a device",
            f"!({_RDMA_STORE})",
        ),
    )

    host: HiCacheHost
    """The host memory for pages."""
    write_policy: Literal["write_through", "write_through_selective", "write_back"] = (
        "write_through"
    )
    """When a page is written to the next level. write_through: at once. write_through_selective:
    after a further hit. write_back: when its memory is needed."""
    io_backend: Literal["kernel", "direct"] = "kernel"
    """How pages move between GPU and host memory."""
    memory_layout: Literal["layer_first", "page_first", "page_first_direct"] = "page_first"
    """Layout of pages in host memory and storage. page_first_direct needs ioBackend direct,
    page_first needs kernel."""
    page_tokens: Annotated[int, Field(ge=2, le=1024)] = 64
    """Tokens per page (--page-size), unless the pod sets it. SGLang's default is 1 on CUDA."""
    decode: Literal["Leave", "Offload"] = "Leave"
    """Decode engines under prefill/decode disaggregation. Leave: they are not wired; the prefill
    engine looks up prefixes. Offload: generated tokens go to the storage, so that the next turn
    finds them (SGLang 0.5.10)."""
    storage: HiCacheStorage | None = None
    """A store below the host memory. Absent: none."""

    rules = (
        FieldRule(
            "self.memoryLayout == 'layer_first' || (self.memoryLayout == 'page_first') =="
            " (self.ioBackend == 'kernel')",
            "memoryLayout must be layer_first or page_first with ioBackend kernel, and "
            "layer_first or page_first_direct with direct: SGLang silently changes any other",
            "memoryLayout",
        ),
        FieldRule(
            "self.memoryLayout != 'layer_first' || !has(self.storage) ||"
            " self.storage.type != 'Mooncake'",
            "memoryLayout layer_first may not be set with storage.type Mooncake: SGLang silently "
            "changes it",
            "memoryLayout",
        ),
        FieldRule(
            "!self.host.bufferOnly || has(self.storage)",
            "storage must be set when host.bufferOnly is true: nothing else stores pages",
        ),
        FieldRule(
            "!self.host.bufferOnly || self.writePolicy != 'write_back'",
            "writePolicy write_back may not be set with host.bufferOnly: host memory keeps no "
            "pages",
            "writePolicy",
        ),
        FieldRule(
            "self.decode != 'Offload' || (has(self.storage) && !self.host.bufferOnly)",
            "decode Offload needs storage, and host.bufferOnly false",
            "decode",
        ),
    )

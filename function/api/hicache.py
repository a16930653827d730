"""`spec.hicache` of a KVOffloadTier: SGLang's hierarchical cache.

No process runs on the cluster, except an evictor; engines get flags. Values that SGLang itself
reads (`write_through`, `page_first`) keep its spelling. The storages are in
`function.api.hicache_storage`. Facts are of SGLang 0.5.5 to 0.5.23.
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api.base import ApiModel, FieldRule, ForbiddenField, exactly_one, present, rows
from function.api.hicache_storage import HiCacheStorage


class HiCacheRatio(ApiModel):
    """Host memory relative to the GPU's KV pool, whose size only SGLang knows."""

    percent: Annotated[int, Field(ge=101, le=10000)]
    memory_gib: Annotated[int, Field(ge=1, le=16384)]


class HiCacheHost(ApiModel):
    """The host memory of an engine's pod; every rank has its own pool."""

    rules = (exactly_one("size_gib", "ratio"),)

    size_gib: Annotated[int, Field(ge=1, le=16384)] | None = None
    ratio: HiCacheRatio | None = None
    buffer_only: bool = False

    @property
    def memory_gib(self) -> int:
        """Return the largest memory of one rank's pool, in GiB."""
        return self.size_gib if self.size_gib is not None else present(self.ratio).memory_gib


class HiCacheSpec(ApiModel):
    """The HiCache backend."""

    forbids = rows(ForbiddenField, __file__, "forbids")

    host: HiCacheHost
    write_policy: Literal["write_through", "write_through_selective", "write_back"] = (
        "write_through"
    )
    io_backend: Literal["kernel", "direct"] = "kernel"
    memory_layout: Literal["layer_first", "page_first", "page_first_direct"] = "page_first"
    page_tokens: Annotated[int, Field(ge=2, le=1024)] = 64
    decode: Literal["Leave", "Offload"] = "Leave"
    storage: HiCacheStorage | None = None

    rules = rows(FieldRule, __file__, "HiCacheSpec")

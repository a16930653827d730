"""`spec.lmcache` of a KVOffloadTier: LMCache servers on nodes, or in the engines.

Fields keep LMCache's names, except where a unit would have to be guessed (`sizeGiB`). Facts are of
LMCache 0.5.6. The levels below the first are in `function.api.lmcache_l2`, the settings of the mode
without agents in `function.api.lmcache_inprocess`.
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, FieldRule, ForbiddenField, rows
from function.api.evictor import Evictor
from function.api.lmcache_inprocess import LMCacheInProcess
from function.api.lmcache_l2 import L2Level


class LMCacheL1(ApiModel):
    """An agent's first level: pinned memory of its node that all engines there share."""

    size_gib: Annotated[int, Field(ge=1, le=16384)]
    initial_size_gib: Annotated[int, Field(ge=1, le=16384)] | None = None
    hugepages: bool = False
    eviction_policy: Literal["LRU", "ARC", "IsolatedLRU", "noop"] = "LRU"
    eviction_trigger_percent: Annotated[int, Field(ge=1, le=100)] = 80
    eviction_percent: Annotated[int, Field(ge=1, le=100)] = 20
    buffer_only: bool = False

    rules = rows(FieldRule, __file__, "LMCacheL1")


class LMCachePrefetch(ApiModel):
    """How blocks are fetched from lower levels before the scheduler needs them."""

    eager: bool = True
    retain: bool = False
    max_in_flight: Annotated[int, Field(ge=1, le=1024)] = 8


class LMCacheRegistration(ApiModel):
    """How long an agent keeps registrations of engines, which pin GPU memory."""

    reap_seconds: Annotated[int, Field(ge=30, le=3600)] = 60
    grace_seconds: Annotated[int, Field(ge=30, le=604800)] = 1800
    session_seconds: Annotated[int, Field(ge=60, le=86400)] = 600

    rules = rows(FieldRule, __file__, "LMCacheRegistration")


class LMCacheResources(ApiModel):
    """The resources of an agent's pod in addition to the first level."""

    memory_overhead_gib: Annotated[int, Field(ge=1, le=1024)] = 5
    cpu_cores: Annotated[int, Field(ge=1, le=256)] = 4


class LMCacheSpec(ApiModel):
    """The LMCache backend."""

    forbids = rows(ForbiddenField, __file__, "forbids")

    mode: Literal["NodeServer", "InProcess"] = "NodeServer"
    ipc: Literal["Isolated", "SharedMemory"] = "Isolated"
    chunk_tokens: Annotated[int, Field(ge=16, le=8192, multiple_of=16)] = 256
    gpu_workers: Annotated[int, Field(ge=1, le=64)] = 8
    cpu_workers: Annotated[int, Field(ge=1, le=64)] = 4
    separate_object_groups: bool = False
    generated: bool = False
    l1: LMCacheL1 | None = None
    l2: Annotated[list[L2Level], f.items(8, keys=("name",))] = []
    evictor: Evictor = Evictor.model_construct()
    prefetch: LMCachePrefetch = LMCachePrefetch.model_construct()
    registration: LMCacheRegistration = LMCacheRegistration.model_construct()
    resources: LMCacheResources = LMCacheResources.model_construct()
    run_as_user: Annotated[int, Field(ge=0, le=2147483647)] = 0
    service_account_name: f.DnsName | None = None
    in_process: LMCacheInProcess | None = None

    rules = rows(FieldRule, __file__, "LMCacheSpec")

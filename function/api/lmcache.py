"""`spec.lmcache` of a KVOffloadTier: LMCache servers on nodes, or in the engines.

Fields keep LMCache's names, except where a unit would have to be guessed (`sizeGiB`). Facts are of
LMCache 0.5.6. The levels below the first are in `function.api.lmcache_l2`, the settings of the mode
without agents in `function.api.lmcache_inprocess`.
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, FieldRule, ForbiddenField
from function.api.evictor import Evictor
from function.api.lmcache_inprocess import LMCacheInProcess
from function.api.lmcache_l2 import L2Level


class LMCacheL1(ApiModel):
    """An agent's first level: pinned memory of its node that all engines there share."""

    size_gib: Annotated[int, Field(ge=1, le=16384)]
    """Memory for cached blocks on each node, in GiB, requested by the agent's pod."""
    initial_size_gib: Annotated[int, Field(ge=1, le=16384)] | None = None
    """Part of sizeGiB that is pinned at start, in GiB; the rest follows as it fills. Absent: 20, or
    a smaller sizeGiB. Not with hugepages."""
    hugepages: bool = False
    """Take all memory at start from the node's pre-allocated 2 MiB hugepages."""
    eviction_policy: Literal["LRU", "ARC", "IsolatedLRU", "noop"] = "LRU"
    """Which blocks are evicted first. IsolatedLRU keeps a list per cache salt and needs quotas set
    through the agent's HTTP API. noop never evicts: when the memory is full, new blocks are not
    cached."""
    eviction_trigger_percent: Annotated[int, Field(ge=1, le=100)] = 80
    """Share of sizeGiB in use at which eviction starts, in percent."""
    eviction_percent: Annotated[int, Field(ge=1, le=100)] = 20
    """Share of what is in use that one eviction frees, in percent."""

    rules = (
        FieldRule(
            "!has(self.initialSizeGiB) || self.initialSizeGiB <= self.sizeGiB",
            "initialSizeGiB must not be larger than sizeGiB",
            "initialSizeGiB",
        ),
        FieldRule(
            "!has(self.initialSizeGiB) || !self.hugepages",
            "initialSizeGiB may not be set with hugepages: they are allocated at start",
            "initialSizeGiB",
        ),
    )


class LMCachePrefetch(ApiModel):
    """How blocks are fetched from lower levels before the scheduler needs them."""

    eager: bool = True
    """Look up a request when it arrives, not when it is first scheduled (vLLM)."""
    max_in_flight: Annotated[int, Field(ge=1, le=1024)] = 8
    """Prefetches that one agent runs at the same time."""


class LMCacheRegistration(ApiModel):
    """How long an agent keeps registrations of engines, which pin GPU memory."""

    reap_seconds: Annotated[int, Field(ge=30, le=3600)] = 60
    """Silence after which an agent forgets a worker that has pinged before, in seconds: at least
    three heartbeats of 10 s."""
    grace_seconds: Annotated[int, Field(ge=30, le=604800)] = 1800
    """Silence after which an agent forgets a worker that has never pinged, in seconds. vLLM pings
    after registration, SGLang at its first store or retrieve. Until then the agent keeps the GPU
    memory of a dead engine. A forgotten engine never registers again: raise this if SGLang idles
    longer after its start."""
    session_seconds: Annotated[int, Field(ge=60, le=86400)] = 600
    """How long a request may wait in an engine before the agent forgets its session, in seconds."""

    rules = (
        FieldRule(
            "self.graceSeconds >= self.reapSeconds",
            "graceSeconds must be at least reapSeconds",
            "graceSeconds",
        ),
    )


class LMCacheResources(ApiModel):
    """The resources of an agent's pod in addition to the first level."""

    memory_overhead_gib: Annotated[int, Field(ge=1, le=1024)] = 5
    """Memory in addition to l1.sizeGiB, in GiB: the process and the buffers of lower levels.
    Requests equal limits."""
    cpu_cores: Annotated[int, Field(ge=1, le=256)] = 4
    """CPU cores requested. There is no limit: a throttled copy stalls engines."""


_IN_PROCESS = "has(self.lmcache) && self.lmcache.mode == 'InProcess'"
_NO_AGENTS = "mode InProcess has no agents"


class LMCacheSpec(ApiModel):
    """The LMCache backend."""

    forbids = (
        ForbiddenField("rdma", "LMCache does not use RDMA"),
        ForbiddenField("gpuVisibility", _NO_AGENTS, _IN_PROCESS),
        ForbiddenField("nodes", _NO_AGENTS, _IN_PROCESS),
        ForbiddenField("monitoring", _NO_AGENTS, _IN_PROCESS),
    )

    mode: Literal["NodeServer", "InProcess"] = "NodeServer"
    """NodeServer: an LMCache server on each node. InProcess: LMCache inside the engine, without an
    agent. It is deprecated upstream, but engines over several pods need it."""
    ipc: Literal["Isolated", "SharedMemory"] = "Isolated"
    """How engines and agents share GPU memory. Isolated: no host resource is shared (vLLM with
    lmcache 0.5.5 or newer; not yet tested on a GPU). SharedMemory: both mount the node's /dev/shm
    (older vLLM images, SGLang)."""
    chunk_tokens: Annotated[int, Field(ge=16, le=8192, multiple_of=16)] = 256
    """Tokens per cached chunk: a multiple of the block size of every engine."""
    gpu_workers: Annotated[int, Field(ge=1, le=64)] = 8
    """Copy threads of an agent. With fewer than the node's GPUs engines wait for each other."""
    cpu_workers: Annotated[int, Field(ge=1, le=64)] = 4
    """Other threads of an agent."""
    separate_object_groups: bool = False
    """Store attention groups of different windows separately, as hybrid models (Mamba, linear
    attention, sliding window) need."""
    l1: LMCacheL1 | None = None
    """The first level, with NodeServer."""
    l2: Annotated[list[L2Level], f.items(8, keys=("name",))] = []
    """The lower levels, nearest first, with NodeServer."""
    evictor: Evictor = Evictor.model_construct()
    """How levels that are files are kept below their sizes."""
    prefetch: LMCachePrefetch = LMCachePrefetch.model_construct()
    """How blocks are fetched from lower levels."""
    registration: LMCacheRegistration = LMCacheRegistration.model_construct()
    """How long engines stay registered."""
    resources: LMCacheResources = LMCacheResources.model_construct()
    """The resources of an agent's pod in addition to l1."""
    run_as_user: Annotated[int, Field(ge=0, le=2147483647)] = 0
    """User id of the agents. 0: root without any capability. Others meet Pod Security level
    restricted, if no hostPath is mounted. With SharedMemory it must be the engines' user id."""
    service_account_name: f.DnsName | None = None
    """ServiceAccount of the agents, in the tier's namespace: a cloud identity for S3. Its token is
    not mounted."""
    in_process: LMCacheInProcess | None = None
    """Settings of mode InProcess."""
    alerts: bool = False
    """Compose a PrometheusRule with alerts. Needs spec.monitoring and the Prometheus operator's
    CRDs."""

    rules = (
        FieldRule(
            "self.mode != 'NodeServer' || has(self.l1)",
            "l1 must be set when mode is NodeServer",
        ),
        FieldRule(
            "self.mode == 'NodeServer' || !has(self.l1)",
            "l1 may only be set when mode is NodeServer; InProcess has inProcess.memoryGiB",
            "l1",
        ),
        FieldRule(
            "self.mode == 'NodeServer' || size(self.l2) == 0",
            "l2 may only be set when mode is NodeServer; InProcess has inProcess.remote",
            "l2",
        ),
        FieldRule(
            "self.mode == 'NodeServer' || !self.alerts",
            "alerts may only be set when mode is NodeServer",
            "alerts",
        ),
        FieldRule(
            "self.mode != 'InProcess' || has(self.inProcess)",
            "inProcess must be set when mode is InProcess",
        ),
        FieldRule(
            "self.mode == 'InProcess' || !has(self.inProcess)",
            "inProcess may only be set when mode is InProcess",
            "inProcess",
        ),
    )

"""`spec.lmcache` of a KVOffloadTier: one LMCache server on each node, or LMCache in the engine.

Names are ours where a unit would have to be guessed (`sizeGiB`), LMCache's own elsewhere. Facts
are of LMCache 0.5.6. The levels below the first are in `function.api.lmcache_l2`, the settings of
the mode without agents in `function.api.lmcache_inprocess`.
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, ForbiddenField, Rule
from function.api.evictor import Evictor
from function.api.lmcache_inprocess import LMCacheInProcess
from function.api.lmcache_l2 import L2Level


class LMCacheL1(ApiModel):
    """An agent's first level: pinned memory of its node, shared by every engine there."""

    size_gib: Annotated[int, Field(ge=1, le=16384)] = Field(
        description="Memory for cached blocks on each node, in GiB; the agent's pod requests it."
    )
    initial_size_gib: Annotated[int, Field(ge=1, le=16384)] | None = Field(
        default=None,
        description="How much of sizeGiB is pinned at start, in GiB; the rest follows as it "
        "fills. Absent: 20, or sizeGiB where that is less. Not with hugepages.",
    )
    hugepages: bool = Field(
        default=False,
        description="Take the memory from the node's pre-allocated 2 MiB hugepages, all of it at "
        "start.",
    )
    eviction_policy: Literal["LRU", "ARC", "IsolatedLRU", "noop"] = Field(
        default="LRU",
        description="Which blocks leave first. IsolatedLRU keeps a list per cache salt and needs "
        "quotas set through the agent's HTTP API. noop never evicts: when the memory is full, new "
        "blocks are not cached.",
    )
    eviction_trigger_percent: Annotated[int, Field(ge=1, le=100)] = Field(
        default=80, description="Share of sizeGiB in use at which eviction starts, in percent."
    )
    eviction_percent: Annotated[int, Field(ge=1, le=100)] = Field(
        default=20, description="Share of what is in use that one eviction frees, in percent."
    )

    rules = (
        Rule(
            "!has(self.initialSizeGiB) || self.initialSizeGiB <= self.sizeGiB",
            "initialSizeGiB must not be larger than sizeGiB",
            "initialSizeGiB",
        ),
        Rule(
            "!has(self.initialSizeGiB) || !self.hugepages",
            "initialSizeGiB may not be set with hugepages: they are taken all at start",
            "initialSizeGiB",
        ),
    )


class LMCachePrefetch(ApiModel):
    """Bringing blocks up from lower levels before the scheduler asks for them."""

    eager: bool = Field(
        default=True,
        description="Look a request up when it arrives, not when it is first scheduled (vLLM).",
    )
    max_in_flight: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=8, description="Prefetches that one agent runs at the same time."
    )


class LMCacheRegistration(ApiModel):
    """How long an agent keeps what an engine registered, which pins memory of the GPU."""

    reap_seconds: Annotated[int, Field(ge=30, le=3600)] = Field(
        default=60,
        description="Silence after which a worker that has pinged before is forgotten, in seconds:"
        " at least three heartbeats of 10 s.",
    )
    grace_seconds: Annotated[int, Field(ge=30, le=604800)] = Field(
        default=1800,
        description="Silence allowed to a worker that has never pinged, in seconds. vLLM's "
        "pings once it is registered; SGLang's with its first store or retrieve. So long does the "
        "agent keep the GPU memory of an engine that died before its first ping, and the next one "
        "may find none; but an engine that is forgotten never registers again, so an SGLang that "
        "idles longer after its start runs without the cache: raise it where that is usual.",
    )
    session_seconds: Annotated[int, Field(ge=60, le=86400)] = Field(
        default=600,
        description="How long a request may wait in an engine before its session is forgotten, in "
        "seconds.",
    )

    rules = (
        Rule(
            "self.graceSeconds >= self.reapSeconds",
            "graceSeconds must be at least reapSeconds",
            "graceSeconds",
        ),
    )


class LMCacheResources(ApiModel):
    """What an agent's pod asks for beside the first level."""

    memory_overhead_gib: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=5,
        description="Memory beside l1.sizeGiB, in GiB: the process, and what lower levels buffer. "
        "Requests equal limits.",
    )
    cpu_cores: Annotated[int, Field(ge=1, le=256)] = Field(
        default=4,
        description="CPU cores requested. There is no CPU limit: a throttled copy stalls engines.",
    )


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

    mode: Literal["NodeServer", "InProcess"] = Field(
        default="NodeServer",
        description="NodeServer: an LMCache server on each node. InProcess: LMCache inside the "
        "engine, without an agent; deprecated upstream, and what engines over several pods need.",
    )
    ipc: Literal["Isolated", "SharedMemory"] = Field(
        default="Isolated",
        description="How engines and agents share GPU memory; one way for a tier. Isolated: "
        "nothing of the host is shared (vLLM with lmcache 0.5.5 or newer; proven on no GPU by "
        "us). SharedMemory: both mount the node's /dev/shm (older vLLM images, SGLang).",
    )
    chunk_tokens: Annotated[int, Field(ge=16, le=8192, multiple_of=16)] = Field(
        default=256,
        description="Tokens in a cached chunk: a multiple of the block size of every engine.",
    )
    gpu_workers: Annotated[int, Field(ge=1, le=64)] = Field(
        default=8,
        description="Copy threads of an agent: as many as the node has GPUs, or engines wait for "
        "one another.",
    )
    cpu_workers: Annotated[int, Field(ge=1, le=64)] = Field(
        default=4, description="Threads of an agent for everything that is not a copy."
    )
    separate_object_groups: bool = Field(
        default=False,
        description="Store attention groups of different windows apart, as hybrid models (Mamba, "
        "linear attention, sliding window) need.",
    )
    l1: LMCacheL1 | None = Field(default=None, description="The first level, with NodeServer.")
    l2: Annotated[list[L2Level], f.items(8, keys=("name",))] = Field(
        default=[], description="The levels below it, nearest first, with NodeServer."
    )
    evictor: Evictor = Field(
        default=Evictor(), description="What keeps the levels that are files under their sizes."
    )
    prefetch: LMCachePrefetch = Field(
        default=LMCachePrefetch(), description="Bringing blocks up from the levels below."
    )
    registration: LMCacheRegistration = Field(
        default=LMCacheRegistration(), description="How long engines stay registered."
    )
    resources: LMCacheResources = Field(
        default=LMCacheResources(), description="What an agent's pod asks for beside l1."
    )
    run_as_user: Annotated[int, Field(ge=0, le=2147483647)] = Field(
        default=0,
        description="User id of the agents. 0: root without any capability. Another: fits Pod "
        "Security level restricted where no hostPath is mounted; with SharedMemory it must be the "
        "engines' own.",
    )
    service_account_name: f.DnsName | None = Field(
        default=None,
        description="ServiceAccount of the agents, in the tier's namespace: a cloud identity for "
        "S3. No token of it is mounted by us.",
    )
    in_process: LMCacheInProcess | None = Field(
        default=None, description="Settings of mode InProcess."
    )
    alerts: bool = Field(
        default=False,
        description="Compose a PrometheusRule with alerts; the Prometheus operator's CRDs must be "
        "there, and spec.monitoring set.",
    )

    rules = (
        Rule(
            "self.mode != 'NodeServer' || has(self.l1)",
            "l1 must be set when mode is NodeServer",
        ),
        Rule(
            "self.mode == 'NodeServer' || !has(self.l1)",
            "l1 may only be set when mode is NodeServer; InProcess has inProcess.memoryGiB",
            "l1",
        ),
        Rule(
            "self.mode == 'NodeServer' || size(self.l2) == 0",
            "l2 may only be set when mode is NodeServer; InProcess has inProcess.remote",
            "l2",
        ),
        Rule(
            "self.mode == 'NodeServer' || !self.alerts",
            "alerts may only be set when mode is NodeServer",
            "alerts",
        ),
        Rule(
            "self.mode != 'InProcess' || has(self.inProcess)",
            "inProcess must be set when mode is InProcess",
        ),
        Rule(
            "self.mode == 'InProcess' || !has(self.inProcess)",
            "inProcess may only be set when mode is InProcess",
            "inProcess",
        ),
    )

"""`spec.native` of a KVOffloadTier: vLLM's own offloading inside the engine.

Fields keep vLLM's names, except where a unit would have to be guessed. Facts are of vLLM 0.33.0.
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, FieldRule, ForbiddenField, exactly_one, union
from function.api.evictor import Evictor
from function.api.trust import BUNDLE_NEEDS_HTTPS, AccessKeySecret, TrustBundle

_URL = r"^https?://[A-Za-z0-9][-A-Za-z0-9.]*(:[0-9]{1,5})?$"
f.PATTERNS.update({_URL: "http://HOST[:PORT] or https://HOST[:PORT]"})


class NativeCPU(ApiModel):
    """Memory of the engine's pod for blocks that leave the GPU."""

    size_gib: Annotated[int, Field(ge=1, le=16384)] | None = None
    """Memory in each pod of an engine, in GiB; data-parallel engines in a pod divide it."""
    size_gib_per_rank: Annotated[int, Field(ge=1, le=4096)] | None = None
    """Memory for each GPU of an engine, in GiB."""
    overhead_percent: Annotated[int, Field(ge=0, le=200)] = 5
    """Additional memory that the pod requests, in percent. vLLM 0.26 took 1.92 times the size for a
    hybrid model: set 92 there."""

    rules = (exactly_one("size_gib", "size_gib_per_rank"),)


class NativeClaim(ApiModel):
    """A ReadWriteMany volume that engines mount, in the namespace of their pods."""

    name: f.DnsName | None = None
    """An existing claim there."""
    storage_class_name: f.DnsName | None = None
    """StorageClass of a claim that the tier composes and never deletes."""
    namespace: f.DnsLabel = "default"
    """Namespace of the engines' pods on the workload cluster. Engines of another namespace are
    refused: they cannot mount the claim."""

    rules = (exactly_one("name", "storage_class_name"),)


class NativeFileSystem(ApiModel):
    """Files on a volume that all engines share.

    vLLM deletes none of them; the tier's evictor does.
    """

    size_gib: Annotated[int, Field(ge=1, le=1048576)]
    """Space for blocks of all engines together, in GiB; also the size of a composed claim."""
    max_files: Annotated[int, Field(ge=1000, le=1000000000)] | None = None
    """Largest number of files and directories. Absent: bounded by sizeGiB and the file system's
    inodes (evictor.keepFreePercent)."""
    claim: NativeClaim
    """The volume."""


class NativeBucket(ApiModel):
    """A bucket, through NIXL in the engine's image."""

    rules = (BUNDLE_NEEDS_HTTPS,)

    bucket: Annotated[str, f.text(r"^[a-z0-9][-a-z0-9.]*[a-z0-9]$", most=63)]
    """Bucket, bounded by its lifecycle rules."""
    endpoint: Annotated[str, f.text(_URL)]
    """Address of the service, e.g. https://s3.eu-central-1.amazonaws.com."""
    region: Annotated[str, f.text(r"^[A-Za-z0-9][-A-Za-z0-9]*$", most=63)]
    """Region that requests are signed for."""
    credentials_secret: AccessKeySecret | None = None
    """Absent: the AWS chain of the engine's pod."""
    ca_config_map: TrustBundle | None = None
    """CA certificates for the endpoint. Absent: those of the engine's image."""


class NativePeers(ApiModel):
    """Blocks in the memory of other engines of the tier, read through NIXL.

    A router must name, in each request, the engine to ask (llm-d's does). Nothing is stored.
    """

    port: Annotated[int, Field(ge=1024, le=65000)] = 5710
    """Port at which engines serve others; each data-parallel rank adds its number."""


class NativeDisk(ApiModel):
    """A disk of each engine's pod.

    vLLM fills one file per GPU and deletes it with the engine.
    """

    size_gib_per_rank: Annotated[int, Field(ge=1, le=65536)]
    """Space for blocks of each GPU, in GiB."""
    storage_class_name: f.DnsName | None = None
    """StorageClass of an ephemeral volume of each pod (for example local NVMe). Absent: an emptyDir
    on the node's own disk."""


class NativeSimple(ApiModel):
    """vLLM's SimpleCPUOffloadConnector: the process's own memory, no /dev/shm."""

    lazy: bool = False
    """Store a block when the GPU evicts it, not as soon as it is full."""
    disk: NativeDisk | None = None
    """Keep blocks on a disk instead of in memory; vLLM 0.28 and newer."""


class NativeLevel(ApiModel):
    """One level below the engine's memory."""

    name: Annotated[str, f.text(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", most=20)]
    """Name of the level, unique in the tier."""
    type: Literal["FileSystem", "Bucket", "Peers"]
    """Type of the level; the object of that name holds its settings."""
    file_system: NativeFileSystem | None = None
    """Settings of type FileSystem."""
    bucket: NativeBucket | None = None
    """Settings of type Bucket; vLLM 0.26 and newer."""
    peers: NativePeers | None = None
    """Settings of type Peers; vLLM 0.27 and newer."""

    rules = union("type", {"FileSystem": "file_system", "Bucket": "bucket", "Peers": "peers"})


class NativeSpec(ApiModel):
    """The Native backend: vLLM's OffloadingConnector, or its simple one."""

    forbids = (
        ForbiddenField("rdma", "Native does not use RDMA"),
        ForbiddenField("gpuVisibility", "Native has no agents that use a GPU"),
    )

    cpu: NativeCPU | None = None
    """Memory of the engine's pod for blocks. Absent only with simple.disk."""
    simple: NativeSimple | None = None
    """Use vLLM's simple connector, which has no lower levels. Absent: its OffloadingConnector."""
    eviction_policy: Literal["LRU", "ARC"] = "LRU"
    """Which blocks are evicted from memory first."""
    blocks_per_chunk: Annotated[int, Field(ge=1, le=1024)] | None = None
    """GPU blocks that are moved together and stored as one file; vLLM 0.26 and newer. Absent: one.
    Levels below the memory need more."""
    secondary: Annotated[list[NativeLevel], f.items(4, keys=("name",))] = []
    """Levels below the memory, nearest first, shared by engines; vLLM 0.23 and newer."""
    evictor: Evictor = Evictor.model_construct()
    """How levels that are files are kept below their sizes."""
    run_as_user: Annotated[int, Field(ge=0, le=2147483647)] = 0
    """User id of the evictor. It must be the engines' user id to remove their files. 0: root
    without any capability."""

    rules = (
        FieldRule(
            "has(self.cpu) != (has(self.simple) && has(self.simple.disk))",
            "cpu must be set unless simple.disk is set, and only then",
            "cpu",
        ),
        FieldRule(
            "!has(self.simple) || (size(self.secondary) == 0 && !has(self.blocksPerChunk)"
            " && self.evictionPolicy == 'LRU')",
            "simple allows no secondary, no blocksPerChunk and only evictionPolicy LRU",
            "simple",
        ),
    )

"""`spec.native` of a KVOffloadTier: vLLM's own offloading, inside the engine; nothing to install.

Names are ours where a unit would have to be guessed, vLLM's elsewhere. Facts are of vLLM 0.33.0.
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, ForbiddenField, Rule, exactly_one, union
from function.api.evictor import Evictor
from function.api.trust import OF_HTTPS, TrustBundle

_URL = r"^https?://[A-Za-z0-9][-A-Za-z0-9.]*(:[0-9]{1,5})?$"
f.PATTERNS.update({_URL: "http://HOST[:PORT] or https://HOST[:PORT]"})


class NativeCPU(ApiModel):
    """Memory of the engine's pod for blocks that leave the GPU."""

    size_gib: Annotated[int, Field(ge=1, le=16384)] | None = Field(
        default=None,
        description="Memory in each pod of an engine, in GiB; the engines of data parallelism in "
        "a pod share it out.",
    )
    size_gib_per_rank: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        default=None, description="Memory for each GPU of an engine, in GiB."
    )
    overhead_percent: Annotated[int, Field(ge=0, le=200)] = Field(
        default=5,
        description="Memory that the pod asks for beside it, in percent. vLLM 0.26 was measured to "
        "take 1.92 times the size for a hybrid model: 92 there.",
    )

    rules = (exactly_one("size_gib", "size_gib_per_rank"),)


class NativeClaim(ApiModel):
    """A ReadWriteMany volume that engines mount, in the namespace of their pods."""

    name: f.DnsName | None = Field(default=None, description="An existing claim there.")
    storage_class_name: f.DnsName | None = Field(
        default=None, description="StorageClass of a claim that we compose and never delete."
    )
    namespace: f.DnsLabel = Field(
        default="default",
        description="Namespace of the engines' pods on the workload cluster. Engines of another "
        "are refused: a volume is of one namespace.",
    )

    rules = (exactly_one("name", "storage_class_name"),)


class NativeFileSystem(ApiModel):
    """Files on a volume that all engines share. vLLM removes none: the tier's evictor does."""

    size_gib: Annotated[int, Field(ge=1, le=1048576)] = Field(
        description="Space for blocks of all engines together, in GiB; also the size of the claim "
        "that we compose."
    )
    max_files: Annotated[int, Field(ge=1000, le=1000000000)] | None = Field(
        default=None,
        description="Files and directories at most. Absent: as many as sizeGiB and the file "
        "system's own inodes allow (evictor.keepFreePercent).",
    )
    claim: NativeClaim = Field(description="The volume.")


class NativeCredentials(ApiModel):
    """Keys of a Secret in the engines' namespace that hold an access key."""

    name: f.DnsName = Field(description="Name of the Secret.")
    access_key_id_key: f.SecretKey = Field(
        default="accessKeyID", description="Key that holds the access key's id."
    )
    secret_access_key_key: f.SecretKey = Field(
        default="secretAccessKey", description="Key that holds the secret access key."
    )


class NativeBucket(ApiModel):
    """A bucket, through NIXL in the engine's image."""

    rules = (OF_HTTPS,)

    bucket: Annotated[str, f.text(r"^[a-z0-9][-a-z0-9.]*[a-z0-9]$", most=63)] = Field(
        description="Bucket; its lifecycle rules bound it."
    )
    endpoint: Annotated[str, f.text(_URL)] = Field(
        description="Address of the service, e.g. https://s3.eu-central-1.amazonaws.com."
    )
    region: Annotated[str, f.text(r"^[A-Za-z0-9][-A-Za-z0-9]*$", most=63)] = Field(
        description="Region that requests are signed for."
    )
    credentials_secret: NativeCredentials | None = Field(
        default=None, description="Absent: the AWS chain of the engine's pod."
    )
    ca_config_map: TrustBundle | None = Field(
        default=None,
        description="Whom to trust for the endpoint. Absent: whom the engine's image trusts.",
    )


class NativePeers(ApiModel):
    """What other engines of the tier hold, from their memory, by NIXL; nothing is stored.

    It needs a router that names, in each request, the engine to ask (llm-d's).
    """

    port: Annotated[int, Field(ge=1024, le=65000)] = Field(
        default=5710,
        description="Port of the engines' pods at which others ask; each rank of data parallelism "
        "adds its number.",
    )


class NativeDisk(ApiModel):
    """A disk of each engine's pod. vLLM fills one file for each GPU, which ends with the engine."""

    size_gib_per_rank: Annotated[int, Field(ge=1, le=65536)] = Field(
        description="Space for blocks of each GPU, in GiB."
    )
    storage_class_name: f.DnsName | None = Field(
        default=None,
        description="StorageClass of a volume that each pod gets and that goes with it (local "
        "NVMe, say). Absent: an emptyDir on the node's own disk.",
    )


class NativeSimple(ApiModel):
    """vLLM's SimpleCPUOffloadConnector: memory of the process's own, without /dev/shm."""

    lazy: bool = Field(
        default=False,
        description="Keep a block only when the GPU gives it up, and not as soon as it is full.",
    )
    disk: NativeDisk | None = Field(
        default=None,
        description="Keep blocks on a disk in place of memory; vLLM 0.28 and newer.",
    )


class NativeLevel(ApiModel):
    """One level below the engine's memory."""

    name: Annotated[str, f.text(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", most=20)] = Field(
        description="Name of the level, unique in the tier."
    )
    type: Literal["FileSystem", "Bucket", "Peers"] = Field(
        description="What the level is; the object of that name holds its settings."
    )
    file_system: NativeFileSystem | None = Field(
        default=None, description="Settings of type FileSystem."
    )
    bucket: NativeBucket | None = Field(
        default=None, description="Settings of type Bucket; vLLM 0.26 and newer."
    )
    peers: NativePeers | None = Field(
        default=None, description="Settings of type Peers; vLLM 0.27 and newer."
    )

    rules = union("type", {"FileSystem": "file_system", "Bucket": "bucket", "Peers": "peers"})


class NativeSpec(ApiModel):
    """The Native backend: vLLM's OffloadingConnector, or its simple one."""

    forbids = (
        ForbiddenField("rdma", "Native does not use RDMA"),
        ForbiddenField("gpuVisibility", "nothing of a Native tier looks at a GPU"),
    )

    cpu: NativeCPU | None = Field(
        default=None,
        description="Memory of the engine's pod for blocks. Absent only with simple.disk.",
    )
    simple: NativeSimple | None = Field(
        default=None,
        description="Use vLLM's simple connector, which has no levels below. Absent: its "
        "OffloadingConnector.",
    )
    eviction_policy: Literal["LRU", "ARC"] = Field(
        default="LRU", description="Which blocks leave the memory first."
    )
    blocks_per_chunk: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None,
        description="Blocks of the GPU that are moved as one, and stored as one file; vLLM 0.26 "
        "and newer. Absent: one. Levels below the memory want more.",
    )
    secondary: Annotated[list[NativeLevel], f.items(4, keys=("name",))] = Field(
        default=[],
        description="Levels below the memory, nearest first, which engines share; vLLM 0.23 and "
        "newer.",
    )
    evictor: Evictor = Field(
        default=Evictor(), description="What keeps the levels that are files under their sizes."
    )
    run_as_user: Annotated[int, Field(ge=0, le=2147483647)] = Field(
        default=0,
        description="User id of the evictor: the engines' own, or it may not remove their files. "
        "0: root without any capability.",
    )

    rules = (
        Rule(
            "has(self.cpu) != (has(self.simple) && has(self.simple.disk))",
            "cpu must be set, unless simple.disk takes its place",
            "cpu",
        ),
        Rule(
            "!has(self.simple) || (size(self.secondary) == 0 && !has(self.blocksPerChunk)"
            " && self.evictionPolicy == 'LRU')",
            "simple has no secondary, no blocksPerChunk and no evictionPolicy but LRU",
            "simple",
        ),
    )

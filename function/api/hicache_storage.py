"""`spec.hicache.storage`: where SGLang keeps pages beyond its host memory.

Every storage of SGLang keys a page by its tokens and by the name that the model is served under,
which says nothing of weights or layout. So each needs a place for the cache identity: a tag in the
key (Mooncake), a directory of its own (File, NIXL with POSIX), or a store for one identity alone
(`identity`: NIXL with OBJ, HF3FS, Raw).
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, Rule, exactly_one, union
from function.api.evictor import Evictor
from function.api.mooncake import MooncakeExternal
from function.api.placement import LocalRef
from function.api.trust import TrustBundle

_IDENTITY = r"^[0-9a-f]{12}$"
_BUCKET = r"^[a-z0-9][-a-z0-9.]{1,61}[a-z0-9]$"
_REGION = r"^[a-z0-9][-a-z0-9]*$"
f.PATTERNS.update(
    {
        _IDENTITY: "a cache identity as `kv-offload explain` prints it (12 hex digits)",
        _BUCKET: "a bucket's name (3 to 63 lower-case letters, digits, - and .)",
        _REGION: "a region (lower-case letters, digits and -)",
    }
)


class HiCachePrefetch(ApiModel):
    """Bringing pages from the storage before a request needs them."""

    policy: Literal["timeout", "best_effort", "wait_complete"] = Field(
        default="timeout",
        description="When a request stops waiting for its pages. timeout: after the time below. "
        "best_effort: as soon as the GPU is free. wait_complete: never.",
    )
    threshold_tokens: Annotated[int, Field(ge=1, le=1048576)] = Field(
        default=256, description="How many tokens the storage must hold to be asked for them."
    )
    timeout_base_millis: Annotated[int, Field(ge=0, le=600000)] = Field(
        default=1000, description="How long a request waits at the least, in milliseconds."
    )
    timeout_per_ki_token_millis: Annotated[int, Field(ge=0, le=600000)] = Field(
        default=250, description="And how much longer for each 1024 tokens, in milliseconds."
    )


class HiCacheMooncakeExternal(MooncakeExternal):
    """A Mooncake pool that somebody else runs."""

    protocol: Literal["tcp", "rdma"] = Field(
        default="tcp",
        description="How pages travel. rdma needs spec.rdma; without a device it fails and never "
        "falls back to TCP.",
    )
    version: f.Version | None = Field(
        default=None,
        description="Version of Mooncake that the pool runs. Where it is said, an engine image "
        "that is known to hold another release line is refused.",
    )
    rdma_claim_template_name: f.DnsName | None = Field(
        default=None,
        description="ResourceClaimTemplate in the engines' namespace that gives a pod its RDMA "
        "device, with spec.rdma.source DRA. Absent: the pod's own claim must hold one.",
    )


class HiCacheMooncake(ApiModel):
    """A Mooncake pool: a tier of the same cluster, or one that somebody else runs."""

    rules = (exactly_one("storage_tier_ref", "external"),)

    storage_tier_ref: LocalRef | None = Field(
        default=None,
        description="A KVOffloadTier of backend Mooncake in this tier's namespace: that of the "
        "name, or a fleet tier's child, on the same cluster. This tier is ready when it is.",
    )
    external: HiCacheMooncakeExternal | None = Field(
        default=None, description="The pool's addresses."
    )


class HiCacheEvictor(Evictor):
    """What keeps the tier's pages on the claim under a size: those of all pods and identities, of
    models too that no engine serves any more."""

    namespace: f.DnsLabel = Field(
        default="default",
        description="Namespace of the claim, and of the engines' pods, on the workload cluster. "
        "Engines of another are refused: their claim would have no bound.",
    )
    size_gib: Annotated[int, Field(ge=1, le=1048576)] = Field(
        description="Space for pages of all engines together, in GiB."
    )
    max_files: Annotated[int, Field(ge=1000, le=1000000000)] | None = Field(
        default=None,
        description="Files and directories at most. Absent: as many as sizeGiB and the file "
        "system's own inodes allow (keepFreePercent).",
    )
    run_as_user: Annotated[int, Field(ge=0, le=2147483647)] = Field(
        default=0,
        description="User id of the evictor: the engines' own, or it may not remove their files. "
        "0: root without any capability.",
    )


class HiCacheClaim(ApiModel):
    """A PersistentVolumeClaim in the engines' namespace."""

    claim_name: f.DnsName = Field(description="Name of the PersistentVolumeClaim.")


class HiCacheFile(ApiModel):
    """A file for each page."""

    claim: HiCacheClaim | None = Field(
        default=None,
        description="The volume. ReadWriteMany shares pages between pods; sizeGiB then bounds what"
        " each pod keeps there, not their sum. Absent: a directory of the pod's own, lost with it.",
    )
    size_gib: Annotated[int, Field(ge=1, le=1048576)] = Field(
        description="How much a pod keeps, in GiB; the least recently used pages leave first. Its "
        "ranks have an equal part each."
    )


class HiCachePOSIX(ApiModel):
    """A file for each page, through NIXL."""

    rules = (
        Rule(
            "self.lowWatermarkPercent < self.highWatermarkPercent",
            "lowWatermarkPercent must be less than highWatermarkPercent",
            "lowWatermarkPercent",
        ),
    )

    claim: HiCacheClaim = Field(description="The volume: SGLang measures how full it is.")
    direct_io: bool = Field(
        default=True, description="Open files with O_DIRECT; false for what cannot (tmpfs, NFS)."
    )
    high_watermark_percent: Annotated[int, Field(ge=1, le=99)] = Field(
        default=80, description="How full the volume may get before the oldest pages leave."
    )
    low_watermark_percent: Annotated[int, Field(ge=1, le=99)] = Field(
        default=70, description="How full it is left."
    )


class HiCacheCredentials(ApiModel):
    """Keys of an object store, in a Secret of the engines' namespace."""

    name: f.DnsName = Field(description="Name of the Secret.")
    access_key_id_key: f.SecretKey = Field(
        default="AWS_ACCESS_KEY_ID", description="Its key that holds the access key's id."
    )
    secret_access_key_key: f.SecretKey = Field(
        default="AWS_SECRET_ACCESS_KEY", description="Its key that holds the secret access key."
    )


class HiCacheObjectStore(ApiModel):
    """An object for each page, in a bucket of the tier's own. Nothing bounds it but the bucket."""

    rules = (
        Rule(
            "!has(self.caConfigMap) || self.scheme == 'https'",
            "caConfigMap needs scheme https",
            "caConfigMap",
        ),
    )

    bucket: Annotated[str, f.text(_BUCKET, least=3, most=63)] = Field(
        description="The bucket; it must exist."
    )
    endpoint: f.Host | None = Field(
        default=None, description="Host of the store. Absent: AWS's own of the region."
    )
    port: f.Port = Field(default=443, description="Port of the store.")
    scheme: Literal["http", "https"] = Field(default="https", description="How it is spoken to.")
    region: Annotated[str, f.text(_REGION, most=63)] = Field(
        default="us-east-1", description="Region of the bucket."
    )
    virtual_addressing: bool = Field(
        default=False, description="The bucket's name in the host's: true for AWS."
    )
    credentials: HiCacheCredentials | None = Field(
        default=None,
        description="Absent: the pod's own way, such as a role of its service account.",
    )
    ca_config_map: TrustBundle | None = Field(
        default=None,
        description="Whom to trust for the endpoint. Absent: whom the engine's image trusts.",
    )


class HiCacheNIXL(ApiModel):
    """NIXL's storage plugins. The engine's image must hold NIXL."""

    rules = union("plugin", {"POSIX": "posix", "OBJ": "obj"})

    plugin: Literal["POSIX", "OBJ"] = Field(
        description="POSIX: files. OBJ: an object store that speaks S3 (the plugin loads with NIXL "
        "for CUDA 12; that of CUDA 13 up to 1.5.1 lacks a library)."
    )
    posix: HiCachePOSIX | None = Field(default=None, description="Settings of plugin POSIX.")
    obj: HiCacheObjectStore | None = Field(default=None, description="Settings of plugin OBJ.")


class HiCacheHF3FS(ApiModel):
    """DeepSeek's 3FS: one file for each rank, whose pages a metadata server hands out."""

    claim: HiCacheClaim = Field(description="A volume of the 3FS file system.")
    file_size_gib: Annotated[int, Field(ge=1, le=1048576)] = Field(
        description="Size of each rank's file, in GiB."
    )
    metadata_host: f.Host = Field(
        description="Host of SGLang's metadata server (mini_3fs_metadata_server), which must serve "
        "this tier alone: without one, two pods would write over each other's pages."
    )
    metadata_port: f.Port = Field(default=18000, description="Its port.")
    threads: Annotated[int, Field(ge=1, le=256)] = Field(
        default=16, description="Threads of each rank that read and write."
    )
    entries: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=8, description="Pages that one of them moves at a time."
    )


class HiCacheRaw(ApiModel):
    """A storage backend of SGLang's that has no fields here. The pod brings what it needs."""

    backend: Literal[
        "aibrix",
        "dynamic",
        "eic",
        "mori",
        "npu_memcache",
        "seaweedfs",
        "shm",
        "simm",
        "tensorcast",
    ] = Field(description="The value of --hicache-storage-backend.")
    extra_config: Annotated[str, f.text(least=2, most=8192)] = Field(
        default="{}",
        description="A JSON object, its configuration (--hicache-storage-backend-extra-config). It"
        " stands in the pods' arguments, so it must hold no credential.",
    )


class HiCacheStorage(ApiModel):
    """A store below the host memory."""

    rules = (
        *union(
            "type",
            {
                "Mooncake": "mooncake",
                "NIXL": "nixl",
                "HF3FS": "hf3fs",
                "File": "file",
                "Raw": "raw",
            },
        ),
        Rule(
            "!has(self.identity) || self.type in ['HF3FS', 'Raw'] || (self.type == 'NIXL' &&"
            " has(self.nixl) && self.nixl.plugin == 'OBJ')",
            "identity may only be set for a storage that keeps pages of one model alone: NIXL with"
            " OBJ, HF3FS and Raw; the others keep each identity apart",
            "identity",
        ),
        Rule(
            "!has(self.evictor) || (has(self.file) && has(self.file.claim)) ||"
            " (has(self.nixl) && has(self.nixl.posix))",
            "evictor may only be set for files on a claim: type File with a claim, or NIXL with"
            " POSIX",
            "evictor",
        ),
    )

    type: Literal["Mooncake", "NIXL", "HF3FS", "File", "Raw"] = Field(
        description="Which of SGLang's storages; the object of that name holds its settings."
    )
    mooncake: HiCacheMooncake | None = Field(default=None, description="Settings of type Mooncake.")
    nixl: HiCacheNIXL | None = Field(default=None, description="Settings of type NIXL.")
    hf3fs: HiCacheHF3FS | None = Field(default=None, description="Settings of type HF3FS.")
    file: HiCacheFile | None = Field(default=None, description="Settings of type File.")
    raw: HiCacheRaw | None = Field(default=None, description="Settings of type Raw.")
    evictor: HiCacheEvictor | None = Field(
        default=None,
        description="Bounds files on a claim as a whole, by a pod beside it. Absent: each engine "
        "removes pages of its own identity alone.",
    )
    prefetch: HiCachePrefetch = Field(
        default=HiCachePrefetch(), description="Bringing pages before they are needed."
    )
    identity: Annotated[str, f.text(_IDENTITY, least=12, most=12)] | None = Field(
        default=None,
        description="The cache identity whose pages the store holds, where its keys have no place "
        "for one (NIXL with OBJ, HF3FS, Raw): engines of any other are refused, and all while it is"
        " absent. `kv-offload explain` prints an engine's.",
    )
    wait_seconds: Annotated[int, Field(ge=0, le=3600)] = Field(
        default=300,
        description="How long a pod waits for a store that is away at its start, in seconds; then "
        "it ends and says why. 0: it does not wait, and SGLang stops. Where SGLang itself waits "
        "(Mooncake with a known admin server: ten minutes), this does not count.",
    )

"""`spec.hicache.storage`: where SGLang keeps pages beyond its host memory.

Every storage of SGLang keys a page by its tokens and the served model name, but not by weights or
layout. So each needs a place for the cache identity: a tag in the key (Mooncake), a directory
(File, NIXL with POSIX), or a whole store for one identity (`identity`: NIXL with OBJ, HF3FS, Raw).
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, FieldRule, exactly_one, union
from function.api.evictor import Evictor
from function.api.mooncake import MooncakeExternal
from function.api.placement import LocalRef
from function.api.trust import AccessKeySecret, TrustBundle

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
    """How pages are fetched from the storage before a request needs them."""

    policy: Literal["timeout", "best_effort", "wait_complete"] = "timeout"
    """When a request stops waiting for its pages. timeout: after the time below. best_effort: as
    soon as the GPU is free. wait_complete: never."""
    threshold_tokens: Annotated[int, Field(ge=1, le=1048576)] = 256
    """Smallest number of tokens in the storage that are fetched."""
    timeout_base_millis: Annotated[int, Field(ge=0, le=600000)] = 1000
    """Shortest wait of a request, in milliseconds."""
    timeout_per_ki_token_millis: Annotated[int, Field(ge=0, le=600000)] = 250
    """Additional wait per 1024 tokens, in milliseconds."""


class HiCacheMooncakeExternal(MooncakeExternal):
    """An existing Mooncake pool outside of this tier."""

    protocol: Literal["tcp", "rdma"] = "tcp"
    """Transport of pages. rdma needs spec.rdma; without a device it fails and never falls back to
    TCP."""
    version: f.Version | None = None
    """Mooncake version of the pool. If set, an engine image of another release line is refused."""
    rdma_claim_template_name: f.DnsName | None = None
    """ResourceClaimTemplate in the engines' namespace that gives a pod its RDMA device, with
    spec.rdma.source DRA. Absent: the pod's own claim must hold one."""


class HiCacheMooncake(ApiModel):
    """A Mooncake pool: a tier of the same cluster, or an existing one."""

    rules = (exactly_one("storage_tier_ref", "external"),)

    storage_tier_ref: LocalRef | None = None
    """A KVOffloadTier of backend Mooncake in this tier's namespace and on its cluster, or a fleet
    tier's child there. This tier is ready when that one is."""
    external: HiCacheMooncakeExternal | None = None
    """The pool's addresses."""


class HiCacheEvictor(Evictor):
    """The evictor of the tier's pages on the claim.

    It counts pages of all pods and identities, including models that no engine serves any more.
    """

    namespace: f.DnsLabel = "default"
    """Namespace of the claim and of the engines' pods on the workload cluster. Engines of another
    namespace are refused: nothing would bound their claim."""
    size_gib: Annotated[int, Field(ge=1, le=1048576)]
    """Space for pages of all engines together, in GiB."""
    max_files: Annotated[int, Field(ge=1000, le=1000000000)] | None = None
    """Largest number of files and directories. Absent: bounded by sizeGiB and the file system's
    inodes (keepFreePercent)."""
    run_as_user: Annotated[int, Field(ge=0, le=2147483647)] = 0
    """User id of the evictor. It must be the engines' user id to remove their files. 0: root
    without any capability."""


class HiCacheClaim(ApiModel):
    """A PersistentVolumeClaim in the engines' namespace."""

    claim_name: f.DnsName
    """Name of the PersistentVolumeClaim."""


class HiCacheFile(ApiModel):
    """One file per page."""

    claim: HiCacheClaim | None = None
    """The volume. ReadWriteMany shares pages between pods; sizeGiB then bounds each pod's pages,
    not their sum. Absent: a directory of the pod, deleted with it."""
    size_gib: Annotated[int, Field(ge=1, le=1048576)]
    """Space for a pod's pages, in GiB, split equally between its ranks. Least recently used pages
    are evicted first."""


class HiCachePOSIX(ApiModel):
    """One file per page, through NIXL."""

    rules = (
        FieldRule(
            "self.lowWatermarkPercent < self.highWatermarkPercent",
            "lowWatermarkPercent must be less than highWatermarkPercent",
            "lowWatermarkPercent",
        ),
    )

    claim: HiCacheClaim
    """The volume. SGLang measures its use."""
    direct_io: bool = True
    """Open files with O_DIRECT; false for file systems without it (tmpfs, NFS)."""
    high_watermark_percent: Annotated[int, Field(ge=1, le=99)] = 80
    """Use of the volume at which eviction of the oldest pages starts, in percent."""
    low_watermark_percent: Annotated[int, Field(ge=1, le=99)] = 70
    """Use of the volume at which eviction ends, in percent."""


class HiCacheCredentials(AccessKeySecret):
    """Keys of a Secret in the engines' namespace, by default with AWS's names."""

    access_key_id_key: f.SecretKey = "AWS_ACCESS_KEY_ID"
    secret_access_key_key: f.SecretKey = "AWS_SECRET_ACCESS_KEY"


class HiCacheObjectStore(ApiModel):
    """One object per page, in a bucket of the tier's own.

    Only the bucket's own rules bound it.
    """

    rules = (
        FieldRule(
            "!has(self.caConfigMap) || self.scheme == 'https'",
            "caConfigMap needs scheme https",
            "caConfigMap",
        ),
    )

    bucket: Annotated[str, f.text(_BUCKET, least=3, most=63)]
    """The bucket; it must exist."""
    endpoint: f.Host | None = None
    """Host of the store. Absent: AWS's endpoint of the region."""
    port: f.Port = 443
    """Port of the store."""
    scheme: Literal["http", "https"] = "https"
    """Protocol of the store."""
    region: Annotated[str, f.text(_REGION, most=63)] = "us-east-1"
    """Region of the bucket."""
    virtual_addressing: bool = False
    """Address the bucket by host name: true for AWS."""
    credentials: HiCacheCredentials | None = None
    """Absent: the pod's own credentials, such as a role of its service account."""
    ca_config_map: TrustBundle | None = None
    """CA certificates for the endpoint. Absent: those of the engine's image."""


class HiCacheNIXL(ApiModel):
    """NIXL's storage plugins. The engine's image must hold NIXL."""

    rules = union("plugin", {"POSIX": "posix", "OBJ": "obj"})

    plugin: Literal["POSIX", "OBJ"]
    """POSIX: files. OBJ: an object store with the S3 protocol. It loads with NIXL for CUDA 12; NIXL
    for CUDA 13 up to 1.5.1 lacks a library."""
    posix: HiCachePOSIX | None = None
    """Settings of plugin POSIX."""
    obj: HiCacheObjectStore | None = None
    """Settings of plugin OBJ."""


class HiCacheHF3FS(ApiModel):
    """DeepSeek's 3FS: one file per rank; a metadata server assigns its pages."""

    claim: HiCacheClaim
    """A volume of the 3FS file system."""
    file_size_gib: Annotated[int, Field(ge=1, le=1048576)]
    """Size of each rank's file, in GiB."""
    metadata_host: f.Host
    """Host of SGLang's metadata server (mini_3fs_metadata_server). It must serve this tier alone;
    otherwise two pods overwrite each other's pages."""
    metadata_port: f.Port = 18000
    """Port of the metadata server."""
    threads: Annotated[int, Field(ge=1, le=256)] = 16
    """I/O threads of each rank."""
    entries: Annotated[int, Field(ge=1, le=1024)] = 8
    """Pages that one thread moves at a time."""


class HiCacheRaw(ApiModel):
    """Another storage backend of SGLang.

    The pod provides what it needs.
    """

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
    ]
    """The value of --hicache-storage-backend."""
    extra_config: Annotated[str, f.text(least=2, most=8192)] = "{}"
    """Its configuration, a JSON object (--hicache-storage-backend-extra-config). It becomes an
    argument of the pods, so it must contain no credential."""


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
        FieldRule(
            "!has(self.identity) || self.type in ['HF3FS', 'Raw'] || (self.type == 'NIXL' &&"
            " has(self.nixl) && self.nixl.plugin == 'OBJ')",
            "identity may only be set for NIXL with OBJ, HF3FS and Raw: the others separate "
            "identities themselves",
            "identity",
        ),
        FieldRule(
            "!has(self.evictor) || (has(self.file) && has(self.file.claim)) ||"
            " (has(self.nixl) && has(self.nixl.posix))",
            "evictor may only be set for files on a claim: type File with a claim, or NIXL with"
            " POSIX",
            "evictor",
        ),
    )

    type: Literal["Mooncake", "NIXL", "HF3FS", "File", "Raw"]
    """Which of SGLang's storages; the object of that name holds its settings."""
    mooncake: HiCacheMooncake | None = None
    """Settings of type Mooncake."""
    nixl: HiCacheNIXL | None = None
    """Settings of type NIXL."""
    hf3fs: HiCacheHF3FS | None = None
    """Settings of type HF3FS."""
    file: HiCacheFile | None = None
    """Settings of type File."""
    raw: HiCacheRaw | None = None
    """Settings of type Raw."""
    evictor: HiCacheEvictor | None = None
    """Runs a pod that bounds all files on a claim. Absent: each engine removes pages of its own
    identity only."""
    prefetch: HiCachePrefetch = HiCachePrefetch.model_construct()
    """How pages are fetched before they are needed."""
    identity: Annotated[str, f.text(_IDENTITY, least=12, most=12)] | None = None
    """The one cache identity whose pages the store holds, for NIXL with OBJ, HF3FS and Raw. Engines
    of other identities are refused; while it is absent, all are. `kv-offload explain` prints an
    engine's identity."""
    wait_seconds: Annotated[int, Field(ge=0, le=3600)] = 300
    """How long a starting pod waits for the store, in seconds, before it fails with the reason. 0:
    no wait; SGLang stops. Not used where SGLang itself waits (Mooncake with an admin server: ten
    minutes)."""

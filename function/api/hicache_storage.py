"""`spec.hicache.storage`: where SGLang keeps pages beyond its host memory.

Every storage of SGLang keys a page by its tokens and the served model name, but not by weights or
layout. So each needs a place for the cache identity: a tag in the key (Mooncake), a directory
(File, NIXL with POSIX), or a whole store for one identity (`identity`: NIXL with OBJ, HF3FS, Raw).
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, FieldRule, exactly_one, rows, union
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
    threshold_tokens: Annotated[int, Field(ge=1, le=1048576)] = 256
    timeout_base_millis: Annotated[int, Field(ge=0, le=600000)] = 1000
    timeout_per_ki_token_millis: Annotated[int, Field(ge=0, le=600000)] = 250


class HiCacheMooncakeExternal(MooncakeExternal):
    """An existing Mooncake pool outside of this tier."""

    protocol: Literal["tcp", "rdma"] = "tcp"
    version: f.Version | None = None
    rdma_claim_template_name: f.DnsName | None = None


class HiCacheMooncake(ApiModel):
    """A Mooncake pool: a tier of the same cluster, or an existing one."""

    rules = (exactly_one("storage_tier_ref", "external"),)

    storage_tier_ref: LocalRef | None = None
    external: HiCacheMooncakeExternal | None = None


class HiCacheEvictor(Evictor):
    """The evictor of the tier's pages on the claim.

    It counts pages of all pods and identities, including models that no engine serves any more.
    """

    namespace: f.DnsLabel = "default"
    size_gib: Annotated[int, Field(ge=1, le=1048576)]
    max_files: Annotated[int, Field(ge=1000, le=1000000000)] | None = None
    run_as_user: Annotated[int, Field(ge=0, le=2147483647)] = 0


class HiCacheClaim(ApiModel):
    """A PersistentVolumeClaim in the engines' namespace."""

    claim_name: f.DnsName


class HiCacheFile(ApiModel):
    """One file per page."""

    claim: HiCacheClaim | None = None
    size_gib: Annotated[int, Field(ge=1, le=1048576)]


class HiCachePOSIX(ApiModel):
    """One file per page, through NIXL."""

    rules = rows(FieldRule, __file__, "HiCachePOSIX")

    claim: HiCacheClaim
    direct_io: bool = True
    high_watermark_percent: Annotated[int, Field(ge=1, le=99)] = 80
    low_watermark_percent: Annotated[int, Field(ge=1, le=99)] = 70


class HiCacheCredentials(AccessKeySecret):
    """Keys of a Secret in the engines' namespace, by default with AWS's names."""

    access_key_id_key: f.SecretKey = "AWS_ACCESS_KEY_ID"
    secret_access_key_key: f.SecretKey = "AWS_SECRET_ACCESS_KEY"


class HiCacheObjectStore(ApiModel):
    """One object per page, in a bucket of the tier's own.

    Only the bucket's own rules bound it.
    """

    rules = rows(FieldRule, __file__, "HiCacheObjectStore")

    bucket: Annotated[str, f.text(_BUCKET, least=3, most=63)]
    endpoint: f.Host | None = None
    port: f.Port = 443
    scheme: Literal["http", "https"] = "https"
    region: Annotated[str, f.text(_REGION, most=63)] = "us-east-1"
    virtual_addressing: bool = False
    credentials: HiCacheCredentials | None = None
    ca_config_map: TrustBundle | None = None


class HiCacheNIXL(ApiModel):
    """NIXL's storage plugins. The engine's image must hold NIXL."""

    rules = union("plugin", {"POSIX": "posix", "OBJ": "obj"})

    plugin: Literal["POSIX", "OBJ"]
    posix: HiCachePOSIX | None = None
    obj: HiCacheObjectStore | None = None


class HiCacheHF3FS(ApiModel):
    """DeepSeek's 3FS: one file per rank; a metadata server assigns its pages."""

    claim: HiCacheClaim
    file_size_gib: Annotated[int, Field(ge=1, le=1048576)]
    metadata_host: f.Host
    metadata_port: f.Port = 18000
    threads: Annotated[int, Field(ge=1, le=256)] = 16
    entries: Annotated[int, Field(ge=1, le=1024)] = 8


class HiCacheRaw(ApiModel):
    """Another storage backend of SGLang.

    The pod provides what it needs.
    """

    backend: Literal[
        "aibrix", "dynamic", "eic", "mori", "npu_memcache", "seaweedfs", "shm", "simm", "tensorcast"
    ]
    extra_config: Annotated[str, f.text(least=2, most=8192)] = "{}"


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
        *rows(FieldRule, __file__, "HiCacheStorage"),
    )

    type: Literal["Mooncake", "NIXL", "HF3FS", "File", "Raw"]
    mooncake: HiCacheMooncake | None = None
    nixl: HiCacheNIXL | None = None
    hf3fs: HiCacheHF3FS | None = None
    file: HiCacheFile | None = None
    raw: HiCacheRaw | None = None
    evictor: HiCacheEvictor | None = None
    prefetch: HiCachePrefetch = HiCachePrefetch.model_construct()
    identity: Annotated[str, f.text(_IDENTITY, least=12, most=12)] | None = None
    wait_seconds: Annotated[int, Field(ge=0, le=3600)] = 300

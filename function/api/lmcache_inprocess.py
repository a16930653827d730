"""`spec.lmcache.inProcess`: LMCache inside the engine (deprecated upstream)."""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, FieldRule, rows, union
from function.api.lmcache_l2 import KeyPrefix
from function.api.trust import SecretKeyRef


class LocalDisk(ApiModel):
    """Files on a volume of the engine's pod, deleted with it."""

    size_gib: Annotated[int, Field(ge=1, le=1048576)]


class RemoteRedis(ApiModel):
    """A Redis that every pod of the tier uses."""

    host: f.Host
    port: f.Port = 6379
    auth_secret: SecretKeyRef | None = None
    key_prefix: KeyPrefix = None


class RemoteFileSystem(ApiModel):
    """A file system that every pod of the tier mounts."""

    claim_name: f.DnsName


class InProcessRemote(ApiModel):
    """The level that pods share."""

    type: Literal["Redis", "SharedFileSystem"]
    redis: RemoteRedis | None = None
    shared_file_system: RemoteFileSystem | None = None
    serde: Literal["naive", "cachegen"] = "naive"

    rules = (
        *union("type", {"Redis": "redis", "SharedFileSystem": "shared_file_system"}),
        *rows(FieldRule, __file__, "InProcessRemote"),
    )


class LMCacheInProcess(ApiModel):
    """LMCache inside the engine."""

    memory_gib: Annotated[int, Field(ge=1, le=4096)] = 5
    cache_policy: Literal["LRU", "LFU", "FIFO", "MRU"] = "LRU"
    hash_seed: Annotated[int, Field(ge=0, le=4294967295)] = 0
    local_disk: LocalDisk | None = None
    remote: InProcessRemote | None = None

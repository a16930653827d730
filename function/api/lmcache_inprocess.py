"""`spec.lmcache.inProcess`: LMCache inside the engine (deprecated upstream)."""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, FieldRule, union
from function.api.trust import SecretKeyRef


class LocalDisk(ApiModel):
    """Files on a volume of the engine's pod, deleted with it."""

    size_gib: Annotated[int, Field(ge=1, le=1048576)]
    """Space for cached blocks of each worker (GPU), in GiB."""


class RemoteRedis(ApiModel):
    """A Redis that every pod of the tier uses."""

    host: f.Host
    """Host of Redis: a single node, not a cluster."""
    port: f.Port = 6379
    """Port of Redis."""
    auth_secret: SecretKeyRef | None = None
    """The password, in the pods' namespace. The engine gets it in its environment, never in a URL:
    LMCache logs URLs."""


class RemoteFileSystem(ApiModel):
    """A file system that every pod of the tier mounts."""

    claim_name: f.DnsName
    """A ReadWriteMany claim in the pods' namespace. LMCache never deletes files there: only the
    volume's size bounds them."""


class InProcessRemote(ApiModel):
    """The level that pods share."""

    type: Literal["Redis", "SharedFileSystem"]
    """Type of the level."""
    redis: RemoteRedis | None = None
    """Settings of type Redis."""
    shared_file_system: RemoteFileSystem | None = None
    """Settings of type SharedFileSystem."""
    serde: Literal["naive", "cachegen"] = "naive"
    """naive: unchanged blocks. cachegen: lossy compression, for slow networks."""

    rules = (
        *union("type", {"Redis": "redis", "SharedFileSystem": "shared_file_system"}),
        FieldRule(
            "self.serde != 'cachegen' || !has(self.redis) || !has(self.redis.authSecret)",
            "serde must be naive when redis.authSecret is set: with a password LMCache stores "
            "whole chunks only",
            "serde",
        ),
    )


class LMCacheInProcess(ApiModel):
    """LMCache inside the engine."""

    memory_gib: Annotated[int, Field(ge=1, le=4096)] = 5
    """Memory for cached blocks of each worker (GPU), in GiB. The sum over its workers is added to
    the engine container's memory request and limit, if set."""
    cache_policy: Literal["LRU", "LFU", "FIFO", "MRU"] = "LRU"
    """Which blocks are evicted first."""
    save_decode_cache: bool = False
    """Cache generated tokens in addition to prompts."""
    hash_seed: Annotated[int, Field(ge=0, le=4294967295)] = 0
    """PYTHONHASHSEED of every engine of the tier. Engines share blocks only with equal seeds."""
    local_disk: LocalDisk | None = None
    """A level on the pod's disk."""
    remote: InProcessRemote | None = None
    """A level that pods share. Absent: nothing is shared."""

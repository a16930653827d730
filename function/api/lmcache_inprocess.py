"""`spec.lmcache.inProcess`: LMCache inside the engine (deprecated upstream)."""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, FieldRule, union
from function.api.lmcache_l2 import SecretKeyRef


class LocalDisk(ApiModel):
    """Files on a volume of the engine's pod, deleted with it."""

    size_gib: Annotated[int, Field(ge=1, le=1048576)] = Field(
        description="Space for cached blocks of each worker (GPU), in GiB."
    )


class RemoteRedis(ApiModel):
    """A Redis that every pod of the tier uses."""

    host: f.Host = Field(description="Host of Redis: a single node, not a cluster.")
    port: f.Port = Field(default=6379, description="Port of Redis.")
    auth_secret: SecretKeyRef | None = Field(
        default=None,
        description="The password, in the pods' namespace. The engine gets it in its "
        "environment, never in a URL: LMCache logs URLs.",
    )


class RemoteFileSystem(ApiModel):
    """A file system that every pod of the tier mounts."""

    claim_name: f.DnsName = Field(
        description="A ReadWriteMany claim in the pods' namespace. LMCache never deletes files "
        "there: only the volume's size bounds them."
    )


class InProcessRemote(ApiModel):
    """The level that pods share."""

    type: Literal["Redis", "SharedFileSystem"] = Field(description="Type of the level.")
    redis: RemoteRedis | None = Field(default=None, description="Settings of type Redis.")
    shared_file_system: RemoteFileSystem | None = Field(
        default=None, description="Settings of type SharedFileSystem."
    )
    serde: Literal["naive", "cachegen"] = Field(
        default="naive",
        description="naive: unchanged blocks. cachegen: lossy compression, for slow networks.",
    )

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

    memory_gib: Annotated[int, Field(ge=1, le=4096)] = Field(
        default=5,
        description="Memory for cached blocks of each worker (GPU), in GiB. The sum over its "
        "workers is added to the engine container's memory request and limit, if set.",
    )
    cache_policy: Literal["LRU", "LFU", "FIFO", "MRU"] = Field(
        default="LRU", description="Which blocks are evicted first."
    )
    save_decode_cache: bool = Field(
        default=False, description="Cache generated tokens in addition to prompts."
    )
    hash_seed: Annotated[int, Field(ge=0, le=4294967295)] = Field(
        default=0,
        description="PYTHONHASHSEED of every engine of the tier. Engines share blocks only with "
        "equal seeds.",
    )
    local_disk: LocalDisk | None = Field(default=None, description="A level on the pod's disk.")
    remote: InProcessRemote | None = Field(
        default=None, description="A level that pods share. Absent: nothing is shared."
    )

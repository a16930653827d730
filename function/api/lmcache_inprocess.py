"""`spec.lmcache.inProcess`: LMCache inside the engine, without an agent (deprecated upstream)."""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, Rule, union
from function.api.lmcache_l2 import SecretKeyRef


class LocalDisk(ApiModel):
    """Files on a volume of the engine's pod, gone with it."""

    size_gib: Annotated[int, Field(ge=1, le=1048576)] = Field(
        description="Space for cached blocks of each worker (GPU), in GiB."
    )


class RemoteRedis(ApiModel):
    """A Redis that every pod of the tier uses."""

    host: f.Host = Field(description="Host of Redis: a single node, not a cluster.")
    port: f.Port = Field(default=6379, description="Port of Redis.")
    auth_secret: SecretKeyRef | None = Field(
        default=None,
        description="The password, in the namespace of the pods. It reaches the engine by "
        "environment, never in a URL: LMCache logs URLs.",
    )


class RemoteFileSystem(ApiModel):
    """A file system that every pod of the tier mounts."""

    claim_name: f.DnsName = Field(
        description="A ReadWriteMany claim in the namespace of the pods. Nothing there is ever "
        "deleted by LMCache: the volume's size is the bound."
    )


class InProcessRemote(ApiModel):
    """The level that pods share."""

    type: Literal["Redis", "SharedFileSystem"] = Field(description="What the level is.")
    redis: RemoteRedis | None = Field(default=None, description="Settings of type Redis.")
    shared_file_system: RemoteFileSystem | None = Field(
        default=None, description="Settings of type SharedFileSystem."
    )
    serde: Literal["naive", "cachegen"] = Field(
        default="naive",
        description="naive: blocks as they are. cachegen: compressed and lossy, for slow networks.",
    )

    rules = (
        *union("type", {"Redis": "redis", "SharedFileSystem": "shared_file_system"}),
        Rule(
            "self.serde != 'cachegen' || !has(self.redis) || !has(self.redis.authSecret)",
            "serde must be naive when redis.authSecret is set: LMCache's client with a password "
            "stores whole chunks only",
            "serde",
        ),
    )


class LMCacheInProcess(ApiModel):
    """LMCache inside the engine."""

    memory_gib: Annotated[int, Field(ge=1, le=4096)] = Field(
        default=5,
        description="Memory for cached blocks of each worker (GPU), in GiB. The engine container's "
        "memory request and limit, where it has them, are raised by that of its workers.",
    )
    cache_policy: Literal["LRU", "LFU", "FIFO", "MRU"] = Field(
        default="LRU", description="Which blocks leave first."
    )
    save_decode_cache: bool = Field(
        default=False, description="Cache generated tokens too, not prompts only."
    )
    hash_seed: Annotated[int, Field(ge=0, le=4294967295)] = Field(
        default=0,
        description="PYTHONHASHSEED of every engine of the tier: blocks are found again only "
        "where it is equal.",
    )
    local_disk: LocalDisk | None = Field(default=None, description="A level on the pod's disk.")
    remote: InProcessRemote | None = Field(
        default=None, description="A level that pods share. Absent: nothing is shared."
    )

"""`spec.lmcache.l2[]`: the levels below the node's memory, one object per type.

Every level that could fill up without a bound has a size. LMCache's own accounting starts at zero
with each start of a server, so the process that holds the bytes enforces it (docs/lmcache.md).
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, FieldRule, exactly_one, rows, union
from function.api.placement import HostPath, ServerImage, VolumeClass
from function.api.trust import AccessKeySecret, SecretKeyRef

KeyPrefix = Annotated[str, f.text(r"^[^@\s$]+$", most=63)] | None
SizeGiB = Annotated[int, Field(ge=1, le=1048576)]


class Disk(ApiModel):
    """Files on a disk of the node. Works with the stock image."""

    size_gib: SizeGiB
    host_path: HostPath | None = None
    ephemeral: VolumeClass | None = None
    direct_io: bool = False
    workers: Annotated[int, Field(ge=1, le=64)] = 4

    rules = (exactly_one("host_path", "ephemeral"),)


class SharedFileSystem(ApiModel):
    """Files on a file system that all nodes mount (ReadWriteMany)."""

    size_gib: SizeGiB
    claim_name: f.DnsName | None = None
    storage_class_name: f.DnsName | None = None
    sub_path: Annotated[str, f.text(r"^[A-Za-z0-9][-A-Za-z0-9_./]*$")] | None = None
    workers: Annotated[int, Field(ge=1, le=64)] = 8

    rules = (exactly_one("claim_name", "storage_class_name"),)


class RedisImage(ServerImage):
    """The image of a managed Redis; it needs redis-server and redis-cli on its path."""

    repository: f.ImageRepository = "redis"
    tag: f.ImageTag = "7.4"


class ManagedRedis(ApiModel):
    """A single Redis that the tier runs, bounded by its memory."""

    size_gib: Annotated[int, Field(ge=1, le=4096)]
    image: RedisImage = RedisImage.model_construct()
    persistence: VolumeClass | None = None


class Redis(ApiModel):
    """A Redis that speaks RESP without TLS: an existing one or a managed one."""

    host: f.Host | None = None
    port: f.Port = 6379
    username: Annotated[str, f.text(r"^[^\s$]+$")] | None = None
    auth_secret: SecretKeyRef | None = None
    managed: ManagedRedis | None = None
    workers: Annotated[int, Field(ge=1, le=64)] = 8
    key_prefix: KeyPrefix = None

    rules = (exactly_one("host", "managed"), *rows(FieldRule, __file__, "Redis"))


class ValkeyNode(ApiModel):
    """A seed node of a Valkey."""

    host: f.Host
    port: f.Port = 6379


class Valkey(ApiModel):
    """A Valkey or Valkey cluster without a password; the stock image has no client."""

    nodes: Annotated[list[ValkeyNode], f.items(16, least=1)]
    cluster: bool = False
    tls: bool = False
    database: Annotated[int, Field(ge=0, le=1023)] | None = None
    key_prefix: KeyPrefix = None
    workers: Annotated[int, Field(ge=1, le=64)] = 8
    password_secret: SecretKeyRef | None = None

    rules = rows(FieldRule, __file__, "Valkey")


class S3(ApiModel):
    """A bucket. The stock image lacks boto3, which keeps credentials out of arguments."""

    bucket: Annotated[str, f.text(r"^[a-z0-9][-a-z0-9.]*[a-z0-9]$", most=63)]
    endpoint: f.Host
    region: Annotated[str, f.text(r"^[A-Za-z0-9][-A-Za-z0-9]*$", most=63)]
    tls: bool = True
    credentials_secret: AccessKeySecret | None = None
    key_prefix: KeyPrefix = None


class NIXLLevel(ApiModel):
    """Files through NIXL (GPUDirect Storage, 3FS, POSIX). The stock image lacks NIXL."""

    plugin: Literal["POSIX", "GDS", "GDS_MT", "HF3FS"] = "POSIX"
    size_gib: SizeGiB
    host_path: HostPath
    direct_io: bool = False
    shard_directories: bool = True


class Raw(ApiModel):
    """An adapter of LMCache without a type here, as its own JSON."""

    json_: Annotated[str, f.text(most=8192)]
    host_path: HostPath | None = None


class AESGCM(ApiModel):
    """Encryption of blocks that leave the node's memory."""

    key_secret: SecretKeyRef
    key_bits: Literal[128, 256] = 256


class Serde(ApiModel):
    """How blocks are encoded for the level."""

    type: Literal["FP8", "AESGCM"]
    aesgcm: AESGCM | None = None
    workers: Annotated[int, Field(ge=1, le=64)] = 4

    rules = union("type", {"AESGCM": "aesgcm"})


class L2Level(ApiModel):
    """One level below the node's memory."""

    name: Annotated[str, f.text(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", most=20)]
    type: Literal["Disk", "SharedFileSystem", "Redis", "Valkey", "S3", "NIXL", "Raw"]
    disk: Disk | None = None
    shared_file_system: SharedFileSystem | None = None
    redis: Redis | None = None
    valkey: Valkey | None = None
    s3: S3 | None = None
    nixl: NIXLLevel | None = None
    raw: Raw | None = None
    serde: Serde | None = None

    rules = (
        *union(
            "type",
            {
                "Disk": "disk",
                "SharedFileSystem": "shared_file_system",
                "Redis": "redis",
                "Valkey": "valkey",
                "S3": "s3",
                "NIXL": "nixl",
                "Raw": "raw",
            },
        ),
        *rows(FieldRule, __file__, "L2Level"),
    )

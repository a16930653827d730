"""`spec.lmcache.l2[]`: the levels below the node's memory, one object per type.

Every level that could fill up without a bound has a size. LMCache's own accounting starts at zero
with each start of a server, so the process that holds the bytes enforces it (docs/lmcache.md).
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, FieldRule, exactly_one, union
from function.api.placement import HostPath, ServerImage, VolumeClass
from function.api.trust import AccessKeySecret, SecretKeyRef

SizeGiB = Annotated[int, Field(ge=1, le=1048576)]


class Disk(ApiModel):
    """Files on a disk of the node. Works with the stock image."""

    size_gib: SizeGiB
    """Space for cached blocks on each node, in GiB."""
    host_path: HostPath | None = None
    """A directory of the node. It keeps blocks over upgrades."""
    ephemeral: VolumeClass | None = None
    """A volume with the pod's lifetime, without access to the host."""
    direct_io: bool = False
    """Bypass the page cache (O_DIRECT), for fast local NVMe."""
    workers: Annotated[int, Field(ge=1, le=64)] = 4
    """I/O threads."""

    rules = (exactly_one("host_path", "ephemeral"),)


class SharedFileSystem(ApiModel):
    """Files on a file system that all nodes mount (ReadWriteMany)."""

    size_gib: SizeGiB
    """Space for cached blocks of all nodes together, in GiB; also the size of a composed claim."""
    claim_name: f.DnsName | None = None
    """An existing ReadWriteMany claim in the tier's namespace."""
    storage_class_name: f.DnsName | None = None
    """StorageClass of a claim that the tier composes and never deletes."""
    sub_path: Annotated[str, f.text(r"^[A-Za-z0-9][-A-Za-z0-9_./]*$")] | None = None
    """Directory inside the volume. Absent: one named after the tier."""
    workers: Annotated[int, Field(ge=1, le=64)] = 8
    """I/O threads."""

    rules = (exactly_one("claim_name", "storage_class_name"),)


class RedisImage(ServerImage):
    """The image of a managed Redis; it needs redis-server and redis-cli on its path."""

    repository: f.ImageRepository = "redis"
    tag: f.ImageTag = "7.4"


class ManagedRedis(ApiModel):
    """A single Redis that the tier runs, bounded by its memory."""

    size_gib: Annotated[int, Field(ge=1, le=4096)]
    """Memory for cached blocks, in GiB. Least recently used blocks are evicted first."""
    image: RedisImage = RedisImage.model_construct()
    """The image of Redis."""
    persistence: VolumeClass | None = None
    """Absent: a restart of its pod loses all blocks."""


class Redis(ApiModel):
    """A Redis that speaks RESP without TLS: an existing one or a managed one."""

    host: f.Host | None = None
    """Host of an existing Redis: a single node, not a cluster."""
    port: f.Port = 6379
    """Port of Redis."""
    username: Annotated[str, f.text(r"^[^\s$]+$")] | None = None
    """User of the ACL, with authSecret. Absent: the default user."""
    auth_secret: SecretKeyRef | None = None
    """The password, in the tier's namespace. Processes get it in their environment, never as an
    argument."""
    managed: ManagedRedis | None = None
    """A Redis that the tier runs."""
    workers: Annotated[int, Field(ge=1, le=64)] = 8
    """Connections of each agent."""

    rules = (
        exactly_one("host", "managed"),
        FieldRule(
            "!has(self.username) || has(self.authSecret)",
            "authSecret must be set when username is set",
            "username",
        ),
        FieldRule(
            "!has(self.username) || has(self.host)",
            "username may only be set with host: a managed Redis has the default user only",
            "username",
        ),
    )


class ValkeyNode(ApiModel):
    """A seed node of a Valkey."""

    host: f.Host
    """Host."""
    port: f.Port = 6379
    """Port."""


class Valkey(ApiModel):
    """A Valkey or Valkey cluster without a password; the stock image has no client."""

    nodes: Annotated[list[ValkeyNode], f.items(16, least=1)]
    """Seed nodes; standalone uses the first."""
    cluster: bool = False
    """Whether it is a Valkey cluster."""
    tls: bool = False
    """Use TLS."""
    database: Annotated[int, Field(ge=0, le=1023)] | None = None
    """Logical database, standalone only."""
    key_prefix: Annotated[str, f.text(r"^[^@\s$]+$", most=63)] | None = None
    """Prefix of the keys. Absent: the tier's name on the cluster."""
    workers: Annotated[int, Field(ge=1, le=64)] = 8
    """Threads of each agent."""
    password_secret: SecretKeyRef | None = None
    """Refused: LMCache takes the password of a Valkey as an argument only. Use type Redis; Valkey
    supports its protocol."""

    rules = (
        FieldRule(
            "!has(self.database) || !self.cluster",
            "database may only be set when cluster is false",
            "database",
        ),
    )


class S3(ApiModel):
    """A bucket. The stock image lacks boto3, which keeps credentials out of arguments."""

    bucket: Annotated[str, f.text(r"^[a-z0-9][-a-z0-9.]*[a-z0-9]$", most=63)]
    """Bucket, addressed by host name (BUCKET.ENDPOINT)."""
    endpoint: f.Host
    """Host of the service without the bucket, e.g. s3.eu-central-1.amazonaws.com."""
    region: Annotated[str, f.text(r"^[A-Za-z0-9][-A-Za-z0-9]*$", most=63)]
    """Region that requests are signed for."""
    tls: bool = True
    """Use TLS."""
    credentials_secret: AccessKeySecret | None = None
    """Absent: the AWS chain of the pod (serviceAccountName, instance metadata)."""


class NIXLLevel(ApiModel):
    """Files through NIXL (GPUDirect Storage, 3FS, POSIX). The stock image lacks NIXL."""

    plugin: Literal["POSIX", "GDS", "GDS_MT", "HF3FS"] = "POSIX"
    """NIXL's storage plugin."""
    size_gib: SizeGiB
    """Space for cached blocks on each node, in GiB."""
    host_path: HostPath
    """A directory of the node."""
    direct_io: bool = False
    """Bypass the page cache (O_DIRECT)."""
    shard_directories: bool = True
    """Spread files over sub-directories."""


class Raw(ApiModel):
    """An adapter of LMCache without a type here, as its own JSON."""

    json_: Annotated[str, f.text(most=8192)]
    """A JSON object with a "type", passed to --l2-adapter unchanged. It is an argument: no
    secrets."""
    host_path: HostPath | None = None
    """A directory of the node, mounted at the same path."""


class AESGCM(ApiModel):
    """Encryption of blocks that leave the node's memory."""

    key_secret: SecretKeyRef
    """The master key, in the tier's namespace: at least as many random bytes as keyBits asks
    for."""
    key_bits: Literal[128, 256] = 256
    """Length of the AES key, in bits."""


class Serde(ApiModel):
    """How blocks are encoded for the level."""

    type: Literal["FP8", "AESGCM"]
    """FP8: half the bytes, lossy. AESGCM: encrypted and authenticated."""
    aesgcm: AESGCM | None = None
    """Settings of type AESGCM."""
    workers: Annotated[int, Field(ge=1, le=64)] = 4
    """Threads."""

    rules = union("type", {"AESGCM": "aesgcm"})


class L2Level(ApiModel):
    """One level below the node's memory."""

    name: Annotated[str, f.text(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", most=20)]
    """Name of the level, unique in the tier."""
    type: Literal["Disk", "SharedFileSystem", "Redis", "Valkey", "S3", "NIXL", "Raw"]
    """Type of the level; the object of that name holds its settings."""
    disk: Disk | None = None
    """Settings of type Disk."""
    shared_file_system: SharedFileSystem | None = None
    """Settings of type SharedFileSystem."""
    redis: Redis | None = None
    """Settings of type Redis."""
    valkey: Valkey | None = None
    """Settings of type Valkey."""
    s3: S3 | None = None
    """Settings of type S3."""
    nixl: NIXLLevel | None = None
    """Settings of type NIXL."""
    raw: Raw | None = None
    """Settings of type Raw."""
    serde: Serde | None = None
    """Absent: blocks are stored unchanged."""

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
        FieldRule(
            "!has(self.serde) || self.type != 'Raw'",
            "serde may not be set with type Raw: write it into raw.json",
            "serde",
        ),
    )

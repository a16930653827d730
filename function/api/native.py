"""`spec.native` of a KVOffloadTier: vLLM's own offloading inside the engine.

Fields keep vLLM's names, except where a unit would have to be guessed. Facts are of vLLM 0.33.0.
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, FieldRule, ForbiddenField, exactly_one, rows, union
from function.api.evictor import Evictor
from function.api.trust import BUNDLE_NEEDS_HTTPS, AccessKeySecret, TrustBundle

_URL = r"^https?://[A-Za-z0-9][-A-Za-z0-9.]*(:[0-9]{1,5})?$"
f.PATTERNS.update({_URL: "http://HOST[:PORT] or https://HOST[:PORT]"})


class NativeCPU(ApiModel):
    """Memory of the engine's pod for blocks that leave the GPU."""

    size_gib: Annotated[int, Field(ge=1, le=16384)] | None = None
    size_gib_per_rank: Annotated[int, Field(ge=1, le=4096)] | None = None
    overhead_percent: Annotated[int, Field(ge=0, le=200)] = 5

    rules = (exactly_one("size_gib", "size_gib_per_rank"),)


class NativeClaim(ApiModel):
    """A ReadWriteMany volume that engines mount, in the namespace of their pods."""

    name: f.DnsName | None = None
    storage_class_name: f.DnsName | None = None
    namespace: f.DnsLabel = "default"

    rules = (exactly_one("name", "storage_class_name"),)


class NativeFileSystem(ApiModel):
    """Files on a volume that all engines share.

    vLLM deletes none of them; the tier's evictor does.
    """

    size_gib: Annotated[int, Field(ge=1, le=1048576)]
    max_files: Annotated[int, Field(ge=1000, le=1000000000)] | None = None
    claim: NativeClaim
    read_threads: Annotated[int, Field(ge=1, le=256)] | None = None
    write_threads: Annotated[int, Field(ge=1, le=256)] | None = None


class NativeBucket(ApiModel):
    """A bucket, through NIXL in the engine's image."""

    rules = (BUNDLE_NEEDS_HTTPS,)

    bucket: Annotated[str, f.text(r"^[a-z0-9][-a-z0-9.]*[a-z0-9]$", most=63)]
    endpoint: Annotated[str, f.text(_URL)]
    region: Annotated[str, f.text(r"^[A-Za-z0-9][-A-Za-z0-9]*$", most=63)]
    credentials_secret: AccessKeySecret | None = None
    ca_config_map: TrustBundle | None = None


class NativePeers(ApiModel):
    """Blocks in the memory of other engines of the tier, read through NIXL.

    A router must name, in each request, the engine to ask (llm-d's does). Nothing is stored.
    """

    port: Annotated[int, Field(ge=1024, le=65000)] = 5710


class NativeDisk(ApiModel):
    """A disk of each engine's pod.

    vLLM fills one file per GPU and deletes it with the engine.
    """

    size_gib_per_rank: Annotated[int, Field(ge=1, le=65536)]
    storage_class_name: f.DnsName | None = None


class NativeSimple(ApiModel):
    """vLLM's SimpleCPUOffloadConnector: the process's own memory, no /dev/shm."""

    lazy: bool = False
    disk: NativeDisk | None = None


class NativeLevel(ApiModel):
    """One level below the engine's memory."""

    name: Annotated[str, f.text(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", most=20)]
    type: Literal["FileSystem", "Bucket", "Peers"]
    file_system: NativeFileSystem | None = None
    bucket: NativeBucket | None = None
    peers: NativePeers | None = None

    rules = union("type", {"FileSystem": "file_system", "Bucket": "bucket", "Peers": "peers"})


class NativeSpec(ApiModel):
    """The Native backend: vLLM's OffloadingConnector, or its simple one."""

    forbids = rows(ForbiddenField, __file__, "forbids")

    cpu: NativeCPU | None = None
    simple: NativeSimple | None = None
    eviction_policy: Literal["LRU", "ARC"] = "LRU"
    blocks_per_chunk: Annotated[int, Field(ge=1, le=1024)] | None = None
    store_threshold: Annotated[int, Field(ge=2, le=1000)] | None = None
    generated: bool = False
    secondary: Annotated[list[NativeLevel], f.items(4, keys=("name",))] = []
    evictor: Evictor = Evictor.model_construct()
    run_as_user: Annotated[int, Field(ge=0, le=2147483647)] = 0

    rules = rows(FieldRule, __file__, "NativeSpec")

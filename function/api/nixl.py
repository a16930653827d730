"""`spec.nixl` of a KVOffloadTier: transfer from prefill to decode engines by NIXL.

Blocks go from one pod to another and are not stored. Only the optional preflight runs on the
cluster. Facts are of vLLM 0.20 to 0.33, SGLang 0.5.5 to 0.5.23 and NIXL 1.5.1.
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, FieldRule, ForbiddenField, rows
from function.api.trust import BUNDLE_NEEDS_HTTPS, TrustBundle

_ENDPOINT = r"^https?://[A-Za-z0-9][-A-Za-z0-9.]*(:[0-9]{1,5})?$"
_BUCKET = r"^[a-z0-9][-a-z0-9.]{1,61}[a-z0-9]$"
_PLUGIN = Literal["UCX", "LIBFABRIC", "POSIX", "GDS", "GDS_MT", "OBJ"]
f.PATTERNS.update(
    {
        _ENDPOINT: "http://HOST[:PORT] or https://HOST[:PORT]",
        _BUCKET: "a bucket's name (3 to 63 lower-case letters, digits, - and .)",
    }
)


class NIXLPorts(ApiModel):
    """TCP ports of UCX in engines' pods, fixed so that a NetworkPolicy can name them.

    Each rank takes some at each interface (docs/nixl.md); with too few UCX hangs without a message.
    """

    first: Annotated[int, Field(ge=1024, le=65000)] = 20000
    count: Annotated[int, Field(ge=16, le=16384)] = 512

    rules = rows(FieldRule, __file__, "NIXLPorts")


class NIXLTelemetry(ApiModel):
    """NIXL's own counters of each engine, for Prometheus."""

    port: f.Port = 19090


class NIXLBucket(ApiModel):
    """A bucket that engines must reach through NIXL."""

    rules = (BUNDLE_NEEDS_HTTPS,)

    endpoint: Annotated[str, f.text(_ENDPOINT)]
    name: Annotated[str, f.text(_BUCKET, most=63)]
    ca_config_map: TrustBundle | None = None


class NIXLPreflight(ApiModel):
    """One pod per node that checks whether NIXL works there, and then idles."""

    plugins: Annotated[list[_PLUGIN], f.items(8)] = []
    claim_device: bool = False
    bucket: NIXLBucket | None = None


class NIXLSpec(ApiModel):
    """The NIXL backend: prefill hands its blocks to decode."""

    forbids = rows(ForbiddenField, __file__, "forbids")

    field_hints = {
        "storage": "a NIXL tier stores nothing. Use a Native tier's secondary[] of type Bucket "
        "(vLLM), a HiCache tier's storage of type NIXL (SGLang) or an LMCache tier's l2[] of type "
        "NIXL (both)"
    }

    backend: Literal["UCX", "LIBFABRIC"] = "UCX"
    transfer: Literal["Pull", "Push"] = "Pull"
    side_channel_port: Annotated[int, Field(ge=1024, le=65000)] = 5600
    bootstrap_port: Annotated[int, Field(ge=1024, le=65535)] = 8998
    ports: NIXLPorts = NIXLPorts.model_construct()
    failure_policy: Literal["Fail", "Recompute"] = "Fail"
    lease_seconds: Annotated[int, Field(ge=6, le=3600)] | None = None
    telemetry: NIXLTelemetry | None = None
    preflight: NIXLPreflight | None = None
    rdma_claim_template_name: f.DnsName | None = None

    rules = rows(FieldRule, __file__, "NIXLSpec")

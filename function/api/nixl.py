"""`spec.nixl` of a KVOffloadTier: transfer from prefill to decode engines by NIXL.

Blocks go from one pod to another and are not stored. Only the optional preflight runs on the
cluster. Facts are of vLLM 0.20 to 0.33, SGLang 0.5.5 to 0.5.23 and NIXL 1.5.1.
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, FieldRule, ForbiddenField
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
    """The lowest port."""
    count: Annotated[int, Field(ge=16, le=16384)] = 512
    """Number of ports."""

    rules = (
        FieldRule(
            "self.first + self.count <= 65536",
            "first and count must stay below port 65536",
            "count",
        ),
    )


class NIXLTelemetry(ApiModel):
    """NIXL's own counters of each engine, for Prometheus."""

    port: f.Port = 19090
    """Port at which the engine serves the metrics of all its ranks."""


class NIXLBucket(ApiModel):
    """A bucket that engines must reach through NIXL."""

    rules = (BUNDLE_NEEDS_HTTPS,)

    endpoint: Annotated[str, f.text(_ENDPOINT)]
    """Address of the service, e.g. https://s3.eu-central-1.amazonaws.com."""
    name: Annotated[str, f.text(_BUCKET, most=63)]
    """Name of the bucket."""
    ca_config_map: TrustBundle | None = None
    """CA certificates for the endpoint, in spec.namespace. Absent: those of the image."""


class NIXLPreflight(ApiModel):
    """One pod per node that checks whether NIXL works there, and then idles."""

    plugins: Annotated[list[_PLUGIN], f.items(8)] = []
    """Other plugins of NIXL that must load on each node."""
    claim_device: bool = False
    """Claim one RDMA device of each node, as in spec.rdma, and test a transfer over it. Engines
    cannot use that device unless it is shared. Otherwise only the state of the ports is checked,
    and the transfer uses TCP."""
    bucket: NIXLBucket | None = None
    """A bucket that must answer a request without credentials."""


def _outside_ports(field: str) -> FieldRule:
    """Return the rule that a port is outside of UCX's range."""
    return FieldRule(
        f"self.{field} < self.ports.first || self.{field} >= self.ports.first + self.ports.count",
        f"{field} must not be one of ports",
        field,
    )


class NIXLSpec(ApiModel):
    """The NIXL backend: prefill hands its blocks to decode."""

    forbids = (
        ForbiddenField("gpuVisibility", "NIXL has no agents that use a GPU"),
        ForbiddenField(
            "nodes",
            "without nixl.preflight NIXL has no pods to place",
            "has(self.nixl) && !has(self.nixl.preflight)",
        ),
        ForbiddenField(
            "monitoring",
            "NIXL has no agents to scrape: set nixl.telemetry for metrics of the engines",
        ),
    )

    field_hints = {
        "storage": "a NIXL tier stores nothing. Use a Native tier's secondary[] of type Bucket "
        "(vLLM), a HiCache tier's storage of type NIXL (SGLang) or an LMCache tier's l2[] of type "
        "NIXL (both)"
    }

    backend: Literal["UCX", "LIBFABRIC"] = "UCX"
    """NIXL's transport. UCX: InfiniBand, RoCE, TCP. LIBFABRIC: EFA on AWS, in an image with it
    (SGLang 0.5.9 and newer)."""
    transfer: Literal["Pull", "Push"] = "Pull"
    """Direction of transfers in vLLM. Pull: decode reads blocks (NixlConnector). Push: prefill
    writes them (NixlPushConnector, vLLM 0.24 and newer). SGLang always writes."""
    side_channel_port: Annotated[int, Field(ge=1024, le=65000)] = 5600
    """vLLM's handshake port, unless the pod sets it; each data-parallel rank adds its number."""
    bootstrap_port: Annotated[int, Field(ge=1024, le=65535)] = 8998
    """SGLang's handshake port of prefill engines, unless the pod sets it."""
    ports: NIXLPorts = NIXLPorts.model_construct()
    """UCX's ports."""
    failure_policy: Literal["Fail", "Recompute"] = "Fail"
    """What a vLLM decode engine does when a transfer fails. Fail: the request ends with an error.
    Recompute: the decode engine prefills the request itself, more slowly. A policy in the pod's own
    transfer connector takes precedence."""
    lease_seconds: Annotated[int, Field(ge=6, le=3600)] | None = None
    """How long a vLLM prefill engine keeps blocks without a renewal, in seconds (vLLM 0.22 and
    newer). Absent: vLLM's default, 30."""
    telemetry: NIXLTelemetry | None = None
    """Absent: no NIXL metrics. vLLM 0.32 and newer."""
    preflight: NIXLPreflight | None = None
    """Check on each of spec.nodes whether NIXL works. Absent: nothing runs on the cluster."""
    rdma_claim_template_name: f.DnsName | None = None
    """ResourceClaimTemplate in the engines' namespace for the RDMA devices of each engine's pod,
    with spec.rdma.source DRA. Absent: the pods have their own claims."""

    rules = (
        _outside_ports("sideChannelPort"),
        _outside_ports("bootstrapPort"),
        FieldRule(
            "!has(self.telemetry) || self.telemetry.port < self.ports.first ||"
            " self.telemetry.port >= self.ports.first + self.ports.count",
            "telemetry.port must not be one of ports",
            "telemetry",
        ),
    )

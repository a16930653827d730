"""`spec.nixl` of a KVOffloadTier: transfer from prefill to decode, by NIXL inside the engines.

Nothing of it runs on the cluster, but for the preflight where it is asked for, and nothing is kept:
blocks go from one pod to another. Facts are of vLLM 0.20 to 0.33, SGLang 0.5.5 to 0.5.23 and NIXL
1.5.1.
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, ForbiddenField, Rule
from function.api.trust import OF_HTTPS, TrustBundle

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
    """TCP ports at which UCX listens in every engine's pod, so that a NetworkPolicy can name them.

    Each rank takes some at each interface (docs/nixl.md); too few would hang without a message.
    """

    first: Annotated[int, Field(ge=1024, le=65000)] = Field(
        default=20000, description="The lowest port."
    )
    count: Annotated[int, Field(ge=16, le=16384)] = Field(
        default=512, description="How many ports, from the first on."
    )

    rules = (
        Rule(
            "self.first + self.count <= 65536",
            "first and count must stay below port 65536",
            "count",
        ),
    )


class NIXLTelemetry(ApiModel):
    """NIXL's own counters of each engine, for Prometheus."""

    port: f.Port = Field(
        default=19090, description="Port of the engine's pod at which all its ranks are read."
    )


class NIXLBucket(ApiModel):
    """A bucket that engines are to reach by NIXL."""

    rules = (OF_HTTPS,)

    endpoint: Annotated[str, f.text(_ENDPOINT)] = Field(
        description="Address of the service, e.g. https://s3.eu-central-1.amazonaws.com."
    )
    name: Annotated[str, f.text(_BUCKET, most=63)] = Field(description="Name of the bucket.")
    ca_config_map: TrustBundle | None = Field(
        default=None,
        description="Whom to trust for the endpoint; the ConfigMap is in spec.namespace. Absent: "
        "whom the image trusts.",
    )


class NIXLPreflight(ApiModel):
    """One pod on each node, which looks whether NIXL works there, and then idles."""

    plugins: Annotated[list[_PLUGIN], f.items(8)] = Field(
        default=[], description="Plugins of NIXL that must load there, beside the backend's."
    )
    claim_device: bool = Field(
        default=False,
        description="Take one RDMA device of each node as spec.rdma says, and prove a transfer "
        "over it; a device that cannot be shared is then none of the engines'. Without it the "
        "devices' ports are looked at, and the transfer goes by TCP.",
    )
    bucket: NIXLBucket | None = Field(
        default=None, description="A bucket that must answer; asked without keys."
    )


def _apart(field: str) -> Rule:
    """Return the rule that a port of its own is none of UCX's."""
    return Rule(
        f"self.{field} < self.ports.first || self.{field} >= self.ports.first + self.ports.count",
        f"{field} must not be one of ports",
        field,
    )


class NIXLSpec(ApiModel):
    """The NIXL backend: prefill hands its blocks to decode."""

    forbids = (
        ForbiddenField(
            "gpuVisibility", "NIXL runs inside the engines, and no agent looks at a GPU"
        ),
        ForbiddenField(
            "nodes",
            "NIXL has no agents but nixl.preflight: engines run where they like",
            "has(self.nixl) && !has(self.nixl.preflight)",
        ),
        ForbiddenField("monitoring", "NIXL has no agents: nixl.telemetry tells of the engines"),
    )

    elsewhere = {
        "storage": "NIXL hands over and keeps nothing. What NIXL stores is a level of another "
        "backend: for vLLM a Native tier's secondary[] of type Bucket, for SGLang a HiCache tier's "
        "storage of type NIXL, for both an LMCache tier's l2[] of type NIXL"
    }

    backend: Literal["UCX", "LIBFABRIC"] = Field(
        default="UCX",
        description="NIXL's transport. UCX: InfiniBand, RoCE, TCP. LIBFABRIC: EFA on AWS, in an "
        "image that has it (SGLang 0.5.9 and newer).",
    )
    transfer: Literal["Pull", "Push"] = Field(
        default="Pull",
        description="Who moves blocks in vLLM. Pull: decode reads them (NixlConnector). Push: "
        "prefill writes them (NixlPushConnector, vLLM 0.24 and newer). SGLang always writes.",
    )
    side_channel_port: Annotated[int, Field(ge=1024, le=65000)] = Field(
        default=5600,
        description="vLLM's port for the handshake, where the pod does not say it; each rank of "
        "data parallelism adds its number.",
    )
    bootstrap_port: Annotated[int, Field(ge=1024, le=65535)] = Field(
        default=8998,
        description="SGLang's port for the handshake at prefill engines, where the pod does not "
        "say it.",
    )
    ports: NIXLPorts = Field(default=NIXLPorts(), description="UCX's ports.")
    failure_policy: Literal["Fail", "Recompute"] = Field(
        default="Fail",
        description="What a vLLM decode engine does when a transfer fails. Fail: the request ends "
        "with an error. Recompute: the decode engine prefills, as slowly as it does. Beside a "
        "transfer connector of the pod's own its choice stays.",
    )
    lease_seconds: Annotated[int, Field(ge=6, le=3600)] | None = Field(
        default=None,
        description="How long a vLLM prefill engine keeps blocks that nobody renews, in seconds "
        "(vLLM 0.22 and newer). Absent: vLLM's own, 30.",
    )
    telemetry: NIXLTelemetry | None = Field(
        default=None,
        description="Absent: NIXL counts for nobody. vLLM 0.32 and newer.",
    )
    preflight: NIXLPreflight | None = Field(
        default=None,
        description="Look at each of spec.nodes whether NIXL works there, before engines rely on "
        "it. Absent: nothing runs on the cluster.",
    )
    rdma_claim_template_name: f.DnsName | None = Field(
        default=None,
        description="ResourceClaimTemplate in the engines' namespace by which each engine's pod "
        "claims its RDMA devices, with spec.rdma.source DRA. Absent: the pods have their own.",
    )

    rules = (
        _apart("sideChannelPort"),
        _apart("bootstrapPort"),
        Rule(
            "!has(self.telemetry) || self.telemetry.port < self.ports.first ||"
            " self.telemetry.port >= self.ports.first + self.ports.count",
            "telemetry.port must not be one of ports",
            "telemetry",
        ),
    )

"""How a consumer names a tier: the reference that any composite's spec may hold."""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel


class KVOffloadTierRef(ApiModel):
    """The tier of a workload, and how strictly it is needed."""

    name: f.DnsName = Field(
        description="Name of a KVOffloadTier, or of the fleet or inline tier it was stamped from."
    )
    namespace: f.DnsLabel | None = Field(
        default=None,
        description="Namespace of the tier. Default: the step's tierNamespace, modelplane-system"
        " where it has none.",
    )
    policy: Literal["Required", "Optional", "Off"] = Field(
        default="Required",
        description="Required holds the first creation of the workload back until the tier is "
        "ready. Optional never holds back: a workload created while the tier is not ready stays "
        "unwired until its pod template changes. Off unwires on purpose.",
    )
    engine: Literal["vLLM", "SGLang"] | None = Field(
        default=None, description="The engine in the pods. Default: looked up, never guessed."
    )
    engine_version: f.Version | None = Field(
        default=None, description="The engine's version. Default: the image's tag, where it is one."
    )
    cache_identity: Annotated[str, f.text(r"^[A-Za-z0-9._/@:-]+$")] | None = Field(
        default=None,
        description="What tells this workload's cached blocks from others'. Workloads with the "
        "same identity share blocks. Default: computed from the model, its data types and the "
        "engine.",
    )

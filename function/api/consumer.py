"""The reference to a tier that any composite's spec may hold."""

from typing import Annotated, Literal

from function.api import fields as f
from function.api.base import ApiModel
from function.api.engines import EngineName
from function.api.packages import ImagePackages

Family = Literal[
    "dense", "hybrid", "mla", "sparse", "sliding", "multimodal", "speculative", "pooling"
]


class KVOffloadTierRef(ApiModel):
    """The tier of a workload, and whether the workload needs it."""

    name: f.DnsName
    namespace: f.DnsLabel | None = None
    policy: Literal["Required", "Optional", "Off"] = "Required"
    engine: EngineName | None = None
    engine_version: f.Version | None = None
    cache_identity: Annotated[str, f.text(r"^[A-Za-z0-9._/@:-]+$")] | None = None
    packages: ImagePackages | None = None
    model_family: Annotated[list[Family], f.items(8)] = []

"""How a consumer names a tier: the reference that any composite's spec may hold."""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel
from function.api.engines import EngineName

Family = Literal[
    "dense", "hybrid", "mla", "sparse", "sliding", "multimodal", "speculative", "pooling"
]
PackageVersion = Annotated[str, f.text(f.PACKAGE_VERSION, most=32)]


class ImagePackages(ApiModel):
    """What is inside an engine's image, by package; `none` says that it is not there."""

    lmcache: PackageVersion | None = Field(default=None, description="LMCache, e.g. 0.5.6.")
    mooncake: PackageVersion | None = Field(
        default=None, description="mooncake-transfer-engine, e.g. 0.3.13."
    )
    nixl: PackageVersion | None = Field(default=None, description="NIXL, e.g. 1.5.0.")
    torch: PackageVersion | None = Field(default=None, description="PyTorch, e.g. 2.13.0.")
    cuda: PackageVersion | None = Field(default=None, description="CUDA, e.g. 13.0.")


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
    engine: EngineName | None = Field(
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
    packages: ImagePackages | None = Field(
        default=None,
        description="What the engine's image holds, where no table knows it; `kv-offload probe` "
        "reads it inside the image.",
    )
    model_family: Annotated[list[Family], f.items(8)] = Field(
        default=[],
        description="What the model's layers are, and what is done with it, where neither the "
        "model's name nor the engine's flags tell (docs/models.md).",
    )

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
    """Name of a KVOffloadTier, or of the fleet or inline tier it was stamped from."""
    namespace: f.DnsLabel | None = None
    """Namespace of the tier. Default: the step's tierNamespace, or else modelplane-system."""
    policy: Literal["Required", "Optional", "Off"] = "Required"
    """Required delays the creation of the workload until the tier is ready. Optional never delays:
    a workload created before the tier is ready stays unwired until its pod template changes. Off
    removes the wiring."""
    engine: EngineName | None = None
    """The engine in the pods. Default: derived from the command and the image."""
    engine_version: f.Version | None = None
    """The engine's version. Default: the image's tag, if it is a version."""
    cache_identity: Annotated[str, f.text(r"^[A-Za-z0-9._/@:-]+$")] | None = None
    """Identity of this workload's cached blocks. Workloads with the same identity share blocks.
    Default: computed from the model, its data types and the engine."""
    packages: ImagePackages | None = None
    """Package versions in the engine's image, if it is not a known image. `kv-offload probe` reads
    them inside the image."""
    model_family: Annotated[list[Family], f.items(8)] = []
    """Kinds of the model's layers and of its use, if neither the model's name nor the engine's
    flags show them (docs/models.md)."""


class ConsumerEntry(ApiModel):
    """A composite that uses the tier."""

    namespace: f.DnsLabel | None = None
    """Namespace of the consumer; absent for a cluster-scoped one."""
    kind: Annotated[str, f.text(most=63)]
    """Kind of the consumer."""
    name: f.DnsName
    """Name of the consumer."""
    identity: Annotated[str, f.text(most=253)] | None = None
    """Its cache identity. Consumers with the same one share blocks."""

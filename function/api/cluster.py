"""InferenceCluster for use without Modelplane: an existing cluster and its tiers.

The shape is Modelplane's where both have a field, so that a manifest moves over unchanged.
"""

from typing import Annotated, Literal

from pydantic import Field

from function.api import fields as f
from function.api.backends import SPECS
from function.api.base import ApiModel, union
from function.api.tier import TierSettings, with_backends


class KubeconfigRef(ApiModel):
    """A Secret that holds a kubeconfig."""

    name: f.DnsName = Field(description="Name of the Secret, in namespace modelplane-system.")
    key: f.SecretKey = Field(
        default="kubeconfig", description="Key of the kubeconfig in the Secret."
    )


class Existing(ApiModel):
    """A cluster that is there already."""

    secret_ref: KubeconfigRef = Field(description="The cluster's kubeconfig.")


class Cluster(ApiModel):
    """Where the cluster comes from."""

    rules = union("source", {"Existing": "existing"})

    source: Literal["Existing"] = Field(description="Existing: a cluster that is there already.")
    existing: Existing | None = Field(default=None, description="Settings of source Existing.")


class _Inline(TierSettings):
    """A tier declared with its cluster; it becomes a KVOffloadTier of its own."""

    name: Annotated[str, f.text(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", most=40)] = Field(
        description="Name by which consumers on this cluster name the tier."
    )


InlineTier = with_backends("InlineTier", _Inline, SPECS)


class InferenceClusterSpec(ApiModel):
    """A cluster, and the tiers on it."""

    machinery = frozenset({"crossplane"})

    cluster: Cluster = Field(description="Where the cluster comes from.")
    kv_offload_tiers: Annotated[
        list[InlineTier],  # type: ignore[valid-type] # a class that is made at run time
        f.items(8, keys=("name",)),
    ] = Field(default=[], description="Tiers on this cluster.")

"""InferenceCluster for use without Modelplane: an existing cluster and its tiers.

Fields that Modelplane has too keep its shape, so that manifests move over unchanged.
"""

from typing import Annotated, Literal

from function.api import fields as f
from function.api.backends import SPECS
from function.api.base import ApiModel, union
from function.api.tier import TierSettings, with_backends


class KubeconfigRef(ApiModel):
    """A Secret that holds a kubeconfig."""

    name: f.DnsName
    key: f.SecretKey = "kubeconfig"


class Existing(ApiModel):
    """An existing cluster."""

    secret_ref: KubeconfigRef


class Cluster(ApiModel):
    """The origin of the cluster."""

    rules = union("source", {"Existing": "existing"})

    source: Literal["Existing"]
    existing: Existing | None = None


class _Inline(TierSettings):
    """A tier that is declared with its cluster; it becomes a KVOffloadTier."""

    name: Annotated[str, f.text(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", most=40)]


InlineTier = with_backends("InlineTier", _Inline, SPECS)


class InferenceClusterSpec(ApiModel):
    """A cluster, and the tiers on it."""

    ignored_keys = frozenset({"crossplane"})

    cluster: Cluster
    kv_offload_tiers: Annotated[
        list[InlineTier],  # type: ignore[valid-type] # a class that is made at run time
        f.items(8, keys=("name",)),
    ] = []

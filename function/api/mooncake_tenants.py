"""`spec.mooncake.tenants`: the share of the pool's memory of each namespace."""

from typing import Annotated

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, FieldRule

# Mooncake's own name of a client without a tenant.
DEFAULT_TENANT = "default"


class MooncakeQuota(ApiModel):
    """The share of one namespace."""

    namespace: f.DnsLabel
    size_gib: Annotated[int, Field(ge=1, le=16777216)]


class MooncakeTenants(ApiModel):
    """A bounded share of the pool's memory for each namespace.

    It provides fairness, not isolation: Mooncake does not authenticate tenants.
    """

    rules = (
        FieldRule(
            f"self.quotas.all(q, q.__namespace__ != '{DEFAULT_TENANT}')",
            f"quotas may not name the namespace {DEFAULT_TENANT}, Mooncake's name of clients "
            "without a tenant: set othersSizeGiB",
            "quotas",
        ),
    )

    quotas: Annotated[list[MooncakeQuota], f.items(32, keys=("namespace",))] = []
    others_size_gib: Annotated[int, Field(ge=1, le=16777216)]

"""`spec.mooncake.tenants`: how much of the pool's memory each namespace may fill."""

from typing import Annotated

from pydantic import Field

from function.api import fields as f
from function.api.base import ApiModel, Rule

# Mooncake's own name of a client that names no tenant.
OTHERS = "default"


class MooncakeQuota(ApiModel):
    """The share of one namespace."""

    namespace: f.DnsLabel = Field(
        description="Namespace of the consumers on the control plane (spec.allowedNamespaces)."
    )
    size_gib: Annotated[int, Field(ge=1, le=16777216)] = Field(
        description="Memory of the pool that its blocks may fill, in GiB."
    )


class MooncakeTenants(ApiModel):
    """A bounded share of the pool's memory for each namespace, so that none fills it for all.

    It is fairness and not isolation: nothing proves a tenant.
    """

    rules = (
        Rule(
            f"self.quotas.all(q, q.__namespace__ != '{OTHERS}')",
            f"quotas may not name the namespace {OTHERS}, which is Mooncake's name for all that "
            "name none: set othersSizeGiB",
            "quotas",
        ),
    )

    quotas: Annotated[list[MooncakeQuota], f.items(32, keys=("namespace",))] = Field(
        default=[],
        description="Namespaces with a share of their own. At its end the namespace's own oldest "
        "blocks make room, and nobody else's. None is taken away while consumers in it use the "
        "tier.",
    )
    others_size_gib: Annotated[int, Field(ge=1, le=16777216)] = Field(
        description="The one share of all other namespaces together, in GiB. Engines that were "
        "wired before the tier had tenants count here too.",
    )

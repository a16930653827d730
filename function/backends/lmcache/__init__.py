"""LMCache: a server on each node, or inside the engine."""

from dataclasses import dataclass

from function.backends.base import Description, Part, Tier
from function.backends.lmcache import connector, facts, server
from function.problems import Problem
from function.wiring.engine import Engine
from function.wiring.injection import Injection


@dataclass(frozen=True)
class LMCache:
    """The backend (see `function.backends.base.Backend`)."""

    name: str = "LMCache"
    field: str = "lmcache"

    def problems(self, tier: Tier) -> list[Problem]:
        return []

    def parts(self, tier: Tier) -> list[Part]:
        return server.parts(tier)

    def describe(self, tier: Tier) -> Description:
        return Description(
            endpoints={"mq": f"tcp://{facts.host(tier)}:{facts.MQ_PORT}"},
            capacity_gib_per_agent=tier.spec.backend_spec.l1.size_gib,
        )

    def inject(self, tier: Tier, engine: Engine) -> Injection:
        return connector.inject(tier, engine)

    def shares_by_model_string(self, tier: Tier) -> bool:
        """A server's key holds the model string and no layout (lmcache.md section 0)."""
        return tier.spec.backend_spec.mode == facts.NODE_SERVER


BACKEND = LMCache()

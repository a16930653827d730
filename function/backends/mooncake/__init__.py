"""Mooncake: a pool of memory that engines use by network, and its master."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from function.api.mooncake import MooncakeSpec
from function.backends import hierarchy_rows
from function.backends.mooncake import (
    checks,
    connector,
    etcd,
    facts,
    master,
    network,
    store,
    upgrade,
)
from function.backends.mooncake.facts import Tier
from function.contract.backend import Defaults, Description, Part, Pinned, Variant
from function.contract.engine import Engine
from function.contract.gate import Question
from function.contract.injection import Injection
from function.contract.recorded import Allowance
from function.kube import manifests as k
from function.problems import Problem


@dataclass(frozen=True)
class Mooncake(Defaults[MooncakeSpec]):
    """The Mooncake backend (see `function.contract.backend.Backend`)."""

    name: str = "Mooncake"
    field: str = "mooncake"
    allows: Allowance = connector.ALLOWS
    rows = hierarchy_rows.of_storage(Path(__file__).with_name("facts.yaml"))

    def variants(self) -> tuple[Variant, ...]:
        """Return one variant: all stores are of one release line."""
        pool = {"store": {"sizeGiB": 1}}
        return (Variant("Mooncake", {"backend": "Mooncake", "mooncake": pool}),)

    def problems(self, tier: Tier) -> list[Problem]:
        return checks.problems(tier)

    def parts(self, tier: Tier) -> list[Part]:
        """Return the tier's objects, none for an entirely external pool."""
        own = [*etcd.parts(tier), *master.parts(tier), *store.parts(tier)]
        if not own:
            return []
        shared = Part("namespace", k.namespace(tier.remote_namespace), keep=True)
        return [shared, *own, *network.policy(tier), *network.monitoring(tier)]

    def describe(self, tier: Tier) -> Description:
        store_spec = tier.settings.store
        return Description(
            endpoints=network.endpoints(tier),
            pod_security=checks.pod_security(tier),
            capacity_gib_per_agent=store_spec.size_gib if store_spec else 0,
            warnings=tuple(checks.warnings(tier)),
            startup_seconds=facts.startup_seconds(tier),
        )

    def gate(self, tier: Tier, engine: Engine) -> Question:
        """Return the gate's question: the engine's row and the tier's Mooncake version."""
        return Question(
            connector.row(engine),
            engine,
            self.rows,
            facts.image(tier).version,
            (connector.pairing(tier),),
        )

    def inject(self, tier: Tier, engine: Engine) -> Injection:
        return connector.inject(tier, engine)

    def tenant(self, tier: Tier, namespace: str) -> str:
        """Return the namespace's tenant, if it has a share."""
        return facts.tenant(tier, namespace)

    def assumes(self, tier: Tier, engine_name: str) -> Mapping[str, str]:
        """Return SGLang's page size, which is one token unless set."""
        return connector.ASSUMES.get(engine_name, {})

    def pinned(self, tier: Tier) -> tuple[Pinned, ...]:
        """Return how engines reach the pool, and what a StatefulSet cannot change."""
        return upgrade.pinned(tier)

    def refuses_change(self, tier: Tier, running: Mapping[str, str]) -> Problem | None:
        """Return the problem of a changed release line under consumers."""
        return upgrade.find_problem(tier, running)


BACKEND = Mooncake()

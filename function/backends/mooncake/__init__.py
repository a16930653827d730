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
from function.contract.backend import Backend, Description, Part
from function.contract.engine import Engine
from function.contract.gate import Question
from function.contract.recorded import Allowance
from function.contract.rules import Alert
from function.facts import Table
from function.kube import manifests as k


@dataclass(frozen=True)
class Mooncake(Backend[MooncakeSpec]):
    """The Mooncake backend (see `function.contract.backend.Backend`)."""

    name: str = "Mooncake"
    field: str = "mooncake"
    allows: Allowance = connector.ALLOWS
    rows = hierarchy_rows.of_storage(Path(__file__).with_name("facts.yaml"))
    alerts = Table(Alert, Path(__file__).with_name("alerts.yaml"), "alerts")

    problems = staticmethod(checks.problems)

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
            spans_clusters=tier.settings.external is not None,
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

    inject = staticmethod(connector.inject)
    tenant = staticmethod(facts.tenant)

    def assumes(self, tier: Tier, engine_name: str) -> Mapping[str, str]:
        """Return SGLang's page size, which is one token unless set."""
        return connector.ASSUMES.get(engine_name, {})

    def metrics_ports(self, tier: Tier) -> tuple[int, ...]:
        return () if tier.settings.external is not None else (tier.settings.ports.admin,)

    pinned = staticmethod(upgrade.pinned)
    refuses_change = staticmethod(upgrade.find_problem)


BACKEND = Mooncake()

"""Mooncake: a pool of memory that engines reach over the network, and a master that knows it."""

from collections.abc import Mapping
from dataclasses import dataclass

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
from function.contract.backend import Description, Part, Tier
from function.contract.engine import Engine
from function.contract.injection import Injection
from function.kube import manifests as k
from function.problems import Problem


@dataclass(frozen=True)
class Mooncake:
    """The backend (see `function.contract.backend.Backend`)."""

    name: str = "Mooncake"
    field: str = "mooncake"

    def problems(self, tier: Tier) -> list[Problem]:
        """Everything wrong with the tier that its schema cannot say."""
        return checks.problems(tier)

    def parts(self, tier: Tier) -> list[Part]:
        """What runs on the cluster; nothing where the whole pool is somebody else's."""
        own = [*etcd.parts(tier), *master.parts(tier), *store.parts(tier)]
        if not own:
            return []
        shared = Part("namespace", k.namespace(tier.remote_namespace), keep=True)
        return [shared, *own, *network.policy(tier), *network.monitoring(tier)]

    def describe(self, tier: Tier) -> Description:
        """Facts for the tier's status."""
        held = facts.spec(tier).store
        return Description(
            endpoints=network.endpoints(tier),
            pod_security=checks.pod_security(tier),
            capacity_gib_per_agent=held.size_gib if held else 0,
            warnings=tuple(checks.warnings(tier)),
        )

    def connector(self, tier: Tier, engine: Engine) -> tuple[str, Engine, str | None]:
        """What the version gate is asked."""
        version = facts.image(tier).version
        return connector.row(engine), engine, str(version) if version else None

    def inject(self, tier: Tier, engine: Engine) -> Injection:
        """What a pod of this engine gets. Raises Refused."""
        return connector.inject(tier, engine)

    def shares_by_model_string(self, tier: Tier) -> bool:
        """False: the cache identity is part of every key."""
        return False

    def refuses_change(self, tier: Tier, running: Mapping[str, str]) -> Problem | None:
        """A change of the release line under consumers (see the protocol)."""
        return upgrade.problem(tier, running)


BACKEND = Mooncake()

"""A small backend with a wheel and variables of its own, and nothing on the cluster."""

from dataclasses import dataclass, replace
from pathlib import Path

from function.api.engines import VLLM
from function.api.sixth import SixthSpec
from function.contract.backend import Backend, Description, Part, Tier
from function.contract.engine import Engine
from function.contract.gate import Question, Rows
from function.contract.injection import Injection
from function.contract.pairings import Pairing
from function.contract.recorded import Allowance
from function.problems import Problem

CONNECTOR = "SimpleCPUOffloadConnector"
ROW = f"{CONNECTOR}/sixth"
ADDRESS, TOKEN = "SIXTH_CACHE_ADDRESS", "SIXTH_CACHE_TOKEN"
ALLOWS = Allowance(
    connectors=frozenset({CONNECTOR}),
    flags=frozenset({"--sixth-cache-gib"}),
    env=frozenset({ADDRESS}),
    secrets=frozenset({TOKEN}),
)
WHEEL = Pairing(
    "sixthcache",
    ">=1.2,<2",
    "backend Sixth",
    "the engine stops at its start",
    "the sixth's release notes",
)


@dataclass(frozen=True)
class Sixth(Backend[SixthSpec]):
    """The backend (see `function.contract.backend.Backend`)."""

    name: str = "Sixth"
    field: str = "sixth"
    allows: Allowance = ALLOWS
    rows = Rows.of(Path(__file__).with_name("facts.yaml"))

    def problems(self, tier: Tier[SixthSpec]) -> list[Problem]:
        """None beside what the schema says."""
        return []

    def parts(self, tier: Tier[SixthSpec]) -> list[Part]:
        """Nothing: the engine keeps blocks itself."""
        return []

    def describe(self, tier: Tier[SixthSpec]) -> Description:
        """Facts for the tier's status."""
        return Description(outlives_pods=False)

    def gate(self, tier: Tier[SixthSpec], engine: Engine) -> Question:
        """The row of its connector, and the wheel that its connector loads."""
        return Question(ROW, engine, self.rows, pairings=(WHEEL,))

    def inject(self, tier: Tier[SixthSpec], engine: Engine) -> Injection:
        """What the engine gets, the memory that it takes, and variables of the sixth's own."""
        size = tier.settings.size_gib * 2**30
        secret = {"secretKeyRef": {"name": "sixth", "key": "token"}}
        injection = Injection(
            backend="Sixth",
            env=(
                {"name": ADDRESS, "value": f"{tier.remote_name}.{tier.remote_namespace}:7000"},
                {"name": TOKEN, "valueFrom": secret},
            ),
            memory_bytes=size,
            labels=tier.wired_labels,
        )
        if engine.name != VLLM:
            flags = {"--sixth-cache-gib": str(tier.settings.size_gib)}
            return replace(injection, flags=flags)
        connector = {
            "kv_connector": CONNECTOR,
            "kv_role": "kv_both",
            "kv_connector_extra_config": {"cpu_bytes_to_use": size},
        }
        return replace(injection, connector=connector)


BACKEND = Sixth()

"""The smallest backend: host memory inside the engine, and nothing on the cluster."""

from dataclasses import dataclass
from pathlib import Path

from function.api.sixth import SixthSpec
from function.contract.backend import Defaults, Description, Part, Tier, Variant
from function.contract.engine import Engine
from function.contract.gate import Question, Rows
from function.contract.injection import Injection
from function.contract.recorded import Allowance
from function.problems import Problem

CONNECTOR = "SimpleCPUOffloadConnector"
ROW = f"{CONNECTOR}/sixth"
ALLOWS = Allowance(connectors=frozenset({CONNECTOR}))


@dataclass(frozen=True)
class Sixth(Defaults[SixthSpec]):
    """The backend (see `function.contract.backend.Backend`)."""

    name: str = "Sixth"
    field: str = "sixth"
    allows: Allowance = ALLOWS
    rows = Rows.of(Path(__file__).with_name("facts.yaml"))

    def variants(self) -> tuple[Variant, ...]:
        """One."""
        return (Variant("Sixth", {"backend": "Sixth", "sixth": {"sizeGiB": 1}}),)

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
        """The row of its connector."""
        return Question(ROW, engine, self.rows)

    def inject(self, tier: Tier[SixthSpec], engine: Engine) -> Injection:
        """The connector, and the memory that it takes."""
        size = tier.settings.size_gib * 2**30
        return Injection(
            backend="Sixth",
            connector={
                "kv_connector": CONNECTOR,
                "kv_role": "kv_both",
                "kv_connector_extra_config": {"cpu_bytes_to_use": size},
            },
            memory_bytes=size,
            labels=tier.wired_labels,
        )


BACKEND = Sixth()

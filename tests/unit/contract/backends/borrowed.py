"""A backend for tests: it borrows the store of another tier, and asks for everything there is.

What no real backend of the moment uses of the contract is used here: a needed tier, a companion, a
port, an assumed flag, engines that must agree.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from function.api.base import ApiModel, ForbiddenField
from function.api.placement import LocalRef
from function.contract.backend import AGENTS, Backend, Description, Need, Part, Tier
from function.contract.engine import Engine
from function.contract.gate import GateRow, Question, Rows
from function.contract.injection import Injection
from function.contract.recorded import Allowance
from function.names import API_VERSION
from function.problems import Problem, Refused
from function.reasons import Reason

PORT = {"name": "kv", "containerPort": 7070, "protocol": "TCP"}
ROWS = Rows((GateRow("ExampleConnector", "vLLM", "tests"),))


class BorrowedSpec(ApiModel):
    """Settings of the test backend."""

    forbids = (ForbiddenField("gpuVisibility", "it looks at no GPU"),)

    store_ref: LocalRef
    """The tier whose store is used."""
    lanes: Annotated[int, Field(ge=1, le=8)] = 1
    """Lanes."""


def _address(tier: Tier[BorrowedSpec]) -> str:
    return str(tier.needed["store"]["status"]["endpoints"]["master"])


class Borrowed(Backend[BorrowedSpec]):
    """The backend (see `function.contract.backend.Backend`)."""

    name = "Borrowed"
    field = "borrowed"
    allows = Allowance(
        flags=frozenset({"--block-size"}),
        env=frozenset({"BORROWED_STORE"}),
        ports=frozenset({"kv"}),
    )

    def needs(self, tier: Tier[BorrowedSpec]) -> tuple[Need, ...]:
        path = "spec.borrowed.storeRef.name"
        name = tier.settings.store_ref.name
        return (Need("store", API_VERSION, "KVOffloadTier", name, tier.namespace, path),)

    def problems(self, tier: Tier[BorrowedSpec]) -> list[Problem]:
        if tier.settings.lanes == 7:
            return [Problem("spec.borrowed.lanes", "must not be 7")]
        return []

    def parts(self, tier: Tier[BorrowedSpec]) -> list[Part]:
        return [
            Part(
                "configmap-lanes",
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": tier.remote_name, "namespace": tier.remote_namespace},
                    "data": {"store": _address(tier)},
                },
                role=AGENTS,
            )
        ]

    def describe(self, tier: Tier[BorrowedSpec]) -> Description:
        return Description(endpoints={"store": _address(tier)}, outlives_pods=False)

    def gate(self, tier: Tier[BorrowedSpec], engine: Engine) -> Question:
        return Question("ExampleConnector", engine, ROWS)

    def inject(self, tier: Tier[BorrowedSpec], engine: Engine) -> Injection:
        return Injection(
            backend=self.name,
            flags={"--block-size": "32"},
            env=({"name": "BORROWED_STORE", "value": _address(tier)},),
            ports=(PORT,),
        )

    def agree(self, tier: Tier[BorrowedSpec], engines: Sequence[Engine]) -> None:
        sizes = {engine.flag("--max-model-len") or "" for engine in engines}
        if len(sizes) > 1:
            raise Refused(
                Reason.CONNECTOR_CONFLICT, f"--max-model-len differs: {', '.join(sorted(sizes))}"
            )

    def assumes(self, tier: Tier[BorrowedSpec], engine_name: str) -> Mapping[str, str]:
        return {"--block-size": "32"}


BACKEND = Borrowed()

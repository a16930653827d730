"""NIXL: transfer from prefill to decode in the engines; an optional preflight."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from function.api.engines import SGLANG, VLLM
from function.api.nixl import NIXLSpec
from function.backends.nixl import agreement, connector, facts, nodes
from function.backends.nixl.facts import Tier
from function.contract.backend import Backend, Description, Pinned
from function.contract.engine import Engine
from function.contract.gate import Question, Rows
from function.contract.recorded import Allowance
from function.contract.rules import Alert
from function.facts import Table
from function.problems import Problem


@dataclass(frozen=True)
class NIXL(Backend[NIXLSpec]):
    """The NIXL backend (see `function.contract.backend.Backend`)."""

    name: str = "NIXL"
    field: str = "nixl"
    allows: Allowance = connector.ALLOWS
    rows = Rows.of(Path(__file__).with_name("facts.yaml"))
    alerts = Table(Alert, Path(__file__).with_name("alerts.yaml"), "alerts")

    def problems(self, tier: Tier) -> list[Problem]:
        return sorted(_problems(tier))

    parts = staticmethod(nodes.parts)

    def describe(self, tier: Tier) -> Description:
        return Description(
            pod_security=nodes.pod_security(tier),
            warnings=tuple(_warnings(tier)),
            outlives_pods=False,
            pairs_phases=True,
            startup_seconds=tier.spec.startup_timeout_seconds,
            startup_hints=(
                ("the pod's log names in one line what does not work on its node",)
                if tier.settings.preflight
                else ()
            ),
        )

    def gate(self, tier: Tier, engine: Engine) -> Question:
        """Return the gate's question: the row of the engine's transport."""
        return Question(
            facts.ROWS.get(engine.name, "NIXL"),
            engine,
            self.rows,
            notes=tuple(_notes(tier, engine)),
        )

    inject = staticmethod(connector.inject)

    def agree(self, tier: Tier, engines: Sequence[Engine]) -> None:
        """Raise Refused where prefill and decode engines are incompatible."""
        agreement.check(engines)

    def pinned(self, tier: Tier) -> tuple[Pinned, ...]:
        """Return the settings that prefill and decode must share while one is rolled."""
        spec = tier.settings
        why = "running engines would be incompatible with new ones"
        return (
            Pinned("spec.nixl.backend", spec.backend, why),
            Pinned("spec.nixl.transfer", spec.transfer, why),
        )


def _problems(tier: Tier) -> Iterator[Problem]:
    spec, rdma = tier.settings, tier.spec.rdma
    if spec.rdma_claim_template_name is not None and rdma.source != "DRA":
        yield Problem(
            "spec.nixl.rdmaClaimTemplateName", "may only be set with spec.rdma.source DRA"
        )
    if spec.preflight is not None and spec.preflight.claim_device and rdma.source == "None":
        yield Problem("spec.nixl.preflight.claimDevice", "needs spec.rdma, which names the device")
    if rdma.devices and spec.backend != "UCX":
        yield Problem("spec.rdma.devices", "may only be set with spec.nixl.backend UCX")


def _warnings(tier: Tier) -> Iterator[str]:
    spec, rdma = tier.settings, tier.spec.rdma
    if rdma.source == "None":
        yield (
            "spec.rdma.source is None: blocks use TCP, except in pods with their own RDMA devices."
        )
    if rdma.source == "DRA" and spec.rdma_claim_template_name is None:
        yield "spec.nixl.rdmaClaimTemplateName is not set: pods must claim their devices."
    if rdma.source != "None" or spec.backend != "UCX":
        yield "RDMA is not yet tested on a device."
    if spec.transfer == "Push":
        yield "NixlPushConnector is not yet tested with a transfer."


def _notes(tier: Tier, engine: Engine) -> Iterator[str]:
    if engine.name == VLLM and facts.role(engine) == facts.BOTH:
        yield (
            "This engine is neither prefill nor decode, so its role is kv_both, which vLLM "
            "deprecates. Blocks move only if a router names the other engine in each request"
        )
    if engine.name == SGLANG and tier.settings.telemetry is not None:
        yield "spec.nixl.telemetry works with vLLM only: SGLang exports no NIXL counters"


BACKEND = NIXL()

"""NIXL: transfer from prefill to decode, inside the engines. On the cluster at most a preflight."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from function.api.engines import SGLANG, VLLM
from function.api.nixl import NIXLSpec
from function.backends.nixl import agreement, connector, facts, nodes
from function.backends.nixl.facts import Tier
from function.contract.backend import Defaults, Description, Part, Pinned, Variant
from function.contract.engine import Engine
from function.contract.gate import Question, Rows
from function.contract.injection import Injection
from function.contract.recorded import Allowance
from function.problems import Problem


@dataclass(frozen=True)
class NIXL(Defaults[NIXLSpec]):
    """The backend (see `function.contract.backend.Backend`)."""

    name: str = "NIXL"
    field: str = "nixl"
    allows: Allowance = connector.ALLOWS
    rows = Rows.of(Path(__file__).with_name("facts.yaml"))

    def kinds(self) -> tuple[Variant, ...]:
        """One. It keeps no blocks, so that nobody chooses it in the place of another."""
        return (Variant("NIXL", {"backend": "NIXL", "nixl": {}}),)

    def problems(self, tier: Tier) -> list[Problem]:
        """Everything wrong with the tier that its schema cannot say."""
        return sorted(_problems(tier))

    def parts(self, tier: Tier) -> list[Part]:
        """NIXL is a library in the engines: nothing, or what looks at each node."""
        return nodes.parts(tier)

    def describe(self, tier: Tier) -> Description:
        """Facts for the tier's status."""
        return Description(
            pod_security=nodes.pod_security(tier),
            warnings=tuple(_warnings(tier)),
            outlives_pods=False,
            startup_seconds=tier.spec.startup_timeout_seconds,
            startup_hints=(
                ("the pod's log says in one line what does not work on its node",)
                if tier.settings.preflight
                else ()
            ),
        )

    def gate(self, tier: Tier, engine: Engine) -> Question:
        """The row of the engine's transport."""
        return Question(
            facts.ROWS.get(engine.name, "NIXL"),
            engine,
            self.rows,
            notes=tuple(_notes(tier, engine)),
        )

    def inject(self, tier: Tier, engine: Engine) -> Injection:
        """What a pod of this engine gets. Raises Refused."""
        return connector.inject(tier, engine)

    def agree(self, tier: Tier, engines: Sequence[Engine]) -> None:
        """Whether prefill and decode understand each other. Raises Refused."""
        agreement.check(engines)

    def pinned(self, tier: Tier) -> tuple[Pinned, ...]:
        """What both halves of a pair must have, of which one may be rolled before the other."""
        spec = tier.settings
        why = "engines that run would not understand those that are started anew"
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
        yield Problem(
            "spec.nixl.preflight.claimDevice", "needs spec.rdma, which says which device it is"
        )
    if rdma.devices and spec.backend != "UCX":
        yield Problem("spec.rdma.devices", "may only be set with spec.nixl.backend UCX")


def _warnings(tier: Tier) -> Iterator[str]:
    spec, rdma = tier.settings, tier.spec.rdma
    if rdma.source == "None":
        yield (
            "spec.rdma.source is None: blocks go by TCP, except in pods that bring RDMA devices of"
            " their own."
        )
    if rdma.source == "DRA" and spec.rdma_claim_template_name is None:
        yield "spec.nixl.rdmaClaimTemplateName is not set: pods must claim their devices."
    if rdma.source != "None" or spec.backend != "UCX":
        yield "RDMA is proven on no device by us."
    if spec.transfer == "Push":
        yield "NixlPushConnector is proven by no transfer here."


def _notes(tier: Tier, engine: Engine) -> Iterator[str]:
    if engine.name == VLLM and facts.role(engine) == facts.BOTH:
        yield (
            "nothing says that this engine is prefill or decode, so it is both (kv_both, which vLLM"
            " deprecates): blocks move only where a router names the other engine in each request"
        )
    if engine.name == SGLANG and tier.settings.telemetry is not None:
        yield "spec.nixl.telemetry is vLLM's: NIXL's counters of SGLang are not exported"


BACKEND = NIXL()

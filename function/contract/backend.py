"""What a backend is: three questions, and the registry.

A backend answers: what is wrong with this tier (`problems`), what runs on the cluster (`parts`),
and what a pod of this engine gets (`inject`). Nothing outside a backend's own module asks which
backend it is. Backends are pure: they see the validated spec and plain facts, never protobuf.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from function.api.tier import KVOffloadTierSpec
from function.contract.engine import Engine
from function.contract.injection import Injection
from function.problems import Problem

Manifest = dict[str, Any]

# Roles of a part: which of the tier's conditions its readiness feeds.
SUPPORT = "Support"
CONTROL_PLANE = "ControlPlane"
AGENTS = "Agents"


@dataclass(frozen=True)
class Tier:
    """A tier on one cluster, as backends see it.

    `name`, `namespace`: the KVOffloadTier's own. `remote_name`: the stable DNS label (at most 40
    characters) that everything of this tier on the workload cluster is named after.
    `spec`: validated, every default filled in. `remote_namespace`: `spec.namespace`.
    """

    name: str
    namespace: str
    remote_name: str
    spec: KVOffloadTierSpec

    @property
    def remote_namespace(self) -> str:
        return self.spec.namespace

    @property
    def labels(self) -> dict[str, str]:
        """Labels of everything composed for this tier (recommended Kubernetes labels)."""
        return {
            "app.kubernetes.io/name": "kv-offload",
            "app.kubernetes.io/instance": self.remote_name,
            "app.kubernetes.io/managed-by": "function-kv-offload",
        }

    @property
    def wired_labels(self) -> dict[str, str]:
        """The label that wired engine pods carry, and that NetworkPolicies select."""
        return {"modelplane.ai/kv-offload": self.remote_name}


@dataclass(frozen=True)
class Part:
    """One manifest for the workload cluster; the composer puts it into an Object.

    `key`: kind and purpose ("daemonset-agent"), never an index: it is the composed resource's key.
    `role`: SUPPORT, CONTROL_PLANE or AGENTS. `ready`: a CEL query over `object` for the Object's
    readiness, or "" when existing is being ready. `watch`: let the provider watch it (only for the
    one to three workloads whose readiness matters: each watch event costs a circuit-breaker token).
    `keep`: composed without the Delete policy (the Namespace that tiers share, data that survives).
    """

    key: str
    manifest: Manifest
    role: str = SUPPORT
    ready: str = ""
    watch: bool = False
    keep: bool = False


@dataclass(frozen=True)
class Description:
    """What a tier's status says beyond its parts.

    `endpoints`: {name: address}. `pod_security`: the strictest Pod Security level that admits the
    tier's own pods (privileged, baseline, restricted). `capacity_gib_per_agent`: what one ready
    agent registers (0: the agents hold nothing). `warnings`: true today and worth knowing
    (deprecations, what is unproven); they go into the Accepted condition's message.
    `outlives_pods`: whether cached blocks survive the engine's pods: then the engine's version is
    part of the cache identity, since a new version may read another's blocks.
    """

    endpoints: Mapping[str, str] = field(default_factory=dict)
    pod_security: str = "restricted"
    capacity_gib_per_agent: int = 0
    warnings: Sequence[str] = ()
    outlives_pods: bool = True


class Backend(Protocol):
    """One offload backend. `name`: the value of `spec.backend`; `field`: its object's name."""

    name: str
    field: str

    def problems(self, tier: Tier) -> list[Problem]:
        """Everything wrong with the tier that its schema cannot say, with paths from `spec`."""
        ...

    def parts(self, tier: Tier) -> list[Part]:
        """What runs on the cluster, in the order it is applied. Empty: nothing but wiring."""
        ...

    def describe(self, tier: Tier) -> Description:
        """Facts for the tier's status."""
        ...

    def connector(self, tier: Tier, engine: Engine) -> tuple[str, Engine, str | None]:
        """What the version gate is asked (`function.contract.gate.check`): the connector's row, the
        engine, and the version of the tier's own package, None when it is unknown."""
        ...

    def inject(self, tier: Tier, engine: Engine) -> Injection:
        """What a pod of this engine gets. Raises Refused with a reason of the closed list.

        The engine has passed the version gate; `engine.features` says what its version has.
        """
        ...

    def shares_by_model_string(self, tier: Tier) -> bool:
        """Whether cached blocks are told apart by the model *string* only.

        Then two consumers of the tier with one model string and different or unknown cache
        identities are refused (CacheIdentityConflict); where the key has a place for the identity,
        `inject` puts it there.
        """
        ...

    def refuses_change(self, tier: Tier, running: Mapping[str, str]) -> Problem | None:
        """Why this valid tier cannot take the place of the one that runs, or None.

        Asked only while consumers use the tier; what runs is then kept. `running`: {part's key:
        the label app.kubernetes.io/version of the manifest composed before}, where it has one.
        """
        ...

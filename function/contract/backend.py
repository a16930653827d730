"""What a backend is, and what it is asked.

A backend answers: what is wrong with this tier (`problems`), what else it needs (`needs`), what
runs on the cluster (`parts`), what a pod of this engine gets (`inject`), and whether a set of
engines goes together (`agree`). Nothing outside a backend's own module asks which backend it is.
Backends are pure: they see the validated spec and plain facts, never protobuf.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

from function import names
from function.api.base import ApiModel
from function.api.tier import TierSpec
from function.contract.engine import Engine
from function.contract.gate import Question, Rows
from function.contract.injection import Injection
from function.contract.recorded import Allowance
from function.contract.rules import Alert
from function.problems import Problem

Manifest = dict[str, Any]

# The type of a backend's own settings, `spec.<field>`.
Settings = TypeVar("Settings", bound=ApiModel, covariant=True)
OfSettings = TypeVar("OfSettings", bound=ApiModel, contravariant=True)

# The namespace of a model's engines on the workload cluster, and the name under which they serve.
ModelName = tuple[str, str]

# Roles of a part: which of the tier's conditions its readiness feeds.
SUPPORT = "Support"
CONTROL_PLANE = "ControlPlane"
AGENTS = "Agents"
OBSERVER = "Observer"  # none: it says whether a tier serves, not whether it is ready


@dataclass(frozen=True)
class Need:
    """Another object of the control plane that a tier's plan depends on.

    `name`: what the backend calls it, the key of `Tier.needed`. `path`: the field of the tier that
    names it, for messages. A KVOffloadTier that is needed is marked as used, like by any consumer.
    """

    name: str
    api_version: str
    kind: str
    object_name: str
    namespace: str
    path: str


@dataclass(frozen=True)
class Tier(Generic[Settings]):
    """A tier on one cluster, as backends see it.

    `name`, `namespace`: the KVOffloadTier's own. `remote_name`: the stable DNS label (at most 40
    characters) that everything of this tier on the workload cluster is named after. `spec`: what
    every tier has, validated, every default filled in. `settings`: the backend's own object of it.
    `needed`: the objects that `Backend.needs` named, by the need's name; absent ones are left out.
    `quarantined`: the models whose blocks of before nobody may read, with how many times.
    """

    name: str
    namespace: str
    remote_name: str
    spec: TierSpec
    settings: Settings
    needed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    quarantined: Mapping[ModelName, int] = field(default_factory=dict)

    @property
    def remote_namespace(self) -> str:
        """`spec.namespace`: where the tier's own things are on the workload cluster."""
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
        return {names.LABEL_WIRED: self.remote_name}


@dataclass(frozen=True)
class Part:
    """One manifest for the workload cluster; the composer puts it into an Object.

    `key`: kind and purpose ("daemonset-agent"), never an index: it is the composed resource's key.
    `role`: SUPPORT, CONTROL_PLANE, AGENTS or OBSERVER. `ready`: a CEL query over `object` for the
    Object's readiness, or "" when existing is being ready. `watch`: let the provider watch it (only
    for the few whose changes matter: each watch event costs a circuit-breaker token).
    `keep`: composed without the Delete policy (the Namespace that tiers share, data that survives).
    `namespace_override`: the engines' namespace, for a part that needs a volume of theirs; "" for
    the tier's own. Such a part has no access to a node.
    """

    key: str
    manifest: Manifest
    role: str = SUPPORT
    ready: str = ""
    watch: bool = False
    keep: bool = False
    namespace_override: str = ""


@dataclass(frozen=True)
class Description:
    """What a tier's status says beyond its parts.

    `endpoints`: {name: address}. `pod_security`: the strictest Pod Security level that admits the
    tier's own pods (privileged, baseline, restricted). `capacity_gib_per_agent`: what one ready
    agent registers (0: the agents hold nothing). `warnings`: true today and worth knowing
    (deprecations, what is unproven); they go into the Accepted condition's message.
    `outlives_pods`: whether cached blocks survive the engine's pods: then the engine's version is
    part of the cache identity, since a new version may read another's blocks. `store`: what decides
    a stored block's bytes and is in no key, directory or prefix; it is part of the identity.
    `spans_clusters`: engines of other clusters may reach the same store. `one_identity`: it serves
    engines of a single cache identity. `startup_seconds`: how
    long an agent may take to start. `startup_hints`: what usually keeps one from it.
    `colocated_with_engines`: an engine cannot do without an agent on its own node. `pairs_phases`:
    it moves blocks from prefill to decode engines. `hides_hits`: some engines count its hits with
    those of their own cache.
    """

    endpoints: Mapping[str, str] = field(default_factory=dict)
    pod_security: str = "restricted"
    capacity_gib_per_agent: int = 0
    warnings: Sequence[str] = ()
    outlives_pods: bool = True
    store: str = ""
    spans_clusters: bool = False
    one_identity: bool = False
    startup_seconds: int = 300
    startup_hints: Sequence[str] = ()
    colocated_with_engines: bool = False
    pairs_phases: bool = False
    hides_hits: bool = False


@dataclass(frozen=True)
class Pinned:
    """A setting that cannot change under what runs.

    `path`: of the field, from `spec`. `value`: as text. `why`: ends the sentence "cannot change:".
    `always`: also while nobody uses the tier, since Kubernetes itself cannot apply the change, or
    what is stored would be mixed up. `unset`: the value of nothing, which may become any other; ""
    where none is. `namespaces`: the value is a list of them with spaces between, which may grow
    (`unset`: of none); none is taken away that has consumers. "" is no list, which asks nothing;
    the next one must have those of the last that still have consumers. `may`: the value is a list
    with `SEPARATOR` between, which may "lose" or "gain" some; `widest`: what every such list may
    become.
    """

    SEPARATOR: ClassVar[str] = ", "
    LONGEST: ClassVar[int] = 512  # characters of a value that the status takes; the XRD's limit

    path: str
    value: str
    why: str
    always: bool = False
    unset: str = ""
    namespaces: bool = False
    may: Literal["", "lose", "gain"] = ""
    widest: str = ""

    def admits(self, before: str) -> bool:
        """Return whether this value may replace another one that is in use."""
        now, then = (set(each.split(self.SEPARATOR)) for each in (self.value, before))
        allowed = {"": False, "lose": now <= then, "gain": now >= then}[self.may]
        return allowed or (bool(self.may) and self.value == self.widest)


class Backend(Protocol[OfSettings]):
    """One offload backend. `name`: the value of `spec.backend`; `field`: its object's name.

    `allows`: what it ever puts into pods: records, which others may write, are held to it. What
    few backends have an answer of their own to is answered here.
    """

    name: str
    field: str
    allows: Allowance
    rows: Rows = Rows()
    alerts: Sequence[Alert] = ()

    def problems(self, tier: Tier[OfSettings]) -> list[Problem]:
        """Everything wrong with the tier that its schema cannot say, with paths from `spec`."""
        ...

    def needs(self, tier: Tier[OfSettings]) -> tuple[Need, ...]:
        """Return what else the tier's plan depends on. Asked first, without `tier.needed`."""
        return ()

    def parts(self, tier: Tier[OfSettings]) -> list[Part]:
        """Return what runs on the cluster, in the order of applying. Empty: nothing but wiring."""
        ...

    def describe(self, tier: Tier[OfSettings]) -> Description:
        """Facts for the tier's status."""
        ...

    def gate(self, tier: Tier[OfSettings], engine: Engine) -> Question:
        """Return the question for the version gate (`function.contract.gate.check`)."""
        ...

    def inject(self, tier: Tier[OfSettings], engine: Engine) -> Injection:
        """Return what a pod of this engine gets. Raise Refused with a reason of the closed list.

        The engine has passed the version gate; `engine.features` says what its version has.
        """
        ...

    def agree(self, tier: Tier[OfSettings], engines: Sequence[Engine]) -> None:
        """Whether engines that are wired together go together (prefill and decode, say).

        Raises Refused. `engines`: those of one composite that name this tier, each wired already.
        """
        return None

    def assumes(self, tier: Tier[OfSettings], engine_name: str) -> Mapping[str, str]:
        """Return flags that wiring sets where they are absent: {"--page-size": "64"}.

        A user's own equal flag is then no difference of the cache identity.
        """
        return {}

    def tenant(self, tier: Tier[OfSettings], namespace: str) -> str:
        """Return the part of the tier for consumers in `namespace`, "" where all share it.

        Blocks of two tenants never meet: it is part of the cache identity. `namespace`: the
        consumer's own on the control plane, "" of a cluster-scoped one.
        """
        return ""

    def metrics_ports(self, tier: Tier[OfSettings]) -> tuple[int, ...]:
        """Return the ports at which the tier's own processes count blocks, none by default."""
        return ()

    def pinned(self, tier: Tier[OfSettings]) -> tuple[Pinned, ...]:
        """Return what running pods do not survive: refused while consumers use the tier."""
        return ()

    def refuses_change(self, tier: Tier[OfSettings], running: Mapping[str, str]) -> Problem | None:
        """Why this valid tier cannot take the place of the one that runs, or None.

        Asked only while consumers use the tier; what runs is then kept. `running`: {part's key:
        the label app.kubernetes.io/version of the manifest composed before}, where it has one.
        """
        return None


# A tier, of whichever backend: what only its own backend reads is in `settings`.
AnyTier = Tier[ApiModel]
# Any: backends of different settings stand side by side, each handed tiers of its own only.
AnyBackend = Backend[Any]

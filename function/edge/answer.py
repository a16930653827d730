"""What a composer answers, as plain data. `function.edge.response` turns it into protobuf."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"

# Response TTLs in seconds. Required resources are not watched by core 2.3, so the TTL is the worst
# delay of any cross-composite fact; 0 would mean "never again".
TTL_UNSETTLED = 10
TTL_WITH_REQUIREMENTS = 300
# Where core watches them (Call.is_watched); they bound what a circuit breaker drops that closes
# unseen. The second: while a consumer waits for its tier.
TTL_WATCHED = 900
TTL_WATCHED_UNSETTLED = 30
TTL_SETTLED = 3600
# Where time alone will change the answer (Call.has_passed): a start that takes too long.
TTL_TIMED = 60
# While core's circuit breaker is open it drops the events that would tell of a change; it opens at
# nearly every creation and stays open for five minutes.
TTL_UNRESPONSIVE = 30


@dataclass(frozen=True)
class Condition:
    """A condition of the composite. `status`: True, False or Unknown."""

    type: str
    status: str
    reason: str
    message: str = ""


@dataclass(frozen=True)
class Requirement:
    """A required resource: by `name`, or by `labels` ({} and no name would mean all of the kind).

    `namespace`: always given for namespaced kinds; None asks over all namespaces (by label only)
    or for a cluster-scoped kind.
    """

    api_version: str
    kind: str
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    namespace: str | None = None


@dataclass(frozen=True)
class Composed:
    """A composed resource. `ready`: None leaves readiness to others (core or a later step)."""

    manifest: Mapping[str, Any]
    ready: bool | None = None


@dataclass
class Answer:
    """The outcome of one call.

    `resources` are set, `patched` replace only the manifest of what an earlier step desires (its
    readiness stays), `removed` are taken out of desired; all else passes through as it came.
    `status` is merged into the composite's (own kinds only). `ready`: the composite's own flag.
    `fatal` keeps everything that runs; the conditions of the same response are kept too.
    `warnings` are results of severity Warning. `refusals`: reasons for the metrics.
    `bugs`: tracebacks of what failed for one workload alone. `asks_for_more`: not everything in
    `requirements` came with the call.
    """

    resources: dict[str, Composed] = field(default_factory=dict)
    patched: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    conditions: list[Condition] = field(default_factory=list)
    requirements: dict[str, Requirement] = field(default_factory=dict)
    schemas: dict[str, tuple[str, str]] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    ready: bool | None = None
    ttl: int = TTL_SETTLED
    fatal: str = ""
    warnings: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    bugs: list[str] = field(default_factory=list)
    asks_for_more: bool = False

"""What Prometheus computes and watches for a tier: the rows of rules.yaml files.

In an expression `<tier>` stands for the tier's name on its cluster, with which the names of its
pods begin; `<engines>` for what selects the series of its scraped engines; `<labels>` for the
labels of its records.
"""

from dataclasses import dataclass
from enum import StrEnum

ENGINES = "engines"
CANARY = "canary"


class Severity(StrEnum):
    """How an alert is routed: critical wakes somebody, warning is a ticket, info is a dashboard."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True)
class RecordedSeries:
    """A series under a name of ours, the same for every engine. `text`: for the runbook."""

    name: str
    expression: str
    text: str


@dataclass(frozen=True)
class Alert:
    """One alert. Its runbook entry has its name.

    `duration`: how long it must hold. `of`: only where the tier has it: a kind, component or
    container of its workloads, a strategy of their updates, ENGINES that are scraped, or a CANARY.
    """

    name: str
    expression: str
    duration: str
    severity: Severity
    summary: str
    of: str = ""

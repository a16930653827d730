"""docs/reasons.md: every reason of `KVOffloadReady`, with its fix and an example."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from function.facts import Table
from function.reasons import Reason
from kv_offload.docs.markdown import HEADER, page


class Pods(StrEnum):
    """What becomes, for a reason, of pods that were never created before."""

    WIRED = "wired"  # they carry the tier's wiring
    UNWIRED = "unwired"  # they run without it
    HELD = "held back"  # under `policy: Required` their first creation waits


@dataclass(frozen=True)
class Explanation:
    """`name` is the condition's reason; `meaning`, `fix` and `example` are for people.

    `ready` is the status of the `KVOffloadReady` condition that goes with it; `pods` says what
    becomes of pods that were never created before (pods once wired stay wired, whatever happens).
    """

    name: Reason
    meaning: str
    fix: str
    example: str = ""
    ready: bool = False
    pods: Pods = Pods.HELD


REASONS = {
    row.name: row for row in Table(Explanation, Path(__file__).with_suffix(".yaml"), "reasons")
}


def text() -> str:
    """Return the page."""
    out = [
        HEADER.format(source="kv_offload/docs/reasons.yaml"),
        "# What do the reasons of KVOffloadReady mean?",
        "",
        "A consumer's condition `KVOffloadReady` has one of these reasons, and so has the label "
        "`reason` of the metrics. The list is closed; only `Wired` is True. Pods that are wired "
        "stay wired, whatever the reason. Pods that were never created are held back under "
        "`policy: Required` and created unwired under `Optional`. The reasons marked *unwired* "
        "never hold pods back.",
        "",
        "Reasons of a tier's own conditions are in the "
        "[runbook](runbook.md#by-symptom), those of a fleet's `RolledOut` in "
        "[how to change a fleet](change-a-fleet.md#what-rolledout-says).",
    ]
    for reason in REASONS.values():
        mark = f"*{reason.pods}*: " if reason.pods is Pods.UNWIRED else ""
        out += ["", f"## {reason.name}", "", f"{mark}{reason.meaning} **Fix:** {reason.fix}"]
        out += ["", "```text", reason.example, "```"]
    return page(out)

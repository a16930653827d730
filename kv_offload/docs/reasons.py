"""docs/reasons.md: every reason of `KVOffloadReady`, with its fix and an example."""

from function.reasons import REASONS
from kv_offload.docs.markdown import HEADER, page, table


def text() -> str:
    """Return the page."""
    out = [
        HEADER.format(source="function/reasons.py"),
        "# What do the reasons of KVOffloadReady mean?",
        "",
        "A consumer's condition `KVOffloadReady` has one of these reasons, and so has the label "
        "`reason` of the metrics. The list is closed. Wired pods stay wired, whatever the reason. "
        "*Pods* says what happens to pods that were never created, under `policy: Required`; "
        "under `Optional` they are created unwired instead of held back.",
        "",
        *table(
            ("Reason", "Ready", "Pods"),
            ((f"[{r.name}](#{r.name.lower()})", str(r.ready), r.pods) for r in REASONS.values()),
        ),
    ]
    for reason in REASONS.values():
        out += ["", f"## {reason.name}", "", f"{reason.meaning} **Fix:** {reason.fix}"]
        out += ["", "```text", reason.example, "```"]
    return page(out)

"""docs/advisories.md: the ledger of known faults, and what is done about each."""

from collections.abc import Iterator

from function.contract.advisories import ADVISORIES, Action, Advisory
from kv_offload.docs.markdown import HEADER, about, code, page, table

_DONE = {
    Action.REFUSE: "Refused",
    Action.CAUTION: "Wired, and the condition says it",
    Action.SETTING: "Wired with a setting that avoids it",
    Action.ELSEWHERE: "Refused by another rule",
    Action.NONE: "Not visible to the function",
}


def text() -> str:
    """Return the page."""
    out = [
        HEADER.format(source="function/facts/advisories.yaml"),
        "# Which known faults does the gate keep me from?",
        "",
        *about("advisories"),
        "",
        "Refusals and warnings name the entry. Evidence: *ran* by this project, *read* in the "
        "release, *reported* upstream.",
    ]
    for action, title in _DONE.items():
        rows = [_row(advisory) for advisory in ADVISORIES if advisory.action is action]
        head = ("Advisory", "Where", "What happens", "What to do", "Fixed", "Evidence", "Sources")
        out += ["", f"## {title}", "", *table(head, rows)]
    return page(out)


def _row(advisory: Advisory) -> tuple[str, ...]:
    read = "" if advisory.source == "the references" else f": {advisory.source}"
    return (
        advisory.id,
        "; ".join(_where(advisory)),
        f"{advisory.effect.value}: {advisory.summary}",
        advisory.advice or advisory.handled,
        advisory.fixed,
        f"{advisory.evidence.value}{read}",
        ", ".join(advisory.references),
    )


def _where(advisory: Advisory) -> Iterator[str]:
    """Yield each condition that an engine must meet."""
    if advisory.connectors:
        yield ", ".join(map(code, advisory.connectors))
    if advisory.engine:
        yield advisory.engine
    for affected in advisory.affected:
        place = " of the tier" if affected.place == "tier" else ""
        yield " ".join(filter(None, (affected.package + place, code(affected.versions))))
    conditions = (
        ("models", advisory.families),
        ("on", advisory.accelerators),
        ("level", sorted(advisory.levels)),
        ("tier's mode", sorted(advisory.modes)),
        ("with", sorted(advisory.other_connectors)),
        ("flag", advisory.flags),
    )
    for what, values in conditions:
        if values:
            yield f"{what} {' or '.join(values)}"

"""docs/advisories.md: the ledger of known faults, and what is done about each."""

import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date

from function.contract.advisories import ADVISORIES, Advisory, Treatment
from function.facts import FOLDER, document
from kv_offload.docs.markdown import HEADER, about, code, page

_FEW = 3
# The range in front says it.
_BEFORE = re.compile(r"^before (vLLM|SGLang) [0-9.]+[0-9],? |,? before (vLLM|SGLang) [0-9.]+[0-9]$")
_DONE = {
    Treatment.REFUSE: "Refused",
    Treatment.CAUTION: "Wired, and the condition says it",
    Treatment.SETTING: "Wired with a setting that avoids it",
    Treatment.ELSEWHERE: "Refused by another rule",
    Treatment.NONE: "Not visible to the function",
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
        "release, *reported* upstream. Where no release is named as the one that fixes it, it is "
        "open. From an "
        f"upstream report to its row: {_days()} days (median).",
    ]
    for action, title in _DONE.items():
        found = [advisory for advisory in ADVISORIES if advisory.action is action]
        out += ["", f"## {title}", "", *map(_line, found)]
    return page(out)


def _days() -> int:
    """Return the median of days from an upstream report to its row."""
    found = document(FOLDER / "advisories.yaml")
    reported = [row for row in found.sections["advisories"] if row.get("published")]
    added = (date.fromisoformat(row.get("date", str(found.date))) for row in reported)
    days = (d - date.fromisoformat(r["published"]) for d, r in zip(added, reported, strict=True))
    return round(statistics.median(each.days for each in days))


def _line(advisory: Advisory) -> str:
    """Return an advisory: where it is, what happens, what to do, how it is known."""
    told = _advice(advisory)
    return (
        f"- **{advisory.id}**, {advisory.effect.value} ({'; '.join(_where(advisory))}): "
        f"{_BEFORE.sub('', advisory.summary)}.{told and f' {told}.'} "
        f"*{advisory.evidence.value}*: {_references(advisory.references)}"
    )


def _references(references: Sequence[str]) -> str:
    """Return the references; a project is named once for all that follow each other."""
    named, out = "", []
    for reference in references:
        project, _, thread = reference.partition(" ")
        out.append(thread if thread and project == named else reference)
        named = project
    return ", ".join(out)


def _advice(advisory: Advisory) -> str:
    """Return what to do, with the release that fixes it where nothing else names that."""
    told = advisory.advice or advisory.handled
    ranges = " ".join(affected.versions for affected in advisory.affected)
    release = advisory.fixed.removesuffix(".0")
    if advisory.fixed == "open" or release in told or f"<{release}" in ranges:
        return told
    return f"{told}. Fixed: {advisory.fixed}" if told else f"Fixed: {advisory.fixed}"


def _names(connectors: Sequence[str]) -> Iterator[str]:
    """Yield connectors; more than three variants `BASE/...` share one entry."""
    bases = Counter(name.partition("/")[0] for name in connectors if "/" in name)
    many = {base for base, count in bases.items() if count > _FEW}
    found = (name.partition("/")[0] for name in connectors)
    yield from dict.fromkeys(
        code(f"{base}/*" if base in many and "/" in name else name)
        for base, name in zip(found, connectors, strict=True)
    )


def _where(advisory: Advisory) -> Iterator[str]:
    """Yield each condition that an engine must meet."""
    if advisory.connectors:
        yield ", ".join(_names(advisory.connectors))
    if advisory.engine and advisory.engine.lower() not in {a.package for a in advisory.affected}:
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
        ("without", advisory.without),
    )
    for what, values in conditions:
        if values:
            yield f"{what} {' or '.join(values)}"

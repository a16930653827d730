"""Condense what is known of all engines into one small document that changes seldom.

Counts and shares are in steps, and shares are renewed now and then only: every change of the
document calls the tier's function, and some changes call every consumer of the tier.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from .judge import (
    BAD,
    HITTING,
    IDLE,
    NO_TRANSFERS,
    SILENT,
    STATES,
    STORING,
    WRONG_BLOCKS,
    Memory,
    transfer_nothing,
)

Document = dict[str, Any]
FORMAT = 1
ROWS = 32  # models that are named
BAD_SHARE = 10  # percent of the engines that make a model's, or the tier's, state theirs
STAYS = 8  # percent below which it is no longer theirs
COUNTS = (1, 2, 10, 100, 1_000)
SHARES = (0, 1, 10, 25, 50, 75, 90)  # percent
_SHARES = [str(step) for step in SHARES]
NEAR = 2  # percentage points below a step at which a share falls back
ENOUGH = 20_000  # prompt tokens that make a share of hits


@dataclass(frozen=True)
class Engine:
    """One engine: where it is, what it serves and what is known of it.

    `canary`: what the canary says of its model; "" without a canary.
    """

    namespace: str
    address: str
    kind: str
    model: str
    memory: Memory
    canary: str = ""


def with_silent_pairs(engines: list[Engine]) -> list[Engine]:
    """Return the engines; those with traffic of a model that hands nothing over are silent."""
    models = _by_model(engines)
    off = {model for model, group in models.items() if transfer_nothing([e.memory for e in group])}
    return [
        replace(one, memory=replace(one.memory, state=SILENT, cause=NO_TRANSFERS))
        if (one.namespace, one.model) in off and one.memory.state == STORING
        else one
        for one in engines
    ]


def report(engines: Iterable[Engine], before: Document, shares: dict[str, str]) -> Document:
    """Return the document. `before`: the last one. `shares`: `hits` and `used`, in steps.

    A row for each model in each namespace, the hardest first. Engines that come and go, and those
    between two states, change nothing but steps.
    """
    engines = list(engines)
    models = _by_model(engines)
    last = {(row.get("namespace"), row.get("model")): row for row in before.get("models", ())}
    rows = [_row(group, last.get(key, {})) for key, group in sorted(models.items())]
    rows.sort(key=lambda row: STATES.index(row["state"]))
    # Without a bad model nobody could say what is bad.
    stays = before.get("state", "") if any(row["state"] in BAD for row in rows) else ""
    return {
        "format": FORMAT,
        "state": _worst(Counter(one.memory.state for one in engines), stays),
        "engines": count(len(engines), before.get("engines", "")),
        "models": _fair(rows),
        **shares,
    }


def _by_model(engines: Iterable[Engine]) -> dict[tuple[str, str], list[Engine]]:
    """Return the engines of each model in each namespace."""
    models: dict[tuple[str, str], list[Engine]] = {}
    for one in engines:
        models.setdefault((one.namespace, one.model), []).append(one)
    return models


def _fair(rows: list[Document]) -> list[Document]:
    """Return at most `ROWS` rows: no namespace takes the place of another one's hardest."""
    ranks: Counter[str] = Counter()
    ranked = []
    for number, row in enumerate(rows):
        ranked.append((ranks[row["namespace"]], number))
        ranks[row["namespace"]] += 1
    return [rows[number] for _, number in sorted(sorted(ranked)[:ROWS], key=lambda each: each[1])]


def _row(group: list[Engine], before: Document) -> Document:
    """Return the row of one model; in a bad state with the cause, and one engine that is in it."""
    state = _worst(Counter(one.memory.state for one in group), before.get("state", ""))
    row = {"namespace": group[0].namespace, "model": group[0].model, "state": state}
    row |= {"canary": group[0].canary} if group[0].canary else {}
    if state not in BAD:
        return row
    found = {one.address: one for one in group if one.memory.state == state}
    known = before.get("state") == state and before.get("at") in found
    one = found[before["at"]] if known else min(found.values(), key=lambda one: one.address)
    number = count(len(found), before.get("engines", "") if known else "")
    said = {"kind": one.kind, "cause": one.memory.cause, "at": one.address, "engines": number}
    return row | said


def _worst(states: Counter[str], before: str) -> str:
    """Return the state of several engines: the hardest of enough, or that some have hits.

    A bad one stays until clearly fewer are in it: an engine more or less changes nothing. Wrong
    blocks of one engine count at once: users read them.
    """
    if states[WRONG_BLOCKS]:
        return WRONG_BLOCKS
    total = sum(states.values())
    bad = [state for state in BAD if states[state]]
    needed = STAYS if before in BAD else BAD_SHARE
    if bad and sum(states[state] for state in bad) * 100 >= total * needed:
        return bad[0]
    return next((state for state in (HITTING, STORING) if states[state]), IDLE)


def count(number: int, before: str = "") -> str:
    """Return a count in steps: "1", "2+", "10+"; it falls below four fifths of a step."""
    reached = max((step for step in COUNTS if step <= number), default=0)
    shown = next((step for step in COUNTS if before == f"{step}+"), 0)
    if reached < shown and shown * 4 <= number * 5:
        reached = shown
    return f"{reached}+" if reached > 1 else str(reached)


def share(part: float, whole: float, before: str = "") -> str:
    """Return a percentage in steps; it falls only when it is clearly below a step."""
    percent = 100.0 * part / whole if whole > 0 else 0.0
    reached = max(step for step in SHARES if step <= max(percent, 0.0))
    shown = int(before) if before in map(str, SHARES) else -1
    return str(shown if reached < shown <= percent + NEAR and shown > 1 else reached)


def text(document: Document) -> str:
    """Return the document's bytes: the same ones for the same content."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def restored(written: str) -> Document:
    """Return a document that this program wrote, {} for anything else."""
    try:
        found = json.loads(written)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        return {}
    rows = found.pop("models", None)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return {}
    values = [found.get("engines"), *(value for row in rows for value in row.values())]
    states = [found.get("state"), *(row.get("state") for row in rows)]
    is_whole = all({"namespace", "model"} <= row.keys() for row in rows)
    shares = {name: found[name] for name in ("hits", "used") if name in found}
    if not (is_whole and all(isinstance(value, str) for value in values)):
        return {}
    if not (all(s in STATES for s in states) and all(s in _SHARES for s in shares.values())):
        return {}
    kept = {"format": FORMAT, "state": found["state"], "engines": found["engines"]}
    return {**kept, "models": rows[:ROWS], **shares}

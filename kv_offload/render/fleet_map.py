"""The map of a fleet as one HTML page: no script, nothing from elsewhere, light and dark."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from html import escape
from pathlib import Path

from kv_offload.render.status import ConsumerState, Status, TierState, printable

_STYLE = Path(__file__).with_suffix(".css")
# State -> its mark: a form as well as a colour.
_MARKS = {"Ready": "", "Moving": "~", "Unknown": "?", "Problem": "!"}


def page(found: Status, at: datetime) -> str:
    """Return the page. Names and messages come from clusters: each is escaped."""
    parts = [
        *_head(found, at),
        *_troubles(found),
        *_map(found),
        *_consumers(found.consumers),
    ]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            "<title>KV-cache offload: fleet map</title>",
            f"<style>\n{_STYLE.read_text()}</style>",
            "<main>",
            *parts,
            "</main>",
        ]
    )


def _text(text: str) -> str:
    return escape(printable(text))


def _one_of(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _placed(found: Iterable[TierState]) -> list[TierState]:
    """Return the tiers that are on one cluster: a fleet's own row repeats its children."""
    every = list(found)
    fleets = {(t.context, t.namespace, t.fleet) for t in every if t.fleet}
    return [t for t in every if (t.context, t.namespace, t.name) not in fleets]


def _head(found: Status, at: datetime) -> Iterator[str]:
    placed = _placed(found.tiers)
    wrong = [tier for tier in placed if tier.state != "Ready"]
    refused = [consumer for consumer in found.consumers if consumer.has_problem]
    figures = [
        (len(placed), "tiers on clusters", "plain"),
        (len(placed) - len(wrong), "ready", "Ready"),
        (len(wrong), "not ready", "Problem" if wrong else "plain"),
        (sum(c.wired for c in found.consumers), "workloads wired", "plain"),
        (len(refused), "workloads with a problem", "Problem" if refused else "plain"),
    ]
    yield "<header><h1>KV-cache offload</h1>"
    yield f"<p>State of {at:%Y-%m-%d %H:%M %Z}</p></header>"
    yield '<ul class="figures">'
    for number, name, kind in figures:
        yield f'<li class="{kind}"><b>{number:,}</b> {name}</li>'
    yield "</ul>"


def _troubles(found: Status) -> Iterator[str]:
    """Yield what is wrong, one entry for all tiers that say the same."""
    same: dict[tuple[str, str, str], list[TierState]] = defaultdict(list)
    for tier in found.tiers:
        for problem in tier.problems:
            same[problem.condition, problem.reason, problem.message].append(tier)
    if not same:
        return
    yield "<section><h2>What is wrong with tiers</h2>"
    for (condition, reason, message), tiers in sorted(same.items(), key=lambda i: -len(i[1])):
        title = f"{_text(condition)} <code>{_text(reason)}</code>"
        yield f'<details class="trouble"><summary>{title} <b>{_one_of(len(tiers), "tier")}</b>'
        yield f"<p>{_text(message)}</p></summary><ul>"
        for tier in tiers:
            (look,) = {p.look for p in tier.problems if p.condition == condition}
            yield f"<li>{_text(_where(tier))}<br><code>{_text(look)}</code></li>"
        yield "</ul></details>"
    yield "</section>"


def _where(tier: TierState) -> str:
    cluster = f" on {tier.cluster}" if tier.cluster else ""
    context = f" ({tier.context})" if tier.context else ""
    return f"{tier.reference}{cluster}{context}"


def _map(found: Status) -> Iterator[str]:
    """Yield a grid of clusters for each fleet, the largest first, and one of all other tiers."""
    groups: dict[tuple[str, str], list[TierState]] = defaultdict(list)
    for tier in _placed(found.tiers):
        title = f"{tier.namespace}/{tier.fleet}" if tier.fleet else ""
        groups[tier.context if title else "", title].append(tier)
    for (context, title), cells in sorted(groups.items(), key=lambda i: (not i[0][1], -len(i[1]))):
        wrong = sum(tier.state != "Ready" for tier in cells)
        state = f"{wrong:,} of {len(cells):,} not ready" if wrong else "all ready"
        backends = ", ".join(sorted({tier.backend for tier in cells}))
        where = f" <small>{_text(context)}</small>" if context else ""
        yield f"<section><h2>{_text(title) or 'Tiers on one cluster'}{where}</h2>"
        yield f"<p>{_text(backends)}, {_one_of(len(cells), 'cluster')}: {state}.</p>"
        yield '<ul class="grid">'
        for tier in sorted(cells, key=lambda t: (t.context, t.cluster, t.name)):
            yield _cell(tier)
        yield "</ul></section>"
    yield '<ul class="legend" aria-hidden="true">'
    for kind, name in (
        ("Ready", "ready"),
        ("Moving", "ready, and something moves"),
        ("Problem", "not ready"),
        ("Unknown", "not known"),
    ):
        yield f'<li><i class="{kind}">{_MARKS[kind]}</i> {name}</li>'
    yield "</ul>"


def _cell(tier: TierState) -> str:
    said = [
        _where(tier),
        tier.state,
        f"agents {tier.agents}",
        *([f"hits {tier.hits}"] if tier.hits else []),
        *([f"{tier.used} used"] if tier.used else []),
        *(f"{p.condition}: {p.reason}" for p in tier.problems),
        *tier.notes,
    ]
    text = _text(". ".join(said))
    kind = "Moving" if tier.state == "Ready" and tier.notes else tier.state
    return f'<li class="{kind}" title="{text}"><span>{text}</span>{_MARKS[kind]}</li>'


def _consumers(consumers: Iterable[ConsumerState]) -> Iterator[str]:
    """Yield the workloads by reason, those with a problem first."""
    by_reason: dict[tuple[bool, str], list[ConsumerState]] = defaultdict(list)
    for consumer in consumers:
        by_reason[not consumer.has_problem, consumer.reason].append(consumer)
    if not by_reason:
        return
    yield "<section><h2>Workloads</h2>"
    for (is_well, reason), found in sorted(by_reason.items()):
        kind = "well" if is_well else "trouble"
        count = _one_of(len(found), "workload")
        yield f'<details class="{kind}"><summary><code>{_text(reason)}</code> <b>{count}</b>'
        fix = next((consumer.fix for consumer in found if consumer.fix), "")
        yield f"<p>{_text(fix)}</p></summary><ul>" if fix else "</summary><ul>"
        for each in found:
            context = f" ({each.context})" if each.context else ""
            said = " ".join(filter(None, (each.message, each.stale, each.serving)))
            name = _text(f"{each.kind} {each.path}{context}")
            yield f"<li>{name}<br>{_text(said)}</li>" if said else f"<li>{name}</li>"
        yield "</ul></details>"
    yield "</section>"

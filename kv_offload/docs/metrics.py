"""docs/metrics.md: the metrics of every part, and which queries use names that nobody exports."""

import re
from dataclasses import dataclass
from pathlib import Path

from function.facts import Table
from kv_offload.docs.markdown import HEADER, page


@dataclass(frozen=True)
class Metric:
    """A metric of a part: `pairs` of the serving suite export it, or a package's `file` has it."""

    part: str
    name: str
    text: str
    pairs: tuple[str, ...] = ()
    file: str = ""


METRICS = Table(Metric, Path(__file__).with_suffix(".yaml"), "metrics")

_STRING = re.compile(r'"[^"]*"')
_RANGE = re.compile(r"\[[^]]*\]")
_GROUPING = re.compile(r"\b(?:by|on|ignoring|without|group_left|group_right)\s*\([^)]*\)")
_LABELS = re.compile(r"\{[^}]*\}")
_NAME = re.compile(r"[a-zA-Z_][\w:]*(?!\w|\s*\()")
_WORDS = frozenset({"and", "or", "unless", "bool", "offset"})
_PARTS = re.compile(r"_(bucket|sum|count)$")


def names(expression: str) -> set[str]:
    """Return the metrics in an expression of PromQL, as it names them."""
    for pattern in (_STRING, _RANGE, _GROUPING, _LABELS):
        expression = pattern.sub(" ", expression)
    expression = re.sub(r"\boffset\s+\w+|\b\d[\w.]*", " ", expression)
    return set(_NAME.findall(expression)) - _WORDS


def unknown(expression: str) -> set[str]:
    """Return the names in an expression that are in no row; a histogram's parts are in its own."""
    known = {row.name for row in METRICS}
    return {name for name in names(expression) if not known & {name, _PARTS.sub("", name)}}


def text() -> str:
    """Return the page."""
    out = [HEADER.format(source="kv_offload/docs/metrics.yaml"), "# Which metrics are there?"]
    for part in dict.fromkeys(row.part for row in METRICS):
        out += ["", f"## {part}", ""]
        out += [f"- `{row.name}`: {row.text}" for row in METRICS if row.part == part]
    return page(out)

"""Programs that start another program: which of their words are their own (facts/runners.yaml)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from function.command.model import Word, shown
from function.facts import Table


@dataclass(frozen=True)
class RunnerRow:
    """One program; the file says what the fields mean."""

    names: tuple[str, ...]
    source: str
    values: frozenset[str] = frozenset()
    switches: frozenset[str] = frozenset()
    operands: int = 0
    assignments: bool = False
    subcommands: frozenset[str] = frozenset()
    idle: frozenset[str] = frozenset()
    separator: bool = False
    other: frozenset[str] = frozenset()
    long_switches: bool = False
    numeric: bool = False


_ROWS = Table(RunnerRow, "runners", "runners")


@cache
def _by_name() -> dict[str, RunnerRow]:
    return {name: row for row in _ROWS for name in row.names}


def basename(word: str) -> str:
    return word.rsplit("/", 1)[-1]


def runner(name: str) -> RunnerRow | None:
    """Return the row of a program, None for one that is no runner."""
    return _by_name().get(name)


def command_start(row: RunnerRow, words: Sequence[Word], at: int) -> int | str:
    """Return the index of the command that the runner runs; `at`: behind the runner's name.

    A text says why that is not known; "" that it runs no command at all.
    """
    if row.subcommands:
        # Global options may stand before the subcommand (`uv --quiet run`).
        behind = _options(row, words, at, stop=row.subcommands | row.idle)
        if isinstance(behind, str):
            return behind
        if behind >= len(words) or words[behind].value in row.idle:
            return ""
        if words[behind].value not in row.subcommands:
            return f"{shown(words[behind].text)} is not known here"
        at = behind + 1
    if row.separator:
        return next((i + 1 for i in range(at, len(words)) if words[i].value == "--"), "")
    behind = _options(row, words, at)
    if isinstance(behind, str):
        return behind
    at = behind
    for _ in range(row.operands):
        if at >= len(words):
            return ""
        if words[at].many:
            return f"{shown(words[at].text)} may be several words"
        at += 1
    while row.assignments and at < len(words) and _is_assignment(words[at]):
        at += 1
    return at if at < len(words) else ""


def _is_assignment(word: Word) -> bool:
    """NAME=VALUE as `env` takes it; the value need not be known when it is one word."""
    known = word.prefix if word.value is None else word.value
    return "=" in known and not known.startswith("=") and not word.many


def _options(
    row: RunnerRow, words: Sequence[Word], at: int, stop: frozenset[str] = frozenset()
) -> int | str:
    while at < len(words):
        word = words[at]
        if word.value is None and (word.many or not word.prefix):
            takes = row.values or row.switches
            return f"{shown(word.text)} is not known here" if takes else at
        value = word.value if word.value is not None else word.prefix
        if value == "--":
            return at + 1
        if value in stop or (value != "-" and not value.startswith("-")):
            return at
        took = _option_length(row, value)
        if isinstance(took, str):
            return took
        at += took
    return at


def _option_length(row: RunnerRow, value: str) -> int | str:
    """How many words the option takes (1 or 2), or why that is not known."""
    name = value.split("=", 1)[0]
    if name in row.other:
        return f"its option {shown(name)} does something else than run a command"
    if value in row.values:
        return 2
    if value in row.switches:
        return 1
    if value.startswith("--"):
        if "=" in value and (name in row.values or name in row.switches or row.long_switches):
            return 1
        return 1 if row.long_switches else f"its option {shown(name)} is not known here"
    if row.numeric and value[1:].lstrip("+-").isdigit():
        return 1
    # A cluster of short switches, the last of which may take the rest, or the next word.
    for at in range(1, len(value)):
        short = "-" + value[at]
        if short in row.values:
            return 2 if at == len(value) - 1 else 1
        if short not in row.switches:
            return f"its option {short} is not known here"
    return 1

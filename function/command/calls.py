"""Engine calls of scripts: their words, and the place where a word may be appended."""

from collections.abc import Sequence

from function.command import exec_form
from function.command.model import OPT_IN, EngineCall, Word, shown
from function.command.places import NodeSlot, Slot
from function.command.shell import expansion
from function.command.shell.command_line import assignments, nodes_of
from function.command.shell.commands import Command
from function.command.shell.grammar import Node
from function.command.shell.script import Script

OPT_IN_HINT = (
    f"pass ${OPT_IN}, unquoted, to the engine in your own script: it is set by env and needs no "
    "edit"
)
_OPT_INS = (expansion.OPT_IN_ORIGIN, expansion.EVALUATED_ORIGIN)


def wrapper_reason(why: str) -> str:
    """Why a call behind a program of unknown content is closed, and the way out."""
    return (
        f"{why}: whether it passes its arguments on unchanged cannot be proven. Start the engine "
        f"directly in command, or, if the program is yours, {OPT_IN_HINT}"
    )


def script_call(found: Command) -> EngineCall | None:
    """Return the engine call that a command makes, or shows behind an unknown program."""
    outcome, closed = found.outcome, ""
    if isinstance(outcome, exec_form.UnreadCommand):
        closed = wrapper_reason(outcome.why)
        outcome = outcome.visible or outcome
    if not isinstance(outcome, exec_form.EngineStart):
        return None
    given = found.words[outcome.at :]
    own = tuple(word for word in given if word.origin not in (*_OPT_INS, expansion.UNSPLIT_ORIGIN))
    opted_in = [word for word in given if word.origin in _OPT_INS]
    after_bare = any(word.origin in _OPT_INS for word in given[_index(given, "--") :])
    slot = _slot(found, outcome)
    closed = closed or _standing(found) or _unsplit_opt_in(given) or _quoted_opt_in(own)
    if after_bare:
        closed = closed or f"${OPT_IN} stands behind a bare --: the engine takes no flags there"
    elif isinstance(slot, str) and not opted_in:
        closed = closed or slot
    return EngineCall(
        engine=outcome.start.engine,
        entrypoint=outcome.start.entrypoint,
        words=own,
        opted_in=bool(opted_in) and not after_bare,
        closed=closed,
        positional_model=outcome.start.positional_model,
        scripted=True,
        evaluated=any(word.origin == expansion.EVALUATED_ORIGIN for word in opted_in),
        before=(
            *found.before,
            *assignments(found.script, found.node),
            *found.words[: outcome.at],
        ),
        slot=None if isinstance(slot, str) else slot,
    )


def _index(words: Sequence[Word], value: str) -> int:
    return next((i for i, word in enumerate(words) if word.value == value), len(words))


def literal_opt_in(words: Sequence[Word]) -> str:
    """Why words that no shell reads cannot be the engine's, "" when they can."""
    for word in words:
        if any(f"${start}{OPT_IN}" in (word.value or "") for start in ("", "{", "(")):
            return (
                f"{shown(word.text)} stays as it is here, where no shell expands it, and the "
                "engine stops at it: remove it, and the tier's flags are added"
            )
    return ""


def _unsplit_opt_in(words: Sequence[Word]) -> str:
    for word in words:
        if word.origin == expansion.UNSPLIT_ORIGIN:
            return (
                f"the script changes IFS, so that {shown(word.text)} is not split at blanks into "
                "flags and values: take the change of IFS out of the script, or limit it to one "
                "command (IFS=, read -r ...)"
            )
    return ""


def _quoted_opt_in(words: Sequence[Word]) -> str:
    for word in words:
        if f"${OPT_IN}" in word.text or f"${{{OPT_IN}" in word.text:
            return (
                f"{shown(word.text)} gives one word, not a list of flags: write ${OPT_IN} without "
                "quotes, as a word of its own"
            )
    return ""


def _standing(found: Command) -> str:
    """Why a command at this place of the script cannot be edited, "" when it can."""
    script: Script | None = found.script
    node: Node | None = found.node
    while script is not None and node is not None:
        if script.error:
            return f"{script.error}: simplify it, or {OPT_IN_HINT}"
        if script.in_heredoc(node):
            return f"the engine is started inside a here-document: move it out, or {OPT_IN_HINT}"
        if script.in_backquotes(node):
            return f"the engine is started inside backquotes: use $(...), or {OPT_IN_HINT}"
        holder = script.holder
        script, node = holder.script, holder.at
    return ""


class _Places:
    """The nodes of a call's command, from the last of its entrypoint on, and their words."""

    def __init__(self, found: Command, start: int) -> None:
        nodes = nodes_of(found.node)
        first = next(i for i, node in enumerate(nodes) if node is found.nodes[start - 1])
        self.nodes = nodes[first:]
        self.words: dict[int, list[Word]] = {node.index: [] for node in self.nodes}
        pairs = zip(found.nodes[start:], found.words[start:], strict=True)
        for node, word in pairs:
            self.words[node.index].append(word)

    def index(self, node: Node) -> int:
        return next(i for i, other in enumerate(self.nodes) if other is node)

    def unknown(self, node: Node) -> bool:
        return any(
            word.many and word.value is None and word.origin not in _OPT_INS
            for word in self.words[node.index]
        )

    def flag(self, node: Node) -> str:
        """Whether a node ends in a flag: "complete" (`--a=1`), "open" (values may follow), ""."""
        known = "".join(word.prefix for word in self.words[node.index][-1:])
        if not known.startswith("-"):
            return ""
        return "complete" if "=" in known else "open"


def _slot(found: Command, outcome: exec_form.EngineStart) -> Slot | str:
    """Where words are appended, or why there is no such place.

    That is behind the last word, but before a bare `--`, and before words that are not known (they
    may hold one); then also before the flag that such words may belong to.
    """
    script, start = found.script, outcome.at
    places = _Places(found, start)
    last = len(places.nodes) - 1
    bare = start + _index(found.words[start:], "--")
    if bare < len(found.words):
        if found.nodes[bare - 1] is found.nodes[bare]:
            text = shown(found.words[bare].text) or "an expansion"
            return f"a bare -- comes out of {text}: {OPT_IN_HINT}"
        last = places.index(found.nodes[bare]) - 1
    moved = False
    while last > 0:
        node = places.nodes[last]
        flag = places.flag(node)
        model = outcome.start.positional_model and last == 1 and not flag
        if node.end > script.limit or not _reachable(script, node.end):
            moved = True
        elif places.unknown(node):
            if model and script.slice(node).startswith('"'):
                return (
                    f"what {shown(script.slice(node))} holds is not known, and flags before the "
                    f"model or behind a bare -- may be lost: {OPT_IN_HINT}"
                )
            if model:
                break
            moved = True
        elif not moved or model or flag == "complete":
            break
        elif flag == "open":
            moved = False
        last -= 1
    if places.nodes[last].end > script.limit:
        return (
            f"the value of {script.pasted} is pasted into the script before the shell reads it, "
            f"and is not known: let the shell expand it (${{{script.pasted}}}) as a word of the "
            f"engine, or {OPT_IN_HINT}"
        )
    end = places.nodes[last].end
    if not _reachable(script, end):
        return f"the engine's words come out of a variable's value: {OPT_IN_HINT}"
    before = sum(
        node.end <= end and word.origin not in _OPT_INS
        for node, word in zip(found.nodes[start:], found.words[start:], strict=True)
    )
    return NodeSlot(script.number, end, before)


def _reachable(script: Script, end: int) -> bool:
    """Whether text can be put behind byte `end` in every text around."""
    while True:
        source = script.text.source(end, end)
        if source is None:
            return False
        if script.holder.script is None:
            return True
        script, end = script.holder.script, source.end
        if end > script.limit:
            return False

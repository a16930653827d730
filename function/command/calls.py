"""Engine calls of scripts: their words, and the place where a word may be appended."""

from collections.abc import Sequence

from function.command import exec_form
from function.command.model import OPT_IN, EngineCall, Word
from function.command.reading import NodeSlot
from function.command.shell import grammar, values
from function.command.shell.grammar import Node
from function.command.shell.script import Found, Script

OPT_IN_HINT = (
    f"pass ${OPT_IN}, unquoted, to the engine in your own script: it is set by env and needs no "
    "edit"
)
_OPT_INS = (values.OPT_IN_ORIGIN, values.EVALUATED_ORIGIN)


def wrapper_reason(why: str) -> str:
    """Why a call behind a program of unknown content is closed, and the way out."""
    return (
        f"{why}: whether it passes its arguments on unchanged cannot be proven. Start the engine "
        f"directly in command, or, if the program is yours, {OPT_IN_HINT}"
    )


def script_call(found: Found) -> EngineCall | None:
    """The engine call that a command of a script makes, or shows behind an unknown program."""
    outcome, closed = found.outcome, ""
    if isinstance(outcome, exec_form.Opaque):
        closed = wrapper_reason(outcome.why)
        outcome = outcome.visible
    if not isinstance(outcome, exec_form.Engine):
        return None
    given = found.words[outcome.at :]
    own = tuple(word for word in given if word.origin not in _OPT_INS)
    opted_in = [word for word in given if word.origin in _OPT_INS]
    after_bare = any(word.origin in _OPT_INS for word in given[_index(given, "--") :])
    slot = _slot(found, outcome)
    closed = closed or _standing(found) or _quoted_opt_in(own)
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
        evaluated=any(word.origin == values.EVALUATED_ORIGIN for word in opted_in),
        slot=None if isinstance(slot, str) else slot,
    )


def _index(words: Sequence[Word], value: str) -> int:
    return next((i for i, word in enumerate(words) if word.value == value), len(words))


def _quoted_opt_in(words: Sequence[Word]) -> str:
    for word in words:
        if f"${OPT_IN}" in word.text or f"${{{OPT_IN}" in word.text:
            return (
                f"{word.text} gives one word, not a list of flags: write ${OPT_IN} without quotes, "
                "as a word of its own"
            )
    return ""


def _standing(found: Found) -> str:
    """Why a command at this place of the script cannot be edited, "" when it can."""
    script: Script | None = found.script
    node: Node | None = found.node
    while script is not None and node is not None:
        if script.error:
            return f"{script.error}: simplify it, or {OPT_IN_HINT}"
        for up in grammar.ancestors(node):
            if up.type in ("heredoc_body", "heredoc_redirect") and _in_body(up, node):
                return (
                    f"the engine is started inside a here-document: move it out, or {OPT_IN_HINT}"
                )
            if up.type == "command_substitution" and script.bytes(up).lstrip().startswith(b"`"):
                return f"the engine is started inside backquotes: use $(...), or {OPT_IN_HINT}"
        script, node = script.holder.script, script.holder.at
    return ""


def _in_body(up: Node, node: Node) -> bool:
    if up.type == "heredoc_body":
        return True
    return any(
        child.type == "heredoc_body" and child.start_byte <= node.start_byte < child.end_byte
        for child in up.children
    )


def _slot(found: Found, outcome: exec_form.Engine) -> NodeSlot | str:
    """The node behind which words are appended, or why there is none.

    That is the last one, but before a bare `--`, and before words that are not known (they may hold
    one); then also before the flag that such words may belong to.
    """
    script, start = found.script, outcome.at
    nodes = script.nodes_of(found.node)
    first = next(i for i, n in enumerate(nodes) if n.id == found.nodes[start - 1].id)
    last = len(nodes) - 1
    bare = start + _index(found.words[start:], "--")
    if bare < len(found.words):
        if found.nodes[bare - 1].id == found.nodes[bare].id:
            return (
                f"a bare -- comes out of {found.words[bare].text or 'an expansion'}: {OPT_IN_HINT}"
            )
        last = next(i for i, n in enumerate(nodes) if n.id == found.nodes[bare].id) - 1
    moved = False
    while last > first:
        node = nodes[last]
        flag = _flag(found, node)
        model = outcome.start.positional_model and last == first + 1 and not flag
        if node.end_byte > script.limit or not _reachable(script, node.end_byte):
            moved = True
        elif _unknown(found, node):
            if model and script.slice(node).startswith('"'):
                return (
                    f"what {script.slice(node)} holds is not known, and flags before the model or "
                    f"behind a bare -- may be lost: {OPT_IN_HINT}"
                )
            if model:
                break
            moved = True
        elif not moved or model or flag == "complete":
            break
        elif flag == "open":
            moved = False
        last -= 1
    if nodes[last].end_byte > script.limit:
        hidden = next(o for o in script.text.opaque if not o.inert)
        return (
            f"the value of {hidden.name} is pasted into the script before the shell reads it, and "
            f"is not known: let the shell expand it (${{{hidden.name}}}) as a word of the engine, "
            f"or {OPT_IN_HINT}"
        )
    end = nodes[last].end_byte
    if not _reachable(script, end):
        return f"the engine's words come out of a variable's value: {OPT_IN_HINT}"
    before = [
        word
        for node, word in zip(found.nodes[start:], found.words[start:], strict=True)
        if node.end_byte <= end and word.origin not in _OPT_INS
    ]
    return NodeSlot(script, nodes[last].start_byte, end, len(before))


def _flag(found: Found, node: Node) -> str:
    """Whether a node ends in a flag: "complete" (`--a=1`), "open" (values may follow), or ""."""
    last = [w for n, w in zip(found.nodes, found.words, strict=True) if n.id == node.id][-1:]
    known = "".join(word.prefix for word in last)
    if not known.startswith("-"):
        return ""
    return "complete" if "=" in known else "open"


def _reachable(script: Script, end: int) -> bool:
    """Whether text can be put behind byte `end` in every text around."""
    while True:
        source = script.text.source_range(end, end)
        if source is None:
            return False
        if script.holder.script is None:
            return True
        script, end = script.holder.script, source[1]
        if end > script.limit:
            return False


def _unknown(found: Found, node: Node) -> bool:
    return any(
        at.id == node.id and word.many and word.value is None and word.origin not in _OPT_INS
        for at, word in zip(found.nodes, found.words, strict=True)
    )

"""The words that a node of a script gives to its command: expansion, splitting, quotes removed."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from function.command import quoting
from function.command.model import OPT_IN, Word
from function.command.reading import NodePlace
from function.command.shell.grammar import Node
from function.command.shell.scope import POSITIONAL, State
from function.command.text import BARE, DOUBLE, Opaque, Text, TextBuilder

if TYPE_CHECKING:
    from function.command.shell.script import Script

# The origin of a word that stands for `$KV_OFFLOAD_ARGS` itself.
OPT_IN_ORIGIN = f"env {OPT_IN}"
EVALUATED_ORIGIN = f"env {OPT_IN}, in the text of an eval"
_EXPANSIONS = ("simple_expansion", "expansion")
_QUOTED = ("string", "raw_string", "ansi_c_string", "translated_string")
# A bare word that no shell reads as anything but its letters.
_PLAIN = re.compile(r"[\w./:=@%+,-]+\Z")
_BLANKS = " \t\n"


def words(script: "Script", node: Node) -> tuple[Word, ...]:
    """The words of one argument node, in order; none for an unquoted empty expansion."""
    inner = node.named_children[0] if node.type == "command_name" else node
    listed = _list(script, inner)
    if listed is not None:
        return listed
    return (_single(script, inner),)


def _single(script: "Script", node: Node) -> Word:
    """A node that is one word, or an unknown number of them."""
    written = script.slice(node)
    hidden = script.text.hidden_in(node.start_byte, node.end_byte)
    if node.type in ("word", "number") and hidden is None and _PLAIN.match(written):
        place = NodePlace(script, node.start_byte, node.end_byte)
        return Word(written, written, written, place=place)
    text = text_of(script, [node])
    place = NodePlace(script, node.start_byte, node.end_byte)
    many = _may_split(script, node)
    if hidden is not None:
        prefix = text.data.split(b"${" + hidden.name.encode() + b"}")[0]
        many = many if not hidden.inert else False
    elif text.opaque:
        prefix = text.data[: text.opaque[0].start]
    elif many:
        prefix = b""
    else:
        value = text.decode()
        return Word(value, written, value, place=place)
    known = prefix.decode("utf-8", "replace")
    return Word(None, written, known, many, place=None if many else place)


def _may_split(script: "Script", node: Node) -> bool:
    """Whether expansion may make anything but one word of it."""
    parts = node.children if node.type == "concatenation" else [node]
    bare = b""
    for part in parts:
        if part.type in ("word", "number") or not part.is_named:
            bare += script.bytes(part)
        elif part.type in _EXPANSIONS:
            state = _state(script, part)
            if not isinstance(state, str) or any(c in state for c in _BLANKS + "*?["):
                return True
        elif part.type in ("command_substitution", "brace_expression", "extglob_pattern"):
            return True
        elif part.type == "string":
            if any(_listing(script, c) for c in part.named_children):
                return True
            bare += b"_"
        else:
            bare += b"_"
    braces = b"{" in bare and b"}" in bare and (b"," in bare or b".." in bare)
    return braces or quoting.bare_specials(bare)


def _list(script: "Script", node: Node) -> tuple[Word, ...] | None:
    """The words of a node that is one expansion and gives a list; None for any other node."""
    quoted = False
    if node.type == "string":
        if len(node.named_children) != 1:
            return None
        expansion = node.named_children[0]
        if (expansion.start_byte, expansion.end_byte) != (node.start_byte + 1, node.end_byte - 1):
            return None
        if not _listing(script, expansion) or not script.bytes(expansion).startswith(b"$"):
            return None
        node, quoted = expansion, True
    if node.type not in _EXPANSIONS:
        return None
    name, kind = _name(script, node)
    hidden = script.text.hidden_in(node.start_byte, node.end_byte)
    if name == OPT_IN and kind in ("plain", "empty") and not script.scope.set_here(OPT_IN):
        origin = EVALUATED_ORIGIN if hidden else OPT_IN_ORIGIN
        return (Word(None, script.slice(node), many=True, origin=origin),)
    if hidden:
        return None
    state = _state(script, node)
    written = script.slice(node)
    if isinstance(state, tuple):
        used = _shared(script, name)
        listed = tuple(_borrowed(word, used) for word in state)
        return listed if quoted else tuple(w for word in listed for w in _split(script, word))
    if state is None or script.scope.set_here("IFS"):
        return None if quoted and not _listing(script, node) else (Word(None, written, many=True),)
    origin = f"variable {name}" if script.scope.set_here(name) else f"env {name}"
    whole = Word(state, written, state, origin=origin)
    return (whole,) if quoted else tuple(replace(w, text=written) for w in _split(script, whole))


def _shared(script: "Script", name: str) -> str:
    """Why the words behind `name` cannot be edited where they stand, "" when they can."""
    if name.isdigit() or script.references(name) > 1:
        return "$@" if name == POSITIONAL else f"${{{name}}}"
    return ""


def _borrowed(word: Word, used: str) -> Word:
    if used and not word.origin:
        return replace(word, origin=f"{used}, which the script uses in more than one place")
    return word


def _split(script: "Script", word: Word) -> tuple[Word, ...]:
    """Unquoted expansion: a known text falls apart at blanks."""
    if word.value is None:
        return (replace(word, many=True, place=None),)
    if any(c in word.value for c in "*?["):
        return (Word(None, word.text, many=True, certain=word.certain),)
    parts = word.value.split()
    if parts == [word.value]:
        return (word,)
    origin = word.origin or "an unquoted expansion, which splits it"
    return tuple(replace(word, value=p, prefix=p, origin=origin, place=None) for p in parts)


def _name(script: "Script", node: Node) -> tuple[str, str]:
    """(variable, kind): plain `$X` `${X}`, empty `${X:-}`, list `$@` `${X[@]}`, item `$1`, else
    other."""
    written = script.slice(node).lstrip()
    body = written[2:-1] if written.startswith("${") else written[1:]
    if body in ("@", "*"):
        return POSITIONAL, "list" if body == "@" else "joined"
    if body.endswith(("[@]", "[*]")) and body[:-3].isidentifier():
        return body[:-3], "list" if body[-2] == "@" else "joined"
    if body.isdigit():
        return body, "item"
    if body.isidentifier():
        return body, "plain"
    for ending in (":-", "-"):
        if body.endswith(ending) and body[: -len(ending)].isidentifier():
            return body[: -len(ending)], "empty"
    return body, "other"


def _listing(script: "Script", node: Node) -> bool:
    """Whether an expansion inside double quotes may give several words."""
    if node.type not in _EXPANSIONS:
        return False
    written = script.slice(node)
    return "@" in written


def _state(script: "Script", node: Node) -> State:
    """What an expansion stands for: a text, a list of words, or None."""
    name, kind = _name(script, node)
    if kind == "other" or script.text.hidden_in(node.start_byte, node.end_byte):
        return None
    if kind == "item":
        return _item(script, node, int(name))
    if name == OPT_IN and not script.scope.set_here(OPT_IN):
        return None  # Ours to set: its value is never among the words.
    state = script.scope.resolve(name, node)
    if kind == "plain" and isinstance(state, tuple):
        return state[0].value if state and not state[0].many and state[0].certain else None
    if kind == "joined" and isinstance(state, tuple):
        in_string = node.parent is not None and node.parent.type == "string"
        return joined(state) if in_string else state
    if kind == "list" and isinstance(state, str):
        return (Word(state, state, state, origin=f"variable {name}"),)
    return state


def _item(script: "Script", node: Node, index: int) -> State:
    state = script.scope.resolve(POSITIONAL, node)
    if index == 0 or not isinstance(state, tuple):
        return None
    if any(word.many or not word.certain for word in state[:index]):
        return None
    return state[index - 1].value if index <= len(state) else ""


def joined(listed: Sequence[Word]) -> str | None:
    if any(word.value is None or not word.certain for word in listed):
        return None
    return " ".join(word.value or "" for word in listed)


def text_of(script: "Script", nodes: Sequence[Node]) -> Text:
    """Nodes joined by blanks, as `eval` joins its words: decoded, with the way back."""
    out = TextBuilder(script.text.data)
    for index, node in enumerate(nodes):
        if index:
            out.fixed(b" ", nodes[index - 1].end_byte, node.start_byte, BARE)
        _emit(script, node, out, BARE)
    text = out.build()
    # What Kubernetes pastes into the outer text is not known in the inner one either.
    known = {(o.start, o.end) for o in text.opaque}
    pasted = [
        Opaque(at[0], at[-1] + 1, o.name, o.inert)
        for o in script.text.opaque
        if (at := [i for i, s in enumerate(text.starts) if o.start <= s < o.end])
        and (at[0], at[-1] + 1) not in known
    ]
    every = sorted([*text.opaque, *pasted], key=lambda o: o.start)
    return replace(text, opaque=tuple(every)) if pasted else text


def _emit(script: "Script", node: Node, out: TextBuilder, mode: str) -> None:
    start, end, kind = node.start_byte, node.end_byte, node.type
    if kind in ("concatenation", "command_name"):
        at = start
        for child in node.children:
            quoting.unquote_bare(out, at, child.start_byte)
            _emit(script, child, out, mode)
            at = child.end_byte
    elif kind == "raw_string":
        quoting.unquote_single(out, start + 1, end - 1)
    elif kind == "string":
        at = start + 1
        for child in node.named_children:
            if child.type == "string_content":
                continue
            # The grammar counts blanks before an expansion in quotes to its node.
            lead = len(script.bytes(child)) - len(script.bytes(child).lstrip())
            quoting.unquote_double(out, at, child.start_byte + lead)
            _emit_expansion(script, child, out, DOUBLE, lead)
            at = child.end_byte
        quoting.unquote_double(out, at, end - 1)
    elif kind in ("word", "number") or not node.is_named:
        quoting.unquote_bare(out, start, end)
    else:
        _emit_expansion(script, node, out, mode)


def _emit_expansion(
    script: "Script", node: Node, out: TextBuilder, mode: str, lead: int = 0
) -> None:
    start, end = node.start_byte + lead, node.end_byte
    hidden = script.text.hidden_in(start, end)
    state: State = None
    name = hidden.name if hidden else "_"
    if node.type in _EXPANSIONS and not hidden:
        name, _ = _name(script, node)
        state = _state(script, node)
        if isinstance(state, tuple):
            state = joined(state)
    if state is None:
        plain = name if name.isidentifier() else "_"
        out.opaque(plain, start, end, mode, inert=bool(hidden and hidden.inert))
    else:
        out.fixed(state.encode(), start, end, mode)

"""The words that a node of a script gives to its command: expansion, splitting, quotes removed."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from function.command import quoting
from function.command.budget import Budget
from function.command.model import OPT_IN, Word
from function.command.places import NodePlace
from function.command.shell.grammar import EXPANSIONS, Node
from function.command.shell.scope import Scope
from function.command.shell.script import POSITIONAL, Script
from function.command.shell.state import State, TextValue, WordsValue
from function.command.text import BARE, DOUBLE, Opaque, Sink, Text, TextBuilder

# The origin of a word that stands for `$KV_OFFLOAD_ARGS` itself.
OPT_IN_ORIGIN = f"env {OPT_IN}"
EVALUATED_ORIGIN = f"env {OPT_IN}, in the text of an eval"
# A bare word that no shell reads as anything but its letters.
_PLAIN = re.compile(r"[\w./:=@%+,-]+\Z")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# What separates the fields of an unquoted expansion, with the usual IFS, and what a path may match.
_SPLITS = re.compile(r"[ \t\n*?\[]")
_GLOBS = re.compile(r"[*?\[]")
_FIELD = re.compile(r"[^ \t\n]+")
# A tilde that is expanded where a value is assigned.
_HOME = re.compile(rb"(?:\A|:)~")
# bash expands the tilde of an argument that looks like an assignment too.
_TILDE = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*\+?=(?:~|.*:~)", re.DOTALL)


class Values:
    """The words and texts of a script's nodes, with its variables as they are now."""

    def __init__(self, script: Script, scope: Scope, budget: Budget) -> None:
        self._script = script
        self._scope = scope
        self._budget = budget

    def words(self, node: Node) -> tuple[Word, ...]:
        """The words of one argument node, in order; none for an unquoted empty expansion."""
        part = self._part(node)
        words = part.words(self._budget) if isinstance(part, WordsValue) else part
        self._budget.charge("words", len(words))
        return words

    def listing(self, nodes: Iterable[Node]) -> WordsValue:
        """The words of argument nodes."""
        return WordsValue([self._part(node) for node in nodes])

    def content(self, node: Node | None) -> State:
        """What an assignment's value gives its variable."""
        if node is None:
            return TextValue(())
        if node.type == "array":
            return self.listing(child for child in node.named_children if child.type != "comment")
        parts = _Parts(self._script.text.data)
        _emit(self._script, node, parts, BARE, self._expansion)
        if parts.unknown or self._script.text.hidden_in(node.start, node.end):
            return None
        bare = node.children if node.type == "concatenation" else [node]
        if any(n.type == "word" and _HOME.search(self._script.bytes(n)) for n in bare):
            return None
        return TextValue(parts.parts)

    def text_of(self, nodes: Sequence[Node]) -> Text:
        """Nodes joined by blanks, as `eval` joins its words: decoded, with the way back."""
        out = _Decoder(self._script.text.data, self._budget)
        for index, node in enumerate(nodes):
            if index:
                out.fixed(b" ", nodes[index - 1].end, node.start, BARE)
            _emit(self._script, node, out, BARE, self._expansion)
        text = out.build()
        # What Kubernetes pastes into the outer text is not known in the inner one either.
        known = {(part.start, part.end) for part in text.opaque}
        pasted = [
            Opaque(*made, part.name, part.inert)
            for part in self._script.text.all_hidden_in(nodes[0].start, nodes[-1].end)
            if (made := text.made_by(part.start, part.end)) and made not in known
        ]
        if not pasted:
            return text
        return replace(text, opaque=tuple(sorted([*text.opaque, *pasted], key=lambda p: p.start)))

    def _part(self, node: Node) -> tuple[Word, ...] | WordsValue:
        inner = node.children[0] if node.type == "command_name" and node.children else node
        listed = self._list(inner)
        return self._single(inner) if listed is None else listed

    def _single(self, node: Node) -> tuple[Word, ...]:
        """A node that is one word, or an unknown number of them."""
        script = self._script
        written = script.slice(node)
        hidden = script.text.hidden_in(node.start, node.end)
        place = NodePlace(script.number, node.start, node.end)
        if node.type in ("word", "number") and hidden is None and _PLAIN.match(written):
            return (Word(written, written, written, place=place),)
        text = self.text_of([node])
        many = self._may_split(node)
        if hidden is not None:
            prefix = text.data.split(b"${" + hidden.name.encode() + b"}")[0]
            many = many if not hidden.inert else False
        elif text.opaque:
            prefix = text.data[: text.opaque[0].start]
        elif many:
            prefix = b""
        elif not text.data and _vanishes(node):
            return ()
        else:
            value = text.decode()
            return (Word(value, written, value, place=place),)
        known = prefix.decode("utf-8", "replace")
        return (Word(None, written, known, many, place=None if many else place),)

    def _may_split(self, node: Node) -> bool:
        """Whether expansion may make anything but one word of it."""
        parts = node.children if node.type == "concatenation" else [node]
        bare = bytearray()
        for part in parts:
            if part.type in ("word", "number") or not part.named:
                bare += self._script.bytes(part)
            elif part.type in EXPANSIONS:
                state = self._state(part)
                if not isinstance(state, TextValue) or self._scope.set_here("IFS"):
                    return True
                if _SPLITS.search(state.text(self._budget)):
                    return True
                # A path may not match before it, nor a tilde stand behind it.
                bare += b"_"
            elif part.type in ("command_substitution", "brace_expression", "extglob_pattern"):
                return True
            else:
                if part.type == "string" and any(map(self._lists, part.named_children)):
                    return True
                bare += b"_"
        raw = bytes(bare)
        braces = b"{" in raw and b"}" in raw and (b"," in raw or b".." in raw)
        return braces or quoting.bare_specials(raw) or bool(_TILDE.match(raw))

    def _list(self, node: Node) -> tuple[Word, ...] | WordsValue | None:
        """The words of a node that is one expansion and gives a list; None for any other node."""
        script = self._script
        quoted = node.type == "string"
        if quoted:
            named = node.named_children
            if len(named) != 1 or (named[0].start, named[0].end) != (node.start + 1, node.end - 1):
                return None
            node = named[0]
            if not self._lists(node) or not script.bytes(node).startswith(b"$"):
                return None
        if node.type not in EXPANSIONS:
            return None
        name, kind = self._named(node)
        hidden = script.text.hidden_in(node.start, node.end)
        written = script.slice(node)
        if name == OPT_IN and kind in ("plain", "empty") and not self._scope.set_here(OPT_IN):
            origin = EVALUATED_ORIGIN if hidden else OPT_IN_ORIGIN
            return (Word(None, written, many=True, origin=origin),)
        if hidden:
            return None
        state = self._state(node)
        if quoted and not isinstance(state, WordsValue):
            return (Word(None, written, many=True),) if state is None else self._whole(node, state)
        if isinstance(state, WordsValue):
            state = WordsValue([state], origin=self._shared(name))
            if quoted:
                return state
        if state is None or self._scope.set_here("IFS"):
            return (Word(None, written, many=True),)
        if isinstance(state, TextValue):
            (whole,) = self._whole(node, state)
            return tuple(replace(word, text=written) for word in self._split(whole))
        words = state.words(self._budget)
        return tuple(field for word in words for field in self._split(word))

    def _whole(self, node: Node, state: TextValue) -> tuple[Word, ...]:
        """The one word that a variable's text is before it is split."""
        name, _ = self._named(node)
        origin = f"variable {name}" if self._scope.set_here(name) else f"env {name}"
        value = state.text(self._budget)
        return (Word(value, self._script.slice(node), value, origin=origin),)

    def _shared(self, name: str) -> str:
        """Why the words behind `name` cannot be edited where they stand, "" when they can."""
        if not name.isdigit() and self._script.references(name) <= 1:
            return ""
        written = "$@" if name == POSITIONAL else f"${{{name}}}"
        return f"{written}, which the script uses in more than one place"

    def _split(self, word: Word) -> tuple[Word, ...]:
        """Unquoted expansion: a known text falls apart at blanks."""
        if word.value is None:
            return (replace(word, many=True, place=None),)
        if _GLOBS.search(word.value):
            return (Word(None, word.text, many=True, certain=word.certain),)
        parts = _FIELD.findall(word.value)
        self._budget.charge("words", len(parts))
        if parts == [word.value]:
            return (word,)
        origin = word.origin or "an unquoted expansion, which splits it"
        return tuple(replace(word, value=p, prefix=p, origin=origin, place=None) for p in parts)

    def _named(self, node: Node) -> tuple[str, str]:
        """(variable, kind): plain `$X` `${X}`, empty `${X:-}`, list `$@` `${X[@]}`, joined `$*`
        `${X[*]}`, item `$1`, else other."""
        written = self._script.slice(node).lstrip()
        braced = written.startswith("${")
        body = written[2:-1] if braced else written[1:]
        if body in ("@", "*"):
            return POSITIONAL, "list" if body == "@" else "joined"
        if body.endswith(("[@]", "[*]")) and _NAME.match(body[:-3]):
            return body[:-3], "list" if body[-2] == "@" else "joined"
        if body.isascii() and body.isdigit() and len(body) < 8:
            # $10 is $1 and a zero.
            return body, "item" if braced or len(body) == 1 else "other"
        if _NAME.match(body):
            return body, "plain"
        for ending in (":-", "-"):
            if body.endswith(ending) and _NAME.match(body[: -len(ending)]):
                return body[: -len(ending)], "empty"
        return body, "other"

    def _lists(self, node: Node) -> bool:
        """Whether an expansion inside double quotes may give several words."""
        return node.type in EXPANSIONS and b"@" in self._script.bytes(node)

    def _state(self, node: Node) -> State:
        """What an expansion stands for: a text, a list of words, or None."""
        name, kind = self._named(node)
        if kind == "other" or self._script.text.hidden_in(node.start, node.end):
            return None
        if kind == "item":
            return self._item(int(name))
        if name == OPT_IN and not self._scope.set_here(OPT_IN):
            return None  # Ours to set: its value is never among the words.
        state = self._scope.get(name)
        if kind in ("plain", "empty") and isinstance(state, WordsValue):
            return _text(state.item(1, self._budget)) if state.size else None
        if kind == "joined" and isinstance(state, WordsValue):
            in_string = node.parent is not None and node.parent.type == "string"
            return self._joined(state) if in_string else state
        if kind == "list" and isinstance(state, TextValue):
            value = state.text(self._budget)
            return WordsValue([(Word(value, value, value, origin=f"variable {name}"),)])
        return state

    def _item(self, index: int) -> State:
        state = self._scope.get(POSITIONAL)
        if index == 0 or not isinstance(state, WordsValue):
            return None
        return _text(state.item(index, self._budget))

    def _joined(self, state: WordsValue) -> TextValue | None:
        """The words as one text; None where that is not known."""
        words = state.words(self._budget)
        self._budget.step(len(words))
        parts: list[bytes] = []
        for word in words:
            if word.value is None or not word.certain:
                return None
            parts += [b" ", word.value.encode()] if parts else [word.value.encode()]
        joins = "IFS" if self._scope.set_here("IFS") else ""
        return None if joins and len(parts) > 1 else TextValue(parts)

    def _expansion(self, node: Node, out: "_Parts | _Decoder", mode: str, start: int) -> None:
        end = node.end
        hidden = self._script.text.hidden_in(start, end)
        state: State = None
        name = hidden.name if hidden else "_"
        if node.type in EXPANSIONS and not hidden:
            name, _ = self._named(node)
            state = self._state(node)
        if isinstance(state, WordsValue):
            state = self._joined(state)
        if state is None:
            plain = name if _NAME.match(name) else "_"
            out.opaque(plain, start, end, mode, bool(hidden and hidden.inert))
        else:
            out.value(state, start, end, mode)


Out = TypeVar("Out", bound=Sink)


def _emit(
    script: Script,
    node: Node,
    out: Out,
    mode: str,
    expansion: Callable[[Node, Out, str, int], None],
) -> None:
    """Decodes a word; what a shell expands in it is handed on, with the place where it begins."""
    start, end, kind = node.start, node.end, node.type
    if kind in ("concatenation", "command_name"):
        at = start
        for child in node.children:
            quoting.unquote_bare(out, at, child.start)
            _emit(script, child, out, mode, expansion)
            at = child.end
    elif kind == "raw_string":
        quoting.unquote_single(out, start + 1, end - 1)
    elif kind == "string":
        at = start + 1
        for child in node.named_children:
            if child.type == "string_content":
                continue
            # The grammar counts blanks before an expansion in quotes to its node.
            written = script.bytes(child)
            begin = child.start + len(written) - len(written.lstrip())
            quoting.unquote_double(out, at, begin)
            expansion(child, out, DOUBLE, begin)
            at = child.end
        quoting.unquote_double(out, at, end - 1)
    elif kind in ("word", "number") or not node.named:
        quoting.unquote_bare(out, start, end)
    else:
        expansion(node, out, mode, start)


def literal(script: Script, node: Node, budget: Budget) -> bytes:
    """The text of a word without expansions."""
    out = _Decoder(script.text.data, budget)

    def expansion(at: Node, out: _Decoder, mode: str, start: int) -> None:
        out.opaque("_", start, at.end, mode)

    _emit(script, node, out, BARE, expansion)
    return out.build().data


def _vanishes(node: Node) -> bool:
    """Whether a word that is empty is none: it has no quotes, only expansions."""
    parts = node.children if node.type == "concatenation" else [node]
    return all(part.type in EXPANSIONS for part in parts)


def _text(value: str | None) -> TextValue | None:
    return None if value is None else TextValue([value.encode()])


class _Parts(Sink):
    """The decoded parts of a text, without the way back."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.parts: list[bytes | TextValue] = []
        self.unknown = False

    def unit(self, data: bytes, start: int, end: int, mode: str) -> None:
        self.parts.append(data)

    def value(self, state: TextValue, start: int, end: int, mode: str) -> None:
        self.parts.append(state)

    def opaque(self, name: str, start: int, end: int, mode: str, inert: bool = False) -> None:
        self.unknown = True


class _Decoder(TextBuilder):
    """The decoded text with the way back, variables' values in it."""

    def __init__(self, raw: bytes, budget: Budget) -> None:
        super().__init__(raw)
        self._budget = budget

    def unit(self, data: bytes, start: int, end: int, mode: str) -> None:
        self._budget.step()
        super().unit(data, start, end, mode)

    def value(self, state: TextValue, start: int, end: int, mode: str) -> None:
        self._budget.charge("expanded", state.size)
        self.fixed(state.bytes(self._budget), start, end, mode)

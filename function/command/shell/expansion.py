"""The words that a node of a script gives to its command: expansion, splitting, quotes removed."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from function.command import quoting
from function.command.budget import Budget
from function.command.model import OPT_IN, Word, shown
from function.command.places import NodePlace
from function.command.shell.grammar import EXPANSIONS, Node
from function.command.shell.script import Script
from function.command.shell.variables import POSITIONAL, Variables
from function.command.text import BARE, DOUBLE, Opaque, Text, TextBuilder

# The origin of a word that stands for `$KV_OFFLOAD_ARGS` itself.
OPT_IN_ORIGIN = f"env {OPT_IN}"
EVALUATED_ORIGIN = f"env {OPT_IN}, in the text of an eval"
# One that does not fall apart at blanks, so that flags and values are no words of their own.
UNSPLIT_ORIGIN = f"env {OPT_IN}, where the script changes IFS"
# A bare word that no shell reads as anything but its letters.
_PLAIN = re.compile(r"[\w./:=@%+,-]+\Z")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# `${NAME:-default}` and its kin, with a default that ends where every shell ends it. A command
# substitution in it runs only where the default is taken.
_PLAIN_PARTS = r"[\w./:@%+,=-]|\"[\w./:@%+,= -]*\"|\$\w|\$\{\w+\}"
_DEFAULTED = re.compile(
    r"\$\{([A-Za-z_]\w*)(:?[-=?])"
    rf"((?:{_PLAIN_PARTS}|\$\((?:{_PLAIN_PARTS}|[ |>&]|'[\w./:@%+,= -]*')*\))*)\}}\Z",
    re.ASCII,
)
_HAS_DEFAULT = re.compile(r"\$\{[A-Za-z_]\w*:?[-=?]", re.ASCII)
_FIRST_NAME = re.compile(r"\s*\$\{?([A-Za-z_]\w*)", re.ASCII)
_MADE_OF_PARTS = frozenset({"command_name", "concatenation", "string", "array"})
# What separates the fields of an unquoted expansion, with the usual IFS, and what a path may match.
_SPLITS = re.compile(r"[ \t\n*?\[]")
_GLOBS = re.compile(r"[*?\[]")
_FIELD = re.compile(r"[^ \t\n]+")
# A tilde that is expanded where a value is assigned.
_HOME = re.compile(rb"(?:\A|:)~")
# bash expands the tilde of an argument that looks like an assignment too.
_TILDE = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*\+?=(?:~|.*:~)", re.DOTALL)


class Expander:
    """Expands the words of a script with the variables that are known."""

    def __init__(self, script: Script, variables: Variables, budget: Budget) -> None:
        self.variables = variables
        self._script = script
        self._budget = budget
        for assignment in variables.assignments:
            value = self._assigned(assignment)
            if value is not None:
                variables.define(assignment, value)

    def words(self, node: Node) -> tuple[Word, ...]:
        """Return the words of one argument node; none for an unquoted empty expansion."""
        inner = node.children[0] if node.type == "command_name" and node.children else node
        words = self._list(inner)
        if words is None:
            words = self._single(inner)
        self._budget.charge("words", len(words))
        return words

    def text_of(self, nodes: Sequence[Node]) -> Text:
        """Return nodes joined by blanks, as `eval` joins its words: decoded, with the way back."""
        out = _Decoder(self._script.text.data, self._budget)
        for index, node in enumerate(nodes):
            if index:
                out.fixed(b" ", nodes[index - 1].end, node.start, BARE)
            _emit(self._script, node, out, BARE, self._expansion)
        text = out.build()
        # What Kubernetes pastes into the outer text is unknown in the inner one too.
        known = {(part.start, part.end) for part in text.opaque}
        pasted = [
            Opaque(*made, part.name, part.inert)
            for part in self._script.text.all_hidden_in(nodes[0].start, nodes[-1].end)
            if (made := text.made_by(part.start, part.end)) and made not in known
        ]
        if not pasted:
            return text
        return replace(text, opaque=tuple(sorted([*text.opaque, *pasted], key=lambda p: p.start)))

    def _assigned(self, assignment: Node) -> str | None:
        """Return what an assignment gives its variable, None where it is not static."""
        node = assignment.child("value")
        if node is None:
            return ""
        if node.type == "array" or self._script.text.hidden_in(node.start, node.end):
            return None
        bare = node.children if node.type == "concatenation" else [node]
        if any(n.type == "word" and _HOME.search(self._script.bytes(n)) for n in bare):
            return None
        text = self.text_of([node])
        return None if text.opaque else text.decode()

    def _single(self, node: Node) -> tuple[Word, ...]:
        """Return the word of a node that is one word, or an unknown number of them."""
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
        known, at = prefix.decode("utf-8", "replace"), None if many else place
        unset, fixes = self._wanted(node)
        return (Word(None, written, known, many, unset=unset, fixes=fixes, place=at),)

    def _may_split(self, node: Node) -> bool:
        """Return whether expansion may make anything but one word of it."""
        parts = node.children if node.type == "concatenation" else [node]
        bare = bytearray()
        for part in parts:
            if part.type in ("word", "number") or not part.named:
                bare += self._script.bytes(part)
            elif part.type in EXPANSIONS:
                value = self._value(part)
                if value is None or _SPLITS.search(value) or not self._splits_at_blanks(part):
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

    def _wanted(self, node: Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what makes a node known: `unset` and `fixes` of its Word.

        For a variable that the script assigns once, what makes its value known.
        """
        script, unset, fixes = self._script, dict[str, None](), dict[str, None]()
        stack, seen = [node], set[str]()
        while stack:
            self._budget.step()
            below = stack.pop()
            if below.type in _MADE_OF_PARTS:
                stack += reversed(below.children)
            name = _FIRST_NAME.match(script.slice(below)) if below.type in EXPANSIONS else None
            if name is None or name[1] == OPT_IN:
                continue
            if self._value(below) is not None:
                if below is node and not self._splits_at_blanks(node):
                    fixes |= dict.fromkeys(self._split_fixes(name[1]))
                continue
            fixes |= dict.fromkeys(self._fixes(below, name[1]))
            if self.variables.get(name[1], below.start) is not None:
                continue
            sources = self.variables.assigned(name[1])
            value = sources[0].child("value") if len(sources) == 1 else None
            if value is not None and not value.start <= below.start < value.end:
                if name[1] not in seen:
                    stack.append(value)
                seen.add(name[1])
            elif (value is not None or not sources) and not self.variables.is_given(name[1]):
                unset[f"{name[1]} (line {script.line(below.start)})"] = None
        return tuple(unset), tuple(fixes)

    def _fixes(self, node: Node, name: str) -> Iterator[str]:
        """Yield what hides the value of an expansion, whatever its variable holds."""
        script = self._script
        written, line = script.slice(node).lstrip(), f"(line {script.line(node.start)})"
        if (by := self.variables.changed_by(node.start)) is not None:
            command = shown(script.slice(by).partition("\n")[0])
            yield (
                f"remove `{command}` (line {script.line(by.start)}), which may set any variable "
                "(put what it sets into the container's env)"
            )
        if _HAS_DEFAULT.match(written) and not _defaulted(written):
            plain = f"${{{name}:-1}}"
            yield f"write {shown(written)} {line} as ${name}, or with a plain default as in {plain}"

    def _split_fixes(self, name: str) -> Iterator[str]:
        """Yield what hides how an unquoted expansion is split."""
        for node in self.variables.assigned("IFS")[:1]:
            line = self._script.line(node.start)
            yield f"remove the change of IFS (line {line}), or quote ${name}"

    def _list(self, node: Node) -> tuple[Word, ...] | None:
        """Return the words of a node that is one expansion; None for any other node."""
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
        if name == OPT_IN and kind == "plain" and not self.variables.changes(OPT_IN):
            origin = EVALUATED_ORIGIN if hidden else OPT_IN_ORIGIN
            if self.variables.changes("IFS"):
                origin = UNSPLIT_ORIGIN
            return (Word(None, written, many=True, origin=origin),)
        if hidden:
            return None
        unset, fixes = self._wanted(node)
        unknown = (Word(None, written, many=True, unset=unset, fixes=fixes),)
        if not quoted and not self._splits_at_blanks(node):
            return unknown
        if name == POSITIONAL:
            words = self._shared(self.variables.positional(node))
            if words is None or quoted:
                return unknown if words is None else words
            return tuple(field for word in words for field in self._split(word))
        value = self._value(node)
        if value is None:
            return unknown
        name = re.split(r"[:?=-]", name, maxsplit=1)[0]
        origin = f"variable {name}" if self.variables.changes(name) else f"env {name}"
        whole = Word(value, written, value, origin=origin)
        return (whole,) if quoted else self._split(whole)

    def _shared(self, words: tuple[Word, ...] | None) -> tuple[Word, ...] | None:
        """Mark the words of a list that the script expands twice: none of them can be edited."""
        if words is None or self._script.uses_of_positional <= 1:
            return words
        origin = "$@, which the script uses in more than one place"
        return tuple(replace(word, origin=word.origin or origin) for word in words)

    def _split(self, word: Word) -> tuple[Word, ...]:
        """Return the words of an unquoted expansion: a known text falls apart at blanks."""
        if word.value is None:
            return (replace(word, many=True, place=None),)
        if _GLOBS.search(word.value):
            return (Word(None, word.text, many=True),)
        parts = _FIELD.findall(word.value)
        self._budget.charge("words", len(parts))
        if parts == [word.value]:
            return (word,)
        origin = word.origin or "an unquoted expansion, which splits it"
        return tuple(replace(word, value=p, prefix=p, origin=origin, place=None) for p in parts)

    def _splits_at_blanks(self, node: Node) -> bool:
        return self.variables.splits_at_blanks(node.start)

    def _named(self, node: Node) -> tuple[str, str]:
        """Return (variable, kind) of an expansion.

        Kinds: plain `$X` `${X}` `${X:-}`, list `$@` `$*`, item `$1`; "" for any other.
        """
        written = self._script.slice(node).lstrip()
        braced = written.startswith("${")
        body = written[2:-1] if braced else written[1:]
        if body in ("@", "*"):
            return POSITIONAL, "list"
        if body.isascii() and body.isdigit() and len(body) < 8:
            # $10 is $1 and a zero.
            return body, "item" if braced or len(body) == 1 else ""
        if braced and body.endswith("-"):
            body = body.removesuffix("-").removesuffix(":")
        return body, "plain" if _NAME.match(body) else ""

    def _lists(self, node: Node) -> bool:
        """Return whether an expansion inside double quotes may give several words."""
        return node.type in EXPANSIONS and b"@" in self._script.bytes(node)

    def _value(self, node: Node) -> str | None:
        """Return the text that an expansion stands for, None where it is unknown."""
        name, kind = self._named(node)
        if self._script.text.hidden_in(node.start, node.end):
            return None
        if not kind:
            return self._defaulted(node)
        if kind == "plain":
            # Ours to set: its value is never among the words.
            ours = name == OPT_IN and not self.variables.changes(OPT_IN)
            return None if ours else self.variables.get(name, node.start)
        words = self.variables.positional(node)
        if words is None:
            return None
        if kind == "item":
            return self._item(words, int(name))
        if any(word.value is None for word in words):
            return None
        self._budget.step(len(words))
        if len(words) > 1 and not self._splits_at_blanks(node):
            return None
        return " ".join(str(word.value) for word in words)

    def _defaulted(self, node: Node) -> str | None:
        """Return what `${NAME:-default}` stands for, None where that is unknown.

        A variable that nothing here sets may be the image's.
        """
        found = _defaulted(self._script.slice(node))
        if not found or (found[1] == OPT_IN and not self.variables.changes(OPT_IN)):
            return None
        value = self.variables.get(found[1], node.start)
        if value or value is None or not found[2].startswith(":"):
            return value
        is_plain = not found[3] or _PLAIN.match(found[3])
        return found[3] if found[2] == ":-" and is_plain else None

    def _item(self, words: tuple[Word, ...], index: int) -> str | None:
        """Return what `$index` stands for; None where it is unknown which word that is."""
        self._budget.step(min(index, len(words)))
        if index == 0 or any(word.many for word in words[:index]):
            return None
        return words[index - 1].value if index <= len(words) else ""

    def _expansion(self, node: Node, out: "_Decoder", mode: str, start: int) -> None:
        end = node.end
        hidden = self._script.text.hidden_in(start, end)
        name, value = hidden.name if hidden else "_", None
        if node.type in EXPANSIONS and not hidden:
            name, _ = self._named(node)
            value = self._value(node)
        if value is None:
            plain = name if _NAME.match(name) else "_"
            out.opaque(plain, start, end, mode, bool(hidden and hidden.inert))
        else:
            self._budget.charge("expanded", len(value))
            out.fixed(value.encode(), start, end, mode)


def _emit(
    script: Script,
    node: Node,
    out: "_Decoder",
    mode: str,
    expand: Callable[[Node, "_Decoder", str, int], None],
) -> None:
    """Decode a word; hand on what a shell expands in it, with the place where it begins."""
    start, end, kind = node.start, node.end, node.type
    if kind in ("concatenation", "command_name"):
        at = start
        for child in node.children:
            quoting.unquote_bare(out, at, child.start)
            _emit(script, child, out, mode, expand)
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
            expand(child, out, DOUBLE, begin)
            at = child.end
        quoting.unquote_double(out, at, end - 1)
    elif kind in ("word", "number") or not node.named:
        quoting.unquote_bare(out, start, end)
    else:
        expand(node, out, mode, start)


def _defaulted(written: str) -> re.Match[str] | None:
    """Return the name, operator and default of `${NAME:-default}`, None for one that is not read.

    A pattern of `case` may end with the bracket that ends a substitution elsewhere.
    """
    found = _DEFAULTED.match(written.lstrip())
    return None if found is None or ("$(" in found[3] and "case" in found[3]) else found


def literal(script: Script, node: Node, budget: Budget) -> bytes:
    """Return the text of a word without expansions."""
    out = _Decoder(script.text.data, budget)

    def expansion(at: Node, out: _Decoder, mode: str, start: int) -> None:
        out.opaque("_", start, at.end, mode)

    _emit(script, node, out, BARE, expansion)
    return out.build().data


def _vanishes(node: Node) -> bool:
    """Return whether an empty word is none: it has no quotes, only expansions."""
    parts = node.children if node.type == "concatenation" else [node]
    return all(part.type in EXPANSIONS for part in parts)


class _Decoder(TextBuilder):
    """A TextBuilder that charges its work to a budget."""

    def __init__(self, raw: bytes, budget: Budget) -> None:
        super().__init__(raw)
        self._budget = budget

    def unit(self, data: bytes, start: int, end: int, mode: str) -> None:
        self._budget.step()
        super().unit(data, start, end, mode)

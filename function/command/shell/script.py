"""A shell script as it stands: its text, its tree, and what the tree alone tells."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from function.command.places import ListPlace, NodePlace
from function.command.shell.grammar import EXPANSIONS, Node, Tree
from function.command.text import Opaque, Text

# Nodes whose text is more than their children and blanks.
_LOOSE = frozenset(
    """string translated_string heredoc_body heredoc_redirect expansion arithmetic_expansion
 test_command regex c_style_for_statement""".split()  # noqa: SIM905
)
# Builtins that run the builtin behind them, with their options.
_RUN_BUILTINS = ("command", "builtin", "-p", "--")
# {builtin: its option} that makes a name run another command, or takes `A=1` from its words.
_REDEFINES = {"alias": "", "hash": "p", "set": "k"}


@dataclass(frozen=True)
class Holder:
    """Where a script's text stands: an item of a list, or words of another script.

    `script`, `at`: the outer script and its command that starts this one.
    """

    place: ListPlace | tuple[NodePlace, ...] = ()
    script: "Script | None" = None
    at: Node | None = None


@dataclass(eq=False)
class Script:
    """One script. `text`: as its shell reads it. `number`: its place in `Reading.scripts`."""

    text: Text
    holder: Holder
    tree: Tree
    number: int

    def bytes(self, node: Node) -> bytes:
        return self.text.data[node.start : node.end]

    def slice(self, node: Node) -> str:
        return self.bytes(node).decode("utf-8", "replace")

    def line(self, at: int) -> int:
        return self.text.data.count(b"\n", 0, at) + 1

    @cached_property
    def commands(self) -> tuple[Node, ...]:
        """The simple commands, in source order."""
        return tuple(
            n for n in self.tree.nodes if n.type == "command" and n.child("name") is not None
        )

    @cached_property
    def _names(self) -> dict[int, str]:
        return {command.index: self._literal(command.children) for command in self.commands}

    def _literal(self, children: list[Node]) -> str:
        name = next(child for child in children if child.field == "name")
        inner = name.children[0] if name.children else name
        if inner.type not in ("word", "string", "raw_string"):
            return ""
        text = self.slice(inner) if len(name.children) < 2 else ""
        return "" if "$" in text or "`" in text else text.strip("\"'").replace("\\", "")

    def name(self, command: Node) -> str:
        """Return a command's name as written, without quotes; "" for an expansion."""
        return self._names.get(command.index, "")

    def ended_by(self, before: Node) -> str:
        """Return the `exit`, or the `exec` of another program, that always runs before a node."""
        for statement, behind in pairwise(self.tree.nodes[0].children):
            if statement.end > before.start:
                break
            node = statement.child("body") or statement
            if node.type != "command" or behind.type == "&":
                continue
            first = node.child("argument")
            program = self.slice(first) if first is not None else "$"
            if self.name(node) == "exit":
                return "exit"
            if self.name(node) == "exec" and not {"$", "`"} & set(program):
                return f"exec {program}"
        return ""

    @cached_property
    def _by_range(self) -> dict[tuple[int, int], Node]:
        found: dict[tuple[int, int], Node] = {}
        for node in self.tree.nodes:
            found.setdefault((node.start, node.end), node)
        return found

    def node_at(self, start: int, end: int) -> Node | None:
        """Return the outermost node of bytes `start:end`."""
        return self._by_range.get((start, end))

    @cached_property
    def functions(self) -> frozenset[str]:
        """The names of the functions that the script defines."""
        definitions = (n for n in self.tree.nodes if n.type == "function_definition")
        names = (node.child("name") for node in definitions)
        return frozenset(self.slice(name) for name in names if name is not None)

    @cached_property
    def error(self) -> str:
        """Why the grammar cannot read the script, with the line; "" when it can."""
        if not self.tree.broken:
            return self._misread or self.redefined
        bad = next((node.start for node in self.tree.nodes if node.broken), 0)
        return f"the shell grammar cannot read the script (line {self.line(bad)})"

    @property
    def _misread(self) -> str:
        """What the grammar reads differently from a shell without saying so.

        It takes a word that goes on behind a line's end for two words, and passes over an escaped
        blank.
        """
        data = self.text.data
        if (len(data) - len(data.rstrip(b"\\"))) % 2:
            return "the script ends in a backslash"
        for node in self.tree.nodes:
            if node.type == "file_descriptor" and node.end - node.start > 1:
                line = self.line(node.start)
                return f"shells disagree on a long number before a redirection (line {line})"
            if node.type in _LOOSE:
                continue
            words = node.type in ("command", "array")
            for left, right in zip(node.children, node.children[1:], strict=False):
                gap = data[left.end : right.start]
                if gap and not _blank(gap, words):
                    return self._goes_on(left)
            if node.parent is None and node.children:
                left = node.children[-1]
                if not _blank(data[left.end :], False):
                    return self._goes_on(left)
        return ""

    @property
    def redefined(self) -> str:
        """Where the script defines an alias: dash then runs another command than the one named."""
        for command in self.commands:
            words = [self.name(command), *map(self.slice, command.all("argument"))]
            if what := redefines(words):
                return f"{what} (line {self.line(command.start)})"
        return ""

    def _goes_on(self, node: Node) -> str:
        line = self.line(node.end)
        return f"a word goes on behind its end, or its line's end (line {line})"

    @cached_property
    def _hidden(self) -> Opaque | None:
        return next((part for part in self.text.opaque if not part.inert), None)

    @property
    def limit(self) -> int:
        """Behind this byte a text that is not known is pasted in: nothing there can be proven."""
        return self._hidden.start if self._hidden else len(self.text.data)

    @property
    def pasted(self) -> str:
        """The name of the first text that is pasted in and not known, "" without one."""
        return self._hidden.name if self._hidden else ""

    @property
    def loose(self) -> str:
        """Why commands may run that the script's text does not show, "" when none can."""
        if self._hidden is None:
            return ""
        return f"a text that is not known ({self.pasted}) is pasted into the script and run"

    @cached_property
    def uses_of_positional(self) -> int:
        """How often the script expands its positional parameters, `$1` and `$#` among them."""
        return sum(
            node.type in ("variable_name", "special_variable_name")
            and node.parent is not None
            and (node.parent.type in EXPANSIONS or node.parent.type == "subscript")
            and not self.slice(node).isidentifier()
            for node in self.tree.nodes
        )

    @cached_property
    def _bodies(self) -> "_Ranges":
        return _Ranges(n for n in self.tree.nodes if n.type == "function_definition")

    def in_function(self, node: Node) -> bool:
        return self._bodies.hold(node)

    @cached_property
    def _heredocs(self) -> "_Ranges":
        return _Ranges(n for n in self.tree.nodes if n.type == "heredoc_body")

    @cached_property
    def _backquotes(self) -> "_Ranges":
        return _Ranges(
            node
            for node in self.tree.nodes
            if node.type == "command_substitution" and self.bytes(node).lstrip().startswith(b"`")
        )

    def in_heredoc(self, node: Node) -> bool:
        return self._heredocs.hold(node)

    def in_backquotes(self, node: Node) -> bool:
        return self._backquotes.hold(node)


def redefines(words: Sequence[str]) -> str:
    """Return that a command makes others mean something else, "" where it does not."""
    at = next((i for i, word in enumerate(words) if word not in _RUN_BUILTINS), 0)
    start = _REDEFINES.get(words[at]) if words else None
    if start is None or not any(not start or _has_option(word, start) for word in words[at + 1 :]):
        return ""
    return f"it runs {words[at]} -{start}" if start else "it defines an alias"


def _has_option(word: str, letter: str) -> bool:
    return word[:1] == "-" and word[:2] != "--" and letter in word


def _blank(gap: bytes, between_words: bool) -> bool:
    """Whether what stands between two nodes parts them: blanks, and lines' ends behind a blank."""
    joined = gap.replace(b"\\\n", b"")
    if between_words and not joined:
        return False
    return not joined.strip(b" \t\r\n")


class _Ranges:
    """The bytes that some nodes take up."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for node in nodes:
            if not self._ends or node.start >= self._ends[-1]:
                self._starts.append(node.start)
                self._ends.append(node.end)

    def hold(self, node: Node) -> bool:
        at = bisect_right(self._starts, node.start) - 1
        return at >= 0 and node.start < self._ends[at]

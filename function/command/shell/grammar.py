"""The shell grammar: tree-sitter-bash, and its trees as plain nodes.

tree-sitter's own nodes look for their parents and siblings from the root on, so that asking each of
n nodes for them takes n squared steps. Here a tree is copied once into nodes that know them.
"""

from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from function.command.budget import Budget, CallSpent, Cancelled, OverBudget

if TYPE_CHECKING:
    import tree_sitter

# Nodes that may stand as a word of a command.
WORD_KINDS = frozenset(
    """word number string raw_string ansi_c_string translated_string concatenation simple_expansion
 expansion command_substitution arithmetic_expansion process_substitution brace_expression
 extglob_pattern regex special_character variable_name test_operator""".split()  # noqa: SIM905
)
LOOPS = frozenset({"while_statement", "for_statement", "c_style_for_statement"})
EXPANSIONS = frozenset({"simple_expansion", "expansion"})

_BEFORE_COMMAND = frozenset({"variable_assignment", "comment"})
_BEGUN_BY_COMMAND = frozenset({"list", "pipeline", "redirected_statement", "negated_command"})
# How much of a script the lexer is given at a time: what it goes over is counted by it.
_CHUNK = 1024


class Node:
    """One node of a script's tree: bytes `start:end`.

    `index`: its place in source order, from the root on; `last`: that of the last node below it.
    `broken`: the grammar could not read it, or made it up.
    """

    __slots__ = (
        "broken",
        "children",
        "end",
        "field",
        "index",
        "last",
        "named",
        "parent",
        "start",
        "type",
    )

    def __init__(
        self,
        type: str,
        start: int,
        end: int,
        named: bool,
        field: str | None,
        broken: bool,
        parent: "Node | None",
    ) -> None:
        self.type = type
        self.start = start
        self.end = end
        self.named = named
        self.field = field
        self.broken = broken
        self.parent = parent
        self.children: list[Node] = []
        self.index = self.last = 0

    @property
    def named_children(self) -> list["Node"]:
        return [child for child in self.children if child.named]

    def child(self, field: str) -> "Node | None":
        return next((child for child in self.children if child.field == field), None)

    def all(self, field: str) -> list["Node"]:
        return [child for child in self.children if child.field == field]


class Tree:
    """The nodes of a script in source order, the root first. `broken`: it has errors."""

    def __init__(self, root: Node, broken: bool) -> None:
        self.root = root
        self.broken = broken
        self.nodes: list[Node] = []
        self._commands: list[int] = []
        stack = [root]
        while stack:
            node = stack.pop()
            node.index = node.last = len(self.nodes)
            self.nodes.append(node)
            if node.type == "command":
                self._commands.append(node.index)
            stack.extend(reversed(node.children))
        for node in reversed(self.nodes):
            if node.children:
                node.last = node.children[-1].last

    def __del__(self) -> None:
        """Free the nodes at once: parents and children refer to each other.

        Python's collector would stop all threads for 0.2 s to find them.
        """
        for node in self.nodes:
            node.parent = None

    def below(self, node: Node) -> Iterator[Node]:
        """`node` and all that is below it, in source order."""
        for index in range(node.index, node.last + 1):
            yield self.nodes[index]

    def holds_command(self, node: Node) -> bool:
        at = bisect_left(self._commands, node.index)
        return at < len(self._commands) and self._commands[at] <= node.last


@lru_cache(maxsize=1)
def _language() -> "tree_sitter.Language":
    # Imported here: a process that meets no script does not pay for loading the grammar.
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Language(tree_sitter_bash.language())


def parse(data: bytes, budget: Budget) -> Tree:
    """Return the tree of a script. Raise OverBudget."""
    budget.parse(data)
    parsed = _parsed(data, budget)
    cursor = parsed.walk()
    nodes: list[Node] = []
    parent: Node | None = None
    while True:
        raw = cursor.node
        assert raw is not None
        node = Node(
            raw.type,
            raw.start_byte,
            raw.end_byte,
            raw.is_named,
            cursor.field_name,
            raw.is_error or raw.is_missing,
            parent,
        )
        nodes.append(node)
        if parent is not None:
            parent.children.append(node)
        if cursor.goto_first_child():
            parent = node
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent() or parent is None:
                budget.step(len(nodes))
                mended = _parted(data, nodes)
                return Tree(nodes[0], parsed.root_node.has_error or not mended)
            parent = parent.parent


def _parted(data: bytes, nodes: list[Node]) -> bool:
    """Parts assignments from the command of the next line; False where it cannot.

    The grammar takes `A=1 B=2`, a line's end and a command for one command with two assignments.
    """
    before: dict[Node, list[Node]] = {}
    for node in nodes:
        if node.type != "command":
            continue
        own = [i for i, child in enumerate(node.children) if child.type in _BEFORE_COMMAND]
        lines = [i for i in own if i + 1 < len(node.children) and _ends_line(data, node, i)]
        if not lines:
            continue
        line = lines[-1]
        top = node
        while (up := top.parent) and up.type in _BEGUN_BY_COMMAND and up.children[0] is top:
            top = up
        if top.parent is None or top.parent.type in _BEGUN_BY_COMMAND:
            node.broken = True
            return False
        before[top] = node.children[: line + 1]
        node.children = node.children[line + 1 :]
        while node is not top.parent:
            node.start = node.children[0].start
            node = node.parent or top
    for parent in {top.parent for top in before}:
        assert parent is not None
        for child in parent.children:
            for moved in before.get(child, ()):
                moved.parent = parent
        parent.children = [n for child in parent.children for n in (*before.get(child, ()), child)]
    return True


def _ends_line(data: bytes, node: Node, at: int) -> bool:
    gap = data[node.children[at].end : node.children[at + 1].start]
    return b"\n" in gap.replace(b"\\\n", b"")


def _parsed(data: bytes, budget: Budget) -> "tree_sitter.Tree":
    import tree_sitter

    over: list[BaseException] = []

    def read(at: int, _point: object) -> bytes:
        _charge(over, budget)
        return data[at : at + _CHUNK]

    def progress(_at: int, _error: bool) -> bool:
        _charge(over, budget)
        return bool(over)

    # A parser of its own: one that was stopped is not used again.
    try:
        parsed = tree_sitter.Parser(_language()).parse(read, progress_callback=progress)
    except ValueError:  # stopped
        if over:
            raise over[0] from None
        raise
    if over:
        raise over[0]
    return parsed


def _charge(over: list[BaseException], budget: Budget) -> None:
    """Count one step of the parser: what it raises must not go through C."""
    try:
        budget.charge("grammar")
    except (OverBudget, CallSpent, Cancelled) as limit:
        over.append(limit)

"""The shell grammar: tree-sitter-bash, loaded when the first script is met."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

Node = Any  # tree_sitter.Node: the import stays lazy.

# Nodes that may stand as a word of a command.
WORD_KINDS = frozenset(
    [
        "word",
        "number",
        "string",
        "raw_string",
        "ansi_c_string",
        "translated_string",
        "concatenation",
        "simple_expansion",
        "expansion",
        "command_substitution",
        "arithmetic_expansion",
        "process_substitution",
        "brace_expression",
        "extglob_pattern",
        "regex",
        "special_character",
        "variable_name",
        "test_operator",
    ]
)
LOOPS = frozenset({"while_statement", "for_statement", "c_style_for_statement"})


@lru_cache(maxsize=1)
def _parser() -> Any:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


@lru_cache(maxsize=256)
def parse(data: bytes) -> Any:
    """The tree of a script; the same object for the same bytes."""
    return _parser().parse(data)


def walk(node: Node) -> Iterator[Node]:
    """`node` and all that is below it, in source order."""
    stack = [node]
    while stack:
        at = stack.pop()
        yield at
        stack.extend(reversed(at.children))


def ancestors(node: Node) -> Iterator[Node]:
    at = node.parent
    while at is not None:
        yield at
        at = at.parent


def enclosing(node: Node, kinds: frozenset[str]) -> Node | None:
    return next((up for up in ancestors(node) if up.type in kinds), None)


FUNCTION = frozenset({"function_definition"})


def function_of(node: Node) -> Node | None:
    return enclosing(node, FUNCTION)


def regions(node: Node) -> tuple[int, ...]:
    """The chain of conditional or separate parts of the script that `node` stands in.

    If A's chain is a prefix of B's and A stands before B, then A ran, in the same shell, whenever B
    runs (A is not skipped by a branch, nor lost with a subshell).
    """
    chain: list[int] = []
    child = node
    for up in ancestors(node):
        chain[:0] = _region(up, child)
        child = up
    return tuple(chain)


def _region(up: Node, child: Node) -> list[int]:
    """The regions that `up` opens for its child."""
    kind = up.type
    if kind in ("subshell", "command_substitution", "process_substitution", "case_item"):
        return [up.id]
    if kind in ("do_group", "else_clause", "elif_clause", "function_definition", "pipeline"):
        return [child.id if kind == "pipeline" else up.id]
    if kind == "if_statement":
        if child.type in ("else_clause", "elif_clause"):
            return []  # A region of its own, not within the first branch.
        then = next((c.end_byte for c in up.children if c.type == "then"), up.end_byte)
        return [up.id] if child.start_byte >= then else []
    if kind == "list":
        return _list_region(up, child)
    after = child.next_sibling
    return [child.id] if after is not None and after.type == "&" else []


def _list_region(up: Node, child: Node) -> list[int]:
    operator = next((c for c in up.children if c.type in ("&&", "||")), None)
    if operator is None or child.start_byte < operator.start_byte:
        return []
    if operator.type == "||":
        return [up.id]
    # `A && B && C`: C runs only after B ran, so it is within B's region too.
    left = up.children[0]
    return [*(_list_region(left, left.children[-1]) if left.type == "list" else []), up.id]


def in_loop_with(a: Node, b: Node) -> bool:
    """Whether one loop holds both, so that what stands later may run earlier."""
    loops = {up.id for up in ancestors(a) if up.type in LOOPS}
    return any(up.id in loops for up in ancestors(b))


def in_loop(node: Node) -> bool:
    return enclosing(node, LOOPS) is not None

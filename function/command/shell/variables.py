"""The variables of a script whose value is certain where they are expanded.

A variable is known where nothing in the script changes it: it holds what the environment gave it.
One that the script assigns is known where that assignment is its only change, has a static value,
and always runs before the expansion; in the assignment's own value it is what it was before.
`${NAME:=default}` changes nothing where NAME has a value. Any other variable is unknown.
"""

import re
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from function.command.budget import Budget
from function.command.model import Word
from function.command.shell.grammar import LOOPS, Node
from function.command.shell.script import Script

# Returns the value of a variable, None where it is unknown.
Lookup = Callable[[str], str | None]

# The variable of the positional parameters, "$@" and "$1" alike.
POSITIONAL = "@"

_IDENTIFIER = re.compile(rb"[A-Za-z_]\w*", re.ASCII)
# A word that names a variable: `A`, `"A"`, `A=1`, `"A=1"`.
_NAMES = re.compile(rb"[\"']?([A-Za-z_]\w*)(?:\+?=|[\"']?\Z)", re.ASCII)
# `declare -i N`: what is assigned to N is arithmetic. `declare -n N=M`: assigning to N sets M.
_INDIRECT = re.compile(rb"-\w*[in]", re.ASCII)
_WRITTEN_OUT = re.compile(r"[\w./][\w./-]*\Z", re.ASCII)
# Commands that may set any variable: they run a text, or their name is an expansion ("").
_CHANGE_ANY = frozenset({"", ".", "source", "eval", "time", "coproc"})
# Commands that set the variables that their arguments name; `printf` and `wait` with an option.
_NAMING = frozenset({"read", "mapfile", "readarray", "getopts", "let", "printf", "wait"})
# Builtins that change the shell: behind `command` or `builtin` they are not told apart.
_CHANGE_SHELL = frozenset(
    """. declare eval export getopts let local mapfile printf read readarray readonly set shift
 source trap typeset unset wait""".split()  # noqa: SIM905
)
# POSIX: an assignment in front of these stays.
_SPECIAL = frozenset({"", ":", ".", "eval", "set", "shift", "times", "trap", "unset"})
_ARITHMETIC = frozenset({"arithmetic_expansion", "c_style_for_statement", "subscript"})
# Operators of `[[ ]]` whose operands are arithmetic.
_COMPARED = frozenset(b"-eq -ne -lt -le -gt -ge -v".split())
# `${s:M=4:1}`: offset and length are arithmetic. `{M}>file`: M becomes the number of the file.
_SUBSTRING = re.compile(rb"\$\{!?\w+(?:\[[^\]]*\])?:[^-=+?]", re.ASCII)
_OPENS = re.compile(rb"\{([A-Za-z_]\w*)\}[<>]", re.ASCII)
# What assigns in arithmetic; values are evaluated there too.
_ASSIGNS = re.compile(rb"=|\+\+|--")
# Variables that the shell itself changes.
_CHANGED_BY_SHELL = frozenset(
    """_ BASHPID BASH_ARGC BASH_ARGV BASH_COMMAND BASH_LINENO BASH_SOURCE BASH_SUBSHELL COLUMNS
 DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME GROUPS LINENO LINES OLDPWD OPTARG OPTIND
 PIPESTATUS PPID PWD RANDOM REPLY SECONDS SHELLOPTS SHLVL SRANDOM UID""".split()  # noqa: SIM905
)
# Nodes whose children run one after another, and the children that end such a sequence.
_BLOCKS = frozenset(
    """program compound_statement do_group else_clause elif_clause if_statement while_statement
 subshell case_item command_substitution process_substitution""".split()  # noqa: SIM905
)
_DIVIDERS = frozenset({"then", "elif_clause", "else_clause", "fi", "do_group"})
_TRANSPARENT = frozenset({"declaration_command", "variable_assignments", "negated_command"})


@dataclass(frozen=True, slots=True)
class _Constant:
    """A value that its variable has in the bytes `start:end` of the script."""

    value: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Scope:
    """What a script finds when it begins.

    `positional`: the words of "$@", None where they are unknown. `given`: what variables hold.
    `exported`: what they hold in a shell that the script starts, where it does not change them.
    `changed_outside`: whether a script around this one changes a variable that this one sees.
    `depth`: of shells in shells. `before`: the words of the scripts around this one that start it.
    """

    positional: tuple[Word, ...] | None
    given: Lookup
    exported: Lookup
    changed_outside: Callable[[str], bool] = lambda name: False
    depth: int = 0
    before: tuple[Word, ...] = ()


class Variables:
    """The variables of one script."""

    def __init__(self, script: Script, around: Scope, budget: Budget) -> None:
        budget.step(len(script.tree.nodes))
        self._around = around
        self._constants: dict[str, _Constant] = {}
        self._script = script
        changes = _Changes(script, around.given)
        self._scopes = changes.scopes
        self._nodes = changes.names
        self._changed = _CHANGED_BY_SHELL | {
            name
            for name, nodes in changes.names.items()
            if not (all(n.type == "expansion" for n in nodes) and around.given(name))
        }
        self._any_from = changes.any_from
        self._any_by = changes.any_by
        self._positional_until = changes.positional_until
        self.assignments = tuple(
            nodes[0]
            for name, nodes in changes.names.items()
            if len(nodes) == 1
            and nodes[0].type == "variable_assignment"
            and name not in _CHANGED_BY_SHELL
        )
        self._once = {
            self._script.slice(node.children[0]): node
            for node in self.assignments
            if node.index not in changes.repeated
        }

    def define(self, assignment: Node, value: str) -> None:
        """Add the value of one of `assignments`, which come in source order."""
        name = self._script.slice(assignment.children[0])
        self._constants[name] = _Constant(value, assignment.end, self._scopes.end(assignment))

    def changes(self, name: str) -> bool:
        """Return whether the text of the script, or of one around it, changes `name`."""
        return name in self._changed or self._around.changed_outside(name)

    def assigned(self, name: str) -> list[Node]:
        """Return what the script itself changes a variable by."""
        return self._nodes.get(name, [])

    def changed_by(self, at: int) -> Node | None:
        """Return the command that may have changed any variable before byte `at`."""
        return self._any_by if at >= self._any_from else None

    def is_given(self, name: str) -> bool:
        """Return whether the environment gives `name` a value, and the script changes none."""
        return name not in self._changed and self._around.given(name) is not None

    def get(self, name: str, at: int) -> str | None:
        """Return what `name` holds at byte `at` of the script."""
        if at >= self._any_from:
            return None
        constant = self._constants.get(name)
        if constant is not None:
            return constant.value if constant.start <= at < constant.end else None
        own = self._once.get(name)
        if own is not None and own.start <= at < own.end:
            return self._around.given(name)
        return None if name in self._changed else self._around.given(name)

    def exported(self, name: str, at: int) -> str | None:
        """Return what `name` holds in a shell that is started at byte `at`."""
        if at >= self._any_from or name in self._changed:
            return None
        return self._around.exported(name)

    def positional(self, node: Node) -> tuple[Word, ...] | None:
        """Return the words of "$@" at `node`."""
        if node.start >= self._positional_until or self._script.in_function(node):
            return None
        return self._around.positional

    def splits_at_blanks(self, at: int) -> bool:
        """Return whether an unquoted expansion at byte `at` is split at white space, as usual."""
        return at < self._any_from and not self.changes("IFS")


class _Changes:
    """What a script changes.

    `names`: {variable: the nodes that change it}. `any_from`: the byte from which any variable may
    have changed. `any_by`: the command that may change it, None for a script that cannot be read.
    `positional_until`: the byte from which "$@" may have.
    """

    def __init__(self, script: Script, given: Lookup) -> None:
        self.names: dict[str, list[Node]] = {}
        # The indexes of nodes of `names` that may run more than once.
        self.repeated: set[int] = set()
        # What cannot be read may change anything.
        self.any_from = self.positional_until = 0 if script.error else len(script.text.data) + 2
        self.any_by: Node | None = None
        self.scopes = _Scopes()
        self._script = script
        # The outermost loop or function around the current node: what changes in it may have
        # changed before its first byte is reached again.
        self._repeated: Node | None = None
        self._arithmetic_until = 0
        # The first node of arithmetic, and the names in all of it.
        self._in_arithmetic: Node | None = None
        self._names_in_arithmetic: set[str] = set()
        for node in script.tree.nodes:
            if (node.type in LOOPS or node.type == "function_definition") and (
                self._repeated is None or node.index > self._repeated.last
            ):
                self._repeated = node
            self._read(node)
        for found in _OPENS.finditer(script.text.data):
            self._change(found[1].decode(), script.tree.root)
        self._evaluated(given)

    def _evaluated(self, given: Lookup) -> None:
        """Mark what arithmetic changes by the values of the variables that it names (`x=M=5`)."""
        if self._in_arithmetic is None:
            return
        known = (given(name) or "" for name in self._names_in_arithmetic)
        changing = {node.index: node for nodes in self.names.values() for node in nodes}
        values = [
            self._script.bytes(value)
            for node in changing.values()
            if node.type == "variable_assignment" and (value := node.child("value")) is not None
        ]
        for text in (*values, *(each.encode() for each in known)):
            if _ASSIGNS.search(text):
                self._mentioned(text, self._in_arithmetic)

    def _read(self, node: Node) -> None:
        match node.type:
            case "variable_assignment":
                self._assignment(node)
            case "list":
                self.scopes.add(node)
            case "command" if node.child("name") is not None:
                self._command(node)
            case "declaration_command" | "unset_command":
                self._declaration(node)
            case "for_statement":
                self._named(node, node.all("variable"))
            case "expansion" if any(child.type in ("=", ":=") for child in node.children):
                self._named(node, node.named_children[:1])
            case "expansion" if _SUBSTRING.match(self._script.bytes(node).lstrip()):
                self._arithmetic(node)
            case "binary_expression" | "unary_expression" if any(
                child.type == "test_operator" and self._script.bytes(child) in _COMPARED
                for child in node.children
            ):
                self._arithmetic(node)
            case kind if kind in _ARITHMETIC or (
                kind == "compound_statement"
                and self._script.text.data.startswith(b"((", node.start)
            ):
                self._arithmetic(node)

    def _assignment(self, node: Node) -> None:
        name, parent = node.child("name"), node.parent
        if parent is not None and parent.type == "command":
            command = self._script.name(parent)
            if command in _SPECIAL or command in self._script.functions:
                self._named(parent, node.children[:1])
        elif name is None:
            self._any(node)
        elif name.type != "variable_name":
            self._named(name, name.children[:1])
        elif node.children[1].type != "=":
            self._named(name, [name])
        else:
            self._change(self._script.slice(name), node)

    def _declaration(self, node: Node) -> None:
        """Read export, declare, local and unset: with options they may do more than assign."""
        exports = self._script.text.data.startswith(b"export", node.start)
        options = any(self._script.bytes(child)[:1] in (b"-", b"+") for child in node.children)
        if not exports and any(_INDIRECT.match(self._script.bytes(c)) for c in node.children):
            self._any(node, positional=False)  # `N=A=2` sets A too, here or later
        for child in node.named_children:
            if child.type == "variable_assignment":
                if options:
                    self._named(node, child.children[:1])
            elif not (exports and not options and child.type == "variable_name"):
                self._named(node, [child])

    def _command(self, node: Node) -> None:
        name = self._script.name(node)
        arguments = node.all("argument")
        first = self._script.slice(arguments[0]) if arguments else ""
        if name in ("command", "builtin"):
            # Harmless where the next word is written out and does not change the shell.
            asks = not arguments or first in ("-v", "-V")
            if not asks and (not _WRITTEN_OUT.match(first) or first in _CHANGE_SHELL):
                self._any(node)
        elif name in _CHANGE_ANY:
            self._any(node, positional=name not in (".", "source"))
        elif name == "shift" or (name == "set" and self._sets_words(arguments)):
            self.positional_until = 0
        elif name == "trap":
            self._trap(node, first)
        elif name in ("test", "["):
            # The subscript of `-v NAME[...]` is arithmetic.
            for argument in arguments if any(map(self._asks, arguments)) else ():
                self._arithmetic(argument)
        elif name in _NAMING and (
            name not in ("printf", "wait") or first.lstrip("\"'\\")[:1] in ("-", "$", "`")
        ):
            for argument in arguments:
                text = self._script.bytes(argument)
                if b"$" in text or b"`" in text:
                    self._any(node)
                self._mentioned(text.removeprefix(b"-v"), node)

    def _asks(self, argument: Node) -> bool:
        return self._script.bytes(argument) in (b"-v", b"-R")

    def _trap(self, node: Node, handler: str) -> None:
        """Mark what a trap names as changed: it may run at any time."""
        text = self._script.slice(node)
        runs_text = {"eval", "source", "."} & set(re.split(r"[\s;&|'\"]", text))
        if runs_text or handler.lstrip('"')[:1] in ("$", "`"):
            self.any_from = self.positional_until = 0
            self.any_by = self.any_by or node
        self._mentioned(text.encode(), node)

    def _sets_words(self, arguments: list[Node]) -> bool:
        """Return whether `set` has words behind its options."""
        operand = False
        for argument in arguments:
            text = self._script.slice(argument)
            if operand:
                operand = False
            elif text[:1] in ("-", "+") and text[1:].isalpha():
                operand = text.endswith("o")
            else:
                return True
        return False

    def _arithmetic(self, node: Node) -> None:
        if self._script.bytes(node).endswith((b"[@]", b"[*]")):
            return  # all of an array
        body = node.child("body")
        end = body.start if body is not None else node.end
        if node.start < self._arithmetic_until:
            return  # It was read with the one around it.
        self._arithmetic_until = end
        text = self._script.text.data[node.start : end]
        found = _IDENTIFIER.findall(text)
        if found:
            self._in_arithmetic = self._in_arithmetic or node
            self._names_in_arithmetic.update(name.decode() for name in found)
        if _ASSIGNS.search(text):
            self._mentioned(text, node)

    def _mentioned(self, text: bytes, node: Node) -> None:
        for name in set(_IDENTIFIER.findall(text)):
            self._change(name.decode(), node)

    def _named(self, node: Node, words: list[Node]) -> None:
        """Record a change of the variables that `words` name; of any where one names none."""
        for word in words:
            text = self._script.bytes(word)
            if name := _NAMES.match(text):
                self._change(name[1].decode(), node)
            elif text[:1] not in (b"-", b"+"):
                self._any(node)

    def _change(self, name: str, node: Node) -> None:
        self.names.setdefault(name, []).append(node)
        if self._around(node) is not None:
            self.repeated.add(node.index)

    def _around(self, node: Node) -> Node | None:
        """Return the outermost loop or function around the node that is read."""
        around = self._repeated
        return around if around is not None and node.index <= around.last else None

    def _any(self, node: Node, positional: bool = True) -> None:
        around = self._around(node)
        at = node.end if around is None else around.start
        if at < self.any_from:
            self.any_from, self.any_by = at, node
        if positional:
            self.positional_until = min(self.positional_until, at)


class _Scopes:
    """The bytes behind an assignment that run only after it, in the same shell."""

    def __init__(self) -> None:
        # {index of a list: the end of its own scope, and that of its last command}
        self._lists: dict[int, tuple[int, int]] = {}
        self._dividers: dict[int, list[int]] = {}

    def add(self, node: Node) -> None:
        """Add a list (`A && B`); the one around it comes first."""
        last, parent = node.end, node.parent
        goes_on = parent is not None and parent.type == "list" and parent.children[0] is node
        if parent is not None and goes_on and _joins(node) and _joins(parent):
            last = self._lists[parent.index][1]
        self._lists[node.index] = (self.end(node), last)

    def end(self, node: Node) -> int:
        while (parent := node.parent) is not None:
            at = bisect_left(parent.children, node.start, key=lambda child: child.start)
            while parent.children[at] is not node:
                at += 1
            following = parent.children[at + 1].type if at + 1 < len(parent.children) else ""
            if following == "&":
                break
            if parent.type == "list":
                return self._lists[parent.index][0 if at == 0 else 1]
            if parent.type in _BLOCKS:
                return self._block_end(parent, node.end)
            if parent.type not in _TRANSPARENT:
                break
            node = parent
        return node.end

    def _block_end(self, block: Node, at: int) -> int:
        """Return the end of the sequence of `block` in which byte `at` stands."""
        if block.index not in self._dividers:
            dividers = [child.start for child in block.children if child.type in _DIVIDERS]
            self._dividers[block.index] = [*dividers, block.end]
        ends = self._dividers[block.index]
        return ends[bisect_left(ends, at)]


def _joins(node: Node) -> bool:
    """Return whether a list is one of `&&`."""
    return next((c.type for c in node.children if c.type in ("&&", "||")), "") == "&&"

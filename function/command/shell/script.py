"""A shell script, read: its commands, and the engine calls among them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from function.command import exec_form
from function.command.kubernetes import Env
from function.command.model import Word
from function.command.reading import ListPlace, NodePlace
from function.command.shell import grammar, values
from function.command.shell.grammar import Node
from function.command.shell.scope import POSITIONAL, Event, Scope, State
from function.command.text import Text

# Nodes whose text is more than their children and blanks.
_LOOSE = frozenset(
    """string translated_string heredoc_body heredoc_redirect expansion arithmetic_expansion
 test_command regex c_style_for_statement""".split()  # noqa: SIM905
)

_ENDED_BY_COMMAND = frozenset({"list", "pipeline", "negated_command"})


@dataclass(frozen=True)
class Holder:
    """Where a script's text stands: an item of a list, or nodes of another script.

    `at`: the command of the outer script that starts this one. `shares`: it runs in the same shell
    (eval), and sees the outer variables.
    """

    place: ListPlace | tuple[NodePlace, ...] = ()
    script: "Script | None" = None
    at: Node | None = None
    shares: bool = False


@dataclass(eq=False)
class Script:
    """One script. `text`: as its shell reads it. `positional`: its "$@", None when unknown."""

    text: Text
    holder: Holder
    positional: tuple[Word, ...] | None
    env: Env
    masked: frozenset[str] = frozenset()
    functions: dict[str, list[Node]] = field(default_factory=dict)
    commands: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        # A shell's input ends like a line; the grammar wants it said (`... \\` at the very end).
        self.tree: Any = grammar.parse(self.text.data + b"\n")
        for node in grammar.walk(self.tree.root_node):
            if node.type == "command" and node.child_by_field_name("name") is not None:
                self.commands.append(node)
            elif node.type == "function_definition":
                name = node.child_by_field_name("name")
                if name is not None:
                    self.functions.setdefault(self.slice(name), []).append(node)

    @cached_property
    def scope(self) -> Scope:
        return Scope(self)

    @cached_property
    def error(self) -> str:
        """Why the grammar cannot read the script, with the line; "" when it can."""
        if not self.tree.root_node.has_error:
            return self._joined
        bad = next(
            (n for n in grammar.walk(self.tree.root_node) if n.is_error or n.is_missing), None
        )
        line = bad.start_point.row + 1 if bad is not None else 1
        return f"the shell grammar cannot read the script (line {line})"

    @property
    def _joined(self) -> str:
        """What the grammar reads differently from a shell without saying so.

        It takes a word that goes on behind a line's end for two words, and passes over an escaped
        blank.
        """
        data = self.text.data
        if (len(data) - len(data.rstrip(b"\\"))) % 2:
            return "the script ends in a backslash"
        for node in grammar.walk(self.tree.root_node):
            if node.type == "file_descriptor" and node.end_byte - node.start_byte > 1:
                line = node.start_point.row + 1
                return f"shells disagree on a long number before a redirection (line {line})"
            if node.type in _LOOSE:
                continue
            ends = [*node.children[1:], None] if node.parent is None else node.children[1:]
            for left, right in zip(node.children, ends, strict=False):
                gap = data[left.end_byte : right.start_byte if right else len(data)]
                word_to_word = right is not None and node.type in ("command", "array")
                if gap.replace(b"\\\n", b"").strip(b" \t\r\n") or (
                    word_to_word and gap and not gap.replace(b"\\\n", b"")
                ):
                    line = left.end_point.row + 1
                    return f"a word goes on behind its end, or its line's end (line {line})"
        return ""

    @cached_property
    def limit(self) -> int:
        """Behind this byte a text that is not known is pasted in: nothing there can be proven."""
        return next((o.start for o in self.text.opaque if not o.inert), len(self.text.data))

    @property
    def loose(self) -> str:
        """Why commands may run that the script's text does not show, "" when none can."""
        if self.limit == len(self.text.data):
            return ""
        name = next(o.name for o in self.text.opaque if not o.inert)
        return f"a text that is not known ({name}) is pasted into the script and run"

    @cached_property
    def _references(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for node in grammar.walk(self.tree.root_node):
            if node.type in ("variable_name", "special_variable_name") and (
                node.parent.type in ("simple_expansion", "expansion", "subscript")
            ):
                name = self.slice(node)
                key = POSITIONAL if not name.isidentifier() else name
                counts[key] = counts.get(key, 0) + 1
        return counts

    def references(self, name: str) -> int:
        return self._references.get(name, 0)

    def bytes(self, node: Node) -> bytes:
        return self.text.data[node.start_byte : node.end_byte]

    def slice(self, node: Node) -> str:
        return self.bytes(node).decode("utf-8", "replace")

    def initial(self, name: str) -> State:
        """What variable `name` holds when the script begins."""
        if name in self.masked or name in self.env.unknown:
            return None
        outer = self.holder.script
        if outer is None:
            return self.env.literal.get(name)
        if self.holder.shares:
            return outer.scope.resolve(name, self.holder.at)
        return None if outer.scope.assigned(name) else outer.initial(name)

    def nodes_of(self, command: Node) -> list[Node]:
        """The word nodes of a command, its name first; those behind a redirection too."""
        nodes = [command.child_by_field_name("name")]
        nodes += [
            c
            for i, c in enumerate(command.children)
            if command.field_name_for_child(i) == "argument"
        ]
        for redirect in _redirects_behind(command):
            if redirect.type == "file_redirect":
                nodes += redirect.children_by_field_name("destination")[1:]
            elif redirect.type == "heredoc_redirect":
                nodes += redirect.children_by_field_name("argument")
        return nodes

    def words_of(self, command: Node) -> list[tuple[Node, tuple[Word, ...]]]:
        return [(node, values.words(self, node)) for node in self.nodes_of(command)]

    def arguments_of(self, command: Node) -> tuple[Word, ...]:
        """The words after a command's name: the "$@" of the function it calls."""
        found = [word for _, listed in self.words_of(command) for word in listed]
        return tuple(found[1:])

    def calls_of(self, function: str) -> list[Node]:
        return [c for c in self.commands if self.slice(c.child_by_field_name("name")) == function]

    def assigned_value(self, event: Event) -> State:
        """The content that a `set` or `append` event gives."""
        if event.name == POSITIONAL:
            listed = self.arguments_of(event.node)
            bare = next((i for i, word in enumerate(listed) if word.value == "--"), None)
            return None if bare is None else listed[bare + 1 :]
        if event.value is None:
            return ""
        if event.value.type == "array":
            children = event.value.named_children
            return tuple(word for child in children for word in values.words(self, child))
        text = values.text_of(self, [event.value])
        hidden = self.text.hidden_in(event.value.start_byte, event.value.end_byte)
        return None if text.opaque or hidden else text.decode()


def _redirects_behind(command: Node) -> Iterator[Node]:
    """The redirections that end a command; the grammar hangs them on the list that it ends."""
    node = command
    while (up := node.parent) is not None:
        if up.type == "redirected_statement":
            body = up.child_by_field_name("body")
            if body is None or body.id != node.id:
                return
            yield from up.children_by_field_name("redirect")
        elif up.type not in _ENDED_BY_COMMAND or up.children[-1].id != node.id:
            return
        node = up


@dataclass(frozen=True)
class Found:
    """One command of a script that is more than known to be harmless."""

    script: Script
    node: Node
    # Per word of the command: the node that gives it.
    nodes: tuple[Node, ...]
    words: tuple[Word, ...]
    outcome: exec_form.Outcome


def commands(script: Script, depth: int = 0) -> Iterator[Found]:
    """What the commands of `script` come down to, nested scripts included, in source order."""
    for node in script.commands:
        pairs = script.words_of(node)
        flat = [(at, word) for at, listed in pairs for word in listed]
        nodes = tuple(at for at, _ in flat)
        words = tuple(word for _, word in flat)
        if words and words[0].value in script.functions:
            continue  # Its body is read where it is defined.
        outcome = exec_form.outcome(words, in_script=True)
        found = Found(script, node, nodes, words, outcome)
        inner = _nested(found, pairs) if depth < 8 else None
        if inner is None:
            yield found
        else:
            yield Found(inner, node, (), (), outcome)
            yield from commands(inner, depth + 1)


def _nested(found: Found, pairs: Sequence[tuple[Node, tuple[Word, ...]]]) -> Script | None:
    """The script that a command runs: of `sh -c`, or of `eval`."""
    outer, outcome = found.script, found.outcome
    if isinstance(outcome, exec_form.Shell):
        word = found.words[outcome.at]
        if not isinstance(word.place, NodePlace) or word.many or not word.certain:
            return None
        place = word.place
        holders = tuple(
            node
            for node in grammar.walk(outer.tree.root_node)
            if (node.start_byte, node.end_byte) == (place.start, place.end)
        )[:1]
        if place.script is not outer or not holders or word.origin:
            return None
        text = values.text_of(outer, holders)
        holder = Holder((place,), outer, found.node)
        return Script(
            text,
            holder,
            positional(found.words[outcome.at + 1 :]),
            outer.env,
            _prefixed(outer, found.node),
        )
    if isinstance(outcome, exec_form.Evaluated) and outcome.at < len(found.words):
        first = found.nodes[outcome.at]
        nodes = [node for node, _ in pairs if node.start_byte >= first.start_byte]
        text = values.text_of(outer, nodes)
        places = tuple(NodePlace(outer, node.start_byte, node.end_byte) for node in nodes)
        holder = Holder(places, outer, found.node, shares=True)
        state = outer.scope.resolve(POSITIONAL, found.node)
        own = state if isinstance(state, tuple) else None
        return Script(text, holder, own, outer.env, _prefixed(outer, found.node))
    return None


def positional(words: Sequence[Word]) -> tuple[Word, ...] | None:
    """The "$@" of a shell that is given `words` behind its script; the first of them is its $0."""
    if words and (words[0].many or not words[0].certain):
        return None
    return tuple(words[1:])


def _prefixed(script: Script, command: Node) -> frozenset[str]:
    """The variables that `A=1 command` sets for the command alone."""
    return frozenset(
        script.slice(name)
        for child in command.children
        if child.type == "variable_assignment"
        and (name := child.child_by_field_name("name")) is not None
    )

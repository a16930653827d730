"""What the variables of a script hold at a place in it, as far as that can be known.

A variable is known where every event on it is: assignments that surely ran before, in the same
shell. An array that grows inside a branch gives words that are not certain. All else is unknown.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from function.command.model import Word
from function.command.shell import grammar
from function.command.shell.grammar import Node

if TYPE_CHECKING:
    from function.command.shell.script import Script

# A variable's content: a text, an array's words, or None for unknown.
State = str | tuple[Word, ...] | None

POSITIONAL = "@"
ANY = "*"
_IDENTIFIER = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_DEPTH = 24


@dataclass(frozen=True)
class Event:
    """Something that changes variable `name` at `node`: kind is set, append, shift or kill."""

    name: str
    kind: str
    node: Node
    value: Node | None = None


def events(script: "Script") -> Iterator[Event]:
    """Every event of a script, in source order. ANY: whatever variable, or all of them."""
    for node in grammar.walk(script.tree.root_node):
        kind = node.type
        if kind == "variable_assignment":
            yield from _assignment(script, node)
        elif kind == "for_statement":
            variable = node.child_by_field_name("variable")
            yield Event(script.slice(variable) if variable else ANY, "kill", node)
        elif kind == "unset_command":
            for child in node.named_children:
                yield Event(script.slice(child), "kill", node)
        elif kind == "declaration_command":
            for child in node.named_children:
                if child.type == "variable_name" and not script.slice(node).startswith("export"):
                    yield Event(script.slice(child), "kill", node)
        elif kind == "expansion" and any(c.type in ("=", ":=") for c in node.children):
            yield Event(script.slice(node.named_children[0]), "kill", node)
        elif kind in ("c_style_for_statement", "arithmetic_expansion") or (
            kind == "compound_statement" and script.slice(node).startswith("((")
        ):
            yield from _arithmetic(script, node)
        elif kind == "command":
            yield from _command(script, node)


def _assignment(script: "Script", node: Node) -> Iterator[Event]:
    if node.parent.type == "command":
        return  # Only for that one command; its own words are expanded without it.
    name = node.child_by_field_name("name")
    if name is None or name.type != "variable_name":
        yield Event(script.slice(name.named_children[0]) if name else ANY, "kill", node)
        return
    kind = "append" if any(c.type == "+=" for c in node.children) else "set"
    yield Event(script.slice(name), kind, node, node.child_by_field_name("value"))


def _arithmetic(script: "Script", node: Node) -> Iterator[Event]:
    body = node.child_by_field_name("body")
    text = script.text.data[node.start_byte : body.start_byte if body else node.end_byte]
    if b"=" in text or b"++" in text or b"--" in text:
        for name in sorted(set(_IDENTIFIER.findall(text))):
            yield Event(name.decode(), "kill", node)


_READERS = frozenset({"read", "mapfile", "readarray", "getopts", "let", "printf", "wait"})


def _command(script: "Script", node: Node) -> Iterator[Event]:
    name_node = node.child_by_field_name("name")
    name = script.slice(name_node) if name_node else ""
    if name in (".", "source", "eval"):
        yield Event(ANY, "kill", node)
    elif name == "shift":
        yield Event(POSITIONAL, "shift", node)
    elif name == "set":
        arguments = list(node.children_by_field_name("argument"))
        for index, argument in enumerate(arguments):
            text = script.slice(argument)
            if text == "--":
                yield Event(POSITIONAL, "set", node)
                return
            if not (text.startswith(("-", "+")) or (index and "o" in script.slice(arguments[0]))):
                yield Event(POSITIONAL, "kill", node)
                return
    elif name in _READERS:
        for argument in node.children_by_field_name("argument"):
            found = _IDENTIFIER.match(script.text.data[argument.start_byte : argument.end_byte])
            if found:
                yield Event(found[0].decode(), "kill", node)


class Scope:
    """Resolves names at places of one script. `evaluate` gives the words of an event's nodes."""

    def __init__(self, script: "Script") -> None:
        self._script = script
        self._events = list(events(script))
        self._depth = 0

    def assigned(self, name: str) -> bool:
        return any(event.name in (name, ANY) for event in self._events)

    def set_here(self, name: str) -> bool:
        """Whether the script's own text changes `name`."""
        return any(event.name == name for event in self._events)

    def resolve(self, name: str, at: Node) -> State:
        """The content of `name` ("@" for the positional parameters) at node `at`."""
        if self._depth > _DEPTH:
            return None
        self._depth += 1
        try:
            return self._resolve(name, at)
        finally:
            self._depth -= 1

    def _resolve(self, name: str, at: Node) -> State:
        function = grammar.function_of(at)
        relevant = [event for event in self._events if event.name in (name, ANY)]
        if name == POSITIONAL:
            # Each function has its own.
            relevant = [
                event
                for event in relevant
                if event.name == name and _same(grammar.function_of(event.node), function)
            ]
            state = self._arguments(function)
        elif function is not None:
            if any(not _same(grammar.function_of(event.node), function) for event in relevant):
                outer = self._only_call(function)
                if outer is None:
                    return None
                state = self.resolve(name, outer)
                relevant = [e for e in relevant if _same(grammar.function_of(e.node), function)]
            else:
                state = self._script.initial(name)
        else:
            state = self._script.initial(name)
        chain = grammar.regions(at)
        for event in relevant:
            state = self._apply(event, state, at, chain)
        return state

    def _apply(self, event: Event, state: State, at: Node, chain: tuple[int, ...]) -> State:
        node = event.node
        if node.start_byte <= at.start_byte < node.end_byte:
            # The place stands in the event itself (`set -- "$@" x`): what was before counts.
            return None if grammar.in_loop(node) else state
        if node.start_byte > at.start_byte:
            return None if grammar.in_loop_with(node, at) else state
        if event.kind == "kill":
            return None
        own = grammar.regions(node)
        sure = chain[: len(own)] == own
        if event.kind == "set":
            return self._script.assigned_value(event) if sure else None
        if grammar.in_loop(node):
            return None
        if event.kind == "shift":
            return _shifted(state) if sure and _plain_shift(self._script, node) else None
        return _appended(state, self._script.assigned_value(event), sure)

    def _arguments(self, function: Node | None) -> State:
        if function is None:
            return self._script.positional
        call = self._only_call(function)
        return None if call is None else self._script.arguments_of(call)

    def _only_call(self, function: Node) -> Node | None:
        """The one command that calls the function, if there is exactly one outside of it."""
        name_node = function.child_by_field_name("name")
        name = self._script.slice(name_node) if name_node else ""
        if len(self._script.functions.get(name, ())) != 1:
            return None
        calls = self._script.calls_of(name)
        if len(calls) != 1 or _same(grammar.function_of(calls[0]), function):
            return None
        return calls[0]


def _same(a: Node | None, b: Node | None) -> bool:
    return (a.id if a is not None else None) == (b.id if b is not None else None)


def _plain_shift(script: "Script", node: Node) -> bool:
    return not node.children_by_field_name("argument")


def _shifted(state: State) -> State:
    if not isinstance(state, tuple) or not state or state[0].many or not state[0].certain:
        return None
    return state[1:]


def _appended(state: State, value: State, sure: bool) -> State:
    if isinstance(state, tuple) and isinstance(value, tuple):
        return state + (value if sure else tuple(replace(w, certain=False) for w in value))
    if isinstance(state, str) and isinstance(value, str) and sure:
        return state + value
    return None


Resolver = Callable[[str, Node], State]

"""What the variables of a script hold while it is read, in the order in which it runs.

A variable is known where everything that changes it is known to have run, in the same shell. What a
branch, a subshell or a loop does is known inside of it; behind it, what it set is unknown, and an
array that grew there has words that are not certain.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from function.command.budget import Budget
from function.command.shell.grammar import Node
from function.command.shell.script import POSITIONAL, Script
from function.command.shell.state import State, TextValue, WordsValue

_IDENTIFIER = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_WORD = re.compile(r"\w+")
_ASSIGNED = re.compile(r"(?<!\w)(\w++)\+?=")

# Commands that set the variables that their arguments name.
_READERS = frozenset({"read", "mapfile", "readarray", "getopts", "let", "printf", "wait"})
# Commands that run a text which may set any variable; `time` runs an assignment as well.
_RUN_TEXT = frozenset({".", "source", "eval", "time"})
# Those whose words may name a function that they run.
_MAY_CALL = frozenset({"", "eval", "time", "trap"})
# Options of declare, local and typeset that change what is assigned, or to what.
_CONVERTING = frozenset("iluncA")

SET, APPEND, SHIFT, KILL, WIPE = "set", "append", "shift", "kill", "wipe"


@dataclass(frozen=True)
class Event:
    """What changes variable `name` when `node` has run. `kind`: SET to `value`, APPEND `value`,
    SHIFT, KILL (to something unknown), WIPE (any variable may change)."""

    name: str
    kind: str
    node: Node
    value: Node | None = None


class Facts:
    """What a script's tree tells of its variables and functions, whatever the order.

    `events`: {index of a node: its events}. `changed`: the variables that the script changes, ""
    among them where it may change any.
    `volatile`: those whose order of changes cannot be told: by an expansion (`${X:=1}`), by
    arithmetic, by a trap, by `declare -i`. `once`: {index of a command: the function that nothing
    but this command calls}. `functional`: the variables that functions change; `apart`: those of
    functions that are not run exactly once; `..._wipes`: one of them may change any variable.
    """

    def __init__(self, script: Script, budget: Budget) -> None:
        self._budget = budget
        budget.step(2 * len(script.tree.nodes))
        self._events = [e for node in script.tree.nodes for e in _events(script, node)]
        self._indexes = [event.node.index for event in self._events]
        self.events: dict[int, list[Event]] = {}
        for event in self._events:
            self.events.setdefault(event.node.index, []).append(event)
        self.volatile = {n for node in script.tree.nodes for n in _volatile(script, node, budget)}
        self.changed = {event.name for event in self._events}
        self.once: dict[int, Node] = {}
        self.functional: set[str] = set()
        self.functional_wipes = False
        self.apart: set[str] = set()
        self.apart_wipes = False
        # Where a function is called, or may be.
        self._calls: list[int] = []
        trapped, set_by_traps = _trapped(script)
        self.volatile |= set_by_traps
        if script.functions:
            self._functions(script, trapped)
        self.changed |= self.volatile

    def _functions(self, script: Script, trapped: set[str]) -> None:
        calls: dict[str, list[Node]] = {}
        for command in script.commands:
            name = script.name(command)
            named = {name} & script.functions.keys()
            if name in _MAY_CALL:
                named = set(_WORD.findall(script.slice(command))) & script.functions.keys()
            for function in named:
                calls.setdefault(function, []).append(command)
            if named or not name:
                self._calls.append(command.index)
        enclosing = _enclosing(script)
        callers: dict[int, Node | None] = {}
        for name, definitions in script.functions.items():
            used = calls.get(name, [])
            if len(definitions) == len(used) == 1 and script.name(used[0]) == name:
                self.once[used[0].index] = definitions[0]
                callers[definitions[0].index] = enclosing[used[0].index]
        run_once = _run_once(callers)
        for name, definitions in script.functions.items():
            for definition in definitions:
                names, wipes = self._changes(definition)
                names.discard(POSITIONAL)
                self.functional |= names
                self.functional_wipes |= wipes
                if definition.index not in run_once:
                    self.apart |= names
                    self.apart_wipes |= wipes
                if name in trapped:
                    self.volatile |= names

    def _changes(self, node: Node) -> tuple[set[str], bool]:
        """What the events of a node and of all below it change, and whether it may be anything."""
        low = bisect_left(self._indexes, node.index)
        high = bisect_right(self._indexes, node.last)
        self._budget.step(high - low)
        events = self._events[low:high]
        return {e.name for e in events if e.name}, any(e.kind == WIPE for e in events)

    def changed_in(self, loop: Node) -> tuple[set[str], bool, bool]:
        """What a loop itself changes; whether it may be anything; whether it calls functions."""
        names, wipes = self._changes(loop)
        at = bisect_left(self._calls, loop.index)
        calls = at < len(self._calls) and self._calls[at] <= loop.last
        return names, wipes, calls


def _enclosing(script: Script) -> dict[int, Node | None]:
    """{index of a command: the function in whose body it stands}"""
    found: dict[int, Node | None] = {}
    stack: list[Node] = []
    for node in script.tree.nodes:
        while stack and stack[-1].last < node.index:
            stack.pop()
        if node.type == "command":
            found[node.index] = stack[-1] if stack else None
        elif node.type == "function_definition":
            stack.append(node)
    return found


def _run_once(callers: dict[int, Node | None]) -> set[int]:
    """The functions that are called once, by the script itself or by a function that is."""
    found: set[int] = set()
    below: dict[int, list[int]] = {}
    for function, caller in callers.items():
        if caller is not None:
            below.setdefault(caller.index, []).append(function)
    stack = [function for function, caller in callers.items() if caller is None]
    while stack:
        function = stack.pop()
        found.add(function)
        stack += below.get(function, ())
    return found


def _events(script: Script, node: Node) -> Iterator[Event]:
    match node.type:
        case "variable_assignment":
            yield from _assignment(script, node)
        case "for_statement":
            variable = node.child("variable")
            if variable is not None:
                yield Event(script.slice(variable), KILL, node)
        case "unset_command":
            for child in node.named_children:
                yield Event(script.slice(child), KILL, node)
        case "declaration_command" if not script.text.data.startswith(b"export", node.start):
            for child in node.named_children:
                if child.type == "variable_name":
                    yield Event(script.slice(child), KILL, node)
        case "command":
            yield from _command(script, node)


def _assignment(script: Script, node: Node) -> Iterator[Event]:
    if node.parent is not None and node.parent.type == "command":
        return  # Only for that one command; its own words are expanded without it.
    name = node.child("name")
    if name is None:
        yield Event("", WIPE, node)
    elif name.type != "variable_name":
        named = name.named_children[:1]
        yield Event(script.slice(named[0]), KILL, node) if named else Event("", WIPE, node)
    else:
        kind = APPEND if any(child.type == "+=" for child in node.children) else SET
        yield Event(script.slice(name), kind, node, node.child("value"))


def _command(script: Script, node: Node) -> Iterator[Event]:
    name = script.name(node)
    if name in _RUN_TEXT:
        yield Event("", WIPE, node)
    elif name == "shift":
        yield Event(POSITIONAL, KILL if node.child("argument") else SHIFT, node)
    elif name == "set":
        yield from _set(script, node)
    elif name in _READERS:
        for argument in node.all("argument"):
            found = _IDENTIFIER.match(script.bytes(argument))
            if found:
                yield Event(found[0].decode(), KILL, node)


def _set(script: Script, node: Node) -> Iterator[Event]:
    """`set` gives the shell its positional parameters, behind its options."""
    operand = False
    for argument in node.all("argument"):
        text = script.slice(argument)
        if text == "--":
            yield Event(POSITIONAL, SET, node)
            return
        if operand:
            operand = False
        elif text[:1] in ("-", "+") and len(text) > 1:
            operand = text.endswith("o")
        else:
            yield Event(POSITIONAL, KILL, node)
            return


def _volatile(script: Script, node: Node, budget: Budget) -> Iterator[str]:
    kind = node.type
    if kind == "expansion" and any(child.type in ("=", ":=") for child in node.children):
        yield from (script.slice(child) for child in node.named_children[:1])
    elif kind == "declaration_command":
        options = [c for c in node.named_children if script.bytes(c)[:1] in (b"-", b"+")]
        if any(not _CONVERTING.isdisjoint(script.slice(option)) for option in options):
            for child in node.named_children:
                named = child.child("name") if child.type == "variable_assignment" else child
                if named is not None and named.type == "variable_name":
                    yield script.slice(named)
    elif kind in ("c_style_for_statement", "arithmetic_expansion") or (
        kind == "compound_statement" and script.bytes(node).startswith(b"((")
    ):
        body = node.child("body")
        text = script.text.data[node.start : body.start if body is not None else node.end]
        budget.step(1 + len(text) // 16)
        if b"=" in text or b"++" in text or b"--" in text:
            for name in set(_IDENTIFIER.findall(text)):
                yield name.decode()


def _trapped(script: Script) -> tuple[set[str], set[str]]:
    """The words of what traps run, and the variables that they set."""
    words: set[str] = set()
    names: set[str] = set()
    for command in script.commands:
        if script.name(command) == "trap":
            text = script.slice(command)
            words.update(_WORD.findall(text))
            names.update(_ASSIGNED.findall(text))
    return words, names


_Entry = tuple[State, int]


@dataclass
class _Frame:
    """A part of the script that not every run of what follows has gone through.

    `before`: what its variables were when they were first changed in it; `behind`: what may have
    been added to them for who stands behind it, None where they may be anything.
    """

    call: bool = False
    before: dict[str, _Entry | None] = field(default_factory=dict)
    behind: dict[str, WordsValue | None] = field(default_factory=dict)
    wiped: bool = False


class Scope:
    """The variables of one script while it runs.

    `initial`: what a variable holds when the script begins. `set_outside`: whether an outer script
    changes a variable that this one sees. `apart`: this is a function's body, read as if it could
    be called anywhere: what the script changes is unknown when it begins.
    """

    def __init__(
        self,
        facts: Facts,
        initial: Callable[[str], State],
        positional: WordsValue | None,
        set_outside: Callable[[str], bool],
        apart: bool = False,
    ) -> None:
        self.facts = facts
        self._initial = initial
        self._set_outside = set_outside
        self._apart = apart
        self._wiped = False
        self._clock = 0
        # When a function that is read apart last ran; when any function may have.
        self._called = -1
        self._called_any = -1
        self._now: dict[str, _Entry] = {POSITIONAL: (positional, 0)}
        self._frames: list[_Frame] = []

    def set_here(self, name: str) -> bool:
        """Whether the text of the script, or of one around it, changes `name`."""
        return name in self.facts.changed or self._set_outside(name)

    def get(self, name: str) -> State:
        """The content of `name` ("@" for the positional parameters) now."""
        if name in self.facts.volatile:
            return None
        entry = self._now.get(name)
        when = entry[1] if entry is not None else -1
        if self._called > when and name in self.facts.apart:
            return None
        if self._called_any > when and name in self.facts.functional:
            return None
        if entry is not None:
            return entry[0]
        changed = self.facts.changed
        if self._wiped or (self._apart and (name in changed or "" in changed)):
            return None
        return self._initial(name)

    def set(self, name: str, state: State) -> None:
        self._put(name, state, None)

    def append(self, name: str, value: State) -> None:
        before = self.get(name)
        state: State = None
        added: WordsValue | None = None
        if isinstance(before, WordsValue) and isinstance(value, WordsValue):
            state = WordsValue([before, value])
            frame = self._frames[-1] if self._frames else _Frame()
            earlier = frame.behind.get(name, _NOTHING)
            if earlier is not None:
                added = WordsValue([earlier, WordsValue([value], certain=False)])
        elif isinstance(before, TextValue) and isinstance(value, TextValue):
            state = TextValue([before, value])
        self._put(name, state, added)

    def wipe(self) -> None:
        """Any variable may have changed; not the positional parameters."""
        positional = self._now[POSITIONAL]
        self._now = {POSITIONAL: positional}
        self._wiped = True
        if self._frames:
            self._frames[-1].wiped = True

    def called_apart(self) -> None:
        """A function that is read apart has run."""
        self._clock += 1
        self._called = self._clock
        if self.facts.apart_wipes:
            self.wipe()

    def called_any(self) -> None:
        """Any function of the script may have run, or be run by a loop that begins."""
        self._clock += 1
        self._called_any = self._clock
        if self.facts.functional_wipes:
            self.wipe()

    def enter(self) -> None:
        """What follows, up to leave(), may be skipped, or runs in another shell."""
        self._frames.append(_Frame())

    def enter_call(self, positional: WordsValue | None) -> None:
        """What follows, up to leave(), is a function's body."""
        self._frames.append(_Frame(call=True))
        self._put(POSITIONAL, positional, None)

    def leave(self) -> None:
        frame = self._frames.pop()
        for name, entry in frame.before.items():
            if entry is None:
                self._now.pop(name, None)
            else:
                self._now[name] = entry
        if frame.wiped:
            self.wipe()
        for name, added in frame.behind.items():
            if name == POSITIONAL and frame.call:
                continue
            if added is None:
                self._put(name, None, None)
            else:
                self.append(name, added)

    def _put(self, name: str, state: State, behind: WordsValue | None) -> None:
        self._clock += 1
        if self._frames:
            frame = self._frames[-1]
            frame.before.setdefault(name, self._now.get(name))
            frame.behind[name] = behind
        self._now[name] = (state, self._clock)


_NOTHING = WordsValue([])

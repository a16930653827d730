"""What the commands of a script come down to, the scripts that they start included.

A script is run in thought, once and in order: each command sees the variables as they are when it
would run. A function's body is read where its one call stands; one that is called otherwise is read
at the end, with nothing known of what the script changes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from function.command import exec_form, programs, runners
from function.command.budget import SHELLS_DEEP, Budget
from function.command.model import Word
from function.command.places import NodePlace
from function.command.shell import grammar, scope
from function.command.shell.command_line import Initial, masks, nodes_of, positional, prefixed
from function.command.shell.grammar import LOOPS, Node, Tree
from function.command.shell.scope import Event, Facts, Scope
from function.command.shell.script import POSITIONAL, Holder, Script
from function.command.shell.state import State, WordsValue
from function.command.shell.values import Values
from function.command.text import Text

# Nodes that run in a shell of their own, or in some runs only.
_PARTS = frozenset(
    """subshell command_substitution process_substitution case_item do_group else_clause
 elif_clause""".split()  # noqa: SIM905
)
# Builtins that change the shell, which may stand behind `command` and `builtin`.
_CHANGING = frozenset(
    """. declare eval export getopts let local mapfile printf read readarray set shift source
 typeset unset""".split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Found:
    """One command of a script that is more than known to be harmless.

    `words`: of the command; `nodes`: per word, the node that gives it.
    """

    script: Script
    node: Node
    nodes: tuple[Node, ...]
    words: tuple[Word, ...]
    outcome: exec_form.Outcome


@dataclass
class Reader:
    """Reads a container's scripts, each once.

    `trees`: known ones, by their text. `scripts`: those that were found, an inner one behind the
    one that it stands in.
    """

    budget: Budget
    trees: Mapping[bytes, Tree] = field(default_factory=dict)
    scripts: list[Script] = field(default_factory=list)

    def read(
        self, text: Text, holder: Holder, positional: WordsValue | None, initial: Initial
    ) -> list[Found]:
        """The commands of a script and of those in it, in source order. Raises OverBudget."""
        script = self.script(text, holder)
        return _Run(self, script, positional, initial, initial, lambda name: False).found()

    def script(self, text: Text, holder: Holder) -> Script:
        # A shell's input ends like a line; the grammar wants it said (`... \\` at the very end).
        data = text.data + b"\n"
        tree = self.trees.get(data)
        if tree is None:
            tree = grammar.parse(data, self.budget)
        script = Script(text, holder, tree, len(self.scripts))
        self.scripts.append(script)
        return script


@dataclass
class _Stretch:
    """Nodes `at` to `last` of the tree, which are run. `open`: what to do behind a node, by the
    node's index; the innermost stands last. `call`: they are the body of a function."""

    at: int
    last: int
    call: bool = False
    open: list[tuple[int, Callable[[], None]]] = field(default_factory=list)

    def close(self) -> None:
        """Whatever ended before the next node ends."""
        while self.open and self.open[-1][0] < self.at:
            self.open.pop()[1]()


class _Run:
    """One script, run in thought.

    `initial`: what its variables hold at its begin; `exported`: what they hold in the shells that
    it starts, as far as it leaves them alone; `set_outside`: see Scope.
    """

    def __init__(
        self,
        reader: Reader,
        script: Script,
        positional: WordsValue | None,
        initial: Initial,
        exported: Initial,
        set_outside: Callable[[str], bool],
        depth: int = 0,
    ) -> None:
        self._reader = reader
        self._budget = reader.budget
        self._script = script
        self._facts = Facts(script, reader.budget)
        self._initial = initial
        self._exported = exported
        self._set_outside = set_outside
        self._depth = depth
        self._begin(Scope(self._facts, initial, positional, set_outside))
        self._idle = frozenset(n for n in programs.IDLE_VARIABLES if not self._scope.set_here(n))
        self._defined: set[str] = set()
        self._read: set[int] = set()
        self._found: dict[int, list[Found]] = {}
        # {index of a node: where the parts of the script end that begin with it}
        self._parts: dict[int, list[int]] = {}
        # {index of a list of `&&`: where the last one ends of which it is the beginning}
        self._chains: dict[int, int] = {}

    def _begin(self, variables: Scope) -> None:
        self._scope = variables
        self._values = Values(self._script, variables, self._budget)

    def found(self) -> list[Found]:
        self._run(_Stretch(0, len(self._script.tree.nodes) - 1))
        once = {node.index for node in self._facts.once.values()}
        definitions = [d for listed in self._script.functions.values() for d in listed]
        # One that another function calls is read with it, where that call is.
        for definition in sorted(definitions, key=lambda node: (node.index in once, node.index)):
            if definition.index not in self._read:
                self._begin(Scope(self._facts, self._initial, None, self._set_outside, apart=True))
                self._run(self._body(definition))
        return [found for index in sorted(self._found) for found in self._found[index]]

    def _body(self, definition: Node) -> _Stretch:
        self._read.add(definition.index)
        return _Stretch(definition.index + 1, definition.last)

    def _run(self, first: _Stretch) -> None:
        stack = [first]
        while stack:
            now = stack[-1]
            now.close()
            if now.at > now.last:
                stack.pop()
                if now.call:
                    self._scope.leave()
                continue
            node = self._script.tree.nodes[now.at]
            now.at += 1
            called = self._visit(node, now)
            if called is not None:
                body = self._body(called)
                body.call = True
                stack.append(body)

    def _visit(self, node: Node, now: _Stretch) -> Node | None:
        """Runs a node, but for what is below it. Returns the function whose body comes next."""
        for last in sorted(self._parts.pop(node.index, ()), reverse=True):
            self._enter(last, now)
        if node.type in _PARTS:
            self._enter(node.last, now)
        self._divide(node)
        if node.type in LOOPS:
            self._loop(node)
        if node.type == "function_definition":
            name = node.child("name")
            if name is not None:
                self._defined.add(self._script.slice(name))
            now.at = node.last + 1
            return None
        if node.type == "command" and node.child("name") is not None:
            return self._command(node, now)
        for event in self._facts.events.get(node.index, ()):
            self._happens(event, now)
        return None

    def _enter(self, last: int, now: _Stretch) -> None:
        self._scope.enter()
        now.open.append((last, self._scope.leave))

    def _divide(self, node: Node) -> None:
        """Which of a node's children run in a shell of their own, or in some runs only."""
        children = node.children
        for child, after in pairwise(children):
            if after.type == "&":
                self._part(child, child.last)
        if node.type == "pipeline":
            for child in children:
                self._part(child, child.last)
        elif node.type == "if_statement":
            then = next((i for i, c in enumerate(children) if c.type == "then"), len(children))
            ends = ("elif_clause", "else_clause", "fi")
            body = [child for child in children[then + 1 :] if child.type not in ends]
            if body:
                self._part(body[0], body[-1].last)
        elif node.type == "list":
            at = next((i for i, c in enumerate(children) if c.type in ("&&", "||")), len(children))
            last = self._chains.get(node.index, node.last)
            if at + 1 < len(children):
                self._part(children[at + 1], last)
                left = children[0]
                if children[at].type == "&&" and left.type == "list" and _joins(left):
                    # `A && B && C`: C runs only after B ran.
                    self._chains[left.index] = last

    def _part(self, node: Node, last: int) -> None:
        self._parts.setdefault(node.index, []).append(last)

    def _loop(self, node: Node) -> None:
        """What a loop changes may have been changed already when it is run."""
        names, wipes, calls = self._facts.changed_in(node)
        for name in names:
            self._scope.set(name, None)
        if calls:
            self._scope.called_any()
        if wipes:
            self._scope.wipe()

    def _happens(self, event: Event, now: _Stretch) -> None:
        """What an event does; what it gives is known before it, and has its effect behind it."""
        name, variables = event.name, self._scope
        act: Callable[[], None]
        if event.kind == scope.WIPE:
            act = variables.wipe
        elif event.kind == scope.SHIFT:
            act = self._shift
        elif event.kind == scope.KILL:
            act = lambda: variables.set(name, None)  # noqa: E731
        else:
            state = self._value(event)
            change = variables.append if event.kind == scope.APPEND else variables.set
            act = lambda: change(name, state)  # noqa: E731
        now.open.append((event.node.last, act))

    def _value(self, event: Event) -> State:
        if event.name != POSITIONAL:
            return self._values.content(event.value)
        nodes = nodes_of(event.node)
        bare = next(i for i, node in enumerate(nodes) if self._script.bytes(node) == b"--")
        return self._values.listing(nodes[bare + 1 :])

    def _shift(self) -> None:
        state = self._scope.get(POSITIONAL)
        known = state.shifted(self._budget) if isinstance(state, WordsValue) else None
        self._scope.set(POSITIONAL, known)

    def _command(self, node: Node, now: _Stretch) -> Node | None:
        name = self._script.name(node)
        events = self._facts.events.get(node.index, ())
        if name in self._defined:
            return self._call(node)
        if name not in programs.INERT or runners.runner(name) is not None:
            self._starts(node, now)
        for event in events:
            self._happens(event, now)
        return None

    def _call(self, node: Node) -> Node | None:
        """A function of the script is called."""
        definition = self._facts.once.get(node.index)
        if definition is not None and definition.index not in self._read:
            self._scope.enter_call(self._values.listing(nodes_of(node)[1:]))
            return definition
        self._scope.called_apart()
        return None

    def _starts(self, node: Node, now: _Stretch) -> None:
        """A command that is no function is run, and may start something."""
        pairs = [(at, self._values.words(at)) for at in nodes_of(node)]
        flat = [(at, word) for at, listed in pairs for word in listed]
        self._budget.step(1 + len(flat))
        words = tuple(word for _, word in flat)
        if words and (words[0].value is None or words[0].value in self._defined):
            self._scope.called_any()
        if words and words[0].value in self._defined:
            return  # Its body is read for itself.
        outcome = exec_form.outcome(words, in_script=True, idle=self._idle)
        found = Found(self._script, node, tuple(at for at, _ in flat), words, outcome)
        inner = self._inner(found)
        self._found[node.index] = [found] if inner is None else inner
        hidden = len(words) > 1 and words[0].value in ("command", "builtin")
        if hidden and words[1].value in _CHANGING:
            now.open.append((node.last, self._unknown))
        elif isinstance(outcome, exec_form.Evaluated):
            now.open.append((node.last, self._scope.wipe))

    def _unknown(self) -> None:
        """The shell may have changed in any way."""
        self._scope.wipe()
        self._scope.set(POSITIONAL, None)

    def _inner(self, found: Found) -> list[Found] | None:
        """The commands of the script that a command runs: of `sh -c`, or of `eval`."""
        if self._depth >= SHELLS_DEEP:
            return None
        if isinstance(found.outcome, exec_form.Shell):
            return self._shell(found, found.outcome.at)
        if isinstance(found.outcome, exec_form.Evaluated) and found.outcome.at < len(found.words):
            return self._evaluated(found, found.outcome.at)
        return None

    def _shell(self, found: Found, at: int) -> list[Found] | None:
        word, script = found.words[at], self._script
        place = word.place
        if not isinstance(place, NodePlace) or word.many or not word.certain or word.origin:
            return None
        node = script.node_at(place.start, place.end) if place.script == script.number else None
        if node is None:
            return None
        text = self._values.text_of([node])
        if node is not found.nodes[at] and any(run.fixed for run in text.runs):
            return None  # Its variables were expanded elsewhere.
        inner = self._reader.script(text, Holder((place,), script, found.node))
        masked = masks(found.words[:at], prefixed(script, found.node))
        exported = masked(self._child)
        rest = positional(found.words[at + 1 :])
        run = _Run(
            self._reader,
            inner,
            rest,
            exported,
            exported,
            # IFS is what it always is, in a new shell.
            lambda name: name != "IFS" and self._scope.set_here(name),
            self._depth + 1,
        )
        return run.found()

    def _child(self, name: str) -> State:
        """What a variable holds in a shell that this script starts."""
        changed = self._facts.changed
        return None if name in changed or "" in changed else self._exported(name)

    def _evaluated(self, found: Found, at: int) -> list[Found] | None:
        first, script = found.nodes[at], self._script
        if found.nodes[at - 1] is first:
            return None  # The words come out of the list that holds `eval` itself.
        nodes = [node for node in nodes_of(found.node) if node.start >= first.start]
        text = self._values.text_of(nodes)
        places = tuple(NodePlace(script.number, node.start, node.end) for node in nodes)
        inner = self._reader.script(text, Holder(places, script, found.node))
        own = prefixed(script, found.node)
        masked = masks((), own)
        state = self._scope.get(POSITIONAL)
        run = _Run(
            self._reader,
            inner,
            state if isinstance(state, WordsValue) else None,
            masked(self._scope.get),
            masked(self._child),
            lambda name: name in own or self._scope.set_here(name),
            self._depth + 1,
        )
        return run.found()


def _joins(node: Node) -> bool:
    """Whether a list is one of `&&`."""
    return next((c.type for c in node.children if c.type in ("&&", "||")), "") == "&&"

"""The commands of a script, those of the scripts that it starts included, in source order."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from function.command import exec_form, programs, runners
from function.command.budget import SHELLS_DEEP, Budget
from function.command.model import Word
from function.command.places import NodePlace
from function.command.shell import grammar
from function.command.shell.command_line import (
    assignments,
    masks,
    nodes_of,
    positional,
    prefixed,
)
from function.command.shell.expansion import Expander
from function.command.shell.grammar import Node, Tree
from function.command.shell.script import Holder, Script
from function.command.shell.variables import Lookup, Scope, Variables
from function.command.text import Text


@dataclass(frozen=True)
class Command:
    """A command that is more than known to be harmless.

    `nodes`: for each word, the node that gives it. `before`: the words of the scripts around its
    script that start that one.
    """

    script: Script
    node: Node
    nodes: tuple[Node, ...]
    words: tuple[Word, ...]
    outcome: exec_form.Outcome
    before: tuple[Word, ...] = ()


@dataclass
class Reader:
    """Reads the scripts of one container, each once.

    `trees`: trees that were parsed before, by their text. `scripts`: the scripts that were read; an
    inner one comes behind the one that it stands in.
    """

    budget: Budget
    trees: Mapping[bytes, Tree] = field(default_factory=dict)
    scripts: list[Script] = field(default_factory=list)

    def read(
        self, text: Text, holder: Holder, positional: tuple[Word, ...] | None, given: Lookup
    ) -> list[Command]:
        """Return the commands of a script and of those in it. Raise OverBudget at a limit."""
        script = self._script(text, holder)
        return self._commands(script, Scope(positional, given, given))

    def _script(self, text: Text, holder: Holder) -> Script:
        # A shell's input ends like a line; the grammar needs it (`... \\` at the very end).
        data = text.data + b"\n"
        tree = self.trees.get(data) or grammar.parse(data, self.budget)
        script = Script(text, holder, tree, len(self.scripts))
        self.scripts.append(script)
        return script

    def _commands(self, script: Script, around: Scope) -> list[Command]:
        """Return the commands of one script."""
        variables = Variables(script, around, self.budget)
        expander = Expander(script, variables, self.budget)
        idle = frozenset(n for n in programs.IDLE_VARIABLES if not variables.changes(n))
        commands: list[Command] = []
        for node in script.commands:
            name = script.name(node)
            if name in programs.INERT and runners.runner(name) is None:
                continue
            command = self._command(expander, script, node, idle)
            if command is None:
                continue
            if around.before:
                command = replace(command, before=around.before)
            inner = None
            if around.depth < SHELLS_DEEP:
                inner = self._inner(expander, command, around.depth + 1)
            commands += [command] if inner is None else inner
        return commands

    def _command(
        self, expander: Expander, script: Script, node: Node, idle: frozenset[str]
    ) -> Command | None:
        """Return a command with its words; None for a call of one of the script's functions."""
        pairs = [(at, word) for at in nodes_of(node) for word in expander.words(at)]
        self.budget.step(1 + len(pairs))
        words = tuple(word for _, word in pairs)
        outcome = exec_form.outcome(words, in_script=True, idle=idle)
        if words and words[0].value in script.functions:
            outcome = exec_form.hidden(words, f"the script has a function {words[0].value}")
            if outcome.visible is None:
                return None
        return Command(script, node, tuple(at for at, _ in pairs), words, outcome)

    def _inner(self, expander: Expander, command: Command, depth: int) -> list[Command] | None:
        """Return the commands of the script that a command runs: `sh -c`, or `eval`.

        `depth`: of that script.
        """
        if isinstance(command.outcome, exec_form.Shell):
            return self._shell(expander, command, command.outcome.at, depth)
        if isinstance(command.outcome, exec_form.Evaluated):
            return self._evaluated(expander, command, command.outcome.at, depth)
        return None

    def _shell(
        self, expander: Expander, command: Command, at: int, depth: int
    ) -> list[Command] | None:
        word, script = command.words[at], command.script
        place = word.place
        if not isinstance(place, NodePlace) or word.many or word.origin:
            return None
        node = script.node_at(place.start, place.end) if place.script == script.number else None
        if node is None:
            return None
        text = expander.text_of([node])
        if node is not command.nodes[at] and any(run.fixed for run in text.runs):
            return None  # Its variables were expanded elsewhere.
        variables = expander.variables
        masked = masks(command.words[:at], prefixed(script, command.node))
        exported = masked(lambda name: variables.exported(name, command.node.start))
        inside = Scope(
            positional(command.words[at + 1 :]),
            exported,
            exported,
            # IFS is what it always is, in a new shell.
            lambda name: name != "IFS" and variables.changes(name),
            depth,
            (*command.before, *assignments(script, command.node), *command.words[:at]),
        )
        return self._commands(self._script(text, Holder((place,), script, command.node)), inside)

    def _evaluated(
        self, expander: Expander, command: Command, at: int, depth: int
    ) -> list[Command] | None:
        if at >= len(command.words):
            return None
        first, script, start = command.nodes[at], command.script, command.node.start
        if command.nodes[at - 1] is first:
            return None  # The words come out of the list that holds `eval` itself.
        nodes = [node for node in nodes_of(command.node) if node.start >= first.start]
        text = expander.text_of(nodes)
        places = tuple(NodePlace(script.number, node.start, node.end) for node in nodes)
        variables = expander.variables
        inside = Scope(
            variables.positional(command.node),
            lambda name: variables.get(name, start),
            lambda name: variables.exported(name, start),
            variables.changes,
            depth,
            command.before,
        )
        return self._commands(self._script(text, Holder(places, script, command.node)), inside)

"""One command of a script: the nodes of its words, and what it hands to what it starts."""

import re
from collections.abc import Callable, Collection, Sequence

from function.command import runners
from function.command.model import Word
from function.command.shell.grammar import Node
from function.command.shell.script import Script
from function.command.shell.variables import Lookup

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
# Programs that hide variables from what they start, by their options at least.
_DROPS = frozenset({"env", "sudo", "setpriv", "runuser"})
_ENDED_BY_COMMAND = frozenset({"list", "pipeline", "negated_command"})


def nodes_of(command: Node) -> list[Node]:
    """Return the word nodes of a command, its name first; those behind a redirection too."""
    nodes = [c for c in command.children if c.field in ("name", "argument")]
    node = command
    while (up := node.parent) is not None:
        if up.type == "redirected_statement":
            body = up.child("body")
            if body is not node:
                break
            # The grammar hangs the redirections that end a command on the list that it ends.
            for redirect in up.all("redirect"):
                if redirect.type == "file_redirect":
                    nodes += redirect.all("destination")[1:]
                elif redirect.type == "heredoc_redirect":
                    nodes += redirect.all("argument")
        elif up.type not in _ENDED_BY_COMMAND or up.children[-1] is not node:
            break
        node = up
    return nodes


def positional(words: Sequence[Word]) -> tuple[Word, ...] | None:
    """Return the "$@" of a shell that gets `words` behind its script; the first becomes its $0."""
    return None if words and words[0].many else tuple(words[1:])


def masks(before: Sequence[Word], names: Collection[str]) -> Callable[[Lookup], Lookup]:
    """Return a function that hides the variables that a command line sets for what it starts.

    `names`: by `A=1 command`; `before`: the words before that command, `env A=1` among them.
    """
    hidden, everything = set(names), False
    for at, word in enumerate(before):
        set_here = _ASSIGNMENT.match(word.prefix)
        if set_here:
            hidden.add(set_here[1])
        elif (name := runners.basename(word.value or "")) in _DROPS:
            # sudo drops what it is not told to keep, and may drop that.
            options = before[at + 1 : at + 2] if name == "env" else before[at + 1 :]
            everything |= name == "sudo" or any(w.prefix.startswith("-") for w in options)

    def mask(lookup: Lookup) -> Lookup:
        return lambda name: None if everything or name in hidden else lookup(name)

    return mask


def assignments(script: Script, command: Node) -> list[Word]:
    """Return the words of `A=1 command` that stand before the command."""
    before = [child for child in command.children if child.type == "variable_assignment"]
    return [Word(None, text, text) for text in map(script.slice, before)]


def prefixed(script: Script, command: Node) -> frozenset[str]:
    """Return the variables that `A=1 command` sets for the command alone."""
    return frozenset(
        script.slice(name)
        for child in command.children
        if child.type == "variable_assignment" and (name := child.child("name")) is not None
    )

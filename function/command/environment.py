"""What a command line does to a variable of its container before the engine sees it."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from function.command import exec_form, runners
from function.command.model import Word
from function.command.program import Program

_ASSIGNMENT = re.compile(r"[\"']?([A-Za-z_][A-Za-z0-9_]*)=")
# Options with which a program starts another one without the variables that it got.
_CLEARS = {
    "env": re.compile(r"-|-v*i[iv]*|--ignore-environment"),
    "setpriv": re.compile(r"--reset-env"),
}
# It drops all but a few, PYTHONPATH even with -E.
_SUDO = "sudo"
# Python's options that make it ignore variables whose names begin with PYTHON.
_IGNORES = re.compile(r"-(?![WX])[A-Za-z]*?[EI][A-Za-z]*")


@dataclass(frozen=True)
class Change:
    """`text`: what changes the variable, as written. `value`: its new one, None for none.

    `scripted`: a shell expands the value.
    """

    text: str
    value: str | None = None
    scripted: bool = False


def changes(program: Program, names: Collection[str]) -> Iterator[tuple[str, Change]]:
    """Yield what changes variables on their way to the engines, and in scripts of other pods.

    What stands in a script counts wherever it stands, except for a command that is no engine.
    """
    for script in program.parsed.scripts if program.parsed else ():
        for node in script.tree.nodes:
            if node.type == "unset_command":
                text = script.slice(node)
                yield from ((name, Change(text)) for name in text.split()[1:] if name in names)
            elif node.type == "variable_assignment" and node.children[1].type == "=":
                is_own = node.parent is not None and node.parent.type == "command"
                name = script.slice(node.children[0])
                if name in names and not is_own:
                    text = script.slice(node)
                    yield name, Change(text, text.partition("=")[2], scripted=True)
    for call in program.calls:
        for name in names:
            yield from ((name, each) for each in _of_words(call.before, name, call.scripted))


def _of_words(words: Sequence[Word], name: str, scripted: bool) -> Iterator[Change]:
    """Yield what the words before an engine's own do."""
    last: Change | None = None
    for at, word in enumerate(words):
        set_here = _ASSIGNMENT.match(word.text)
        if set_here and set_here[1] == name:
            quote = word.text[0] if word.text[0] in "\"'" else ""
            last = Change(word.text, quote + word.text[set_here.end() :], scripted)
        elif gone := _lost(words, at, name):
            last = Change(gone)
        if ignored := _ignored(words, at, name):
            yield Change(ignored)
    if last is not None:
        yield last


def _lost(words: Sequence[Word], at: int, name: str) -> str:
    """Return the words by which a runner does not hand the variable on, "" where it does."""
    program = runners.basename(words[at].value or "")
    row = runners.runner(program) if program in (*_CLEARS, _SUDO) else None
    if row is None:
        return ""
    if program == _SUDO:
        return program
    start = runners.command_start(row, words, at + 1)
    end = start if isinstance(start, int) else len(words)
    options = [word.value or "" for word in words[at + 1 : end]]
    for option, value in zip(options, [*options[1:], ""], strict=True):
        if _CLEARS[program].fullmatch(option):
            return f"{program} {option}"
        if program == "env" and option in (f"-u{name}", f"--unset={name}"):
            return f"{program} {option}"
        if program == "env" and option in ("-u", "--unset") and value == name:
            return f"{program} {option} {name}"
    return ""


def _ignored(words: Sequence[Word], at: int, name: str) -> str:
    """Return the words by which Python ignores the variable."""
    program = words[at].value or ""
    if not name.startswith("PYTHON") or not exec_form.is_python(program):
        return ""
    end = exec_form.python_options(words, at + 1)
    options = [word.value or "" for word in words[at + 1 : end + 1]]
    found = (o for o in options if _IGNORES.fullmatch(o.partition("m")[0]))
    return next((f"{runners.basename(program)} {option}" for option in found), "")

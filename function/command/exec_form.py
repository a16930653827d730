"""One plain command line, as words: which program it comes down to.

The same for an argv of Kubernetes and for a simple command of a script. Runners are peeled off
until a program is left that is an engine, a shell with a script, or anything else.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from function.command import programs, runners
from function.command.model import Word, shown

_PYTHON = re.compile(r"(python|pypy)(\d+(\.\d+)*t?)?\Z")
# Python's own options before -m: those that take a value in the next word.
_PYTHON_VALUES = ("-W", "-X", "--check-hash-based-pycs")
_PYTHON_SWITCHES = frozenset("bBdEiIOPqsSuvxR")
# `-m NAME`, `-um NAME`, `-mNAME`
_MODULE = re.compile(r"-[bBdEiIOPqsSuvxR]*m(.*)\Z", re.DOTALL)
_PROGRAMS = frozenset(program for program, _ in programs.COMMANDS)
_VARIABLE = re.compile(r'"?\$\{?(\w+)\}?"?\Z')


@dataclass(frozen=True)
class EngineStart:
    """An engine starts; its own arguments are words[at:]."""

    start: programs.Start
    at: int


@dataclass(frozen=True)
class Shell:
    """A shell reads words[at] as a script; words[at + 1] is its $0, the rest its "$@"."""

    name: str
    at: int


@dataclass(frozen=True)
class Evaluated:
    """`eval words[at:]`, joined by blanks."""

    at: int


@dataclass(frozen=True)
class OtherStack:
    label: str


@dataclass(frozen=True)
class Inert:
    """Surely no engine."""


@dataclass(frozen=True)
class UnreadCommand:
    """A command that cannot be read.

    `rest`: the index of the words that follow; `visible`: an engine's command line among them.
    """

    why: str
    rest: int | None = None
    visible: EngineStart | None = None


Outcome = EngineStart | Shell | Evaluated | OtherStack | Inert | UnreadCommand


def outcome(words: Sequence[Word], in_script: bool = False, idle: Collection[str] = ()) -> Outcome:
    """Return what `words` start.

    `in_script`: a shell runs them, so its builtins count. `idle`: variables with an unknown value
    that starts no engine.
    """
    found = _outcome(words, in_script, idle)
    if isinstance(found, UnreadCommand) and found.rest is not None:
        return UnreadCommand(found.why, found.rest, _visible(words, found.rest))
    return found


def _outcome(words: Sequence[Word], in_script: bool, idle: Collection[str]) -> Outcome:
    at = 0
    while at < len(words):
        word = words[at]
        if _expands(word, idle):
            return Inert()
        if word.value is None:
            return UnreadCommand(f"the program {shown(word.text)} is not known here", at + 1)
        name = runners.basename(word.value)
        if name == "busybox" and at + 1 < len(words) and words[at + 1].value in programs.SHELLS:
            at += 1
            continue
        if name == "eval" and in_script:
            idle_text = len(words) == at + 2 and _expands(words[at + 1], idle)
            return Inert() if idle_text else Evaluated(at + 1)
        if name in programs.SHELLS:
            return _shell(name, words, at + 1, idle)
        if _PYTHON.match(name):
            return _python(words, at + 1)
        label = programs.other_stack(word.value)
        if label:
            return OtherStack(label)
        if name in _PROGRAMS:
            return _command(name, words, at + 1)
        row = runners.runner(name)
        if row is None:
            if name in programs.INERT:
                return Inert()
            return UnreadCommand(f"what {shown(word.value)} starts is not known here", at + 1)
        start = runners.command_start(row, words, at + 1)
        if start == "":
            return Inert()
        if isinstance(start, str):
            return UnreadCommand(f"what {name} starts is not known: {start}", at + 1)
        at = start
        in_script = in_script and name in ("exec", "command", "builtin")
    return Inert()


def hidden(words: Sequence[Word], why: str) -> UnreadCommand:
    """Return `words` as a command of unknown effect, with the engine's command line among them."""
    return UnreadCommand(why, 1, _visible(words, 0))


def program_at(words: Sequence[Word]) -> int:
    """Return the index of the program behind all runners; the length where there is none."""
    at = 0
    while at < len(words):
        row = runners.runner(runners.basename(words[at].value or ""))
        if row is None:
            return at
        start = runners.command_start(row, words, at + 1)
        if isinstance(start, str):
            return len(words)
        at = start
    return at


def _expands(word: Word, variables: Collection[str]) -> bool:
    """Whether a word is the expansion of one of `variables`, and nothing else."""
    name = _VARIABLE.match(word.text) if variables and word.value is None else None
    return name is not None and name[1] in variables


def _command(name: str, words: Sequence[Word], at: int) -> Outcome:
    if at >= len(words):
        return Inert()
    subcommand = words[at].value
    if subcommand is None:
        return UnreadCommand(
            f"the subcommand of {name}, {shown(words[at].text)}, is not known here"
        )
    start = programs.COMMANDS.get((name, subcommand))
    return EngineStart(start, at + 1) if start else Inert()


def _shell(name: str, words: Sequence[Word], at: int, idle: Collection[str]) -> Outcome:
    """Read the options of bash and POSIX sh: `c` and `o` may stand anywhere in a cluster."""
    wants_script = False
    while at < len(words):
        value = words[at].value
        if value is None:
            word = words[at]
            if wants_script and _expands(word, idle):
                return Inert()
            if wants_script and word.prefix[:1] not in ("", "-", "+") and not word.many:
                break  # A script whose text is known in part.
            return UnreadCommand(f"{shown(word.text)} after {name} is not known here", at + 1)
        if value in ("--", "-"):
            at += 1
            break
        if value[:1] not in ("-", "+"):
            break
        if value.startswith("--"):
            at += 2 if value in ("--rcfile", "--init-file") else 1
            continue
        wants_script |= value[0] == "-" and "c" in value
        at += 1 + value.count("o") + value.count("O")
    if at >= len(words):
        return UnreadCommand(f"{name} reads its commands from its input")
    if wants_script:
        return Shell(name, at)
    known = words[at].value
    if known is not None and runners.basename(known) in programs.INERT:
        return Inert()
    return UnreadCommand(
        f"the content of the script {shown(words[at].text)} is not known here", at + 1
    )


def is_python(program: str) -> bool:
    """Return whether a program, by its name or path, is a Python interpreter."""
    return bool(_PYTHON.match(runners.basename(program)))


def _python(words: Sequence[Word], at: int) -> Outcome:
    at = python_options(words, at)
    if at >= len(words):
        return Inert()
    value = words[at].value
    if value is None:
        return UnreadCommand(f"{shown(words[at].text)} after Python is not known here", at + 1)
    if value == "-c":
        return UnreadCommand("the Python code after -c is not read")
    module = _MODULE.match(value)
    if module:
        if module[1]:
            return _module(module[1], words, at + 1)
        if at + 1 >= len(words):
            return Inert()
        named = words[at + 1]
        if named.value is None:
            return UnreadCommand(f"the module {shown(named.text)} is not known here", at + 2)
        return _module(named.value, words, at + 2)
    if value in ("-V", "--version", "-h", "--help"):
        return Inert()
    # Console scripts are often started through their interpreter: python3 /usr/bin/vllm serve.
    name = runners.basename(value)
    if name in _PROGRAMS:
        return _command(name, words, at + 1)
    return UnreadCommand(f"what the Python program {shown(value)} starts is not known here", at + 1)


def python_options(words: Sequence[Word], at: int) -> int:
    """Return the index behind Python's own options: of `-m`, of `-c`, or of a program."""
    while at < len(words):
        value = words[at].value
        if value is None:
            break
        if value in _PYTHON_VALUES:
            at += 2
        elif value.startswith(("-W", "-X", "--check-hash")) or (
            value[:1] == "-" and value != "-" and _PYTHON_SWITCHES.issuperset(value[1:])
        ):
            at += 1
        else:
            break
    return at


def _module(name: str, words: Sequence[Word], at: int) -> Outcome:
    if name in programs.MODULES:
        return EngineStart(programs.MODULES[name], at)
    if name in programs.MODULE_COMMANDS:
        return _command(programs.MODULE_COMMANDS[name], words, at)
    label = programs.OTHER_STACK_MODULES.get(name.split(".", 1)[0])
    if label:
        return OtherStack(label)
    if name in programs.HIDES_ENGINE:
        return UnreadCommand(f"{name} starts engines with flags of its own")
    if name in programs.INERT_MODULES:
        return Inert()
    return UnreadCommand(f"what the Python module {shown(name)} starts is not known here", at)


def _visible(words: Sequence[Word], at: int) -> EngineStart | None:
    """Return the first command line of an engine at `at` or behind it."""
    while at < len(words):
        name = runners.basename(words[at].value or "")
        found, behind = None, at + 1
        if name in _PROGRAMS:
            found = _command(name, words, at + 1)
        elif _PYTHON.match(name):
            behind = python_options(words, at + 1)
            found = _python(words, behind)
        if isinstance(found, EngineStart):
            return found
        at = behind
    return None

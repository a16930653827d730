"""One plain command line, as words: which program it comes down to.

The same for an argv of Kubernetes and for a simple command of a script. Runners are peeled off
until a program is left that is an engine, a shell with a script, or anything else.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from function.command import programs, runners
from function.command.model import Word

_PYTHON = re.compile(r"(python|pypy)(\d+(\.\d+)*t?)?\Z")
# Python's own options before -m: those that take a value in the next word.
_PYTHON_VALUES = ("-W", "-X", "--check-hash-based-pycs")
_PYTHON_SWITCHES = frozenset("bBdEiIOPqsSuvxR")


@dataclass(frozen=True)
class Engine:
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
class Foreign:
    label: str


@dataclass(frozen=True)
class Inert:
    """Surely no engine."""


@dataclass(frozen=True)
class Opaque:
    """Not known; `visible`: where the words of an engine's command line begin, if they do."""

    why: str
    visible: Engine | None = None


Outcome = Engine | Shell | Evaluated | Foreign | Inert | Opaque


def outcome(words: Sequence[Word], in_script: bool = False) -> Outcome:
    """What `words` start. `in_script`: a shell runs them, so its builtins count."""
    at = 0
    while at < len(words):
        word = words[at]
        if word.value is None or not word.certain:
            return _opaque(f"the program {word.text} is not known here", words, at + 1)
        name = runners.basename(word.value)
        rest = words[at + 1 :]
        if name == "busybox" and rest and rest[0].value in programs.SHELLS:
            at += 1
            continue
        if name == "eval" and in_script:
            return Evaluated(at + 1)
        if name in programs.SHELLS:
            return _shell(name, words, at + 1)
        if _PYTHON.match(name):
            return _python(words, at + 1)
        label = programs.foreign(word.value)
        if label:
            return Foreign(label)
        if any(name == program for program, _ in programs.COMMANDS):
            return _command(name, words, at + 1)
        row = runners.runner(name)
        if row is None:
            if name in programs.INERT:
                return Inert()
            return _opaque(f"what {word.value} starts is not known here", words, at + 1)
        start = runners.command_start(row, rest)
        if start == "":
            return Inert()
        if isinstance(start, str):
            return _opaque(f"what {name} starts is not known: {start}", words, at + 1)
        at += 1 + start
        in_script = in_script and name in ("exec", "command", "builtin")
    return Inert()


def _command(name: str, words: Sequence[Word], at: int) -> Outcome:
    if at >= len(words):
        return Inert()
    if words[at].value is None or not words[at].certain:
        return Opaque(f"the subcommand of {name}, {words[at].text}, is not known here")
    start = programs.COMMANDS.get((name, words[at].value))
    return Engine(start, at + 1) if start else Inert()


def _shell(name: str, words: Sequence[Word], at: int) -> Outcome:
    """The options of bash and POSIX sh, as they parse them: `c` and `o` anywhere in a cluster."""
    wants_script = False
    while at < len(words):
        value = words[at].value
        if value is None or not words[at].certain:
            word = words[at]
            if wants_script and word.prefix[:1] not in ("", "-", "+") and not word.many:
                break  # A script whose text is known in part.
            return _opaque(f"{word.text} after {name} is not known here", words, at + 1)
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
        return Opaque(f"{name} reads its commands from its input")
    if wants_script:
        return Shell(name, at)
    known = words[at].value
    if known is not None and runners.basename(known) in programs.INERT:
        return Inert()
    return _opaque(f"the content of the script {words[at].text} is not known here", words, at + 1)


def _python(words: Sequence[Word], at: int) -> Outcome:
    while at < len(words):
        value = words[at].value
        if value is None or not words[at].certain:
            return _opaque(f"{words[at].text} after Python is not known here", words, at + 1)
        if value in _PYTHON_VALUES:
            at += 2
            continue
        if value.startswith(("-W", "-X", "--check-hash")):
            at += 1
            continue
        if value == "-c":
            return Opaque("the Python code after -c is not read")
        # `-m NAME`, `-um NAME`, `-mNAME`
        match = re.match(r"-([A-Za-z]*?)m(.*)\Z", value, re.DOTALL)
        if match and set(match[1]) <= _PYTHON_SWITCHES:
            if match[2]:
                return _module(match[2], words, at + 1)
            if at + 1 >= len(words):
                return Inert()
            if words[at + 1].value is None:
                return _opaque(f"the module {words[at + 1].text} is not known here", words, at + 2)
            return _module(words[at + 1].value, words, at + 2)
        if value.startswith("-") and value != "-" and set(value[1:]) <= _PYTHON_SWITCHES:
            at += 1
            continue
        if value in ("-V", "--version", "-h", "--help"):
            return Inert()
        # Console scripts are often started through their interpreter: python3 /usr/bin/vllm serve.
        name = runners.basename(value)
        if any(name == program for program, _ in programs.COMMANDS):
            return _command(name, words, at + 1)
        return _opaque(f"what the Python program {value} starts is not known here", words, at + 1)
    return Inert()


def _module(name: str, words: Sequence[Word], at: int) -> Outcome:
    if name in programs.MODULES:
        return Engine(programs.MODULES[name], at)
    if name in programs.MODULE_COMMANDS:
        return _command(programs.MODULE_COMMANDS[name], words, at)
    label = programs.FOREIGN_MODULES.get(name.split(".", 1)[0])
    if label:
        return Foreign(label)
    if name in programs.HIDES_ENGINE:
        return Opaque(f"{name} starts engines with flags of its own")
    if name in programs.INERT_MODULES:
        return Inert()
    return _opaque(f"what the Python module {name} starts is not known here", words, at)


def _opaque(why: str, words: Sequence[Word], at: int) -> Opaque:
    """Opaque, but an engine's command line may be readable among the words that follow."""
    for index in range(at, len(words)):
        value = words[index].value
        if value is None:
            continue
        if any(runners.basename(value) == program for program, _ in programs.COMMANDS):
            found = _command(runners.basename(value), words, index + 1)
        elif _PYTHON.match(runners.basename(value)):
            found = _python(words, index + 1)
        else:
            continue
        if isinstance(found, Engine):
            return Opaque(why, found)
    return Opaque(why)

"""Programs by name: the engines, serving engines of others, and what surely starts no engine.

The rows are facts: `starts` of each engine's file, and programs.yaml.
"""

import re
from dataclasses import dataclass, field

from function.api.engines import ENGINES
from function.facts import Table


@dataclass(frozen=True)
class Start:
    """One way to start an engine. `positional_model`: the first argument may be the model."""

    engine: str
    entrypoint: str
    positional_model: bool = False


@dataclass(frozen=True)
class _EntryPoint:
    """`command`: program and subcommand, or `module`; `command_of`: the program it is a door to."""

    source: str
    command: tuple[str, ...] = ()
    module: str = ""
    command_of: str = ""
    positional_model: bool = False


@dataclass(frozen=True)
class _Stack:
    """A serving engine that is not wired here: programs, folders of programs, Python modules.

    `images`: patterns of the repository. `env`: how the names of its variables begin.
    """

    label: str
    source: str
    programs: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    reason: str = ""
    image_patterns: tuple[re.Pattern[str], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the patterns of images."""
        object.__setattr__(self, "image_patterns", tuple(map(re.compile, self.images)))


@dataclass(frozen=True)
class _Names:
    """Programs, Python modules and variables of one kind."""

    source: str
    programs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


_ENTRY_POINTS = [(e, row) for e in ENGINES for row in Table(_EntryPoint, e.lower(), "starts")]
_STACKS = Table(_Stack, "programs", "stacks")
_INERT = Table(_Names, "programs", "inert")
_WRAPPERS = Table(_Names, "programs", "wrappers")

# (program, subcommand)
COMMANDS: dict[tuple[str, ...], Start] = {
    row.command: Start(engine, " ".join(row.command), row.positional_model)
    for engine, row in _ENTRY_POINTS
    if row.command
}
MODULES: dict[str, Start] = {
    row.module: Start(engine, f"python3 -m {row.module}", row.positional_model)
    for engine, row in _ENTRY_POINTS
    if row.module and not row.command_of
}
# Modules that are a command line of their own: `python3 -m vllm.entrypoints.cli.main serve`.
MODULE_COMMANDS = {row.module: row.command_of for _, row in _ENTRY_POINTS if row.command_of}

# Serving engines and frameworks that manage their own KV cache: recognised, left alone.
OTHER_STACK_MODULES = {module: row.label for row in _STACKS for module in row.modules}
OTHER_STACK_REASONS = {row.label: row.reason for row in _STACKS if row.reason}
_OTHER_STACK_PROGRAMS = {program: row.label for row in _STACKS for program in row.programs}
_OTHER_STACK_FOLDERS = {folder: row.label for row in _STACKS for folder in row.folders}

SHELLS = frozenset({"bash", "sh", "dash", "ash"})

# Programs that start no engine, whatever their words; shell builtins among them.
INERT = frozenset(program for row in _INERT for program in row.programs)
INERT_MODULES = frozenset(module for row in _INERT for module in row.modules)
# Variables that an operator sets to a command line that starts no engine.
IDLE_VARIABLES = frozenset(name for row in _INERT for name in row.variables)
# Modules that start engines themselves, with flags of their own.
HIDES_ENGINE = frozenset(module for row in _WRAPPERS for module in row.modules)


def other_stack(program: str) -> str:
    """Return the serving engine of others that `program` (a path or a name) starts, or ""."""
    for folder, label in _OTHER_STACK_FOLDERS.items():
        if program.startswith(folder):
            return label
    return _OTHER_STACK_PROGRAMS.get(program.rsplit("/", 1)[-1], "")


def other_stack_of_image(repository: str) -> str:
    """Return the serving engine of others that an image starts, or ""."""
    rows = (row for row in _STACKS if any(p.search(repository) for p in row.image_patterns))
    return next((row.label for row in rows), "")


def other_stack_of_env(variable: str) -> str:
    """Return the serving engine of others that a variable configures, or ""."""
    return next((row.label for row in _STACKS if row.env and variable.startswith(row.env)), "")

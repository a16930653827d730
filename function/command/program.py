"""What was read from a container: for callers a `Program`, for editing and proving a `Reading`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from function.command.kubernetes import Env
from function.command.model import EngineCall, ImageCall
from function.command.shell.script import Script


@dataclass(frozen=True)
class ParsedCommand:
    """What was read of a container's command line.

    `lists`: its own command and args. `scripts`: every script by number, an inner one behind its
    outer one. `unread`: why some of their commands are not known.
    """

    container: Mapping[str, Any]
    image_call: ImageCall | None
    env: Env
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    scripts: tuple[Script, ...] = ()
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """What a container runs: its engine calls, in order; none when no engine is started here.

    `problem`: why the command could not be read, "" when it was; a limit of `budget.LIMITS` that it
    meets is one. `inert`: the argv itself proves that no engine is started (a Ray worker's
    `ray start`). `foreign`: the serving engine that is not ours to wire ("NVIDIA Triton").
    `at_once`: how a script runs several engines at the same time, "" where it does not. `ended_by`:
    the command that ends a script before its first engine's line.
    """

    calls: tuple[EngineCall, ...] = ()
    problem: str = ""
    inert: bool = False
    other_stack: str = ""
    at_once: str = ""
    ended_by: str = ""
    # What was read, for editing it and for the proof. None where nothing was.
    parsed: ParsedCommand | None = field(default=None, compare=False, repr=False)

"""What was read from a container, kept for editing it and for proving the edit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from function.command.kubernetes import Env
from function.command.model import ImageCall

if TYPE_CHECKING:
    from function.command.shell.script import Script

# The container's keys, in the order in which they make the argv.
KEYS = ("command", "args")


@dataclass(frozen=True)
class ListPlace:
    """Item `index` of the container's `key`."""

    key: str
    index: int


@dataclass(frozen=True)
class ListSlot:
    """Appended words become items of `key`, before item `index`; `before` words of the call stand
    before them."""

    key: str
    index: int
    before: int


@dataclass(frozen=True)
class NodePlace:
    """Bytes `start:end` of a script: one word, with nothing else in it."""

    script: "Script"
    start: int
    end: int


@dataclass(frozen=True)
class NodeSlot:
    """Appended words go into the script behind the node `start:end`; `before` words of the call
    stand before them."""

    script: "Script"
    start: int
    end: int
    before: int


@dataclass(frozen=True)
class Reading:
    """`lists`: the container's own command and args. `scripts`: every script found, in order."""

    container: Mapping[str, Any]
    image_call: ImageCall | None
    env: Env
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    scripts: tuple["Script", ...] = ()

"""Where a word of a command stands, and where further words go.

A script is named by its number: its place in `Reading.scripts`.
"""

from dataclasses import dataclass

# The container's keys, in the order in which they make the argv.
KEYS = ("command", "args")


@dataclass(frozen=True)
class ListPlace:
    """Item `index` of the container's `key`."""

    key: str
    index: int


@dataclass(frozen=True)
class NodePlace:
    """Bytes `start:end` of a script: one word, with nothing else in it."""

    script: int
    start: int
    end: int


@dataclass(frozen=True)
class ListSlot:
    """Where appended words become items of `key`, before item `index`.

    `before`: how many words of the call stand before them.
    """

    key: str
    index: int
    before: int


@dataclass(frozen=True)
class NodeSlot:
    """Where appended words go into the script, behind byte `end`.

    `before`: how many words of the call stand before them.
    """

    script: int
    end: int
    before: int


Place = ListPlace | NodePlace
Slot = ListSlot | NodeSlot

"""The flags of `mooncake_master` that users may set: facts.yaml."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from function.facts import Table

_FACTS = Path(__file__).with_name("facts.yaml")


@dataclass(frozen=True)
class Flags:
    """Flags of one type. `pattern`: of a value. `kind`: what a value must be."""

    names: frozenset[str]
    pattern: str
    kind: str
    source: str
    valid: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile the pattern."""
        object.__setattr__(self, "valid", re.compile(self.pattern))


@dataclass(frozen=True)
class OwnedFlags:
    """Flags that the tier sets. `fields`: {flag: the field that it is set from}."""

    fields: Mapping[str, str]
    source: str


@dataclass(frozen=True)
class UnsafeFlags:
    """Flags that the binary accepts, with harm."""

    names: frozenset[str]
    problem: str
    source: str


_FLAGS = Table(Flags, _FACTS, "flags")
_OWNED = Table(OwnedFlags, _FACTS, "owned_flags")
_UNSAFE = Table(UnsafeFlags, _FACTS, "unsafe_flags")


def find_problem(name: str, value: str) -> str:
    """Return the problem of a flag and its value, "" for a valid one."""
    for owned in _OWNED:
        if name in owned.fields:
            return f"is set from {owned.fields[name]}: change it there"
    for unsafe in _UNSAFE:
        if name in unsafe.names:
            return unsafe.problem
    for row in _FLAGS:
        if name in row.names:
            return "" if row.valid.fullmatch(value) else f"must be {row.kind}, not {value!r}"
    return "is not a settable flag of mooncake_master: an unknown flag stops the master"

"""What SGLang's KV offload excludes: flag against flag, whichever tier brings them (facts.yaml)."""

import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass

from function.engines.sglang.flags import FACTS
from function.facts import Table

Flags = Mapping[str, str | None]

_TERM = re.compile(r"(not )?(--[a-z0-9-]+)(?: (=|!=|<|<=|>) (\S+))?")
_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt}


class Condition:
    """A condition on flags, such as `--dcp-size > 1 or not --enable-lmcache`.

    `--x`: it is set. `=`, `!=`: its value is known, and is or is not this one. `<`, `<=`, `>`: its
    value is a number.
    """

    def __init__(self, text: str) -> None:
        """Raise ValueError for a text that is no condition."""
        terms = [_TERM.fullmatch(term) for term in text.split(" or ")]
        if None in terms:
            raise ValueError(f"{text!r} is not a condition on flags")
        self._terms = [term.groups() for term in terms if term]

    def __call__(self, flags: Flags) -> bool:
        """Return whether it holds."""
        return any(_term(flags, *term[1:]) is not bool(term[0]) for term in self._terms)


def _term(flags: Flags, name: str, comparison: str | None, value: str) -> bool:
    given = flags.get(name)
    if comparison is None:
        return name in flags
    if comparison in ("=", "!="):
        return bool(given) and (given == value) is (comparison == "=")
    try:
        return bool(_COMPARE[comparison](float(given or ""), float(value)))
    except ValueError:
        return False


@dataclass(frozen=True)
class Rule:
    """Things that do not go together; all of `when` hold on the flags as they would end up.

    `fatal`: SGLang stops, or gives up the offload without a word; else it only rewrites a value.
    """

    about: str
    when: tuple[Condition, ...]
    source: str
    fatal: bool = True

    def holds(self, flags: Flags) -> bool:
        return all(condition(flags) for condition in self.when)


RULES = Table(Rule, FACTS, "rules")

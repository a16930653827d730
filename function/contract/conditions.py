"""Conditions on flags and variables as facts.yaml writes them."""

import operator
import re
from collections.abc import Mapping

Values = Mapping[str, str | None]

_TERM = re.compile(r"(not )?([\w-]+)(?: (=|!=|<|<=|>) (\S+))?")
_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt}


class FlagCondition:
    """A condition such as `--dcp-size > 1 or not --enable-lmcache`.

    `--x`: it is set. `=`, `!=`: its value is known, and is or is not this one. `<`, `<=`, `>`: its
    value is a number.
    """

    def __init__(self, text: str) -> None:
        """Raise ValueError for a text that is no condition."""
        terms = [_TERM.fullmatch(term) for term in text.split(" or ")]
        if None in terms:
            raise ValueError(f"{text!r} is not a condition")
        self._terms = [term.groups() for term in terms if term]

    def find(self, values: Values) -> str | None:
        """Return what holds first, for a message; None where nothing does."""
        for negated, name, comparison, value in self._terms:
            if _holds(values, name, comparison, value) is not bool(negated):
                return f"{name} {values.get(name)}" if comparison else name
        return None


def _holds(values: Values, name: str, comparison: str | None, value: str) -> bool:
    given = values.get(name)
    if comparison is None:
        return name in values
    if comparison in ("=", "!="):
        return bool(given) and (given == value) is (comparison == "=")
    try:
        return bool(_COMPARE[comparison](float(given or ""), float(value)))
    except ValueError:
        return False

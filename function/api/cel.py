"""CEL rules in Python: the part of the language that rules of the API types use.

The XRD holds a rule as CEL. The function checks the same text on documents that no API server has
validated (a local render, an older XRD), so no rule is written twice.

Rejected: cel-python (0.2 s of start and 0.5 ms a rule) and common-expression-language (brings a
command line of its own, with typer and rich).
"""

import re
from collections.abc import Callable
from typing import Any

_TOKEN = re.compile(r"(\d+|'[^']*'|\w+|&&|\|\||[=!<>]=|[-+<>!?:.,()\[\]])")
# {operator: (how tightly it binds, the same in Python)}
_BINARY = {
    "||": (1, "or"),
    "&&": (2, "and"),
    **{operator: (3, operator) for operator in ("==", "!=", "<", "<=", ">", ">=", "in")},
    **{operator: (4, operator) for operator in "+-"},
}
_UNARY = 5
# Methods that take a variable and a condition on it.
_MACROS = {
    "all": "all({condition} for {variable} in {items})",
    "exists": "any({condition} for {variable} in {items})",
    "exists_one": "sum(bool({condition}) for {variable} in {items}) == 1",
}
_METHODS = {
    "contains": "{argument} in {text}",
    "size": "len({text})",
    "startsWith": "{text}.startswith({argument})",
}


def predicate(cel: str) -> Callable[[Any], bool]:
    """Return the rule as a function of `self`; fields are items, None where absent.

    Raise ValueError or SyntaxError for a text that is not of this part of CEL.
    """
    reader = _Reader(cel)
    source = reader.expression()
    reader.expect("")
    made: Callable[[Any], bool] = eval(f"lambda self: {source}")
    return made


class _Reader:
    """A parser of one rule that writes it in Python."""

    def __init__(self, cel: str) -> None:
        if _TOKEN.sub("", cel).strip():
            raise ValueError(f"CEL: not known here: {cel}")
        self._tokens: list[str] = [*_TOKEN.findall(cel), ""]
        self._at = 0

    @property
    def _here(self) -> str:
        return self._tokens[self._at]

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def expect(self, token: str) -> None:
        """Read this token, "" for the end."""
        if self._here != token:
            raise ValueError(f"CEL: {token!r} is missing in {' '.join(self._tokens)}")
        self._at += 1

    def expression(self, above: int = 0) -> str:
        """Read operands and the operators between them that bind tighter than `above`."""
        left = self._operand()
        while self._here in _BINARY and _BINARY[self._here][0] > above:
            binds, operator = _BINARY[self._next()]
            left = f"({left} {operator} {self.expression(binds)})"
        if above or self._here != "?":
            return left
        self.expect("?")
        then = self.expression()
        self.expect(":")
        return f"({then} if {left} else {self.expression()})"

    def _operand(self) -> str:
        token = self._next()
        if not token:
            raise ValueError(f"CEL: something is missing at the end of {' '.join(self._tokens)}")
        if token == "!":
            return f"(not {self.expression(_UNARY)})"
        if token == "(":
            found = self.expression()
            self.expect(")")
        elif token == "[":
            found = f"({''.join(f'{item}, ' for item in self._list(']'))})"
        elif self._here == "(":
            found = self._call(token)
        else:
            found = token
        return self._rest(found)

    def _call(self, function: str) -> str:
        """Read the arguments of `has` or `size`."""
        self.expect("(")
        (argument,) = self._list(")")
        return f"({argument} is not None)" if function == "has" else f"len({argument})"

    def _rest(self, found: str) -> str:
        """Read the fields, items and methods behind an operand."""
        while self._here in (".", "["):
            if self._next() == "[":
                found = f"{found}[{self.expression()}]"
                self.expect("]")
                continue
            name = self._next()
            if self._here == "(":
                found = self._method(found, name)
            else:
                found = f"{found}['{name.removeprefix('__').removesuffix('__')}']"
        return found

    def _method(self, text: str, name: str) -> str:
        self.expect("(")
        arguments = self._list(")")
        if name in _MACROS:
            variable, condition = arguments
            found = _MACROS[name].format(variable=variable, condition=condition, items=text)
        else:
            found = _METHODS[name].format(text=text, argument="".join(arguments))
        return f"({found})"

    def _list(self, end: str) -> list[str]:
        found: list[str] = []
        while self._here != end:
            found.append(self.expression())
            if self._here != end:
                self.expect(",")
        self.expect(end)
        return found

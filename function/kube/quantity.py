"""Kubernetes resource quantities: parse them, and write bytes as people do.

Grammar: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/. A decimal
number, then a binary suffix (Ki..Ei), a decimal one (n, u, m, k..E), or an exponent (`1e3`). The
Python clients have a parser too, but importing lightkube's costs 120 ms of a cold start and brings
an HTTP client; it also takes `Zi`, which the API server refuses, and not `n` or `1E3`.
"""

import re
from decimal import Decimal

_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SCALE: dict[str, Decimal] = {
    **{suffix: Decimal(1024) ** power for power, suffix in enumerate(_BINARY, start=1)},
    **{suffix: Decimal(10) ** power for suffix, power in _DECIMAL.items()},
}
# The fields of a pod whose values are quantities: the API server writes them its own way.
FIELDS = frozenset({"requests", "limits", "sizeLimit"})
_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([numkMGTPE]|[KMGTPE]i)|([eE][+-]?[0-9]{1,3}))?"
)


def parse(text: object) -> Decimal:
    """Return the value in its base unit (bytes, cores).

    A YAML number counts as its text. Raise ValueError for anything the API server would refuse.
    """
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise ValueError(f"{text!r} is not a Kubernetes quantity, such as 512Mi or 2")
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{text!r} is not a Kubernetes quantity, such as 512Mi or 2")
    number, suffix, exponent = match.groups()
    return Decimal(number + exponent) if exponent else Decimal(number) * _SCALE[suffix or ""]


def is_same(one: object, other: object) -> bool:
    """Return whether two values are equal as quantities; what is none equals only itself."""
    try:
        return parse(one) == parse(other)
    except ValueError:
        return one == other


def format_bytes(size: int) -> str:
    """Return whole bytes in the largest binary unit that holds them exactly.

    1610612736 is "1536Mi".
    """
    for power in range(len(_BINARY), 0, -1):
        if size and size % 1024**power == 0:
            return f"{size // 1024**power}{_BINARY[power - 1]}"
    return str(size)


def add_bytes(text: object, size: int) -> str:
    """Return the quantity `text` plus `size` bytes, rounded up to whole bytes."""
    total = parse(text) + size
    whole = int(total)
    return format_bytes(whole + (1 if total > whole else 0))

"""Bounds on what loading an untrusted YAML text may cost.

PyYAML builds documents recursively, so that a hundred thousand brackets end the process. A few
aliases of aliases stand for billions of values. A number costs the square of its digits to build
(YAML 1.1 has them in base 60, "1:30"). The parser's events show all three in linear time.
"""

import re
from typing import Any

import yaml

# Manifests nest to about twenty levels, a CRD's schema to sixty.
MAX_DEPTH = 100
# Values that all aliases of a text together may stand for.
MAX_ALIASED = 100_000
# Characters of a number.
MAX_DIGITS = 1_000
_NUMBER = re.compile(r"[-+]?[0-9][0-9a-fA-FxX_:.]*+")

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load(text: str) -> Any:
    """Return the one document of a text.

    Raise yaml.YAMLError as `check` does, and ValueError for an invalid date.
    """
    check(text)
    return yaml.load(text, Loader=_LOADER)  # a safe loader


def check(text: str) -> None:
    """Raise yaml.MarkedYAMLError for a text that is too expensive to load.

    That is one nested too deep, multiplied by aliases, or with a number that is too long. Raise
    yaml.YAMLError for what the parser cannot read, as loading would.
    """
    sizes: dict[str, int] = {}  # values by anchor
    open_: list[tuple[str | None, int]] = []  # (anchor, values before it) of open collections
    count = aliased = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.DocumentStartEvent):
            sizes.clear()
        elif isinstance(event, yaml.AliasEvent):
            # An open anchor is circular; the loader refuses an unknown one.
            size = sizes.get(event.anchor or "", 1)
            count, aliased = count + size, aliased + size
            if aliased > MAX_ALIASED:
                raise _TooMuch(f"aliases stand for more than {MAX_ALIASED} values", event)
        elif isinstance(event, yaml.ScalarEvent):
            count += 1
            if len(event.value) > MAX_DIGITS and _is_number(event):
                raise _TooMuch(f"it has a number of more than {MAX_DIGITS} digits", event)
            if event.anchor:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            open_.append((event.anchor, count))
            count += 1
            if len(open_) > MAX_DEPTH:
                raise _TooMuch(f"it is nested more than {MAX_DEPTH} levels deep", event)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_.pop()
            if anchor:
                sizes[anchor] = count - before


def _is_number(event: yaml.ScalarEvent) -> bool:
    plain = event.tag is None and event.implicit[0]
    tagged = event.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
    return tagged or bool(plain and _NUMBER.fullmatch(event.value))


class _TooMuch(yaml.MarkedYAMLError):
    def __init__(self, problem: str, event: Any) -> None:
        super().__init__(None, None, problem, event.start_mark)

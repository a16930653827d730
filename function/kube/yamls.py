"""How much a YAML text of a stranger may ask of whoever loads it.

PyYAML builds documents recursively, so that a hundred thousand brackets end the process; and a few
aliases of aliases stand for billions of values. A number costs the square of its digits to build
(YAML 1.1 has them in base 60, "1:30"). All are seen in the events of the parser, which take time
linear in the text.
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
    """The one document of a text, within the bounds of `check`. Raises yaml.YAMLError, and
    ValueError for a date that is none."""
    check(text)
    return yaml.load(text, Loader=_LOADER)  # a safe loader


def check(text: str) -> None:
    """Raise yaml.MarkedYAMLError for a text that is nested too deep, that aliases multiply, or that
    has a number without end.

    Raises yaml.YAMLError for what the parser cannot read, as loading would.
    """
    sizes: dict[str, int] = {}  # of what stands behind an anchor
    open_: list[tuple[str | None, int]] = []  # (anchor, values before it) of what is not closed yet
    count = aliased = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.DocumentStartEvent):
            sizes.clear()
        elif isinstance(event, yaml.AliasEvent):
            # One that is not closed yet is circular, one that is not there the loader's to refuse.
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
    told = event.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
    return told or bool(plain and _NUMBER.fullmatch(event.value))


class _TooMuch(yaml.MarkedYAMLError):
    def __init__(self, problem: str, event: Any) -> None:
        super().__init__(None, None, problem, event.start_mark)

"""Decide what a plain YAML scalar means to Kubernetes, for the loader and the emitter.

Kubernetes reads YAML with sigs.k8s.io/yaml, whose rules are neither YAML 1.2 nor PyYAML's: `y` is a
boolean, `1e3` and `0o17` are numbers, `1:30` and `2024-01-01` are strings. The loader reads by
these rules; the emitter quotes whatever they would read as anything but a string.
"""

import re

TRUE = frozenset({"y", "yes", "true", "on"})

_TAG = "tag:yaml.org,2002:"
_PATTERNS = (
    ("null", r"~|null|Null|NULL|", "~nN"),
    (
        "bool",
        r"y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF",
        "yYnNtTfFoO",
    ),
    ("int", r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
    ("merge", r"<<", "<"),
    ("value", r"=", "="),
)


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    table: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for name, pattern, first in _PATTERNS:
        for character in [*first, *([""] if name == "null" else [])]:
            rule = (_TAG + name, re.compile(rf"(?:{pattern})\Z"))
            table.setdefault(character, []).append(rule)
    return table


# PyYAML's `yaml_implicit_resolvers`: first character -> rules in order.
RESOLVERS = _resolvers()

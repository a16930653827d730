"""The flags that an engine's own parser registers, as JSON: [[spellings, arity, off], ...].

`arity`: "0", "1", "?" or "+"; `off`: the spellings that turn a switch off.
"""

import argparse


def rows(parser: argparse.ArgumentParser) -> list[list]:
    actions: dict[int, tuple[argparse.Action, list[str]]] = {}
    for spelling, action in parser._option_string_actions.items():
        actions.setdefault(id(action), (action, []))[1].append(spelling)
    return [
        [sorted(spellings), _arity(action), _off(action, spellings)]
        for action, spellings in actions.values()
    ]


def _arity(action: argparse.Action) -> str:
    return {None: "1", 0: "0", "?": "?"}.get(action.nargs, "+")


def _off(action: argparse.Action, spellings: list[str]) -> list[str]:
    off = getattr(action, "negative_option_strings", None)
    if off is None and isinstance(action, argparse.BooleanOptionalAction):
        off = [spelling for spelling in spellings if spelling.startswith("--no-")]
    return sorted(off or ())

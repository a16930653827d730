"""Prints the flags that an engine's own parser registers, as JSON: [[spellings, arity, off], ...].

`options.py vllm` or `options.py sglang`. `arity`: "0", "1", "?" or "+"; `off`: the spellings that
turn a switch off.
"""

import argparse
import json
import sys


def _vllm():
    from vllm.entrypoints.common.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    return make_arg_parser(FlexibleArgumentParser())


def _sglang():
    import stubs

    stubs.install("triton", "torchvision", "IPython", "gguf")
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    return parser


def _off(action: argparse.Action, spellings: list[str]) -> list[str]:
    off = getattr(action, "negative_option_strings", None)
    if off is None and isinstance(action, argparse.BooleanOptionalAction):
        off = [spelling for spelling in spellings if spelling.startswith("--no-")]
    return sorted(off or ())


def main(engine: str) -> None:
    parser = {"vllm": _vllm, "sglang": _sglang}[engine]()
    actions: dict[int, tuple[argparse.Action, list[str]]] = {}
    for spelling, action in parser._option_string_actions.items():
        actions.setdefault(id(action), (action, []))[1].append(spelling)
    rows = []
    for action, spellings in actions.values():
        arity = {None: "1", 0: "0", "?": "?"}.get(action.nargs, "+")
        rows.append([sorted(spellings), arity, _off(action, spellings)])
    print("\n" + json.dumps(rows))


if __name__ == "__main__":
    main(sys.argv[1])

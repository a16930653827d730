"""SGLang's flags as SGLang 0.5.23 reads them.

Plain argparse: dashes only, abbreviations count, the last use wins. `--config FILE` (two words) is
read before the command line.
"""

from collections.abc import Mapping
from typing import Any

from function.command.model import EngineCall, Word
from function.flags.scan import Options, Scan, scan
from function.flags.sglang.options import OPTIONS
from function.flags.vllm.read import dumps, opposite

TABLE = Options(OPTIONS)


def read(call: EngineCall, file: Mapping[str, Any] | None = None) -> Scan:
    """The uses of flags in `call`, those of the `--config` file (if visible) before them."""
    in_file = file_words(file or {})
    before = scan(in_file, TABLE, first=-len(in_file))
    own = scan(call.words, TABLE, model_first=call.positional_model)
    return Scan(before.uses + own.uses, own.positionals, own.loose)


def effective(call: EngineCall, file: Mapping[str, Any] | None = None) -> dict[str, str | None]:
    """The effective flags: canonical names -> value; None for a switch and the unknown.

    `sglang serve MODEL` is `--model-path MODEL`.
    """
    scanned = read(call, file)
    flags: dict[str, str | None] = {}
    for use in scanned.uses:
        for name in (use.name, opposite(use.name)):
            flags.pop(name, None)
        flags[use.name] = use.raw
    if call.positional_model and "--model-path" not in flags and scanned.positionals:
        flags["--model-path"] = scanned.positionals[0]
    return flags


def file_words(file: Mapping[str, Any]) -> list[Word]:
    """The words that SGLang makes of a `--config` file's keys, in the order of the file."""
    words: list[str] = []
    for key, value in file.items():
        flag = f"--{key.replace('_', '-')}"
        if isinstance(value, bool):
            words += [flag] if value else []
        elif isinstance(value, list | dict):
            words += [flag, dumps(value)]
        elif value is not None:
            words += [flag, str(value)]
    return [Word(word, word, word) for word in words]

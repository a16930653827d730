"""SGLang's flags as SGLang 0.5.23 reads them.

Plain argparse: dashes only, abbreviations count, the last use wins. `--config FILE` (two words) is
read before the command line.
"""

from function.command.model import EngineCall
from function.engines import config_file
from function.engines.scan import Scan, opposite, scan
from function.engines.sglang.flags import TABLE


def read(call: EngineCall) -> Scan:
    """Return the uses of flags in `call`, first those of its `--config` file if it is known."""
    own = scan(call.words, TABLE, model_first=call.positional_model)
    return config_file.before(call, own, lambda words: scan(words, TABLE))


def effective(call: EngineCall) -> dict[str, str | None]:
    """Return the effective flags by canonical name; None for a switch and the unknown.

    `sglang serve MODEL` is `--model-path MODEL`.
    """
    scanned = read(call)
    flags: dict[str, str | None] = {}
    for use in scanned.uses:
        for name in (use.name, opposite(use.name)):
            flags.pop(name, None)
        flags[use.name] = use.raw
    named = any(use.words for use in scanned.of("--model-path"))  # else in the file at most
    if call.positional_model and not named and scanned.positionals:
        flags["--model-path"] = scanned.positionals[0]
    return flags

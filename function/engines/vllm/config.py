"""How vLLM 0.33 reads the file of `--config` (`FlexibleArgumentParser.load_config_file`)."""

from collections.abc import Iterator
from typing import Any

from function.command.model import EngineCall
from function.engines.config_file import valued
from function.engines.kind import ConfigFormat
from function.engines.vllm.flags import TABLE


def _words(config: dict[str, Any], call: EngineCall) -> Iterator[str]:
    for key, value in config.items():
        if value is False:
            # Looked up in the parser that reads the file: under `vllm serve` that is the one of
            # the subcommands, which knows no flag. Nor does any know a name with underscores.
            known = TABLE.exact(f"--no-{key}") is not None
            if known and not call.positional_model:
                yield f"--no-{key}"
        elif value is True:
            yield f"--{key}"
        else:
            yield from valued(key, value)


CONFIG = ConfigFormat(
    words=_words,
    may_hold="a kv-transfer-config or kv-offloading-size that would silently replace the tier's",
)

"""How SGLang 0.5.23 reads the file of `--config` (`ConfigArgumentMerger`)."""

from collections.abc import Iterator
from typing import Any

from function.command.model import EngineCall
from function.engines.config_file import valued
from function.engines.kind import ConfigFormat
from function.engines.sglang.flags import TABLE


def _words(config: dict[str, Any], _: EngineCall) -> Iterator[str]:
    for key, value in config.items():
        option = TABLE.exact(f"--{key.replace('_', '-')}")
        switch = option is not None and option.arity == "0"
        if option is not None and option.negatives:
            raise ValueError(f"{key} is not taken from a file")
        if not isinstance(value, bool):
            yield from valued(key, value)
        elif not switch:
            yield from (f"--{key}", str(value).lower())
        elif value:
            yield f"--{key}"


CONFIG = ConfigFormat(
    words=_words, may_hold="flags that contradict the tier's", any_case=True, may_be_empty=True
)

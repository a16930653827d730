"""The file of `--config FILE`: YAML of flags, which an engine puts before its own words.

So the command line beats the file. Read as vLLM 0.33 (`FlexibleArgumentParser.load_config_file`)
and SGLang 0.5.23 (`ConfigArgumentMerger`) do; `tests/conformance` runs the same files through them.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import yaml

from function.command.model import EngineCall, Word, shown
from function.contract.engine import SGLANG, VLLM
from function.engines.scan import Scan
from function.engines.sglang.options import TABLE as SGLANG_TABLE
from function.engines.vllm.options import TABLE as VLLM_TABLE
from function.kube import yamls
from function.problems import Refused
from function.reasons import Reason

FLAG = "--config"
# All flags of an engine written out take a tenth of it.
MAX_BYTES = 64 * 1024

_MAY_HOLD = {
    VLLM: "a kv-transfer-config or kv-offloading-size, which ours on the command line would "
    "replace, or be replaced by, without a word",
    SGLANG: "flags that contradict the tier's",
}


def path(call: EngineCall) -> str | None:
    """The file that the call names, None where it names none, or one that is not static.

    Only the two-word form is read: `--config=FILE` is accepted and ignored.
    """
    at = _at(call)
    return None if at is None else call.words[at + 1].value


def words(call: EngineCall, file: str, text: str) -> tuple[str, ...]:
    """The words that the engine makes of the file. Raises ValueError: why it, or we, cannot."""
    engine_name = call.engine
    suffix = PurePosixPath(file).suffix
    if (suffix.lower() if engine_name == SGLANG else suffix) not in (".yaml", ".yml"):
        raise ValueError(f"has no name that ends in .yaml, and {engine_name} stops on it")
    if len(text.encode()) > MAX_BYTES:
        raise ValueError(f"is longer than {MAX_BYTES // 1024} KiB, which is not read here")
    try:
        loaded = yamls.load(text)
        if loaded is None and engine_name == SGLANG:
            loaded = {}
        if not isinstance(loaded, dict) or not all(isinstance(key, str) for key in loaded):
            raise ValueError("not an object whose keys are flags")
        made = tuple(_WORDS[engine_name](loaded, call))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as wrong:
        why = " ".join(str(wrong).split())
        raise ValueError(f"is no file that {engine_name} starts with ({shown(why)})") from None
    if "--" in made:
        raise ValueError("holds a bare --, and no flag after it counts")
    return made


def check(call: EngineCall) -> None:
    """Raise Refused(ArgsNotPatchable) where the call reads a file that cannot be read from here:
    none of its flags is certain then."""
    at = _at(call)
    if at is None:
        return
    if sum(word.value == FLAG for word in call.words) > 1:
        raise _refused(f"{FLAG} stands there twice, and {call.engine} stops on it; give it once")
    if not (call.words[at].certain and call.words[at + 1].certain):
        raise _refused(f"{FLAG} is there in some runs of the script only; give it in all of them")
    problem = call.config.problem if call.config else "cannot be read from here"
    if problem:
        name = call.words[at + 1].value or call.words[at + 1].text
        raise _refused(
            f"{FLAG} {shown(name)} {problem}: it may hold {_MAY_HOLD[call.engine]}; move the "
            "file's flags into the args, or mount it from a ConfigMap that stands beside the pods"
        )


def before(call: EngineCall, own: Scan, read: Callable[[Sequence[Word]], Scan]) -> Scan:
    """The call's own uses behind those of its file, which have no words in the call."""
    if call.config is None or not call.config.words:
        return own
    file = read([Word(word, word, word) for word in call.config.words])
    uses = tuple(replace(use, words=()) for use in file.uses)
    return Scan((*uses, *own.uses), (*own.positionals, *file.positionals), own.loose)


def _at(call: EngineCall) -> int | None:
    found = (at for at, word in enumerate(call.words[:-1]) if word.value == FLAG)
    return next(found, None)


def _refused(why: str) -> Refused:
    return Refused(Reason.ARGS_NOT_PATCHABLE, why)


def _vllm(config: dict[str, Any], call: EngineCall) -> Iterator[str]:
    for key, value in config.items():
        if value is False:
            # Looked up in the parser that reads the file: under `vllm serve` that is the one of
            # the subcommands, which knows no flag. Nor does any know a name with underscores.
            known = VLLM_TABLE.exact(f"--no-{key}") is not None
            if known and not call.positional_model:
                yield f"--no-{key}"
        elif value is True:
            yield f"--{key}"
        else:
            yield from _valued(key, value)


def _sglang(config: dict[str, Any], _: EngineCall) -> Iterator[str]:
    for key, value in config.items():
        option = SGLANG_TABLE.exact(f"--{key.replace('_', '-')}")
        switch = option is not None and option.arity == "0"
        if option is not None and option.negatives:
            raise ValueError(f"{key} is not taken from a file")
        if not isinstance(value, bool):
            yield from _valued(key, value)
        elif not switch:
            yield from (f"--{key}", str(value).lower())
        elif value:
            yield f"--{key}"


def _valued(key: str, value: Any) -> Iterator[str]:
    if isinstance(value, list):
        if value:
            yield f"--{key}"
            yield from map(str, value)
        return
    yield f"--{key}"
    yield json.dumps(value) if isinstance(value, dict) else str(value)


_WORDS: dict[str, Callable[[dict[str, Any], EngineCall], Iterator[str]]] = {
    VLLM: _vllm,
    SGLANG: _sglang,
}

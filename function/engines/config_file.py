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
from function.engines.kind import ConfigFormat
from function.engines.scan import Scan
from function.kube import yamls
from function.problems import Refused
from function.reasons import Reason

FLAG = "--config"
# All flags of an engine written out take a tenth of it.
MAX_BYTES = 64 * 1024


def path(call: EngineCall) -> str | None:
    """Return the file that the call names; None without one, or where it is not static.

    Only the two-word form is read: `--config=FILE` is accepted and ignored.
    """
    at = _at(call)
    return None if at is None else call.words[at + 1].value


def words(config: ConfigFormat | None, call: EngineCall, file: str, text: str) -> tuple[str, ...]:
    """Return the words that the engine makes of the file. Raise ValueError with the reason why not.

    `config`: how the engine reads it, None where that is not known.
    """
    if config is None:
        raise ValueError("cannot be read from here")
    suffix = PurePosixPath(file).suffix
    if (suffix.lower() if config.any_case else suffix) not in (".yaml", ".yml"):
        raise ValueError(f"has no name that ends in .yaml, and {call.engine} stops on it")
    if len(text.encode()) > MAX_BYTES:
        raise ValueError(f"is longer than {MAX_BYTES // 1024} KiB, which is not read here")
    try:
        loaded = yamls.load(text)
        if loaded is None and config.may_be_empty:
            loaded = {}
        if not isinstance(loaded, dict) or not all(isinstance(key, str) for key in loaded):
            raise ValueError("not an object whose keys are flags")
        made = tuple(config.words(loaded, call))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as wrong:
        why = " ".join(str(wrong).split())
        raise ValueError(f"is no file that {call.engine} starts with ({shown(why)})") from None
    if "--" in made:
        raise ValueError("holds a bare --, and no flag after it counts")
    return made


def check(config: ConfigFormat | None, call: EngineCall) -> None:
    """Raise Refused(ArgsNotPatchable) where the call reads a file that cannot be read from here.

    None of its flags is certain then.
    """
    at = _at(call)
    if at is None:
        return
    if sum(word.value == FLAG for word in call.words) > 1:
        raise _refused(f"{FLAG} stands there twice, and {call.engine} stops on it; give it once")
    problem = call.config.problem if call.config else "cannot be read from here"
    if problem:
        name = call.words[at + 1].value or call.words[at + 1].text
        may_hold = config.may_hold if config else "any flag"
        raise _refused(
            f"{FLAG} {shown(name)} {problem}: it may hold {may_hold}; move the "
            "file's flags into the args, or mount it from a ConfigMap that stands beside the pods"
        )


def before(call: EngineCall, own: Scan, read: Callable[[Sequence[Word]], Scan]) -> Scan:
    """Return the uses of its file, which have no words in the call, and then the call's own."""
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


def valued(key: str, value: Any) -> Iterator[str]:
    """Yield the words of a flag that takes a value; none for an empty list."""
    if isinstance(value, list):
        if value:
            yield f"--{key}"
            yield from map(str, value)
        return
    yield f"--{key}"
    yield json.dumps(value) if isinstance(value, dict) else str(value)

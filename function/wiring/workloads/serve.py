"""Ray Serve LLM: an `llm_configs` entry read and rewritten as if it were a command line.

`engine_kwargs` are vLLM's engine arguments by their Python names, so each is one word
`--dashed-name=value`, and everything that knows flags works on it unchanged. The pods' own env
reaches the engine: Ray starts its workers with the environment of the node they run on.
Source: Ray's LLMConfig (ray.serve.llm): model_loading_config, engine_kwargs, llm_engine,
runtime_env.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from function.problems import Refused
from function.wiring.command.model import Append, Delete, Edit, EngineCall, Program, Replace, Word
from function.wiring.engine import VLLM

Json = dict[str, Any]

ENTRYPOINT = "ray serve llm"


@dataclass(frozen=True)
class ServeProgram(Program):
    """`rewrite()` returns the entry's new `engine_kwargs`, if they changed."""

    engine_kwargs: Mapping[str, Any] | None = None

    def rewrite(self, edits: Mapping[int, Sequence[Edit]]) -> Json:
        words = list(self.calls[0].words)
        texts: list[str | None] = [w.value for w in words]
        added: list[str] = []
        for edit in edits.get(0, ()):
            match edit:
                case Replace(index=index, value=value):
                    texts[index] = value
                case Delete(index=index):
                    texts[index] = None
                case Append(value=value):
                    added.append(value)
        before = dict(self.engine_kwargs or {})
        after: Json = {}
        for word, text in zip(words, texts, strict=True):
            key = word.place
            if key is not None and text == word.value:
                after[key] = before[key]
            elif key is not None and text is not None:
                after.update(_pairs([text]))
        after.update(_pairs(added))
        return {} if after == before else {"engine_kwargs": after}


def read(entry: Mapping[str, Any]) -> Program:
    """The engine call of an `llm_configs` entry. Never raises."""
    engine = str(entry.get("llm_engine") or VLLM)
    kwargs = entry.get("engine_kwargs")
    if engine != VLLM:
        return Program(problem=f"llm_engine is {engine}, and only {VLLM} is known here")
    if kwargs is not None and not isinstance(kwargs, dict):
        return Program(problem="engine_kwargs is not an object")
    model = _model(entry.get("model_loading_config"))
    words = [Word(model, model or "", model or "")] if model else []
    for key, value in (kwargs or {}).items():
        text = _word(str(key), value)
        words.append(Word(text, text, text, place=key))
    call = EngineCall(VLLM, ENTRYPOINT, tuple(words), positional_model=True)
    return ServeProgram((call,), engine_kwargs=kwargs)


def check_env(entry: Mapping[str, Any], env: Iterable[Mapping[str, Any]]) -> None:
    """`runtime_env.env_vars` overrides a pod's env: another value there is a PodConflict."""
    variables = (entry.get("runtime_env") or {}).get("env_vars") or {}
    for variable in env:
        name = variable["name"]
        if name in variables and variables[name] != variable.get("value"):
            raise Refused(
                "PodConflict",
                f"{name} is {variables[name]!r} for the engine's workers, and the tier sets it in "
                "the pods; remove it",
                f"runtime_env.env_vars.{name}",
            )


def _model(config: Any) -> str | None:
    if not isinstance(config, dict):
        return None
    source = config.get("model_source") or config.get("model_id")
    if isinstance(source, dict):
        source = source.get("bucket_uri")
    return source if isinstance(source, str) else None


def _word(key: str, value: Any) -> str:
    flag = "--" + key.replace("_", "-")
    if value is True:
        return flag
    if value is False:
        return "--no-" + flag[2:]
    if value is None:
        return f"{flag}=None"
    if isinstance(value, dict | list):
        return f"{flag}={json.dumps(value, separators=(',', ':'))}"
    return f"{flag}={value}"


def _pairs(words: Sequence[str]) -> Json:
    """Keyword arguments of words: `--a=1`, `--a 1`, `--switch`."""
    out: Json = {}
    i = 0
    while i < len(words):
        flag, equals, text = words[i].partition("=")
        i += 1
        if not equals and i < len(words) and not words[i].startswith("--"):
            equals, text = "=", words[i]
            i += 1
        out[flag.removeprefix("--").replace("-", "_")] = _value(text) if equals else True
    return out


def _value(text: str) -> Any:
    if text[:1] not in ("{", "[") and not text.lstrip("-").replace(".", "", 1).isdecimal():
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text

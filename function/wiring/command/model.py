"""The words of an engine's command line, wherever they stand.

`read()` (see package docstring) turns a container's command and args into a `Program`: the engine
calls it makes, each a list of `Word`s, and a way to rewrite them that proves its own result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Word:
    """One word of a command line. `value` is None where it is not static (an expansion)."""

    value: str | None
    text: str = ""


@dataclass(frozen=True)
class Replace:
    """Word `index` of the call becomes `value`."""

    index: int
    value: str


@dataclass(frozen=True)
class Delete:
    """Word `index` of the call goes."""

    index: int


@dataclass(frozen=True)
class Append:
    """A word at the end of the call's own words (before a bare `--`, `"$@"` or a redirection)."""

    value: str


Edit = Replace | Delete | Append


@dataclass(frozen=True)
class EngineCall:
    """One start of an engine.

    `engine`: "vLLM" or "SGLang". `entrypoint`: how it is started, as plain words ("vllm serve",
    "python3 -m sglang.launch_server", or "image" when the image's entrypoint starts it). `words`:
    the engine's own arguments after the entrypoint (for `vllm serve` they begin with the model).
    `opted_in`: the script passes `$KV_OFFLOAD_ARGS` unquoted to this call: args go by env.
    `closed`: why appending here can have no effect or cannot be proven, "" when it can.
    """

    engine: str
    entrypoint: str
    words: tuple[Word, ...]
    opted_in: bool = False
    closed: str = ""


@dataclass(frozen=True)
class Program:
    """What a container runs: its engine calls, in order; none when no engine is started here.

    `problem`: why the command could not be read, "" when it was. `rewrite(edits)` takes the edits
    per call (by the call's index) and returns the container's new `command`/`args` (only the keys
    that changed); it raises Refused(ArgsNotPatchable) when the result cannot be proven.
    """

    calls: tuple[EngineCall, ...] = ()
    problem: str = ""
    # True where the argv itself proves that no engine is started (a Ray worker's `ray start`).
    inert: bool = False

    def rewrite(self, edits: Mapping[int, Sequence[Edit]]) -> dict[str, Any]:
        raise TypeError("a Program without calls has nothing to rewrite")

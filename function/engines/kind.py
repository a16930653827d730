"""One engine as the function knows it: the type of what each folder of this package holds.

Most of it is data. What an engine lacks is left at its default, and nothing of that sort is wired.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from function.command.model import EngineCall
from function.contract.engine import Engine
from function.contract.injection import Injection, Json
from function.contract.rules import RecordedSeries
from function.engines.plan import FlagPlan

Flags = Mapping[str, str | None]

_NEVER = re.compile(r"(?!)")


@dataclass(frozen=True)
class RankFlags:
    """The flags from which the number of an engine's processes follows.

    `shared`: their product is the number of ranks that share one KV cache. `replicas`: how often
    those ranks exist (data parallelism). `local`: how many replicas one pod has. `attention`: a
    switch with which the replicas take their ranks from `shared`. `nodes`: over how many nodes one
    replica runs. `placed`: flags whose value "ray" lets Ray place ranks anywhere.
    """

    shared: tuple[str, ...]
    replicas: str
    local: str = ""
    attention: str = ""
    nodes: str = "--nnodes"
    placed: tuple[str, ...] = ()


@dataclass(frozen=True)
class EventFlags:
    """How an engine publishes KV events.

    `block`: the flag of its block size, in tokens. `config`: fields of the configuration that only
    this engine has. `merged`: `plan` merges `Injection.kv_events` with the user's own; without it
    the configuration is set as a plain flag.
    """

    block: str
    config: Mapping[str, Any] = field(default_factory=dict)
    merged: bool = False


@dataclass(frozen=True)
class ConfigFormat:
    """How an engine reads the file of `--config FILE`.

    `words`: the words that it makes of the file's object; ValueError where it stops. `may_hold`:
    what a file that cannot be read may hold, for messages. `any_case`: whether the suffix may be
    upper case. `may_be_empty`: whether it starts with an empty file.
    """

    words: Callable[[Json, EngineCall], Iterator[str]]
    may_hold: str
    any_case: bool = False
    may_be_empty: bool = False


@dataclass(frozen=True)
class ImageNames:
    """How the version is read from the name and tag of an image that no table knows.

    `stock`: matches names derived from the project's own image; their tag begins with the engine's
    version. `own`: matches names after the engine alone; there only tags that match `leading` are
    its version.
    """

    stock: re.Pattern[str] = _NEVER
    own: re.Pattern[str] = _NEVER
    leading: re.Pattern[str] = _NEVER


@dataclass(frozen=True)
class IdentityInputs:
    """What determines a cached block's bytes or its key: {name: what an absent one means}.

    `flags`, `env`: of the engine. `sources`: variables that say where a repository's weights come
    from. `length`: flags of the context length; they count for models whose rope factors follow
    it. `switches`: flags without a value. `with_switch`: {switch: flags that count only with it}.
    `gone`: flags that the newest version no longer has.
    """

    flags: Mapping[str, str]
    env: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    length: tuple[str, ...] = ()
    switches: frozenset[str] = frozenset()
    with_switch: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    source: str = ""


@dataclass(frozen=True)
class EngineKind:
    """One engine.

    `name`: as consumers write it. `distribution`: its package on PyPI. `start`: a command that
    starts it, for messages. `model_flag`: names the model. `port`: where it serves by default.
    `identity`: a table of one row.

    `read`: the effective flags of a call: canonical dashed names, the last use wins. None is a
    switch, or a value that is not static; of `--x` and `--no-x` the one that counts is there.
    `loose`: indexes of words that may hold any flag. `flag_name`: the canonical name of a flag as
    written, e.g. of `-tp`.
    `plan`: what must be set on a call so that it uses the injection; raises Refused. `phase`:
    Prefill or Decode where the flags say so, else "". `pair`: {phase: the flags that say so}, none
    where a connector's configuration does. `transfers`: the user's own connectors that
    move blocks from prefill to decode, as written. `connectors`: names of all the user's own.
    `layouts`: those of the GPU's cache that connectors ask for, by their names. `records`: what its
    counters mean, under the names that all engines share.
    """

    name: str
    distribution: str
    start: str
    model_flag: str
    port: int
    ranks: RankFlags
    identity: Sequence[IdentityInputs]
    read: Callable[[EngineCall], dict[str, str | None]]
    loose: Callable[[EngineCall], tuple[int, ...]]
    plan: Callable[[EngineCall, Engine, Injection], FlagPlan]
    flag_name: Callable[[str], str] = str
    phase: Callable[[Flags], str] = lambda flags: ""
    pair: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    transfers: Callable[[Flags], list[Json]] = lambda flags: []
    connectors: Callable[[Flags], frozenset[str]] = lambda flags: frozenset()
    layouts: Callable[[frozenset[str]], frozenset[str]] = lambda names: frozenset()
    images: ImageNames = field(default_factory=ImageNames)
    events: EventFlags | None = None
    config: ConfigFormat | None = None
    records: Sequence[RecordedSeries] = ()

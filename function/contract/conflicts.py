"""What in an engine pod cannot go with a tier: tables of rows, one row for each thing.

Each backend brings its rows; what several of them ask of a pod stands here. A value that is not
static (`valueFrom`, an expansion) is nobody's to judge and passes. What one flag has against
another, whatever the tier, is `function.engines`' to say.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic

from function.contract.backend import AnyTier, Settings, Tier
from function.contract.engine import Engine
from function.problems import Refused
from function.reasons import Reason

# Three names for one setting of PyTorch's; vLLM itself looks at one of them.
_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")

Holds = Callable[[AnyTier, Engine], str | None]


@dataclass(frozen=True)
class Row(Generic[Settings]):
    """`holds` says whether the row's case is there; then wiring stops with reason and message.

    `engine`: "" for every one. `message` may use {found}, what `holds` returned.
    """

    reason: Reason
    message: str
    holds: Callable[[Tier[Settings], Engine], str | None]
    engine: str = ""


def check(rows: Iterable[Row[Settings]], tier: Tier[Settings], engine: Engine) -> None:
    """Raise Refused with every row that holds."""
    problems = [
        Refused(row.reason, row.message.format(found=found))
        for row in rows
        if row.engine in ("", engine.name) and (found := row.holds(tier, engine)) is not None
    ]
    if problems:
        raise Refused.all_of(problems)


def flags(*names: str) -> Holds:
    """Hold where one of these flags is set: its name."""
    return lambda _, engine: next((name for name in names if engine.has(name)), None)


def env(*names: str) -> Holds:
    """Hold where one of these variables is set: its name."""
    return lambda _, engine: next((name for name in names if name in engine.env), None)


def without(feature: str) -> Holds:
    """Hold where the engine's version lacks this feature of its connector: the version."""
    return lambda _, engine: None if feature in engine.features else engine.version or "unknown"


def expandable_segments(_: AnyTier, engine: Engine) -> str | None:
    """Return the variable that enables PyTorch's expandable segments, which vLLM refuses."""
    for name in _ALLOCATOR:
        settings = (engine.env.get(name) or "").replace(" ", "").lower().split(",")
        if "expandable_segments:true" in settings:
            return name
    return None

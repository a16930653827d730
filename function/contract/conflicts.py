"""What in an engine pod cannot go with a tier: rows of each backend's facts.yaml.

A value that is not static (`valueFrom`, an expansion) cannot be checked, and passes. Conflicts
between flags of one engine, whatever the tier, are in `function.engines`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Generic

from function import names
from function.contract.backend import AnyTier, Settings, Tier
from function.contract.conditions import FlagCondition
from function.contract.engine import Engine
from function.facts import Table
from function.problems import Refused
from function.reasons import Reason

# Three names for one setting of PyTorch's; vLLM itself looks at one of them.
_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")


@dataclass(frozen=True)
class Row:
    """One conflict; it is there where everything holds that the row names.

    `message`: <found> is what `case` returned, or the first of `when`; <version> the engine's.
    `engine`: "" for every one. `tier`: fields of the tier's settings with their value, `set` for
    any. `when`: of the engine's flags and variables. `without`: a feature that its version lacks.
    `case`: a function of the backend.
    """

    reason: Reason
    message: str
    engine: str = ""
    tier: Mapping[str, str] | None = None
    when: tuple[FlagCondition, ...] = ()
    without: str = ""
    case: str = ""


class Conflicts(Generic[Settings]):
    """The rows of one backend, with the functions that they name.

    A case returns what it found, for the message, or None.
    """

    def __init__(
        self,
        path: Path,
        *cases: Callable[[Tier[Settings], Engine], str | None],
        sections: Sequence[str] = ("conflicts",),
    ) -> None:
        """Take the rows of these sections of the file at `path`."""
        self._tables = [Table(Row, path, section) for section in sections]
        self.cases = {case.__name__.lstrip("_"): case for case in cases}

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """Every row, in the order of the sections."""
        return tuple(chain(*self._tables))

    def check(self, tier: Tier[Settings], engine: Engine) -> None:
        """Raise Refused with every row that holds."""
        problems = []
        for row in self.rows:
            if row.engine not in ("", engine.name) or row.without in engine.features:
                continue
            found = self._find(row, tier, engine)
            if found is not None:
                version = engine.version_text or "of an unknown version"
                message = row.message.replace("<version>", version).replace("<found>", found)
                problems.append(Refused(row.reason, message))
        if problems:
            raise Refused.all_of(problems)

    def _find(self, row: Row, tier: Tier[Settings], engine: Engine) -> str | None:
        if not all(_has(tier, path, value) for path, value in (row.tier or {}).items()):
            return None
        found = [condition.find({**engine.env, **engine.flags}) for condition in row.when]
        if row.case:
            found.insert(0, self.cases[row.case](tier, engine))
        return None if None in found else next(filter(None, found), "")


def _has(tier: AnyTier, path: str, value: str) -> bool:
    found: Any = tier.settings
    for name in path.split("."):
        found = getattr(found, name, None)
    return bool(found) if value == "set" else found == value


def expandable_segments(_: AnyTier, engine: Engine) -> str | None:
    """Return the variable that enables PyTorch's expandable segments, which vLLM refuses."""
    for name in _ALLOCATOR:
        settings = (engine.env.get(name) or "").replace(" ", "").lower().split(",")
        if "expandable_segments:true" in settings:
            return name
    return None


def unknown_identity(_: AnyTier, engine: Engine) -> str | None:
    """Return what cannot be read of an engine with an unknown cache identity, and the way out."""
    if engine.identity:
        return None
    why = "Engines with other weights or another cache layout would read each other's blocks."
    if not engine.identity_unknown:
        name = names.ANNOTATION_CACHE_IDENTITY
        return f"the model argument. {why} Name the weights: annotate {name}: NAME."
    return f"{engine.identity_unknown}. {why}{engine.identity_advice}"

"""From an engine's name to the folder that answers for it, imported when it is first asked."""

import re
from functools import cache
from importlib import import_module

from function.api.engines import ENGINES
from function.engines.kind import EngineKind


@cache
def kind(name: str) -> EngineKind:
    """Return the engine of that name. Raise KeyError for a name that is not one."""
    if name not in ENGINES:
        raise KeyError(f"{name} is not an engine; known: {', '.join(ENGINES)}")
    folder = re.sub(r"[^a-z0-9]", "_", name.lower())
    found: EngineKind = import_module(f"{__package__}.{folder}").KIND
    return found


def kinds() -> list[EngineKind]:
    """Return every engine."""
    return [kind(name) for name in ENGINES]

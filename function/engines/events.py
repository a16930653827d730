"""The ports at which an engine publishes its events, as its flags say."""

import json
import re
from functools import cache

from function.api.engines import ENGINES
from function.contract.engine import Engine
from function.contract.events import FLAG
from function.engines.registry import kind

_PORT = re.compile(r":([0-9]{1,5})$")


def port(engine: Engine) -> int:
    """Return the first port; 0 for none, or one that cannot be seen.

    Only an endpoint with `*` is bound: the engine connects to any other.
    """
    try:
        config = json.loads(engine.flag(FLAG) or "{}")
    except (ValueError, RecursionError):
        return 0
    endpoint = config.get("endpoint") if isinstance(config, dict) else None
    match = _PORT.search(endpoint) if isinstance(endpoint, str) and "*" in endpoint else None
    return int(match[1]) if match else 0


@cache
def flags() -> frozenset[str]:
    """Return the flags with which any engine publishes events."""
    known = (kind(name).events for name in ENGINES)
    return frozenset((FLAG, *(events.block for events in known if events is not None)))


def serving(engine: Engine) -> int:
    """Return the port at which the engine answers requests."""
    value = engine.flag("--port") or ""
    own = int(value) if value.isascii() and value.isdecimal() and len(value) < 10 else 0
    return own or kind(engine.name).port

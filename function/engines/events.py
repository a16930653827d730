"""The ports at which an engine publishes its events, as its flags say."""

import json
import re

from function.contract.engine import SGLANG, VLLM, Engine
from function.contract.events import FLAG

_PORT = re.compile(r":([0-9]{1,5})$")
_RANKS = {VLLM: "--data-parallel-size", SGLANG: "--dp-size"}
_SERVES = {VLLM: 8000, SGLANG: 30000}


def port(engine: Engine) -> int:
    """The first of them; 0 for none, or one that cannot be seen.

    Only an endpoint with `*` is bound: the engine connects to any other.
    """
    try:
        config = json.loads(engine.flag(FLAG) or "{}")
    except (ValueError, RecursionError):
        return 0
    endpoint = config.get("endpoint") if isinstance(config, dict) else None
    match = _PORT.search(endpoint) if isinstance(endpoint, str) and "*" in endpoint else None
    return int(match[1]) if match else 0


def ranks(engine: Engine) -> int:
    """How many publish: the ranks of data parallelism over all pods; 1 where nothing says."""
    return max(1, _number(engine, _RANKS[engine.name]) or 1)


def serving(engine: Engine) -> int:
    """The port at which the engine answers requests."""
    return _number(engine, "--port") or _SERVES[engine.name]


def _number(engine: Engine, flag: str) -> int:
    value = engine.flag(flag) or ""
    return int(value) if value.isascii() and value.isdecimal() and len(value) < 10 else 0

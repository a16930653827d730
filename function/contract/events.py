"""KV events of an engine: what wiring may make it publish, whichever backend the tier has."""

from collections.abc import Mapping
from typing import Any

# The flag of every engine that publishes, and what else comes with it.
FLAG = "--kv-events-config"
POD_IP = "KV_OFFLOAD_POD_IP"
SEED = "PYTHONHASHSEED"
# Container ports have names; ranks beyond these are left undeclared.
MOST = 64
LIVE, REPLAY = "kv-events", "kv-replay"
BIND = "tcp://*:"
# What every topic begins with.
TOPICS = "kv@"

ENV = frozenset((POD_IP, SEED))
PORTS = frozenset(f"{name}-{rank}" for name in (LIVE, REPLAY) for rank in range(MOST))
_FIELDS = frozenset(("enable_kv_cache_events", "endpoint", "publisher", "replay_endpoint", "topic"))


def problem(config: object) -> str:
    """Return what a recorded configuration holds that no tier asks for; "" for nothing.

    Other endpoints than those that are bound would carry what users send to somebody else.
    """
    if not isinstance(config, Mapping):
        return "events that are no object"
    for field in sorted(config.keys() - _FIELDS):
        return f"events with {field}"
    for field in ("endpoint", "replay_endpoint"):
        if field in config and not _bound(config[field]):
            return f"events at {config[field]}"
    return ""


def _bound(endpoint: Any) -> bool:
    port = str(endpoint).removeprefix(BIND)
    return port != endpoint and port.isascii() and port.isdecimal() and len(port) <= 5

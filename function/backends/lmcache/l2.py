"""The levels below the node's memory: each type as an `--l2-adapter` and what it needs around it.

LMCache counts the bytes of a level from zero with each start of the server, and every server only
its own. What bounds a level is therefore never that count alone: see `janitor` for files; a Redis
is bounded by its own maxmemory, a bucket by its lifecycle rules.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from function.api.lmcache_l2 import L2Level
from function.backends.base import Manifest, Part, Tier


@dataclass(frozen=True)
class Level:
    """One level: the adapter's JSON, and what the agents' pod needs for it."""

    json: str
    env: tuple[Manifest, ...] = ()
    volumes: tuple[Manifest, ...] = ()
    mounts: tuple[Manifest, ...] = ()
    sidecars: tuple[Manifest, ...] = ()
    parts: tuple[Part, ...] = ()


def levels(tier: Tier) -> list[Level]:
    """The tier's levels, nearest first."""
    return [_TYPES[level.type](tier, level) for level in tier.spec.backend_spec.l2]


def adapter(body: dict[str, Any]) -> str:
    """The adapter as one argument: compact JSON in the order it is written."""
    return json.dumps(body, separators=(",", ":"))


_TYPES: dict[str, Callable[[Tier, L2Level], Level]] = {}

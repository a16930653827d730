"""What one level below the node's memory comes to."""

import json
from dataclasses import dataclass
from typing import Any

from function.backends.evictor import Directory
from function.contract.backend import Manifest, Part
from function.kube import manifests as k


@dataclass(frozen=True)
class Awaited:
    """A server that must answer before an agent starts: one of its nodes, "host:port,host:port".

    `way`: `ping` logs in to a Redis by the level's environment, `connect` only connects.
    """

    way: str
    nodes: str


@dataclass(frozen=True)
class Level:
    """One level: the words of its `--l2-adapter`, and what the agents' pod needs for it.

    `data`: the mount of its files, where it has any; `mounts`: further ones (keys). `bounded`: the
    directory that is kept under its size.
    """

    adapter: str
    env: tuple[Manifest, ...] = ()
    volumes: tuple[Manifest, ...] = ()
    data: Manifest | None = None
    mounts: tuple[Manifest, ...] = ()
    bounded: Directory | None = None
    awaited: Awaited | None = None
    parts: tuple[Part, ...] = ()

    @property
    def all_mounts(self) -> tuple[Manifest, ...]:
        """Every mount of the agent's container."""
        return (*((self.data,) if self.data else ()), *self.mounts)


def adapter(body: dict[str, Any]) -> str:
    """An adapter as one argument: compact JSON, keys in the order they are written."""
    return k.literal(json.dumps(body, separators=(",", ":"), ensure_ascii=False))

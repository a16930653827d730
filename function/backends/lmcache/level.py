"""One level below the node's memory, compiled for the agents' pod."""

import json
from dataclasses import dataclass
from typing import Any

from function.backends.evictor import BoundedDirectory
from function.contract.backend import Manifest, Part
from function.kube import manifests as k


@dataclass(frozen=True)
class Awaited:
    """A server that must answer before an agent starts.

    `nodes`: "host:port,host:port", one of which must answer. `way`: `ping` logs in to a Redis with
    the level's environment, `connect` only connects.
    """

    way: str
    nodes: str


@dataclass(frozen=True)
class Level:
    """One level: its `--l2-adapter` argument and additions to the agents' pod.

    `data`: the mount of its files, if any; `mounts`: others (keys). `bounded`: the directory that
    the evictor bounds.
    """

    adapter: str
    env: tuple[Manifest, ...] = ()
    volumes: tuple[Manifest, ...] = ()
    data: Manifest | None = None
    mounts: tuple[Manifest, ...] = ()
    bounded: BoundedDirectory | None = None
    awaited: Awaited | None = None
    parts: tuple[Part, ...] = ()

    @property
    def all_mounts(self) -> tuple[Manifest, ...]:
        """Return every mount of the agent's container."""
        return (*((self.data,) if self.data else ()), *self.mounts)


def adapter(body: dict[str, Any]) -> str:
    """Return an adapter as one argument: compact JSON, keys in written order."""
    return k.literal(json.dumps(body, separators=(",", ":"), ensure_ascii=False))

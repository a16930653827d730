"""The pairs of an engine and a backend that serve here: one row each.

A further pair is a row: the author's pod, the tier's YAML, and a `Running` for what the tier puts
on its cluster, where one of these does not do.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.manifests import Manifest
from tests.serve import author, standins
from tests.serve.pairs import lmcache, mooncake
from tests.serve.pairs.running import Running
from tests.serve.site import Site
from tests.serve.standins import StandIn
from tests.serve.wiring import TIERS, Declared


@dataclass(frozen=True)
class Pair:
    """`image`: what stands in for the engine's image. `chunk`: tokens that are found or missed
    together. `parts`: what may fail, by name (`Running.parts`). `env`: what the author of a pod for
    this machine sets besides. `stand_ins`: changes of the engine's emitted template, each of one
    thing.
    """

    name: str
    image: str
    write: Callable[[author.Pod], Manifest]
    tier: Path
    run: Callable[[Site, Declared], Running]
    chunk: int
    parts: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    stand_ins: tuple[StandIn, ...] = ()

    def found(self, tokens: int) -> int:
        """How many tokens of a prompt a full hit brings: the last one is always computed."""
        return (tokens - 1) // self.chunk * self.chunk


PAIRS: Mapping[str, Pair] = {
    pair.name: pair
    for pair in (
        Pair(
            "vllm-mooncake",
            "vllm",
            author.vllm,
            TIERS / "mooncake.yaml",
            mooncake.Pool,
            chunk=64,
            parts=("master", "store"),
        ),
        Pair(
            "vllm-lmcache",
            "vllm",
            author.vllm,
            TIERS / "lmcache.yaml",
            lmcache.NodeServer,
            chunk=256,
            parts=("agent",),
            # LMCache's default for a CPU copies by messages; this is the way of a GPU.
            env=(("LMCACHE_MP_TRANSFER_MODE", "lmcache_driven"),),
            stand_ins=(standins.SHARED_MEMORY,),
        ),
    )
}

# Rows that no machine without a GPU can run -> why.
ELSEWHERE: Mapping[str, str] = {
    "vllm-lmcache-in-process": "LMCache in the engine's process has no connector for a CPU",
}

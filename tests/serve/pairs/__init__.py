"""The pairs of an engine and a backend that serve here: one row each.

A further pair is a row: the author's pod, the tier's YAML, and a `Running` for what the tier puts
on its cluster, where one of these does not do.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.conformance.manifests import Manifest
from tests.serve import author, standins
from tests.serve.engine import Engine, Offloading, SGLang
from tests.serve.pairs import lmcache, mooncake, native
from tests.serve.pairs.running import Nothing, Running
from tests.serve.site import GPU, Site
from tests.serve.standins import StandIn
from tests.serve.wiring import TIERS, Declared


@dataclass(frozen=True)
class Pair:
    """`image`: what stands in for the engine's image (`Site.image`). `chunk`: tokens that are found
    or missed together. `parts`: what may fail, by name (`Running.parts`). `needs`: tiers that the
    tier names. `env`, `args`: what the author of a pod for this machine sets besides. `stand_ins`:
    changes of the engine's emitted template, each of one thing. `keeps`: blocks stay in the tier,
    and other engines find them; otherwise they go from one engine to another, or stay in one.
    `role`: the half of a pair that an engine must be, to be wired at all. `long`: a row that only
    the long tests take.
    """

    name: str
    image: str
    speaks: type[Engine]
    write: Callable[[author.Pod], Manifest]
    tier: Path
    run: Callable[[Site, Declared], Running]
    chunk: int
    parts: tuple[str, ...] = ()
    needs: tuple[Path, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    args: tuple[str, ...] = ()
    stand_ins: tuple[StandIn, ...] = ()
    keeps: bool = True
    role: str = ""
    long: bool = False

    @property
    def untouched(self) -> str:
        """The image of engines that never had a tier: what is beside the engine is the tier's."""
        return self.image.partition("+")[0]

    def found(self, tokens: int) -> int:
        """How many tokens of a prompt a full hit brings: the last one is always computed."""
        return (tokens - 1) // self.chunk * self.chunk

    @property
    def declared(self) -> Declared:
        return Declared(self.tier, tuple(map(Declared, self.needs)))


def _vllm(name: str, run: Callable[[Site, Declared], Running], **more: Any) -> Pair:
    speaks, image = more.pop("speaks", Engine), more.pop("image", "vllm")
    return Pair(name, image, speaks, author.vllm, _tier(name), run, **more)


def _lmcache(name: str, run: Callable[[Site, Declared], Running], **more: Any) -> Pair:
    # LMCache's default for a CPU copies by messages; this is the way of a GPU.
    env = (("LMCACHE_MP_TRANSFER_MODE", "lmcache_driven"),)
    return _vllm(name, run, chunk=256, env=env, stand_ins=(standins.SHARED_MEMORY,), **more)


def _sglang(name: str, run: Callable[[Site, Declared], Running], **more: Any) -> Pair:
    tier, write = more.pop("tier", _tier(name)), more.pop("write", author.sglang)
    stand_ins = (standins.PLAIN_MEMORY, *more.pop("stand_ins", ()))
    return Pair(name, "sglang", SGLang, write, tier, run, stand_ins=stand_ins, **more)


def _tier(name: str) -> Path:
    """The tier's file, named like what stands behind the engine in the pair's name."""
    return TIERS / f"{name.partition('-')[2]}.yaml"


PAIRS: Mapping[str, Pair] = {
    pair.name: pair
    for pair in (
        _vllm(
            "vllm-mooncake",
            mooncake.Pool,
            chunk=64,
            parts=("master", "store"),
        ),
        _lmcache("vllm-lmcache", lmcache.NodeServer, parts=("agent",)),
        _lmcache("vllm-lmcache-disk", lmcache.NodeServer, parts=("agent",), long=True),
        _lmcache("vllm-lmcache-redis", lmcache.WithRedis, parts=("agent", "redis"), long=True),
        _vllm(
            "vllm-native",
            native.Files,
            speaks=Offloading,
            chunk=64,
            parts=("evictor",),
            stand_ins=(standins.MEMMOVE,),
        ),
        _vllm(
            "vllm-native-bucket",
            native.Bucket,
            image="vllm+cuda12",
            speaks=Offloading,
            chunk=64,
            parts=("bucket",),
            stand_ins=(standins.MEMMOVE, standins.MOTO, standins.CUDA12),
        ),
        # Its memory is the engine's own, and no other engine finds what is in it.
        _vllm(
            "vllm-native-simple",
            Nothing,
            chunk=64,
            stand_ins=(standins.MEMMOVE,),
            keeps=False,
        ),
        # An engine asks the one that a request names.
        _vllm(
            "vllm-native-peers",
            Nothing,
            speaks=Offloading,
            chunk=64,
            env=(("UCX_TLS", "tcp"),),
            stand_ins=(standins.MEMMOVE,),
            keeps=False,
        ),
        _vllm(
            "vllm-nixl",
            Nothing,
            chunk=64,
            keeps=False,
            # As between nodes: pods of this suite could share memory.
            env=(("UCX_TLS", "tcp"),),
        ),
        _sglang(
            "sglang-mooncake",
            mooncake.Pool,
            chunk=64,
            parts=("master", "store"),
            # The only copies between device and host that torch can stand in for; and all that is
            # there is awaited, where SGLang's default takes what has arrived by the time.
            args=(
                *("--hicache-io-backend", "direct", "--hicache-mem-layout", "page_first_direct"),
                *("--hicache-size", "1", "--hicache-storage-prefetch-policy", "wait_complete"),
            ),
        ),
        _sglang(
            "sglang-hicache-file",
            Nothing,
            chunk=64,
        ),
        _sglang(
            "sglang-hicache-nixl",
            Nothing,
            chunk=64,
        ),
        _sglang(
            "sglang-hicache-mooncake",
            lambda site, declared: mooncake.Pool(site, declared.needs[0]),
            chunk=64,
            needs=(TIERS / "mooncake.yaml",),
            parts=("master", "store"),
        ),
        _sglang(
            "sglang-nixl",
            Nothing,
            chunk=64,
            keeps=False,
            # SGLang hands over as one half alone.
            role="prefill",
            env=(("UCX_TLS", "tcp"),),
            stand_ins=(standins.HOST_POOL,),
        ),
    )
}


def on_gpu(pair: Pair) -> Pair:
    """The same row where there is a GPU: nothing stands in for anything."""
    return replace(pair, image=GPU, write=author.vllm_on_gpu, env=(), stand_ins=())


# On a machine with a GPU and what gpu_kit.py brings to it. SGLang's pins do not fit such a machine.
GPU_PAIRS: Mapping[str, Pair] = {
    name: on_gpu(pair)
    for name, pair in PAIRS.items()
    if pair.image == "vllm" and "redis" not in pair.parts  # no kit brings a redis-server
}

# Those whose tier keeps blocks for other engines.
KEEPING = tuple(name for name, pair in PAIRS.items() if pair.keeps)


@dataclass(frozen=True)
class Elsewhere:
    """What has not served tokens here. `degree`: what is proven instead, `shown`: by which test,
    `why`: what keeps it from more.
    """

    name: str
    degree: str
    shown: str
    why: str


ELSEWHERE: Mapping[str, Elsewhere] = {
    row.name: row
    for row in (
        Elsewhere(
            "vllm-lmcache-in-process",
            "parser",
            "tests/conformance/test_lmcache_config.py",
            "LMCache in the engine's process has no connector for a CPU",
        ),
        Elsewhere(
            "sglang-lmcache",
            "server",
            "tests/conformance/test_lmcache_sglang.py",
            "on a CPU its engine found all blocks and generated other tokens once another prompt "
            "had used their place. LMCache's CPU path moves the KV pool, which may be why; no "
            "GPU has been tried",
        ),
        Elsewhere(
            "sglang-hicache-hf3fs",
            "parser",
            "tests/conformance/test_hicache.py",
            "needs servers of 3FS",
        ),
    )
}

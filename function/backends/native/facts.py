"""Names, sizes and counts of a Native tier that more than one module needs."""

from collections.abc import Iterator

from function.api.base import present
from function.api.native import NativeFileSystem, NativeLevel, NativePeers, NativeSpec
from function.backends import seeds
from function.contract.backend import Tier as AnyTier
from function.contract.engine import Engine
from function.engines import ranks

Tier = AnyTier[NativeSpec]

CONNECTOR = "OffloadingConnector"
TIERING = "TieringOffloadingSpec"
SIMPLE = "SimpleCPUOffloadConnector"
MOUNTS = "/mnt/kv-offload"

_GIB, _MIB = 2**30, 2**20


def file_systems(tier: Tier) -> Iterator[tuple[NativeLevel, NativeFileSystem]]:
    """The levels that are files."""
    for level in tier.settings.secondary:
        if level.file_system is not None:
            yield level, level.file_system


def row(tier: Tier) -> str:
    """The connector as the gate names it."""
    if tier.settings.simple is not None:
        return SIMPLE
    return CONNECTOR + (f"/{TIERING}" if tier.settings.secondary else "")


def peers(tier: Tier) -> NativePeers | None:
    """The level that is other engines."""
    return next((level.peers for level in tier.settings.secondary if level.peers), None)


def seed(tier: Tier, engine: Engine) -> str:
    """PYTHONHASHSEED of engines that share; "" for those that do not.

    Peers compare it when they meet, and their blocks' names begin with it: there it is 32 bits of
    the identity, as many as Python takes, since a peer's answer has no other place for one.
    """
    if not tier.settings.secondary:
        return ""
    return seeds.seed_from_identity(engine.identity) if peers(tier) else "0"


def claim(tier: Tier, level: NativeLevel) -> str:
    """The claim's name of a level that is files."""
    return present(level.file_system).claim.name or f"{tier.remote_name}-{level.name}"


def mount(level: NativeLevel) -> str:
    """Where a level's volume is mounted, in engines and in the evictor alike."""
    return f"{MOUNTS}/{level.name}"


def directory(tier: Tier, level: NativeLevel) -> str:
    """A directory of the tier's own on the volume, so that two tiers may share one."""
    return f"{mount(level)}/{tier.remote_name}"


def count(engine: Engine, flag: str) -> int:
    """A parallelism as the engine's flags say it; 1 where nothing says."""
    value = engine.flag(flag) or ""
    return max(1, int(value)) if value.isdecimal() and len(value) < 10 else 1


def engines_in_a_pod(engine: Engine) -> int:
    """Engines of data parallelism in one pod."""
    local = "--data-parallel-size-local"
    if engine.flag(local):
        return count(engine, local)
    return max(1, -(-count(engine, "--data-parallel-size") // max(1, engine.pods)))


def cpu_bytes(tier: Tier, engine: Engine) -> int:
    """`cpu_bytes_to_use`: over all GPUs of one engine of data parallelism."""
    cpu = present(tier.settings.cpu)
    if cpu.size_gib_per_rank is not None:
        return cpu.size_gib_per_rank * ranks.sharing(engine) * _GIB
    return present(cpu.size_gib) * _GIB // engines_in_a_pod(engine)


def pod_bytes(tier: Tier, engine: Engine) -> int:
    """What a pod's /dev/shm must hold, and its memory with it.

    Each pod of an engine that spans several maps the whole region. Before it makes the region vLLM
    wants room for its workers' message queues (measured with 0.33: 240 MiB each, and 160).
    """
    region = cpu_bytes(tier, engine) * engines_in_a_pod(engine)
    percent = 100 + present(tier.settings.cpu).overhead_percent
    return (-(-region * percent // (100 * _MIB)) + 160 + 240 * ranks.workers(engine)) * _MIB


def simple_bytes(tier: Tier, engine: Engine) -> int:
    """`cpu_bytes_to_use` of the simple connector: each GPU pins its share of it, on its own pod."""
    local = max(1, ranks.workers(engine) // engines_in_a_pod(engine))
    pods = (
        1 if present(tier.settings.cpu).size_gib is None else max(1, ranks.sharing(engine) // local)
    )
    return cpu_bytes(tier, engine) * pods


def private_bytes(tier: Tier, engine: Engine) -> int:
    """What the processes of a pod pin with the simple connector: the shares of its GPUs."""
    share = simple_bytes(tier, engine) * ranks.workers(engine) // ranks.sharing(engine)
    percent = 100 + present(tier.settings.cpu).overhead_percent
    return -(-share * percent // (100 * _MIB)) * _MIB

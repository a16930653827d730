"""Names, sizes and counts of a Native tier."""

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
# Feature of facts.yaml: the engine knows its KV cache layout where keys are made.
RESOLVED = "kv_cache_layout"

_GIB, _MIB = 2**30, 2**20


def file_systems(tier: Tier) -> Iterator[tuple[NativeLevel, NativeFileSystem]]:
    """Yield the levels that are files."""
    for level in tier.settings.secondary:
        if level.file_system is not None:
            yield level, level.file_system


def row(tier: Tier) -> str:
    """Return the connector's name in the gate."""
    if tier.settings.simple is not None:
        return SIMPLE
    return CONNECTOR + (f"/{TIERING}" if tier.settings.secondary else "")


def mode(tier: Tier) -> str:
    """Return when the simple connector stores: Lazy or Eager, "" for the other one."""
    simple = tier.settings.simple
    return "" if simple is None else "Lazy" if simple.lazy else "Eager"


def level_types(tier: Tier) -> frozenset[str]:
    """Return what lies below the memory, for advisories."""
    simple = tier.settings.simple
    if simple is not None and simple.disk is not None:
        return frozenset({"SimpleDisk"})
    return frozenset(level.type for level in tier.settings.secondary)


def peers(tier: Tier) -> NativePeers | None:
    """Return the level of type Peers, None without one."""
    return next((level.peers for level in tier.settings.secondary if level.peers), None)


def seed(tier: Tier, engine: Engine) -> str:
    """Return PYTHONHASHSEED of engines that share blocks, "" for others.

    Peers compare it when they connect, and block names begin with it: there it is 32 bits of the
    identity, as many as Python takes, since a peer's answer has no other place for one. Elsewhere
    all engines of the tier only need the same: that of `spec.events`, or 0.
    """
    if not tier.settings.secondary:
        return ""
    if peers(tier):
        return seeds.seed_from_identity(engine.identity)
    asked = tier.spec.events.hash_seed if tier.spec.events else None
    return str(asked or 0)


def claim(tier: Tier, level: NativeLevel) -> str:
    """Return the claim's name of a level that is files."""
    return present(level.file_system).claim.name or f"{tier.remote_name}-{level.name}"


def mount(level: NativeLevel) -> str:
    """Return the mount path of a level's volume, in engines and in the evictor."""
    return f"{MOUNTS}/{level.name}"


def directory(tier: Tier, level: NativeLevel) -> str:
    """Return the tier's own directory on the volume, so that two tiers may share one."""
    return f"{mount(level)}/{tier.remote_name}"


def cpu_bytes(tier: Tier, engine: Engine) -> int:
    """Return `cpu_bytes_to_use`: over all GPUs of one data-parallel engine."""
    cpu = present(tier.settings.cpu)
    if cpu.size_gib_per_rank is not None:
        return cpu.size_gib_per_rank * ranks.sharing(engine) * _GIB
    return present(cpu.size_gib) * _GIB // ranks.engines(engine)


def pod_bytes(tier: Tier, engine: Engine) -> int:
    """Return the size of a pod's /dev/shm, which is added to its memory.

    Each pod of an engine over several pods maps the whole region. Before vLLM creates the region it
    needs space for its workers' message queues (measured with 0.33: 240 MiB each, and 160).
    """
    region = cpu_bytes(tier, engine) * ranks.engines(engine)
    percent = 100 + present(tier.settings.cpu).overhead_percent
    return (-(-region * percent // (100 * _MIB)) + 160 + 240 * ranks.workers(engine)) * _MIB


def simple_bytes(tier: Tier, engine: Engine) -> int:
    """Return the simple connector's `cpu_bytes_to_use`: each GPU pins its share."""
    local = max(1, ranks.workers(engine) // ranks.engines(engine))
    pods = (
        1 if present(tier.settings.cpu).size_gib is None else max(1, ranks.sharing(engine) // local)
    )
    return cpu_bytes(tier, engine) * pods


def private_bytes(tier: Tier, engine: Engine) -> int:
    """Return the bytes that a pod pins with the simple connector."""
    share = simple_bytes(tier, engine) * ranks.workers(engine) // ranks.sharing(engine)
    percent = 100 + present(tier.settings.cpu).overhead_percent
    return -(-share * percent // (100 * _MIB)) * _MIB

"""How many processes an engine has, and which of them share one KV cache."""

from function.contract.engine import Engine
from function.engines.registry import kind


def workers(engine: Engine) -> int:
    """Return the worker processes in one pod: the engine's GPUs over its pods; 1 by default."""
    flags = kind(engine.name).ranks
    shared = engine.has(flags.attention)
    count = sharing(engine) * (1 if shared else engine.number(flags.replicas))
    found = -(-count // max(1, engine.pods))
    if not engine.flag(flags.local):
        return found
    return min(found, sharing(engine) * engine.number(flags.local))


def sharing(engine: Engine) -> int:
    """Return the worker processes that share one KV cache, over all pods."""
    count = 1
    for flag in kind(engine.name).ranks.shared:
        count *= engine.number(flag)
    return count


def replicas(engine: Engine) -> int:
    """Return the ranks of data parallelism over all pods; 1 by default."""
    return engine.number(kind(engine.name).ranks.replicas)


def is_node_local(engine: Engine) -> bool:
    """Return whether all ranks that share one KV cache are in one pod.

    They are in a single pod, and in data parallelism with whole replicas in each of its pods. One
    rank of a Ray cluster is not: Ray chooses its pod, and the scheduler runs in the head.
    """
    flags = kind(engine.name).ranks
    if engine.pods <= 1:
        return True
    count = replicas(engine)
    on_ray = any(engine.flag(name) == "ray" for name in flags.placed)
    if not flags.local or count % engine.pods or engine.number(flags.nodes) > 1 or on_ray:
        return False
    return sharing(engine) == 1 or engine.flag(flags.local) == str(count // engine.pods)

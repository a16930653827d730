"""How many processes an engine has, and which of them share one KV cache."""

from math import gcd

from function.contract.engine import Engine
from function.engines.registry import kind


def engines(engine: Engine) -> int:
    """Return the most engines in one pod: ranks of data parallelism, and copies of Ray Serve."""
    flags = kind(engine.name).ranks
    copies, count = engine.copies, replicas(engine)
    if engine.pod_gpus:
        # Ray fills a pod before the next one: parts of an engine there are multiples of this.
        fitting = engine.pod_gpus // gcd(engine.pod_gpus, sharing(engine))
        return fitting if copies is None else min(fitting, copies * count)
    if copies and copies > 1:
        return copies * count
    if flags.local and engine.flag(flags.local):
        return engine.number(flags.local)
    return max(1, -(-count // max(1, engine.pods)))


def workers(engine: Engine) -> int:
    """Return the most worker processes in one pod: one for each GPU that the engine uses there."""
    count = sharing(engine) * replicas(engine)
    if engine.pod_gpus:
        return min(engine.pod_gpus, count * (engine.copies or engine.pod_gpus))
    return count * engine.copies if engine.copies and engine.copies > 1 else spread(engine)


def spread(engine: Engine) -> int:
    """Return the worker processes in one pod, if all pods have as many; 1 by default."""
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

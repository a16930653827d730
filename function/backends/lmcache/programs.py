"""Containers and commands that run our programs in the agents' image.

The image brings the Python, so nothing has to be built or mounted for them.
"""

from collections.abc import Sequence

import programs
from function.backends import agents
from function.backends.lmcache import facts
from function.backends.lmcache.facts import Tier
from function.backends.lmcache.level import Level
from function.contract.backend import Manifest
from function.kube import manifests as k

WAITER = "await-levels"


def waiters(tier: Tier, levels: Sequence[Level]) -> list[Manifest]:
    """Return the init container that waits for the servers of all levels; at most one.

    A server that starts without one of them looks healthy but is useless until its restart (seen
    with 0.5.6): its connections die at the start and are never made again, no level finds anything,
    and each look-up takes seconds. It waits for ever, because such an agent is not ready; the
    tier's condition names the level once the start has taken too long.

    Rejected: starting without the level after a while. A DaemonSet's status cannot report it, and
    only a restart, which empties the memory, brings the level back.
    """
    jobs = [level.awaited for level in levels if level.awaited is not None]
    if not jobs:
        return []
    words = [word for job in jobs for word in (job.way, job.nodes)]
    env: list[Manifest] = []
    for level in levels:
        if level.awaited is not None:
            env += [variable for variable in level.env if variable not in env]
    return [
        agents.container(
            facts.image(tier),
            WAITER,
            command=command("wait.py"),
            args=[k.literal(word) for word in words],
            resources=agents.HELPER_RESOURCES,
            **({"env": env} if env else {}),
        )
    ]


def command(program: str, *words: str) -> list[str]:
    """Return one of our programs as a command; Kubernetes expands nothing in it."""
    return [facts.PYTHON, "-c", k.literal(programs.text(f"lmcache/{program}")), *words]

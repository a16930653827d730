"""Containers beside the server that run a program of ours, from its own text.

The image brings the Python, so nothing has to be built or mounted for them.
"""

from collections.abc import Sequence
from typing import Any

import programs
from function.backends.lmcache import facts
from function.backends.lmcache.facts import Tier
from function.backends.lmcache.level import Level
from function.contract.backend import Manifest
from function.kube import manifests as k

WAITER = "await-levels"


def waiters(tier: Tier, levels: Sequence[Level]) -> list[Manifest]:
    """The init container that waits for the servers of all levels; at most one.

    A server that starts without one of them is healthy and of no use until it is started again
    (seen with 0.5.6): its connections die at the start and are never made again, nothing is found
    at any level, and each look-up takes seconds. It waits for ever, since an agent that is not
    ready is the truth; the tier's condition names the level once the start has taken too long.

    Rejected: starting without the level after a while. Nobody would know, since a DaemonSet's
    status cannot say it, and only a restart, which empties the memory, brings the level back.
    """
    jobs = [level.awaited for level in levels if level.awaited is not None]
    if not jobs:
        return []
    words = [word for job in jobs for word in (job.way, job.nodes)]
    env: list[Manifest] = []
    for level in levels:
        if level.awaited is not None:
            env += [variable for variable in level.env if variable not in env]
    return [_container(tier, WAITER, "wait.py", words, **({"env": env} if env else {}))]


def _container(tier: Tier, name: str, program: str, words: Sequence[str], **more: Any) -> Manifest:
    image = facts.image(tier)
    return {
        "name": name,
        "image": image.reference,
        "imagePullPolicy": image.pull_policy,
        "command": command(program),
        "args": [k.literal(word) for word in words],
        "resources": {
            "requests": {"cpu": "10m", "memory": "64Mi"},
            "limits": {"memory": "128Mi"},
        },
        "securityContext": k.container_security(),
        **more,
    }


def command(program: str, *words: str) -> list[str]:
    """A program of ours as a command in the agents' image; Kubernetes expands nothing in it."""
    return [facts.PYTHON, "-c", k.literal(programs.text(f"lmcache/{program}")), *words]

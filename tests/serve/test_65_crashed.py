"""An engine that dies: its agent forgets it in time and gives back what it had mapped.

It dies as soon as it is registered, before its first request: the time in which LMCache judges by
`registration.graceSeconds`, unless the engine has pinged by then, as ours do (LMCache 5265).
"""

import json
import subprocess

import pytest

from tests.conformance.mooncake import until
from tests.conformance.pod import Pod
from tests.serve.engine import scrape
from tests.serve.fleet import Fleet

# Memory of a GPU that a process may keep by itself: a context, not blocks.
CONTEXT = 1 << 30


def liveness(agent: Pod) -> dict[str, float]:
    """What an agent says of the engines that it knows (`/status` of LMCache 0.5.6)."""
    found: dict[str, float] = json.loads(scrape(f"http://{agent.address}:8080/status"))[
        "worker_liveness"
    ]
    return found


def gpu_memory() -> int:
    """Bytes in use on the GPUs of this machine."""
    words = ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return sum(int(line) for line in said.split()) << 20


@pytest.mark.long
@pytest.mark.pairs("vllm-lmcache")
def test_agent_unregisters_a_dead_engine(fleet: Fleet, proof) -> None:
    agent = fleet.tier.parts["agent"]
    known = liveness(agent)["tracked_instances"]
    used = gpu_memory() if fleet.site.gpu else 0
    fleet.start("dies")
    until(lambda: liveness(agent)["tracked_instances"] > known, 300)
    fleet.stop("dies")
    limit = liveness(agent)["reap_timeout_seconds"]
    seconds = until(lambda: liveness(agent)["tracked_instances"] == known, 2 * limit)
    if fleet.site.gpu:
        assert gpu_memory() <= used + CONTEXT
    (back,) = fleet.ready("dies")
    assert liveness(agent)["tracked_instances"] == known + 1
    fleet.stop(back.name)
    proof("an engine died before its first request: the agent forgot it", seconds=seconds)

"""The DaemonSet that the function emits runs the real `lmcache server` (0.5.6), on CPU.

What this cannot prove is CUDA IPC: without a GPU the server shares POSIX memory with its client.
"""

import functools
import shutil
from pathlib import Path

import pytest

from tests.conformance.bench import SHAPE, bench, clear, metrics
from tests.conformance.manifests import ROOT, Manifest, one, render
from tests.conformance.pod import Pod

AGENT = "agent"
SIZES = {"--l1-size-gb": "1", "--l1-init-size-gb": "1"}
PASSWORD = "pass word's \"quoted\""
REDIS = {
    "spec": {
        "containers": [
            {
                "name": "redis",
                "command": ["redis-server", "--save", "", "--requirepass", PASSWORD],
                "args": ["--bind", "0.0.0.0"],
                "readinessProbe": {"tcpSocket": {"port": 6379}, "periodSeconds": 1},
            }
        ]
    }
}


EXAMPLE = ROOT / "example" / "lmcache"
TIERS = ROOT / "tests" / "conformance" / "tiers"


@functools.cache
def template(tier: Path) -> Manifest:
    manifests = render(tier, EXAMPLE / "required")
    return one(manifests, "DaemonSet")["spec"]["template"]


@pytest.fixture
def redis(node):
    """The Redis that the example's tier names: somebody else's, with a password."""
    node.secrets["kv-offload-redis"] = {"password": PASSWORD}
    with Pod(node, REDIS, None, name="redis") as pod:
        pod.wait_ready(10)
        node.service("redis.kv-offload-system.svc", pod.address)
        yield pod


@pytest.fixture
def start(node, engines):
    """Start an agent from the emitted DaemonSet and wait until its own probes call it ready."""
    pods = []

    def agent(tier: Path = EXAMPLE / "tier.yaml") -> Pod:
        name = f"agent-{len(pods)}"
        pods.append(Pod(node, template(tier), engines, name=name, sizes=SIZES))
        pods[-1].wait_ready(120)
        return pods[-1]

    yield agent
    for pod in pods:
        pod.close()


def test_lower_levels_serve_hits_after_a_restart(node, redis, start):
    agent = start()
    first = bench(agent, AGENT)
    assert first.cold_hits == [0, 0]
    assert first.ok == 2
    assert len(first.checksums) == 2
    for name, (seconds, code) in agent.stop().items():
        assert seconds < 25, f"{name} needs {seconds} s of 30 to stop"
        assert code in (0, 143)

    both = start()
    assert bench(both, AGENT).cold_hits == [4, 4]
    assert metrics(both)["lmcache_mp_lookup_hit_l1_tokens_total"] == 0
    both.stop()

    # Another node has the shared Redis only.
    shutil.rmtree(node.volume("host", "/mnt/nvme/kv-offload"))
    elsewhere = start()
    from_redis = bench(elsewhere, AGENT)
    assert from_redis.cold_hits == [4, 4]
    assert from_redis.checksums == first.checksums
    elsewhere.stop()


def test_disk_alone_serves_hits_when_redis_is_gone(redis, start):
    agent = start()
    first = bench(agent, AGENT)
    assert first.cold_hits == [0, 0]
    agent.stop()
    redis.close()
    alone = start()
    again = bench(alone, AGENT)
    print(again.output, alone.containers[AGENT].log)
    assert (again.cold_hits, again.checksums) == ([4, 4], first.checksums)
    alone.stop()


def test_one_model_string_is_one_cache(start):
    """Why CacheIdentityConflict exists: the key has no layout in it, and the wrong bytes come back.

    The client names every model alike, as a model mounted at /mnt/models is named.
    """
    agent = start(TIERS / "memory-only.yaml")
    half, brain = SHAPE, SHAPE.replace("float16", "bfloat16")
    own = bench(agent, AGENT, shape=brain)
    assert own.cold_hits == [0, 0]
    clear(agent)

    first = bench(agent, AGENT, shape=half)
    assert first.cold_hits == [0, 0]
    assert first.checksums != own.checksums

    replica = bench(agent, AGENT, shape=half)
    assert (replica.cold_hits, replica.checksums) == ([4, 4], first.checksums)

    other = bench(agent, AGENT, shape=brain)
    assert other.cold_hits == [4, 4]
    assert other.checksums == first.checksums, "the second layout got the first one's bytes"
    agent.stop()

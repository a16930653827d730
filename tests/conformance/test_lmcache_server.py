"""The DaemonSet that the function emits runs the real `lmcache server` (0.5.6), on CPU.

What this cannot prove is CUDA IPC: without a GPU the server shares POSIX memory with its client.
"""

import copy
import functools
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.bench import SHAPE, bench, clear, metrics
from tests.conformance.manifests import ROOT, Manifest, one, render
from tests.conformance.pod import Pod

AGENT = "agent"
EVICTOR = 8081
SIZES = {"--l1-size-gb": "1", "--l1-init-size-gb": "1"}
PASSWORD = 'pass word\'s "quoted"'
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
def manifests(tier: Path) -> list[Manifest]:
    return render(tier, EXAMPLE / "required")


def template(tier: Path) -> Manifest:
    return one(manifests(tier), "DaemonSet")["spec"]["template"]


@pytest.fixture
def redis(node):
    """The Redis that the example's tier names: somebody else's, with a password."""
    node.secrets["kv-offload-redis"] = {"password": PASSWORD}
    with Pod(node, REDIS, None, name="redis", restart=True) as pod:
        pod.wait_ready(10)
        node.service("redis.kv-offload-system.svc", pod.address)
        yield pod


@pytest.fixture
def start(node, engines):
    """Start an agent from the emitted DaemonSet and wait until its own probes call it ready."""
    pods = []

    def agent(tier: Path = EXAMPLE / "tier.yaml", edited: Manifest | None = None) -> Pod:
        name = f"agent-{len(pods)}"
        for manifest in manifests(tier):
            if manifest["kind"] == "ConfigMap":
                node.config_maps[manifest["metadata"]["name"]] = manifest["data"]
        pods.append(Pod(node, edited or template(tier), engines, name=name, sizes=SIZES))
        pods[-1].wait_ready(120)
        return pods[-1]

    yield agent
    for pod in pods:
        pod.close()


@pytest.mark.minutes
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


@pytest.mark.minutes
def test_evictor_removals_are_misses_for_the_server(node, redis, start):
    """It counts what the server wrote; what it removes is a miss, and stored again."""
    agent = start()
    first = bench(agent, AGENT)
    folder = node.volume("host", "/mnt/nvme/kv-offload")
    (tier,) = folder.iterdir()
    # Its first look may come after the first blocks.
    await_count(lambda: sum(p.is_dir() for p in tier.iterdir()), lambda count: count == 1)
    assert {path.name for path in tier.iterdir() if path.is_dir()} == {".evictor"}
    blocks = await_count(lambda: len(data(tier)), lambda count: count >= 8)
    size = sum(max(s.st_size, s.st_blocks * 512) for s in map(Path.stat, data(tier)))
    agent.stop()
    redis.containers["redis"].kill()

    edited = copy.deepcopy(template(EXAMPLE / "tier.yaml"))
    (evictor,) = (c for c in edited["spec"]["containers"] if c["name"] == "evictor")
    told = json.loads(evictor["args"][0])
    told["directories"][0]["bytes"] = size * 5 // 8
    told["defaults"] |= {"grace": 0, "low": 100}
    evictor["args"] = [json.dumps(told)]
    small = start(edited=edited)
    left = await_count(lambda: len(data(tier)), lambda count: count <= blocks * 5 // 8)
    assert left
    again = bench(small, AGENT)
    assert 0 < sum(again.cold_hits) < 8
    assert again.checksums == first.checksums
    said = metrics(small, EVICTOR)
    assert said["kv_evictor_removed_files_total"] >= blocks - left
    assert said["kv_evictor_errors_total"] == 0
    small.stop()


def data(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_file()]


def await_count(count: Callable[[], int], good: Callable[[int], bool]) -> int:
    end = time.monotonic() + 90
    while not good(found := count()):
        assert time.monotonic() < end, found
        time.sleep(0.2)
    return found


@pytest.mark.minutes
def test_hits_survive_a_restart_of_redis(redis, start):
    """It comes back empty after two seconds, at the same address."""
    agent = start()
    first = bench(agent, AGENT)
    assert first.cold_hits == [0, 0]
    redis.containers["redis"].kill()
    again = bench(agent, AGENT)
    assert (again.cold_hits, again.checksums) == ([4, 4], first.checksums)
    assert redis.containers["redis"].exit_codes == [1]
    agent.stop()


@pytest.mark.minutes
def test_agent_started_before_its_redis_serves_hits(node, start):
    node.secrets["kv-offload-redis"] = {"password": PASSWORD}
    late = copy.deepcopy(REDIS)
    (container,) = late["spec"]["containers"]
    command = [*container["command"], *container.pop("args")]
    container["command"] = ["sh", "-c", 'sleep 20; exec "$@"', "late", *command]
    with Pod(node, late, None, name="redis") as redis:
        node.service("redis.kv-offload-system.svc", redis.address)
        agent = start()
        redis.wait_ready(60)
        bench(agent, AGENT)
        assert bench(agent, AGENT).cold_hits == [4, 4]


@pytest.mark.minutes
def test_upstream_keys_hold_only_the_model_string(start):
    """Why our connector names the identity too: upstream's key has no layout in it, and the wrong
    bytes come back.

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
    assert not set(other.checksums) & set(own.checksums), "these are not the bytes it computed"
    agent.stop()

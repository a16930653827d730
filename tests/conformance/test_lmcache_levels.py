"""The levels of LMCache that no stock image has clients for: what one agent writes, another reads.

One agent writes to all of them. Each is then read by an agent that has this level alone and shares
nothing else with the first. The emitted DaemonSets run in an image with these clients; the bucket
is moto's, and Valkey is Debian's, or Redis where that is not installed.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping

import pytest
import yaml

from tests.conformance import buckets
from tests.conformance.bench import Bench, bench, metrics
from tests.conformance.envs import environment_with
from tests.conformance.manifests import ROOT, Manifest, one, render
from tests.conformance.node import Node
from tests.conformance.pod import Pod
from tests.conformance.test_lmcache_server import AGENT, SIZES

TIER = ROOT / "tests" / "conformance" / "tiers" / "levels.yaml"
REQUIRED = ROOT / "example" / "lmcache" / "required"
# As our connector names a model to the agents: two identities behind one path.
OURS, THEIRS = ("/mnt/models##kv-offload-" + digit * 12 for digit in "12")
VALKEY = "valkey.databases.svc"
KEYS = {"kv-key": "k" * 32, "another-key": "o" * 32}
LEVELS = ("bucket", "valkey", "files")
STRANGER = "stranger"
Start = Callable[..., Pod]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    made = Node()
    made.secrets |= {"kv-bucket": buckets.CREDENTIALS}
    made.secrets |= {name: {"key": key} for name, key in KEYS.items()}
    yield made
    made.close()


@pytest.fixture(scope="module")
def start(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """`start(*levels, key=...)`: an agent of the tier with these levels, not awaited. The stores
    that the tier names run, empty."""
    program = shutil.which("valkey-server") or "redis-server"
    options = ("--save", "", "--bind", "0.0.0.0", "--protected-mode", "no")
    probe = {"tcpSocket": {"port": 6379}, "periodSeconds": 1}
    valkey = {"name": "valkey", "command": [program, *options], "readinessProbe": probe}
    pods = [
        buckets.start(node, "blocks"),
        Pod(node, {"spec": {"containers": [valkey]}}, None, name="valkey"),
    ]
    node.service(VALKEY, pods[-1].address)
    for pod in pods:
        pod.wait_ready(60)
    file = tmp_path_factory.mktemp("tier") / "tier.yaml"

    def agent(*levels: str, key: str = "kv-key") -> Pod:
        tier: Manifest = yaml.safe_load(TIER.read_text())
        asked = tier["spec"]["lmcache"]
        asked["l2"] = [level for level in asked["l2"] if level["name"] in levels]
        for level in asked["l2"]:
            if "serde" in level:
                level["serde"]["aesgcm"]["keySecret"]["name"] = key
        file.write_text(yaml.safe_dump(tier))
        manifests = render(file, REQUIRED)
        for manifest in manifests:
            if manifest["kind"] == "ConfigMap":
                node.config_maps[manifest["metadata"]["name"]] = manifest["data"]
        template = one(manifests, "DaemonSet")["spec"]["template"]
        name = f"agent-{len(pods)}"
        pods.append(Pod(node, template, environment_with("levels"), name=name, sizes=SIZES))
        return pods[-1]

    yield agent
    for pod in pods:
        pod.close()


@pytest.fixture(scope="module")
def written(start: Start) -> Bench:
    """What an agent wrote to every level; nobody has it in memory any more."""
    agent = start(*LEVELS)
    agent.wait_ready(120)
    said = bench(agent, AGENT, model=OURS)
    assert (said.cold_hits, said.ok) == ([0, 0], 2)
    await_writes(agent, len(LEVELS) * len(said.cold_hits))
    agent.stop()
    return said


def await_writes(agent: Pod, requests: int) -> None:
    """Wait until the levels have taken so many requests to write."""
    end = time.monotonic() + 60
    while metrics(agent).get("lmcache_mp_l2_store_completed_requests_total", 0) < requests:
        assert time.monotonic() < end, agent.containers[AGENT].log[-3000:]
        time.sleep(0.1)


@pytest.fixture(scope="module")
def readers(start: Start, written: Bench) -> Mapping[str, Pod]:
    """An agent for each level, and one that has the bucket and another key; they start together."""
    return {level: start(level) for level in LEVELS} | {
        STRANGER: start("bucket", key="another-key")
    }


@pytest.mark.minutes
@pytest.mark.parametrize("level", LEVELS)
def test_agent_reads_blocks_of_another_agent(
    readers: Mapping[str, Pod], written: Bench, level: str
) -> None:
    reader = readers[level]
    reader.wait_ready(120)
    ours = bench(reader, AGENT, model=OURS)
    assert (ours.cold_hits, ours.checksums) == ([4, 4], written.checksums)
    assert metrics(reader)["lmcache_mp_lookup_hit_l1_tokens_total"] == 0
    theirs = bench(reader, AGENT, model=THEIRS)
    assert theirs.cold_hits == [0, 0], "another identity behind the same path"


def test_bucket_is_unreadable_without_the_key(readers: Mapping[str, Pod], written: Bench) -> None:
    """Blocks are found by their names and cannot be read: nothing is a hit, what is computed anew
    is right."""
    stranger = readers[STRANGER]
    stranger.wait_ready(120)
    said = bench(stranger, AGENT, model=OURS)
    assert (said.cold_hits, said.checksums) == ([0, 0], written.checksums)
    assert "InvalidTag" in stranger.containers[AGENT].log

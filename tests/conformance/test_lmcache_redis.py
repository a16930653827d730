"""The Redis that a tier runs itself, as emitted, by the real redis-server."""

import pytest

from tests.conformance.manifests import ROOT, one, render
from tests.conformance.pod import Pod

EXAMPLE = ROOT / "example" / "lmcache"
PASSWORD = 'pass word\'s "quoted" $HOME \\'
SIZES = {"--maxmemory": "8mb"}


@pytest.fixture
def redis(node):
    manifests = render(EXAMPLE / "managed-redis.yaml", EXAMPLE / "required")
    template = one(manifests, "StatefulSet")["spec"]["template"]
    node.secrets["kv-offload-redis"] = {"password": PASSWORD}
    with Pod(node, template, None, name="redis-0", sizes=SIZES) as pod:
        pod.wait_ready(60)
        yield pod


def ask(pod: Pod, *command: str, password: str | None = PASSWORD) -> str:
    """redis-cli's answer from within the pod; the container's own variable logs in."""
    found = pod.containers["redis"]
    words = ["redis-cli", "-h", "127.0.0.1", *command]
    if password != PASSWORD:
        words = ["env", "-u", "REDISCLI_AUTH", *words]
    return found.execute(words, timeout=10).stdout.strip()


def test_redis_is_ready_password_protected_and_bounded(redis):
    assert ask(redis, "PING") == "PONG"
    assert ask(redis, "PING", password=None).startswith("NOAUTH")
    assert ask(redis, "CONFIG", "GET", "maxmemory").split() == ["maxmemory", str(8 << 20)]
    assert ask(redis, "CONFIG", "GET", "maxmemory-policy").split()[1] == "allkeys-lru"
    line = redis.containers["redis"].execute(["cat", "/proc/1/cmdline"], timeout=10).stdout
    assert line and PASSWORD not in line


def test_full_redis_evicts_and_accepts_writes(redis):
    script = "return redis.call('SET', KEYS[1], string.rep('x', 2^19))"
    for number in range(40):
        assert ask(redis, "EVAL", script, "1", f"block-{number}") == "OK"
    assert 4 <= int(ask(redis, "DBSIZE")) < 16
    seconds, code = redis.stop()["redis"]
    assert seconds < 25
    assert code == 0


def test_snapshot_survives_the_pod(node, redis):
    assert ask(redis, "SET", "block", "kept") == "OK"
    redis.stop()
    template = {"metadata": {}, "spec": redis.spec}
    with Pod(node, template, None, name="redis-0", sizes=SIZES) as again:
        again.wait_ready(60)
        assert ask(again, "GET", "block") == "kept"

"""Start script of the managed Redis, run by a real shell with a fake redis-server."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from function.api.lmcache_l2 import ManagedRedis
from function.backends.lmcache import BACKEND
from function.backends.lmcache.redis import memory_gib
from tests.unit.backends.lmcache import server

AUTH = {"authSecret": {"name": "r", "key": "p"}}


def _level(**redis: Any) -> dict[str, Any]:
    return {"name": "r", "type": "Redis", "redis": {"managed": {"sizeGiB": 8}} | redis}


def _container(**redis: Any) -> dict[str, Any]:
    parts = {part.key: part.manifest for part in BACKEND.parts(server(_level(**redis)))}
    pod = parts["statefulset-redis-r"]["spec"]["template"]["spec"]
    found: dict[str, Any] = pod["containers"][0]
    return found


def _executable(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    "password", ["simple", 'a"b', "a\\b", "a b'c", "$HOME `id` %s %d", "ü\\\"'#", "x" * 500]
)
def test_password_is_in_a_file_and_in_no_argument(tmp_path: Path, password: str) -> None:
    container = _container(**AUTH)
    _executable(tmp_path / "redis-server", f'printf "%s\\n" "$@" > {tmp_path}/words')
    words = [
        word.replace("/run/redis", str(tmp_path)) for word in container["command"]
    ] + container["args"]
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(words, env={"PATH": path, "REDISCLI_AUTH": password}, check=True)
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    config = tmp_path / "redis.conf"
    assert config.read_text() == f'requirepass "{quoted}"\n'
    assert config.stat().st_mode & 0o777 == 0o600
    given = (tmp_path / "words").read_text().splitlines()
    assert given == [str(config), *(arg for arg in container["args"])]
    assert password not in given


@pytest.mark.parametrize(("reply", "ready"), [("PONG", True), ("NOAUTH", False), ("", False)])
def test_the_probe_reads_the_reply(tmp_path: Path, reply: str, ready: bool) -> None:
    command = _container(port=6400)["readinessProbe"]["exec"]["command"]
    _executable(tmp_path / "redis-cli", f'test "$4" = 6400 && echo "{reply}"')
    path = f"{tmp_path}:{os.environ['PATH']}"
    assert (subprocess.run(command, env={"PATH": path}, check=False).returncode == 0) == ready


# (size of the cache, persistence, memory of the pod), all in GiB
MEMORY = ((1, None, 3), (8, None, 11), (8, {}, 13), (100, None, 126), (100, {}, 151))


@pytest.mark.parametrize(("size", "persistence", "memory"), MEMORY)
def test_redis_memory_includes_overhead(size: int, persistence: dict | None, memory: int) -> None:
    managed: dict[str, Any] = {"sizeGiB": size}
    if persistence is not None:
        managed["persistence"] = persistence
    assert memory_gib(ManagedRedis.model_validate(managed)) == memory


def test_statefulset_name_fits_the_revision_label() -> None:
    """The label controller-revision-hash is the name, a dash and ten digits: 63 at most."""
    level = {**_level(), "name": "x" * 20}
    for part in BACKEND.parts(server(level)):
        if part.manifest["kind"] == "StatefulSet":
            assert len(part.manifest["metadata"]["name"]) <= 52

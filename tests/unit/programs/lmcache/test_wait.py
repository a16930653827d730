"""The init container that waits for Redis, as the process that the agents' pod runs."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from function.backends.lmcache import BACKEND
from function.kube.manifests import literal
from programs.lmcache import wait
from tests.unit.backends.lmcache import server

REDIS = {
    "name": "r",
    "type": "Redis",
    "redis": {"host": "r", "authSecret": {"name": "s", "key": "p"}},
}
VALKEY = {"name": "v", "type": "Valkey", "valkey": {"nodes": [{"host": "a"}, {"host": "b"}]}}
DISK = {"name": "d", "type": "Disk", "disk": {"sizeGiB": 1, "hostPath": {"path": "/mnt/kv"}}}
OWN = {"name": "o", "type": "Redis", "redis": {"port": 6400, "managed": {"sizeGiB": 1}}}
IMAGE = {"image": {"repository": "lmcache/standalone", "tag": "v0.5.6", "version": "0.5.6"}}

AUTH = b"*2\r\n$4\r\nAUTH\r\n$3\r\np$w\r\n"
AUTH_AS = b"*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$3\r\np$w\r\n"
PING = b"*1\r\n$4\r\nPING\r\n"


@contextlib.contextmanager
def redis(*replies: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server that gives these replies, one a command, to every client: address, commands."""
    heard: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                for reply in replies:
                    command = connection.recv(1000)
                    if not command:
                        break
                    heard.append(command)
                    connection.sendall(reply)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}", heard
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


# user, password, replies, commands, what is the matter
TABLE = {
    "open": ("", "", [b"+PONG\r\n"], [PING], ""),
    "password": ("", "p$w", [b"+OK\r\n", b"+PONG\r\n"], [AUTH, PING], ""),
    "user": ("u", "p$w", [b"+OK\r\n", b"+PONG\r\n"], [AUTH_AS, PING], ""),
    "may not ping": ("u", "p$w", [b"+OK\r\n", b"-NOPERM no\r\n"], [AUTH_AS, PING], ""),
    "wrong password": ("", "p$w", [b"-WRONGPASS no\r\n"], [AUTH], "-WRONGPASS no"),
    "password missing": ("", "", [b"-NOAUTH no\r\n"], [PING], "-NOAUTH no"),
    "loading": ("", "", [b"-LOADING wait\r\n"], [PING], "-LOADING wait"),
    "closes": ("", "", [b""], [PING], "it closed the connection"),
    "never quotes": ("", "p$w", [b"-ERR with 'p$w'\r\n"], [AUTH], "-ERR with"),
}


@pytest.mark.parametrize("name", TABLE)
def test_replies_of_redis(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    user, password, replies, commands, expected = TABLE[name]
    monkeypatch.setenv("LMCACHE_RESP_USERNAME", user)
    monkeypatch.setenv("LMCACHE_RESP_PASSWORD", password)
    with redis(*replies) as (address, heard):
        assert wait.trouble("ping", address) == expected
        assert heard == commands
        assert wait.trouble("connect", address) == ""
    assert "refused" in wait.trouble("ping", address)
    assert "refused" in wait.trouble("connect", address)


# levels, args of the init container (None: there is none), names of its variables
CONTAINERS = (
    ([], None, []),
    ([DISK], None, []),
    ([REDIS], ["ping", "r:6379"], ["LMCACHE_RESP_PASSWORD"]),
    ([DISK, VALKEY], ["connect", "a:6379,b:6379"], []),
    ([OWN], ["ping", "chat-3f9ab-o-364a81ace0.kv-offload-system.svc:6400"], []),
)


@pytest.mark.parametrize(("levels", "args", "env"), CONTAINERS)
def test_init_container_waits_for_redis_levels(
    levels: list, args: list[str] | None, env: list[str]
) -> None:
    parts = {part.key: part.manifest for part in BACKEND.parts(server(*levels, spec=IMAGE))}
    pod = parts["daemonset-agent"]["spec"]["template"]["spec"]
    if args is None:
        assert "initContainers" not in pod
        return
    (container,) = pod["initContainers"]
    assert container["args"] == args
    assert [variable["name"] for variable in container.get("env", [])] == env
    assert container["securityContext"] == pod["containers"][0]["securityContext"]
    assert container["image"] == pod["containers"][0]["image"]


def _process(*words: str) -> "subprocess.Popen[str]":
    (container,) = _pod(REDIS)["initContainers"]
    program = container["command"][2]
    assert literal(program.replace("$$", "$")) == program
    command = [sys.executable, "-c", program.replace("$$", "$"), *words]
    env = {"LMCACHE_RESP_PASSWORD": "p$w", "PATH": os.environ["PATH"]}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)


def _pod(*levels: dict) -> dict:
    parts = {part.key: part.manifest for part in BACKEND.parts(server(*levels))}
    found: dict = parts["daemonset-agent"]["spec"]["template"]["spec"]
    return found


def test_process_logs_its_wait_and_ends_on_sigterm() -> None:
    with redis(b"-WRONGPASS no\r\n") as (address, heard), _process("ping", address) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"waiting for 0 s: {address}: -WRONGPASS no\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 1  # not 0: that would start the agent
        assert heard == [AUTH]


def test_process_ends_when_one_node_of_each_level_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = f"127.0.0.1:{closed.getsockname()[1]}"
    with (
        redis(b"+OK\r\n", b"+PONG\r\n") as (address, _),
        _process("ping", address, "connect", f"{nobody},{address}") as process,
    ):
        output, _ = process.communicate(timeout=10)
        assert process.returncode == 0
        assert output == f"{address} answers\n{nobody},{address} answers\n"


# levels -> what a start that takes too long names
HINTS: tuple[tuple[tuple[Any, ...], tuple[str, ...]], ...] = (
    ((), ()),
    ((DISK,), ()),
    ((DISK, REDIS), ("level r (r:6379)",)),
    ((VALKEY, OWN), ("level v (a:6379,b:6379) or o (", ".svc:6400)")),
)


@pytest.mark.parametrize(("levels", "named"), HINTS)
def test_timeout_names_the_missing_levels(levels: tuple[Any, ...], named: tuple[str, ...]) -> None:
    said = " ".join(
        BACKEND.describe(
            server(*levels, spec={"image": {"repository": "own", "tag": "v0.5.6"}})
        ).startup_hints
    )
    assert all(text in said for text in named)
    assert ("await-levels" in said) == bool(named)

"""The preflight's verdict on a node, with fakes of sysfs, NIXL and an object store."""

import http.server
import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import programs
from function.backends.nixl import BACKEND, nodes
from function.kube.manifests import literal
from programs.nixl import preflight
from tests.cluster.rig.certs import Authority
from tests.unit.backends.nixl import nixl, read

CONFIG = {
    "backend": "UCX",
    "plugins": ["UCX"],
    "rdma": False,
    "device": False,
    "devices": [],
    "port": 8099,
}
PLUGIN: dict[str, Any] = {"source": "DevicePlugin", "devicePlugin": {"resourceName": "rdma/hca"}}


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node without devices, whose memory may be locked without a limit."""
    monkeypatch.setattr(preflight, "INFINIBAND", str(tmp_path / "class"))
    monkeypatch.setattr(preflight, "VERBS", str(tmp_path / "dev"))
    lock(monkeypatch, -1)
    return tmp_path


def lock(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(preflight.resource, "getrlimit", lambda _: (size, size))  # type: ignore[attr-defined]


def add(node: Path, name: str, state: str = "4: ACTIVE") -> None:
    port = node / "class" / name / "ports" / "1"
    port.mkdir(parents=True)
    (port / "state").write_text(f"{state}\n")


# (devices, config) -> what is said; a leading "!" is trouble.
DEVICES: tuple[tuple[dict[str, str], dict[str, Any], str], ...] = (
    ({}, {}, ""),
    ({}, {"rdma": True}, "!this node shows no RDMA device"),
    ({"mlx5_0": "4: ACTIVE"}, {"rdma": True}, "RDMA mlx5_0"),
    ({"mlx5_0": "4: ACTIVE", "mlx5_1": "1: DOWN"}, {"rdma": True}, "RDMA mlx5_0"),
    ({"mlx5_0": "1: DOWN"}, {"rdma": True}, "!mlx5_0 is DOWN"),
    (
        {"mlx5_0": "4: ACTIVE", "mlx5_1": "1: DOWN"},
        {"rdma": True, "devices": ["mlx5_0", "mlx5_1"]},
        "!mlx5_0 is ACTIVE, mlx5_1 is DOWN",
    ),
    (
        {"mlx5_0": "4: ACTIVE"},
        {"rdma": True, "devices": ["mlx5_9"]},
        "!no device mlx5_9 (spec.rdma.devices): mlx5_0",
    ),
    ({"mlx5_0": "4: ACTIVE"}, {"rdma": True, "device": True}, "!no "),
)


@pytest.mark.parametrize(("there", "asked", "said"), DEVICES)
def test_rdma_devices_of_a_node(
    node: Path, there: dict[str, str], asked: dict[str, Any], said: str
) -> None:
    for name, state in there.items():
        add(node, name, state)
    config = {**CONFIG, **asked}
    if not said.startswith("!"):
        assert preflight.devices(config) == said
        return
    with pytest.raises(preflight.Trouble) as trouble:
        preflight.devices(config)
    assert str(trouble.value).startswith(said[1:])


# (limit, may lock, config) -> what is said
MEMORY: tuple[tuple[int, bool, dict[str, Any], str], ...] = (
    (-1, False, {"rdma": True, "device": True}, "memory lock unlimited"),
    (8 << 20, False, {}, "memory lock 8192 KiB"),
    (8 << 20, False, {"rdma": True}, "memory lock 8192 KiB (engines need IPC_LOCK"),
    (8 << 20, True, {"rdma": True, "device": True}, "memory lock 8192 KiB (engines need"),
    (8 << 20, False, {"rdma": True, "device": True}, "!memory lock 8192 KiB, and no IPC_LOCK"),
)


@pytest.mark.parametrize(("limit", "able", "asked", "said"), MEMORY)
def test_lockable_memory_of_a_node(
    node: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
    able: bool,
    asked: dict[str, Any],
    said: str,
) -> None:
    lock(monkeypatch, limit)
    monkeypatch.setattr(preflight, "may_lock", lambda: able)
    config = {**CONFIG, **asked}
    if not said.startswith("!"):
        assert preflight.memory(config).startswith(said)
        return
    with pytest.raises(preflight.Trouble) as trouble:
        preflight.memory(config)
    assert str(trouble.value).startswith(said[1:])


class Agent:
    """An agent that has `made` backends, and whose transfers end as `ends` says."""

    broken: tuple[str, ...] = ()
    ends = "DONE"
    copies = True

    def __init__(self, name: str, backends: list[str]) -> None:
        self.places: list[tuple[int, int, int]] = []

    def create_backend(self, name: str, options: dict[str, str]) -> None:
        if name in self.broken:
            raise RuntimeError("NIXL_ERR_NOT_FOUND")

    def register_memory(self, places: Any, kind: str, backends: list[str]) -> None:
        self.places = places

    def get_agent_metadata(self) -> bytes:
        return b"here"

    def add_remote_agent(self, metadata: bytes) -> bytes:
        return b"prefill"

    def get_xfer_descs(self, places: Any, kind: str) -> Any:
        return places[0]

    def initialize_xfer(self, way: str, ours: Any, theirs: Any, peer: str, note: bytes) -> Any:
        return ours, theirs

    def transfer(self, handle: Any) -> str:
        (ours, size, _), (theirs, _, _) = handle
        if self.copies:
            preflight.ctypes.memmove(ours, theirs, size)  # type: ignore[attr-defined]
        return "PROC"

    def check_xfer_state(self, handle: Any) -> str:
        return self.ends


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> type[Agent]:
    made = type("Made", (Agent,), {})
    api = SimpleNamespace(nixl_agent=made, nixl_agent_config=lambda backends: backends)
    monkeypatch.setitem(sys.modules, "nixl", SimpleNamespace(_api=api))
    monkeypatch.setitem(sys.modules, "nixl._api", api)
    return made


def test_success_is_one_line(node: Path, agent: type[Agent]) -> None:
    well, line = preflight.look(CONFIG)
    assert well and line.startswith("nixl; memory lock unlimited; UCX loads; 1 MiB by UCX in ")
    assert "\n" not in line


def test_all_failures_are_reported_at_once(node: Path, agent: type[Agent]) -> None:
    agent.broken, agent.copies = ("OBJ",), False
    well, line = preflight.look({**CONFIG, "plugins": ["UCX", "OBJ"], "rdma": True})
    assert not well
    assert "no RDMA device" in line and "OBJ (NIXL_ERR_NOT_FOUND)" in line
    assert "ended in DONE with other bytes" in line


def test_failed_transfer_is_reported(node: Path, agent: type[Agent]) -> None:
    agent.ends = "ERR"
    assert preflight.look(CONFIG)[0] is False


def test_missing_nixl_is_the_only_message(node: Path) -> None:
    well, line = preflight.look({**CONFIG, "rdma": True})
    assert not well and line.startswith("no NIXL in this image") and ";" not in line


@contextmanager
def serving(certified: Path | None = None) -> Iterator[dict[str, Any]]:
    """A server that answers `status`; its address under `endpoint`. `certified`: a folder with its
    certificate."""
    said: dict[str, Any] = {"status": 403}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            said["path"] = self.path
            self.send_response(said["status"])
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server, scheme = http.server.HTTPServer(("127.0.0.1", 0), Handler), "http"
    if certified is not None:
        context, scheme = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), "https"
        context.load_cert_chain(certified / "tls.crt", certified / "tls.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    said["endpoint"] = f"{scheme}://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield said
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def answers() -> Iterator[dict[str, Any]]:
    with serving() as said:
        yield said


@pytest.mark.parametrize(
    ("status", "said"),
    ((200, "answers 200"), (403, "answers 403"), (404, "!no such bucket"), (503, "!answers 503")),
)
def test_bucket_reply(answers: dict[str, Any], status: int, said: str) -> None:
    answers["status"] = status
    config = {**CONFIG, "store": {"endpoint": answers["endpoint"], "bucket": "kv"}}
    if said.startswith("!"):
        with pytest.raises(preflight.Trouble, match=said[1:]):
            preflight.store(config)
    else:
        assert said in preflight.store(config)
    assert answers["path"] == "/kv"


def test_bucket_with_a_private_certificate_authority(tmp_path: Path) -> None:
    ours = Authority.new().issue(tmp_path / "ours", "s3")
    theirs = Authority.new().issue(tmp_path / "theirs", "s3")
    with serving(ours) as answers:
        store = {"endpoint": answers["endpoint"], "bucket": "kv"}
        trusting = {**store, "ca": str(ours / "ca.crt")}
        assert "answers 403" in preflight.store({**CONFIG, "store": trusting})
        for whom, wanted in (
            ("the image", store),
            ("caConfigMap", {**store, "ca": str(theirs / "ca.crt")}),
        ):
            with pytest.raises(preflight.Trouble, match=f"{whom} does not trust its certificate"):
                preflight.store({**CONFIG, "store": wanted})


def test_unreachable_store_is_reported(answers: dict[str, Any]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        config = {
            **CONFIG,
            "store": {
                "endpoint": f"http://127.0.0.1:{taken.getsockname()[1]}",
                "bucket": "kv",
            },
        }
        with pytest.raises(preflight.Trouble, match="does not answer"):
            preflight.store(config)


def test_hanging_or_dying_check_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "look.py"
    monkeypatch.setattr(preflight.os.path, "abspath", lambda _: str(script))  # type: ignore[attr-defined]
    script.write_text("import os, sys; sys.stderr.write('torn\\n'); os.abort()")
    well, line = preflight.look_apart(CONFIG)
    assert not well and "ended with -6: torn" in line
    monkeypatch.setattr(preflight, "HUNG", 0.5)
    script.write_text("import time; time.sleep(60)")
    well, line = preflight.look_apart(CONFIG)
    assert not well and "hung" in line


def test_program_is_not_ready_without_nixl(tmp_path: Path) -> None:
    """The program as it is emitted, in an image without NIXL."""
    (parts,) = [p.manifest for p in nodes.parts(nixl(preflight={})) if p.key.startswith("daemon")]
    (container,) = parts["spec"]["template"]["spec"]["containers"]
    (tmp_path / nodes.PROGRAM).write_text(programs.text(f"nixl/{nodes.PROGRAM}"))
    (config,) = container["args"]
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / nodes.PROGRAM), config.replace("$$", "$")],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("NIXL does not work here: no NIXL in this image")
        with pytest.raises(OSError), socket.create_connection(("127.0.0.1", nodes.PORT), 1):
            pass
    finally:
        process.kill()
        process.wait()


def test_preflight_is_off_by_default() -> None:
    assert BACKEND.parts(nixl()) == []


def test_nodes_field_needs_the_preflight() -> None:
    where = {"nodes": {"selector": {"gpu": "h200"}}}
    tier, problems = read({"nixl": {}, **where})
    assert tier is None and [problem.path for problem in problems] == ["spec.nodes"]
    (daemonset,) = [
        part
        for part in BACKEND.parts(nixl(where, preflight={}))
        if part.key.startswith("daemonset")
    ]
    pod = daemonset.manifest["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"gpu": "h200"} and pod["securityContext"]["runAsNonRoot"]


def test_device_is_requested_only_with_claim_device() -> None:
    rdma = {"rdma": {**PLUGIN, "devices": ["mlx5_0"]}}
    plain, claimed = nixl(rdma, preflight={}), nixl(rdma, preflight={"claimDevice": True})
    for tier, held in ((plain, False), (claimed, True)):
        (part,) = [p for p in BACKEND.parts(tier) if p.key.startswith("daemonset")]
        pod = part.manifest["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        env = {variable["name"]: variable["value"] for variable in container["env"]}
        assert (container["resources"]["limits"].get("rdma/hca") == "1") is held
        assert ("add" in container["securityContext"]["capabilities"]) is held
        assert env.get("UCX_TLS") == (None if held else "tcp")
        assert env.get("UCX_NET_DEVICES") == ("mlx5_0:1" if held else None)
        assert json.loads(container["args"][0])["device"] is held
        assert container["args"][0] == literal(container["args"][0])
        assert BACKEND.describe(tier).pod_security == ("privileged" if held else "restricted")
    (problem,) = BACKEND.problems(nixl(preflight={"claimDevice": True}))
    assert problem.path == "spec.nixl.preflight.claimDevice"

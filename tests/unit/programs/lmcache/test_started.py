"""The startup probe: it passes only when the server answers and a GPU is visible."""

import ctypes
import http.server
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from function.kube.manifests import literal
from programs.lmcache import started
from tests.unit.backends.lmcache import agents_pod

SOURCES = ("RuntimeClass", "DefaultRuntime", "CDI", "DRAAdminAccess", "None")


class Driver:
    """A driver that answers cuInit with `code` and has `count` GPUs."""

    def __init__(self, code: int, count: int) -> None:
        self.cuInit: Callable[[int], int] = lambda _: code
        self._count = count

    def cuDeviceGetCount(self, out: Any) -> int:
        out._obj.value = self._count
        return 0


@pytest.fixture
def healthy() -> Iterator[int]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/good" else 503)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield listening.server_port
        listening.shutdown()


# (driver or None, path) -> (exit status, what it says)
CASES = (
    (Driver(0, 8), "/good", 0, ""),
    (Driver(0, 8), "/bad", 1, "the server is not up yet: /bad answers 503"),
    (
        Driver(0, 0),
        "/good",
        1,
        "no GPU is visible in this container (the NVIDIA driver shows none)",
    ),
    (Driver(100, 0), "/good", 1, "the NVIDIA driver answers with error 100"),
    (None, "/good", 1, "no NVIDIA driver: libcuda.so.1"),
)


@pytest.mark.parametrize(("driver", "path", "status", "says"), CASES)
def test_probe_status_by_server_and_gpu(
    driver: Driver | None,
    path: str,
    status: int,
    says: str,
    healthy: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def load(name: str) -> Driver:
        if driver is None:
            raise OSError(f"{name}: cannot open shared object file")
        return driver

    monkeypatch.setattr(ctypes, "CDLL", load)
    monkeypatch.setenv("POD_IP", "127.0.0.1")
    assert started.main([str(healthy), path]) == status
    assert says in capsys.readouterr().out


def test_server_that_does_not_listen_fails_the_probe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: Driver(0, 1))
    monkeypatch.setenv("POD_IP", "127.0.0.1")
    assert started.main(["1", "/good"]) == 1
    assert "Connection refused" in capsys.readouterr().out


@pytest.mark.parametrize("source", SOURCES)
def test_probe_covers_every_gpu_source(source: str) -> None:
    """Whatever shows GPUs to an agent: one that sees none never counts as started."""
    visibility: dict[str, Any] = {"source": source}
    if source == "RuntimeClass":
        visibility["runtimeClass"] = {"name": "nvidia"}
    pod = agents_pod({"lmcache": {"l1": {"sizeGiB": 1}}, "gpuVisibility": visibility})
    (container,) = pod["containers"]
    probe = container["startupProbe"]
    assert probe["exec"]["command"][3:] == ["8080", "/healthcheck"]
    text = probe["exec"]["command"][2]
    assert literal(text) == text  # nothing that the kubelet would expand
    done = subprocess.run(
        [sys.executable, "-c", text, "8080", "/healthcheck"], capture_output=True, text=True
    )
    assert done.returncode == 1 and "no GPU is visible" in done.stdout

"""The program as its container runs it: one text, real servers, an API server."""

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from programs.observer.cluster import PATIENCE
from tests.unit.programs.observer import vllm
from tests.unit.programs.observer.servers import TEXT, APIServer, Server, certificate


def eventually(holds: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it has not come to hold"
        time.sleep(0.05)


def status(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


class Run:
    """The observer of one engine, at an address of its own, and of an API server."""

    def __init__(self, folder: Path):
        self.api = APIServer()
        self.api_server = Server(self.api.answer, context=certificate(folder))
        self.page = vllm()
        self.engine = Server(lambda *_: (200 if self.page else 404, self.page), "127.0.0.9")
        with contextlib.closing(Server(lambda *_: (200, ""))) as free:
            self.port = free.port
        self.config: dict[str, Any] = {
            "interval": 0.2,
            "namespace": "kv-offload-system",
            "name": "kv-chat-serving",
            "port": self.port,
            "account": str(folder),
            "engines": [
                {"namespace": "default", "host": "127.0.0.9", "ports": [9, self.engine.port]}
            ],
        }
        self.process: subprocess.Popen | None = None
        self.constants: dict[str, float] = {}  # of the text

    def start(self, spacing: str = "0.0") -> None:
        text = TEXT
        for name, value in {"SPACING": spacing, **self.constants}.items():
            text, found = re.subn(rf"^{name} = [\d.]+", f"{name} = {value}", text, flags=re.M)
            assert found == 1, name
        environment = os.environ | {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.api_server.port),
        }
        arguments = [sys.executable, "-I", "-c", text, json.dumps(self.config)]
        self.process = subprocess.Popen(arguments, env=environment, stderr=subprocess.DEVNULL)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            assert self.process.wait(10) == 0
        self.engine.close()
        self.api_server.close()

    def state(self) -> str:
        return self.api.writes[-1]["state"] if self.api.writes else ""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    found = Run(tmp_path)
    yield found
    found.stop()


def test_states_of_a_real_process_reach_the_config_map(run: Run) -> None:
    run.start()
    eventually(lambda: run.state() == "Idle")
    run.page = vllm(prompt=5_000, lookups=5_000, writes=100)
    eventually(lambda: run.state() == "Storing")
    run.page = vllm(prompt=9_000, lookups=9_000, writes=100, hits=4_000)
    eventually(lambda: run.state() == "Hitting")
    written = len(run.api.writes)
    time.sleep(1.5)
    assert len(run.api.writes) == written  # nothing has changed
    run.page = ""
    eventually(lambda: run.state() == "Unreachable")
    (row,) = run.api.writes[-1]["models"]
    assert (row["at"], row["cause"], row["model"]) == ("127.0.0.9", "NoMetrics", "llama")
    assert status(run.port, "/readyz") == status(run.port, "/healthz") == 200
    assert status(run.port, "/other") == 404


def test_sigterm_ends_it_while_an_engine_does_not_answer(run: Run) -> None:
    asked, answers = threading.Event(), threading.Event()

    def answer(*_: Any) -> tuple[int, str]:
        asked.set()
        answers.wait(30)
        return 200, ""

    with contextlib.closing(Server(answer, "127.0.0.12")) as engine:
        row = {"namespace": "default", "host": "127.0.0.12", "ports": [engine.port]}
        run.config["engines"] = [row]
        run.start()
        assert run.process is not None
        assert asked.wait(20)
        run.process.terminate()
        assert run.process.wait(PATIENCE / 2) == 0
        answers.set()


COMPLETION = {
    "choices": [
        {
            "logprobs": {
                "tokens": ["a"],
                "token_logprobs": [-0.1],
                "top_logprobs": [{"a": -0.1, "b": -5.0}],
            }
        }
    ],
    "usage": {"prompt_tokens": 600},
}


class Completing:
    """An engine that answers prompts, those with a cached prompt by `word`."""

    def __init__(self, address: str, seen: set[str], word: str = "a"):
        self.seen, self.word, self.tokens, self.hits = seen, word, 0, 0
        self.bodies: list[dict] = []
        self.status = 200
        self.server = Server(self.answer, address)

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, str]:
        if method == "GET":
            page = vllm(prompt=self.tokens, lookups=self.tokens, hits=self.hits, writes=1)
            return 200, page
        asked = json.loads(body)
        self.bodies.append(asked)
        if self.status != 200 or path != "/v1/completions":
            return self.status, '{"error": "Unauthorized"}'
        key = f"{asked['prompt']} {asked.get('cache_salt')}"
        is_hit = key in self.seen
        self.seen.add(key)
        self.tokens, self.hits = self.tokens + 600, self.hits + 512 * is_hit
        said = json.dumps(COMPLETION)
        return 200, said.replace('"a"', f'"{self.word}"') if is_hit else said


@pytest.fixture
def completing(run: Run) -> Iterator[list[Completing]]:
    seen: set[str] = set()
    found = [Completing("127.0.0.10", seen), Completing("127.0.0.11", seen)]
    run.config["canary"] = {"every": 1, "tokens": 512}
    run.config["engines"] = [
        {"namespace": "default", "host": f"127.0.0.{10 + n}", "ports": [one.server.port]}
        for n, one in enumerate(found)
    ]
    run.constants = {"FIRST": 0.1, "SETTLE": 0.1, "DOUBT": 0.1, "LAG": 0.01}
    yield found
    for one in found:
        one.server.close()


def canary(run: Run) -> tuple[str, str]:
    rows = run.api.writes[-1]["models"] if run.api.writes else []
    return (rows[0]["state"], rows[0]["canary"]) if rows else ("", "")


def test_canary_compares_answers_of_real_servers(run: Run, completing: list[Completing]) -> None:
    run.start()
    eventually(lambda: canary(run) == ("Hitting", "Compared"))
    body = completing[0].bodies[0]
    rest = {"model": "llama", "max_tokens": 8, "temperature": 0, "logprobs": 5}
    assert {name: value for name, value in body.items() if name != "prompt"} == rest
    assert 500 < len(body["prompt"].split()) < 540
    completing[1].word = "wrong"
    eventually(lambda: canary(run)[0] == "WrongBlocks", 40)
    assert run.api.writes[-1]["models"][0]["at"] == "127.0.0.11"
    with urllib.request.urlopen(f"http://127.0.0.1:{run.port}/metrics", timeout=5) as page:
        said = 'kv_offload_wrong_blocks{model_namespace="default",model="llama"} 1\n'
        assert page.read().decode().endswith(said)


def test_engines_that_demand_a_key_are_said(run: Run, completing: list[Completing]) -> None:
    for one in completing:
        one.status = 401
    run.start()
    eventually(lambda: canary(run)[1] == "KeyRequired")
    assert run.state() != "WrongBlocks"


def test_a_config_map_that_cannot_be_written_makes_it_unready(run: Run) -> None:
    run.api.status = 403
    run.start()
    eventually(lambda: status(run.port, "/readyz") == 503)
    assert status(run.port, "/healthz") == 200
    run.api.status = 200
    eventually(lambda: status(run.port, "/readyz") == 200 and run.state() == "Idle")


def test_a_restart_writes_nothing_where_nothing_changed(run: Run) -> None:
    run.page = vllm(prompt=50_000, lookups=50_000, writes=100, hits=4_000)
    run.start()
    eventually(lambda: run.state() == "Hitting")
    time.sleep(0.5)
    written = len(run.api.writes)
    assert run.process is not None
    run.process.terminate()
    run.process.wait(10)
    run.start()
    eventually(lambda: status(run.port, "/readyz") == 200)
    time.sleep(1.5)
    assert len(run.api.writes) == written


def test_writes_keep_their_spacing(run: Run) -> None:
    run.start("60.0")
    eventually(lambda: run.state() == "Idle")
    run.page = vllm(prompt=9_000, lookups=9_000, writes=100, hits=4_000)
    time.sleep(1.5)
    assert len(run.api.writes) == 1


def test_a_service_without_pods_is_idle(run: Run) -> None:
    run.config["engines"] = [{"namespace": "default", "host": "no.such.invalid", "ports": [9]}]
    run.start()
    eventually(lambda: run.state() == "Idle", 30)
    assert run.api.writes[-1]["engines"] == "0"


def test_engines_that_never_answer_are_unreachable(run: Run) -> None:
    run.config["engines"] = [{"namespace": "default", "host": "127.0.0.8", "ports": [9]}]
    run.start()
    eventually(lambda: run.state() == "Unreachable")


def test_pods_that_serve_nothing_beside_an_engine_are_no_engines(run: Run) -> None:
    worker = {"namespace": "default", "host": "127.0.0.8", "ports": [9]}
    run.config["engines"] = [*run.config["engines"], worker]
    run.page = vllm(prompt=9_000, lookups=9_000, writes=100, hits=4_000)
    run.start()
    eventually(lambda: run.state() == "Hitting")
    time.sleep(1.5)
    assert run.state() == "Hitting"
    assert run.api.writes[-1]["engines"] == "1"


def test_the_largest_pages_stay_below_the_memory_limit(run: Run) -> None:
    """The container has 128 MiB: pods with the tier's label may be anybody's."""
    line = 'vllm:prompt_tokens_total{model_name="m"} 1\n'
    pages = [line * (2**21 // len(line) - 1), "é" * 2**20, f'{line[:-4]}{{a="' * 50_000]
    servers = [
        Server(lambda *_, page=page: (200, page), f"127.0.1.{n}")
        for n, page in enumerate(pages * 6, start=1)
    ]
    run.config["engines"] = [
        {"namespace": "default", "host": f"127.0.1.{n}", "ports": [server.port]}
        for n, server in enumerate(servers, start=1)
    ]
    run.start()
    try:
        eventually(lambda: run.state() != "", 60)
        time.sleep(3)
        assert run.process is not None and run.process.poll() is None
        status = Path(f"/proc/{run.process.pid}/status").read_text()
        (most,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
        assert int(most.split()[1]) < 110 * 1024
    finally:
        for server in servers:
            server.close()


def test_the_text_is_one_argument() -> None:
    assert len(TEXT.encode()) < 100_000  # the kernel takes 131,072 bytes for one

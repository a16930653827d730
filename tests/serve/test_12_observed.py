"""The observer sees the hits of a real engine.

The program runs as its container does, against the engine's and the tier's own metrics; its API
server takes the one ConfigMap.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.serve import author
from tests.serve.engine import Engine, prompt
from tests.serve.fleet import Fleet
from tests.serve.test_10_hits import settle
from tests.unit.programs.observer.servers import TEXT, APIServer, Server, certificate

PATIENCE = 60.0  # seconds of traffic
SEED = 912  # of a prompt that no other test asks with


class Observer:
    """The observer of engines. `said`: what it wrote last. `settings`: more of its configuration;
    `constants`: those of its text that a test has no time for."""

    def __init__(
        self,
        folder: Path,
        fleet: Fleet,
        *engines: Engine,
        settings: Mapping[str, Any] = MappingProxyType({}),
        constants: Mapping[str, float] = MappingProxyType({}),
    ):
        self.api = APIServer()
        self.server = Server(self.api.answer, context=certificate(folder))
        with contextlib.closing(Server(lambda *_: (200, ""))) as free:
            port = free.port
        parts = [
            {"namespace": "kv-offload-system", "host": pod.address, "ports": [8080, 9003]}
            for pod in fleet.tier.parts.values()
        ]
        rows = [
            {"namespace": "default", "host": engine.pod.address, "ports": [author.PORT]}
            for engine in engines
        ]
        config = {
            "interval": 1,
            "namespace": "kv-offload-system",
            "name": "kv-chat-serving",
            "port": port,
            "account": str(folder),
            "engines": rows,
            "parts": parts,
            **settings,
        }
        text = TEXT
        for name, value in {"SPACING": 0.0, **constants}.items():
            text, found = re.subn(rf"^{name} = [\d.]+", f"{name} = {value}", text, flags=re.M)
            assert found == 1, name
        environment = os.environ | {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.server.port),
        }
        arguments = [sys.executable, "-I", "-c", text, json.dumps(config)]
        self.process = subprocess.Popen(arguments, env=environment, stderr=subprocess.DEVNULL)

    @property
    def model(self) -> dict[str, str]:
        """What it wrote of the engines' model."""
        rows = self.api.writes[-1]["models"] if self.api.writes else []
        return rows[0] if rows else {}

    @property
    def said(self) -> tuple[str, str]:
        """State and cause of the engine's model, as written last."""
        return self.model.get("state", ""), self.model.get("cause", "")

    def until_first_write(self) -> None:
        begun = time.monotonic()
        while not self.api.writes:
            assert time.monotonic() - begun < PATIENCE, "it writes nothing"
            time.sleep(0.2)

    def until(
        self,
        state: str,
        cause: str = "",
        *,
        busy: Callable[[int], None] = lambda _: None,
        patience: float = PATIENCE,
    ) -> float:
        """Wait for a state and return the seconds; `busy` makes traffic, called with 0, 1, 2 ..."""
        begun, number = time.monotonic(), 0
        while self.said != (state, cause):
            assert time.monotonic() - begun < patience, f"it says {self.said} of {state} {cause}"
            busy(number)
            number += 1
            time.sleep(0.2)
        return time.monotonic() - begun

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(10)
        self.server.close()


Start = Callable[[Engine], Observer]


@pytest.fixture
def observe(tmp_path: Path, fleet: Fleet) -> Iterator[Start]:
    with contextlib.ExitStack() as stack:

        def start(engine: Engine) -> Observer:
            found = Observer(tmp_path, fleet, engine)
            stack.callback(found.close)
            return found

        yield start


@pytest.mark.pairs("vllm-mooncake")
def test_hits_are_seen(fleet: Fleet, observe: Start, proof) -> None:
    """From storing to hitting; the engine may have had hits in other tests before."""
    (engine,) = fleet.ready("first")
    had = engine.external() > 0
    observer = observe(engine)
    engine.ask(prompt(SEED))
    if not had:
        observer.until("Storing")
    settle(fleet, engine)
    engine.forget()
    proof("hits are seen", seconds=observer.until("Hitting", busy=lambda _: _again(engine)))


def _again(engine: Engine) -> None:
    engine.ask(prompt(SEED), tokens=1)
    engine.forget()

"""Directories, and workers as processes."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import programs.evictor

PROGRAM = Path(programs.evictor.__file__).parent
PATIENCE = 900  # seconds: what is awaited is whether, not how fast
Mount = Callable[..., Path]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """A file system in memory, with mount options; needs root."""
    mounted: list[Path] = []

    def make(options: str) -> Path:
        at = tmp_path / f"mount{len(mounted)}"
        at.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(at)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"needs the right to mount: {done.stderr.strip()}")
        mounted.append(at)
        return at

    yield make
    for at in mounted:
        subprocess.run(["umount", "-l", str(at)], check=True)


class Worker:
    """One process. `peak`: KiB of memory at the most."""

    def __init__(self, config: dict[str, Any], log: Path, python: str = sys.executable) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = int(found.getsockname()[1])
        self.log = log
        with log.open("a") as output:
            self.process = subprocess.Popen(
                [python, "-m", PROGRAM.name, json.dumps({**config, "port": self.port})],
                cwd=PROGRAM.parent,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def metrics(self) -> dict[str, float]:
        """name -> the sum over its labels; {} while it does not answer."""
        try:
            url = f"http://127.0.0.1:{self.port}/metrics"
            with urllib.request.urlopen(url, timeout=10) as answer:
                text = answer.read().decode()
        except OSError:
            return {}
        found: dict[str, float] = {}
        for name, value in re.findall(r"^kv_evictor_(\w+)\{.*\} (\S+)$", text, re.M):
            found[name] = found.get(name, 0) + float(value)
        return found

    @property
    def holds(self) -> bool:
        return self.metrics().get("holder", 0) == 1

    @property
    def peak(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+)", status)[0])

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> float:
        """Seconds that it takes to end; it must do so by itself."""
        begun = time.monotonic()
        self.send(signal.SIGTERM)
        assert self.process.wait(60) == 0, self.log.read_text()
        return time.monotonic() - begun


Start = Callable[..., Worker]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a worker for one directory: start(path, bytes=..., ...)."""
    workers: list[Worker] = []

    def make(path: Path, python: str = sys.executable, **fields: Any) -> Worker:
        fields = {"grace": 0, "lease_seconds": 6, "period": 1, **fields}
        config = {"directories": [{"path": str(path)}], "defaults": fields}
        workers.append(Worker(config, tmp_path / f"worker{len(workers)}.log", python))
        return workers[-1]

    yield make
    for worker in workers:
        if worker.process.poll() is None:
            worker.process.kill()
            worker.process.wait()


def until(holds: Callable[[], Any], what: str) -> float:
    """Seconds until it holds. It looks less often where looking takes long."""
    begun = time.monotonic()
    while True:
        looked = time.monotonic()
        if holds():
            return time.monotonic() - begun
        assert looked - begun < PATIENCE, f"never: {what}"
        time.sleep(0.1 + 4 * (time.monotonic() - looked))


def tree(root: Path, ages: dict[str, list[float]], size: int) -> None:
    """Sparse files: folder -> how long ago each of its files was last used."""
    now = time.time()
    for folder, found in ages.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        at = os.open(root / folder, os.O_RDONLY)
        try:
            for number, age in enumerate(found):
                name = f"{number:07}.bin"
                file = os.open(name, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=at)
                os.ftruncate(file, size)
                os.close(file)
                os.utime(name, (now - age, now - age), dir_fd=at)
        finally:
            os.close(at)


def files(root: Path) -> list[str]:
    """What is there but the evictor's own."""
    found = []
    for folder, below, names in os.walk(root):
        below[:] = [name for name in below if name != ".evictor"]
        found += [os.path.join(folder, name) for name in names]
    return found


def interpreters() -> list[str]:
    """This Python, and older ones that are there."""
    found = [sys.executable]
    for minor in (9, 10):
        versions = Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3.{minor}")
        path = next(map(str, versions), None) or shutil.which(f"python3.{minor}")
        if path and subprocess.run([path, "-V"], capture_output=True).returncode == 0:
            found.append(path)
    return found

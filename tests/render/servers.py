"""Functions as processes of their own, for Crossplane's engine: started on a free port, stopped."""

import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from kv_offload.render.conditions import FIXED_TIME
from tests.render import standin

ROOT = Path(__file__).resolve().parents[2]
OURS = "function-kv-offload"
# Seconds until a function listens: a second or two, or many in the time that other suites leave.
LISTENS = 120

# Function name -> how it is started, given the address.
_COMMANDS: dict[str, list[str]] = {
    OURS: ["-m", "function.main", "--insecure", "--fixed-time", FIXED_TIME, "--address"],
    standin.NAME: ["-m", "tests.render.standin", "--address"],
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def serving(command: list[str], address: str) -> Iterator[None]:
    """Run a Python command until the block ends; RuntimeError if it dies before it listens."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            _wait(process, address, log)
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen, address: str, log: IO[bytes]) -> None:
    host, _, port = address.rpartition(":")
    end = time.monotonic() + LISTENS
    while time.monotonic() < end:
        if process.poll() is not None:
            log.seek(0)
            text = log.read().decode()
            raise RuntimeError(f"a function ended before it listened on {address}: {text}")
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 0.1):
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
    raise RuntimeError(f"a function did not listen on {address} within {LISTENS} s")


@contextlib.contextmanager
def functions(names: set[str]) -> Iterator[dict[str, str]]:
    """Serve these functions; yields {name: address}."""
    with contextlib.ExitStack() as stack:
        addresses = {}
        for name in sorted(names):
            addresses[name] = f"127.0.0.1:{free_port()}"
            stack.enter_context(serving([*_COMMANDS[name], addresses[name]], addresses[name]))
        yield addresses

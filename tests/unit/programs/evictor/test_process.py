"""The program as pods run it: a folder of files and a Python interpreter."""

import ast
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import programs.evictor
from tests.unit.programs.evictor import fill, left

PROGRAM = Path(programs.evictor.__file__).parent
PATIENCE = 60


def port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running(folder: Path, config: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """The program in `folder`, whose name it goes by."""
    process = subprocess.Popen(
        [sys.executable, "-m", folder.name, json.dumps(config)],
        cwd=folder.parent,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def test_process_evicts_serves_metrics_and_stops(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    fill(cache, {"old": (60000, 900), "new": (60000, 300)})
    at = port()
    config = {"directories": [{"path": str(cache), "bytes": 100000}], "port": at}
    with running(PROGRAM, config) as process:
        until(lambda: left(cache) == ["new"])
        until(lambda: "walks_total{" in get(at, "/metrics")[1])
        assert get(at, "/healthz") == get(at, "/readyz") == (200, "ok\n")
        status, text = get(at, "/metrics")
        path = json.dumps(str(cache))
        assert status == 200
        assert f"kv_evictor_removed_files_total{{directory={path}}} 1\n" in text
        assert f'kv_evictor_limit{{directory={path},of="bytes"}} 100000\n' in text
        assert f'kv_evictor_holder{{directory={path},order="' in text
        assert get(at, "/other")[0] == 404
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert process.stdout is not None
        assert "removed 1 of 2 files" in process.stdout.read()
    (lease,) = (cache / ".evictor").iterdir()
    assert lease.read_text().startswith("free")


# The program with a signal at the one moment when no handler may touch the event.
TOLD_WHILE_LOCKED = """
import os, runpy, signal, sys, threading
wait = threading.Event.wait
def told(event, timeout=None):
    if timeout is not None and threading.current_thread() is threading.main_thread():
        with event._cond:
            os.kill(os.getpid(), signal.SIGTERM)
    return wait(event, timeout)
threading.Event.wait = told
sys.path.insert(0, os.getcwd())
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


def test_a_signal_that_comes_while_the_event_is_locked_stops_it(tmp_path: Path) -> None:
    fill(tmp_path / "cache", {"a": (1, 900)})
    config = json.dumps({"directories": [{"path": str(tmp_path / "cache")}]})
    arguments = [sys.executable, "-c", TOLD_WHILE_LOCKED, PROGRAM.name, config]
    assert subprocess.run(arguments, cwd=PROGRAM.parent, timeout=PATIENCE).returncode == 0


def test_problem_fails_the_readiness_probe(tmp_path: Path) -> None:
    """A link where the directory should be: nobody can be elected, and no restart would help."""
    cache = tmp_path / "cache"
    (tmp_path / "other").mkdir()
    cache.symlink_to(tmp_path / "other")
    at = port()
    config = {"directories": [{"path": str(cache), "lease_seconds": 1}], "port": at}
    with running(PROGRAM, config) as process:
        assert process.stdout is not None
        assert "cannot elect a worker" in process.stdout.readline()
        status, text = get(at, "/readyz")
        assert status == 503 and "cannot elect a worker" in text
        assert get(at, "/healthz") == (200, "ok\n")
        cache.unlink()
        cache.mkdir()
        assert process.stdout.readline() == f"{cache}: works again\n"
        assert get(at, "/readyz") == (200, "ok\n")
        until(lambda: "walks_total{" in get(at, "/metrics")[1])


def test_changed_program_text_restarts_the_process(tmp_path: Path) -> None:
    """A release of the function changes the ConfigMap and rolls no pod."""
    folder, cache = tmp_path / "evictor", tmp_path / "cache"
    shutil.copytree(PROGRAM, folder, ignore=shutil.ignore_patterns("__pycache__"))
    main = folder / "__main__.py"
    text = main.read_text()
    assert "LOOK = 60" in text
    main.write_text(text.replace("LOOK = 60", "LOOK = 1"))
    fill(cache, {"a": (1, 900)})
    with running(folder, {"directories": [{"path": str(cache)}]}) as process:
        until((cache / ".evictor" / "000000000001").is_file)
        main.write_text(main.read_text() + '\nprint("anew")\n')
        until((cache / ".evictor" / "000000000002").is_file)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_invalid_configuration_stops_the_process(tmp_path: Path) -> None:
    config = {"directories": [{"path": str(tmp_path), "byts": 1}]}
    done = subprocess.run(
        [sys.executable, "-m", PROGRAM.name, json.dumps(config)],
        cwd=PROGRAM.parent,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode and "byts" in done.stderr


@pytest.mark.parametrize("path", sorted(PROGRAM.glob("*.py")), ids=lambda path: path.name)
def test_program_needs_only_python_3_9_and_its_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules.add(str(node.module).split(".")[0])
    assert modules <= sys.stdlib_module_names
    assert (
        any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
        or path.name == "__init__.py"
    )

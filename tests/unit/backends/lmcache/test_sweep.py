"""The sweeper, on real directories, and as the process that the agents' pod runs."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from function.backends.lmcache import BACKEND, sweep
from tests.unit.backends.lmcache import server

NOW = 1_000_000.0

# (files as (path, size, age in seconds), limit, what is left)
TABLE = (
    ([], 10, []),
    ([("a", 4, 900), ("b", 4, 800)], 8, ["a", "b"]),
    ([("a", 4, 900), ("b", 4, 800)], 7, ["b"]),
    ([("b", 4, 800), ("a", 4, 900), ("c", 4, 700)], 4, ["c"]),
    ([("a", 4, 10), ("b", 4, 900)], 4, ["a"]),
    ([("a", 4, 10), ("b", 4, 20)], 1, ["a", "b"]),
    ([("deep/er/a", 4, 900), ("b", 4, 800)], 4, ["b"]),
    ([("a", 4, 900), ("b", 4, 800)], 0, []),
)


def _fill(root: Path, rows: list[tuple[str, int, float]], now: float) -> None:
    for name, size, age in rows:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
        os.utime(path, (now - age, now - age))


def _left(root: Path) -> list[str]:
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


@pytest.mark.parametrize(("rows", "limit", "left"), TABLE)
def test_the_oldest_go_first(
    tmp_path: Path, rows: list[tuple[str, int, float]], limit: int, left: list[str]
) -> None:
    _fill(tmp_path, rows, NOW)
    assert sweep.sweep(str(tmp_path), limit, NOW) == len(rows) - len(left)
    assert _left(tmp_path) == left


def test_more_files_than_one_pass_sorts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "BATCH", 3)
    _fill(tmp_path, [(f"f{n:02}", 1, 1000 - n) for n in range(20)], NOW)
    assert sweep.sweep(str(tmp_path), 5, NOW) == 15
    assert _left(tmp_path) == [f"f{n:02}" for n in range(15, 20)]


def test_links_are_not_followed_and_a_missing_directory_is_empty(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    _fill(outside, [("kept", 9, 900)], NOW)
    inside.mkdir()
    (inside / "link").symlink_to(outside / "kept")
    (inside / "loop").symlink_to(outside)
    assert sweep.sweep(str(inside), 0, NOW) == 0
    assert sweep.sweep(str(tmp_path / "none"), 0, NOW) == 0
    assert _left(outside) == ["kept"]


def test_the_container_as_it_is_composed(tmp_path: Path) -> None:
    """Its command and arguments, with the paths of this machine, until SIGTERM."""
    disk = {"sizeGiB": 1, "hostPath": {"path": "/mnt/kv"}}
    daemonset = BACKEND.parts(server({"name": "d", "type": "Disk", "disk": disk}))[1].manifest
    container = daemonset["spec"]["template"]["spec"]["containers"][1]
    assert container["command"][0] == "/opt/venv/bin/python3"
    assert container["args"] == ["/var/lib/kv-offload/d/chat-3f9ab", "1020054732", "30"]
    _fill(tmp_path, [("old", 600, 900), ("new", 600, 300)], time.time())
    program = container["command"][2].replace("$$", "$")
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path), "1000", "30"]) as process:
        deadline = time.monotonic() + 20
        while _left(tmp_path) != ["new"] and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    assert _left(tmp_path) == ["new"]

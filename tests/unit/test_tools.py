"""`make cluster` says at once what it builds, and builds what it runs."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.tools import find

ROOT = Path(__file__).parents[2]


def test_what_is_missing_is_announced_before_it_is_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(find, "binary", lambda name: None if name != "kwok" else Path(name))
    monkeypatch.setattr(find, "build", lambda name, progress: print(f"{progress}building {name}"))
    assert find.main(["build", "core", "kwok", "etcd"]) == 0
    first, duration, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("Building 2 Go programs") and first.endswith(": core, etcd.")
    assert duration == find.DURATION
    assert rest[0] == "1 of 3: building core"


def test_nothing_is_announced_where_all_is_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(find, "binary", Path)
    find.announce(list(find.PROGRAMS))
    assert capsys.readouterr().out == ""


def test_make_cluster_builds_what_its_rig_starts() -> None:
    """Neither Crossplane's CLI nor LeaderWorkerSet, which only the end-to-end tests need."""
    command = ["make", "--dry-run", "--silent", "demo-tools"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    built = set(printed.split("build ", 1)[1].split())
    sources = [*(ROOT / "tests/cluster/rig").glob("*.py")]
    optional = {"lws.py", "packages.py"}
    texts = [file.read_text() for file in sources if file.name not in optional]
    started = {name for text in texts for name in re.findall(r'require\("([^"]+)"\)', text)}
    assert built == started | {"core", "kubectl"}, "core has a name of its own; people use kubectl"

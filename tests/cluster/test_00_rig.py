"""The rig itself: it says what failed, and leaves nothing behind.

Runs on rigs and parts of its own, before the shared control plane starts.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cluster.rig import rundir
from tests.cluster.rig.functions import CHECKOUT
from tests.cluster.rig.ports import free_ports
from tests.cluster.rig.processes import Part, PartFailed, Supervisor
from tests.cluster.rig.wait import PATIENCE, NotInTime, until

_PARENT = """
import sys, time
from pathlib import Path
from tests.cluster.rig.processes import Part, Supervisor
parts = Supervisor()
parts.launch(Part("sleeper", ["sleep", "600"], Path(sys.argv[1])))
print(parts.parts["sleeper"].pid, flush=True)
time.sleep(600)
"""


def shell(script: str) -> list[str]:
    return ["sh", "-c", script]


def processes_naming(text: str) -> list[str]:
    """The command lines of all processes that mention a text."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in command and entry.parent.name != str(os.getpid()):
            found.append(command)
    return found


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_part_that_ends_is_named_with_its_exit_code_and_the_end_of_its_log(tmp_path: Path):
    part = Part("etcd", shell("echo no space left; exit 3"), tmp_path / "log", lambda: False)
    with pytest.raises(PartFailed) as failed:
        Supervisor().launch(part)
    assert "etcd ended with exit code 3" in str(failed.value)
    assert "no space left" in str(failed.value)


def test_a_part_that_never_serves_is_named_after_its_limit(tmp_path: Path):
    part = Part("core", shell("echo waiting; sleep 60"), tmp_path / "log", lambda: False, limit=0.3)
    parts = Supervisor()
    with pytest.raises(PartFailed, match=f"core is not ready after {0.3 * PATIENCE:.0f} s"):
        parts.launch(part)
    parts.stop()
    assert not part.alive


def test_a_part_that_ignores_sigterm_is_killed_after_its_grace(tmp_path: Path):
    script = "trap '' TERM; echo deaf; while :; do sleep 0.1; done"
    log = tmp_path / "log"
    part = Part("deaf", shell(script), log, lambda: "deaf" in log.read_text(), grace=0.5)
    parts = Supervisor()
    parts.launch(part)
    pid = part.pid
    parts.stop()
    assert not alive(pid)


def test_died_part_is_restarted_and_recorded(tmp_path: Path):
    part = Part("kwok", shell("sleep 60"), tmp_path / "log")
    parts = Supervisor()
    parts.launch(part)
    first = part.pid
    part.kill()
    parts.tend()
    assert part.alive
    assert part.pid != first
    assert parts.revived == ["kwok: signal SIGKILL"]
    parts.stop()
    assert not part.alive


def test_parts_die_with_a_rig_that_is_killed(tmp_path: Path):
    command = [sys.executable, "-c", _PARENT, str(tmp_path / "log")]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.send_signal(signal.SIGKILL)
    until(lambda: not alive(pid), "the part is gone", limit=5)


def test_ports_are_free_and_distinct():
    ports = free_ports(50)
    assert len(set(ports)) == 50


def test_wait_timeout_names_the_missing_event():
    with pytest.raises(NotInTime, match="not within 0 s: the moon is full\nit is new"):
        until(lambda: False, "the moon is full", limit=0, explain=lambda: "it is new")


def test_run_folder_of_a_dead_owner_is_taken_over(tmp_path: Path):
    folder = rundir.take(tmp_path / "run")
    with pytest.raises(rundir.AlreadyRunning, match=str(os.getpid())):
        rundir.take(folder)
    (folder / "pid").write_text("1 0")
    (folder / "leftover").write_text("of a killed rig")
    rundir.take(folder)
    assert not (folder / "leftover").exists()
    rundir.give_up(folder, keep_logs=False)
    assert not folder.exists()


@pytest.mark.parametrize("how", ["Ctrl-C", "cluster-down"])
def test_make_cluster_starts_prints_usage_and_cleans_up(tmp_path: Path, how: str):
    run = tmp_path / "cluster"
    rig = [sys.executable, "-m", "tests.cluster.rig"]
    up = [*rig, "up", "--run", str(run), "--clusters", "gke-h200"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        up, cwd=CHECKOUT, stdout=pipe, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as parent:
        said = ""
        began = time.monotonic()
        while "Ctrl-C" not in said:
            line = parent.stdout.readline()
            assert line, said
            said += line
        seconds = time.monotonic() - began
        if how == "Ctrl-C":
            os.killpg(parent.pid, signal.SIGINT)
        else:
            subprocess.run([*rig, "down", "--run", str(run)], cwd=CHECKOUT, check=True)
        rest, _ = parent.communicate(timeout=60)
    assert parent.returncode == 0, rest
    assert f"export KUBECONFIG={run / 'control' / 'kubeconfig'}" in said
    assert seconds < 60 * PATIENCE
    assert not run.exists()
    assert processes_naming(str(run)) == []

"""The folder of one rig: logs, certificates, etcd's data, kubeconfigs; gone when the rig is."""

import os
import shutil
from pathlib import Path


class AlreadyRunning(RuntimeError):
    """Another rig lives in this folder; its process id is in the message."""


def take(folder: Path) -> Path:
    """Claim an empty run folder; what a killed rig left in it is removed first."""
    owner = running(folder)
    if owner:
        raise AlreadyRunning(f"a rig already runs in {folder} (process {owner})")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    (folder / "pid").write_text(f"{os.getpid()} {_started(os.getpid())}")
    return folder


def running(folder: Path) -> int | None:
    """The process that owns a run folder and lives, or None."""
    try:
        pid, started = (folder / "pid").read_text().split()
    except (OSError, ValueError):
        return None
    return int(pid) if _started(int(pid)) == started else None


def give_up(folder: Path, keep_logs: bool) -> None:
    """Remove the folder; the logs stay if somebody has to read them."""
    for entry in folder.iterdir() if folder.exists() else ():
        if keep_logs and entry.name == "logs":
            continue
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    if not keep_logs and folder.exists():
        folder.rmdir()


def _started(pid: int) -> str:
    """When a process started (clock ticks since boot): with the id, it names one process ever."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except OSError:
        return ""

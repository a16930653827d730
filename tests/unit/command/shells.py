"""Runs containers' commands with real shells; engines are replaced by recorders."""

import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

SHELLS = {
    name: path
    for name, path in (
        ("bash", shutil.which("bash")),
        ("dash", shutil.which("dash")),
        ("busybox", shutil.which("busybox")),
    )
    if path
}
# What stands in for `sh`: the strictest that is there.
POSIX = next(name for name in ("dash", "busybox", "bash") if name in SHELLS)
ENGINES = ("vllm", "vllm-rs", "sglang", "python3")
# One write for each start: those of jobs in the background must not mix.
_RECORDER = """#!/bin/sh
printf '%s\\0' "${0##*/}" "$@" "$(printf '\\1')" >> "$RECORD_FILE"
"""
# A loop that restarts its engine ends where it would wait.
_SLEEP = "#!/bin/sh\nkill -9 $PPID\n"


def install(folder: Path) -> None:
    """Puts the recorders into `folder`, which becomes the head of PATH."""
    programs = dict.fromkeys(ENGINES, _RECORDER) | {"sleep": _SLEEP, "ray": "#!/bin/sh\n"}
    for name, text in programs.items():
        path = folder / name
        path.write_text(text)
        path.chmod(0o755)


def expand(text: str, env: dict[str, str]) -> str:
    """Kubernetes' own expansion, written down a second time."""

    def one(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return env.get(match[1], match[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", one, text)


def run(container: dict, shell: str, folder: Path, runtime: dict[str, str]) -> list[list[str]]:
    """The argv of every engine that the container's command starts, in order."""
    env: dict[str, str] = {}
    for entry in container.get("env", []):
        env[entry["name"]] = expand(entry["value"], env)
    argv = [expand(item, env) for item in [*container["command"], *container.get("args", [])]]
    first = [SHELLS["busybox"], "sh"] if shell == "busybox" else [SHELLS[shell]]
    nested = folder / "sh"
    nested.write_text(f'#!{first[0]}\nexec {" ".join(first)} "$@"\n')
    nested.chmod(0o755)
    record = folder / "record"
    record.write_bytes(b"")
    system = os.pathsep.join(("/usr/bin", "/bin"))
    # All that the command starts inherits the pipe: its end means that background jobs ended too.
    parsed, writing = os.pipe()
    with os.fdopen(parsed, "rb") as ended:
        process = subprocess.Popen(
            [*first, *argv[1:]],
            env={"PATH": f"{folder}:{system}", "RECORD_FILE": str(record), **runtime, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(writing,),
        )
        os.close(writing)
        guard = threading.Timer(20, process.kill)
        guard.start()
        ended.read()
        process.wait()
        guard.cancel()
    starts: list[list[str]] = [[]]
    for field in record.read_bytes().split(b"\0")[:-1]:
        if field == b"\1":
            starts.append([])
        else:
            starts[-1].append(field.decode())
    return starts[:-1]

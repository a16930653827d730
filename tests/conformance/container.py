"""One container of a pod as a process: started, probed, restarted and stopped as specified."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance import driver
from tests.conformance.probes import Probe, Target, act

INSIDE = Path(__file__).parent / "inside.py"
BACKOFF = 2.0  # seconds between restarts; the kubelet's begins at 10
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


@dataclass(frozen=True)
class Setting:
    """What a container gets from its pod: `description` is inside.py's, but for the files."""

    spec: Mapping[str, Any]
    address: str
    holder: int  # process that holds the pod's network namespace
    description: Mapping[str, Any]
    restart: bool
    logs: Path | None = None  # a folder that keeps the log when the container is gone


class Container:
    """A thread watches the process and its probes; the public attributes are its findings."""

    def __init__(self, setting: Setting):
        self.setting = setting
        self.name: str = setting.spec["name"]
        self.started = self.ready = False
        self.exit_codes: list[
            int
        ] = []  # of every run that ended; 1 where a signal ended it, as unshare has it
        self.killed_by_probe: list[str] = []
        self.last_failure: str | None = None
        self._folder = tempfile.TemporaryDirectory(prefix=f"{self.name}-")
        Path(self._folder.name).chmod(0o755)
        self.log_file = Path(self._folder.name) / "log"
        if setting.logs is not None:
            self.log_file = setting.logs / f"{self.name}.log"
        self._stopping = threading.Event()
        self._runs = 0
        self._process = self._run()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    # the process

    def _run(self) -> "subprocess.Popen[bytes]":
        self._runs += 1
        scratch = Path(self._folder.name) / f"run-{self._runs}"
        scratch.mkdir()
        self._pid_file = scratch.with_suffix(".pid")
        description = {
            **self.setting.description,
            "scratch": str(scratch),
            "pid_file": str(self._pid_file),
        }
        with open(self.log_file, "ab") as log:
            process = subprocess.Popen(
                [
                    *("nsenter", "-t", str(self.setting.holder), "-n"),
                    *("unshare", "--mount", "--pid", "--fork", "--kill-child"),
                    *(sys.executable, "-I", str(INSIDE)),
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        process.stdin.write(json.dumps(description).encode())
        process.stdin.close()
        return process

    @property
    def pid(self) -> int:
        """The process that is 1 in the container, by its number on the node."""
        deadline = time.monotonic() + 10
        while not (self._pid_file.exists() and self._pid_file.read_text()):
            if time.monotonic() > deadline or not self.running:
                raise ProcessLookupError(f"{self.name} has not started:\n{self.log[-2000:]}")
            time.sleep(0.01)
        return int(self._pid_file.read_text())

    def execute(
        self, command: list[str], timeout: float, env: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command in the container, as its user and with its environment, and `env`."""
        described = self.setting.description
        user = []
        if described["user"] is not None:
            user = [f"--setuid={described['user']}", f"--setgid={described['group']}"]
        enter = ["nsenter", "-t", str(self.pid), "--net", "--mount", "--pid", "--root", *user]
        merged = {**described["env"], **(env or {})}
        variables = [f"{name}={value}" for name, value in merged.items()]
        environment = ["env", "-i", f"--chdir={described['cwd']}", *variables]
        return subprocess.run(
            [*enter, *environment, *command], capture_output=True, text=True, timeout=timeout
        )

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    # the kubelet's part

    def _target(self) -> Target:
        ports = {
            port["name"]: port["containerPort"]
            for port in self.setting.spec.get("ports", ())
            if "name" in port
        }
        return Target(self.setting.address, ports, self._act)

    def _act(self, command: list[str], timeout: float) -> "subprocess.CompletedProcess[str]":
        return self.execute(command, timeout, {"LD_LIBRARY_PATH": driver.PATH})

    def _new_probes(self) -> dict[str, Probe]:
        now = time.monotonic()
        spec = self.setting.spec
        return {name: Probe(spec[name], now) for name in PROBES if name in spec}

    def _watch(self) -> None:
        probes, target = self._new_probes(), self._target()
        while not self._stopping.wait(0.1):
            if not self.running:
                self.exit_codes.append(self._code())
                self.started = self.ready = False
                if not self.setting.restart or self._stopping.wait(BACKOFF):
                    return
                self._process, probes = self._run(), self._new_probes()
            elif self._probe(probes, target):
                os.kill(self.pid, signal.SIGKILL)
                self._process.wait()

    def _probe(self, probes: Mapping[str, Probe], target: Target) -> bool:
        """Tick what is due; True if a probe says to kill."""
        now = time.monotonic()
        if (startup := probes.get("startupProbe")) and startup.state is None:
            startup.tick(now, target)
            self.last_failure = startup.last_failure
            return self._condemned("startupProbe", startup)
        self.started = True
        if (readiness := probes.get("readinessProbe")) is not None:
            readiness.tick(now, target)
            self.last_failure = readiness.last_failure
        self.ready = readiness is None or bool(readiness.state)
        if (liveness := probes.get("livenessProbe")) is not None:
            liveness.tick(now, target)
            return self._condemned("livenessProbe", liveness)
        return False

    def _condemned(self, name: str, probe: Probe) -> bool:
        if probe.state is False:
            self.killed_by_probe.append(f"{name}: {probe.last_failure}")
        return probe.state is False

    def _code(self) -> int:
        """unshare passes on its child's exit status, and dies of the same signal."""
        return self._process.wait()

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Signal process 1, as a crash or the out-of-memory killer would."""
        os.kill(self.pid, number)

    def signal_all(self, number: int) -> None:
        """Signal every process of the container, each of its own process-id namespace."""
        namespace = os.readlink(f"/proc/{self.pid}/ns/pid")
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(process / "ns/pid") == namespace:
                    os.kill(int(process.name), number)

    def stop(self, grace: float) -> tuple[float, int]:
        """preStop, SIGTERM, and SIGKILL when the grace is over: seconds taken and exit code.

        Raises TimeoutError where SIGKILL was needed.
        """
        self._stopping.set()
        self._thread.join()
        begun = time.monotonic()
        if not self.running:
            return 0.0, self._code()
        hook = self.setting.spec.get("lifecycle", {}).get("preStop")
        if hook is not None:
            self.last_failure = act(hook, self._target(), grace)
        left = max(grace - (time.monotonic() - begun), 2.0)  # the kubelet's last two seconds
        try:
            os.kill(self.pid, signal.SIGTERM)
            code = self._process.wait(left)
        except subprocess.TimeoutExpired:
            os.kill(self.pid, signal.SIGKILL)
            self._process.wait()
            raise TimeoutError(
                f"{self.name} did not end within {grace} s of SIGTERM:\n{self.log[-3000:]}"
            ) from None
        return time.monotonic() - begun, code

    def close(self) -> None:
        """End whatever is left and remove the container's files."""
        self._stopping.set()
        self._thread.join()
        if self.running:
            os.kill(self.pid, signal.SIGKILL)
            self._process.wait()
        self._folder.cleanup()

"""Processes that never outlive us: started, waited for with a limit, restarted, stopped.

Each part leads a process group of its own, so that Ctrl-C in a terminal reaches us only and parts
are stopped in order. The kernel kills a part when our main thread dies (PR_SET_PDEATHSIG), so a
SIGKILL of the test run leaves nothing running; start parts from the main thread for that reason.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.rig.wait import PATIENCE

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_TAIL_LINES = 25
# A part that died with what it depends on may end again before that serves.
_TRIES = 5


class PartFailed(RuntimeError):
    """A part of the rig ended or did not come up; the message names it and ends with its log."""


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass
class Part:
    """One supervised process.

    `ready` answers whether the part serves; it may raise OSError-like errors while it does not.
    `limit` is how many seconds it may take to get there, `grace` how many to end after SIGTERM.
    """

    name: str
    argv: list[str]
    log: Path
    ready: Callable[[], bool] = lambda: True
    env: dict[str, str] = field(default_factory=dict)
    limit: float = 30
    grace: float = 10
    process: subprocess.Popen | None = None
    wanted: bool = False

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        if self.process is None:
            raise PartFailed(f"{self.name} was never started")
        return self.process.pid

    def start(self) -> None:
        """Start the process; do not wait for it."""
        if self.alive:
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.argv,
                env=_base_environment() | self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        self.wanted = True

    def wait(self) -> None:
        """Wait until the part is ready, or say why it is not."""
        limit = self.limit * PATIENCE
        deadline = time.monotonic() + limit
        last = ""
        while True:
            if not self.alive:
                raise PartFailed(f"{self.name} ended with {self._exit()}\n{self.tail()}")
            try:
                if self.ready():
                    return
            except Exception as error:
                last = f" ({error})"
            if time.monotonic() > deadline:
                raise PartFailed(
                    f"{self.name} is not ready after {limit:.0f} s{last}\n{self.tail()}"
                )
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL the whole group, as a crash would; the part stays wanted."""
        if self.alive:
            self._signal(signal.SIGKILL)
            self.process.wait()

    def stop(self) -> None:
        """SIGTERM, then SIGKILL after the grace period; returns when the process is gone."""
        self.wanted = False
        self.ask_to_stop()
        self.await_stop()

    def ask_to_stop(self) -> None:
        self.wanted = False
        if self.alive:
            self._signal(signal.SIGTERM)

    def await_stop(self) -> None:
        if self.process is None:
            return
        try:
            self.process.wait(self.grace)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self.process.wait()

    def restart(self) -> None:
        self.stop()
        self.start()
        self.wait()

    def revive(self) -> None:
        """Start again what has died; several times, if it ends at once."""
        for tried in range(1, _TRIES + 1):
            self.start()
            try:
                return self.wait()
            except PartFailed:
                if self.alive or tried == _TRIES:
                    raise
                time.sleep(tried)

    def tail(self, lines: int = _TAIL_LINES) -> str:
        """The last lines of the part's log, headed by its path."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join([f"--- end of {self.log} ---", *text.splitlines()[-lines:]])

    def _exit(self) -> str:
        code = self.process.poll() if self.process else None
        if code is not None and code < 0:
            return f"signal {signal.Signals(-code).name}"
        return f"exit code {code}"

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


@dataclass
class Supervisor:
    """The parts of a rig, in the order in which they were started."""

    parts: dict[str, Part] = field(default_factory=dict)
    revived: list[str] = field(default_factory=list)

    def add(self, part: Part) -> Part:
        if part.name in self.parts:
            raise ValueError(f"two parts named {part.name}")
        self.parts[part.name] = part
        return part

    def launch(self, *parts: Part) -> None:
        """Start several parts at once, then wait for all of them."""
        for part in parts:
            self.add(part).start()
        wait_all(parts)

    def tend(self) -> None:
        """Start again what has died, as an init system would, and remember that it had to be."""
        for part in self.parts.values():
            if part.wanted and not part.alive:
                self.revived.append(f"{part.name}: {part._exit()}")
                part.revive()

    def drop(self, names: Iterable[str]) -> None:
        """Stop parts, and forget them: others may be launched under their names."""
        chosen = [name for name in self.parts if name in set(names)]
        if chosen:
            self.stop(chosen)
        for name in chosen:
            del self.parts[name]

    def stop(self, names: Iterable[str] | None = None) -> None:
        """Stop the named parts, or all, the last started first.

        Controllers get their SIGTERM together, because none of them waits for another; what they
        talk to (API servers, then etcd) goes after them, by order of `add`.
        """
        chosen = [self.parts[name] for name in (names or list(self.parts))]
        backwards = list(reversed(chosen))
        for part in backwards:
            part.wanted = False
        servers = [p for p in backwards if p.name == "etcd" or p.name.startswith("apiserver")]
        for part in backwards:
            if part not in servers:
                part.ask_to_stop()
        for part in backwards:
            if part not in servers:
                part.await_stop()
        for part in servers:
            if part.name != "etcd":
                part.ask_to_stop()
        for part in servers:
            if part.name == "etcd":
                part.ask_to_stop()
            part.await_stop()


def wait_all(parts: Iterable[Part]) -> None:
    for part in parts:
        part.wait()


def _base_environment() -> dict[str, str]:
    """What parts inherit: no KUBECONFIG, proxies or credentials of the person who runs the rig."""
    keep = ("PATH", "HOME", "LANG", "TMPDIR", "SSL_CERT_FILE")
    return {name: os.environ[name] for name in keep if name in os.environ}

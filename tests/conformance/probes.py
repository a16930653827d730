"""Probes and lifecycle hooks of a container, executed as the kubelet does.

httpGet and tcpSocket go from the node to the pod's address, exec runs inside the container. A probe
succeeds or fails; the reason of the last failure is kept for messages.
"""

import http.client
import socket
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

# Kubernetes' defaults of a Probe
DEFAULTS = {
    "initialDelaySeconds": 0,
    "periodSeconds": 10,
    "timeoutSeconds": 1,
    "failureThreshold": 3,
    "successThreshold": 1,
}

Exec = Callable[[list[str], float], "subprocess.CompletedProcess[str]"]


@dataclass
class Target:
    """Where a container's actions go: its address, its named ports, a way to run commands in it."""

    address: str
    ports: Mapping[str, int]
    execute: Exec

    def port(self, port: int | str) -> int:
        return self.ports[port] if isinstance(port, str) else port


def act(action: Mapping[str, Any], target: Target, timeout: float) -> str | None:
    """Carry out an httpGet, tcpSocket or exec action: None on success, else why it failed."""
    try:
        if "httpGet" in action:
            return _http(action["httpGet"], target, timeout)
        if "tcpSocket" in action:
            where = action["tcpSocket"]
            address = (where.get("host") or target.address, target.port(where["port"]))
            socket.create_connection(address, timeout).close()
            return None
        if "exec" in action:
            done = target.execute(action["exec"]["command"], timeout)
            return None if done.returncode == 0 else f"exit {done.returncode}: {done.stderr[-500:]}"
    except (OSError, http.client.HTTPException, subprocess.TimeoutExpired) as problem:
        return f"{type(problem).__name__}: {problem}"
    raise ValueError(f"an action of a kind the runner does not know: {sorted(action)}")


def _http(get: Mapping[str, Any], target: Target, timeout: float) -> str | None:
    if get.get("scheme", "HTTP") != "HTTP":
        raise ValueError("the runner's httpGet knows HTTP only")
    connection = http.client.HTTPConnection(
        get.get("host") or target.address, target.port(get["port"]), timeout=timeout
    )
    headers = {header["name"]: header["value"] for header in get.get("httpHeaders", ())}
    try:
        connection.request("GET", get.get("path", "/"), headers=headers)
        status = connection.getresponse().status
    finally:
        connection.close()
    return None if 200 <= status < 400 else f"HTTP {status}"


@dataclass
class Probe:
    """One probe and its thresholds. `state` is None until either threshold is reached."""

    action: Mapping[str, Any]
    started: float
    state: bool | None = None
    last_failure: str | None = None
    _due: float = field(init=False)
    _run: int = 0  # how often in a row the last outcome came
    _outcome: bool | None = None

    def __post_init__(self) -> None:
        self._due = self.started + self._value("initialDelaySeconds")

    def _value(self, name: str) -> int:
        return self.action.get(name, DEFAULTS[name])

    def tick(self, now: float, target: Target) -> None:
        """Probe if the period has passed."""
        if now < self._due:
            return
        self._due = now + self._value("periodSeconds")
        failure = act(self.action, target, self._value("timeoutSeconds"))
        good = failure is None
        self.last_failure = failure or self.last_failure
        self._run = self._run + 1 if good == self._outcome else 1
        self._outcome = good
        if self._run >= self._value("successThreshold" if good else "failureThreshold"):
            self.state = good

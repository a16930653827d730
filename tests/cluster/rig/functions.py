"""Composition functions as processes that core calls over mutual TLS."""

import sys
from pathlib import Path

from tests.cluster.rig.certs import Authority
from tests.cluster.rig.ports import listening
from tests.cluster.rig.processes import Part

CHECKOUT = Path(__file__).resolve().parents[3]
OURS = "function-kv-offload"


def command_of_ours() -> list[str]:
    """The console script of this environment, as the container's entrypoint runs it."""
    return [str(Path(sys.executable).parent / "function")]


def function(
    name: str, command: list[str], port: int, run: Path, authority: Authority, *flags: str
) -> Part:
    """A function with the SDK's standard flags."""
    certificates = authority.issue(run / name / "tls", name)
    argv = [
        *command,
        "--address",
        f"127.0.0.1:{port}",
        "--tls-certs-dir",
        str(certificates),
        *flags,
    ]
    return Part(name, argv, run / "logs" / f"{name}.log", lambda: listening(port))

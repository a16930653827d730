"""Free TCP ports on the loopback address."""

import contextlib
import random
import socket
from pathlib import Path

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_000


def free_ports(count: int) -> list[int]:
    """As many distinct free ports; all are held open until the last is chosen.

    They lie below the ephemeral range: a part that is started again finds its port, while an
    outgoing connection could have taken one from the range in between.
    """
    with contextlib.ExitStack() as held:
        chosen: list[int] = []
        for port in _candidates():
            if len(chosen) == count:
                break
            taken = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                taken.bind(("127.0.0.1", port))
                chosen.append(port)
    if len(chosen) < count:
        raise OSError(f"no {count} free ports from {_LOWEST} up")
    return chosen


def listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _candidates() -> list[int]:
    """All ports below the ephemeral range in an order of each run's own: rigs run side by side."""
    lowest_ephemeral = int(_EPHEMERAL.read_text().split()[0]) if _EPHEMERAL.exists() else 32_768
    ports = list(range(_LOWEST, max(lowest_ephemeral, _LOWEST + 10_000)))
    random.shuffle(ports)
    return ports

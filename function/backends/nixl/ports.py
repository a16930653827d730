"""Ports of an engine's pod: those of NIXL, and those of the engine itself."""

from collections.abc import Iterator
from dataclasses import dataclass

from function.api.engines import SGLANG, VLLM
from function.backends.nixl import facts
from function.backends.nixl.facts import Tier
from function.contract.engine import Engine
from function.contract.events import FLAG
from function.contract.injection import Json
from function.engines import events, ranks
from function.workloads.model import PREFILL

SIDE_HOST, SIDE_PORT = "VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_PORT"
# The address at which SGLang's ranks listen, and the network interface to take it from.
SGLANG_HOST, SGLANG_INTERFACE = "SGLANG_HOST_IP", "SGLANG_LOCAL_IP_NIC"
UCX_RANGE = "UCX_TCP_PORT_RANGE"
BOOTSTRAP = "--disaggregation-bootstrap-port"

# Container ports have short names; ports of further ranks are not declared.
_MOST = 256
_SIDE, _BOOTSTRAP, _METRICS = "nixl", "nixl-bootstrap", "nixl-metrics"
NAMES = frozenset((_BOOTSTRAP, _METRICS, *(f"{_SIDE}-{rank}" for rank in range(_MOST))))

# Flags with ports of the engine, and their defaults (0: none).
_ENGINES = {
    VLLM: {"--port": 8000, "--data-parallel-rpc-port": 0, "--master-port": 0},
    SGLANG: {"--port": 30000, "--nccl-port": 0},
}


@dataclass(frozen=True)
class Ports:
    """`count` ports from `first` on.

    `what`: the owner, a noun. `where`: the field or flag to change. `name`: of the container port,
    "" for an undeclared one.
    """

    first: int
    count: int
    what: str
    where: str
    name: str = ""

    def overlaps(self, other: "Ports") -> bool:
        """Return whether both have a port in common."""
        return self.first < other.first + other.count and other.first < self.first + self.count


def needed(tier: Tier, engine: Engine) -> tuple[Ports, ...]:
    """Return the ports at which NIXL listens in the engine's pod."""
    return (*_NIXL_PORTS[engine.name](tier, engine), *_ucx(tier, engine))


def container_ports(tier: Tier, engine: Engine) -> tuple[Json, ...]:
    """Return the tier's own ports as core/v1 ContainerPorts.

    An equal port of another container is a conflict. A pod with its own transfer settings declares
    its ports itself.
    """
    declared = []
    for ports in needed(tier, engine):
        if ports.name == _SIDE:
            for rank in range(min(ports.count, _MOST)):
                declared.append({"name": f"{_SIDE}-{rank}", "containerPort": ports.first + rank})
        elif ports.name:
            declared.append({"name": ports.name, "containerPort": ports.first})
    return tuple(declared)


def find_collision(tier: Tier, engine: Engine) -> str | None:
    """Return a sentence about a port needed twice in one pod, None for none."""
    required = needed(tier, engine)
    for index, ours in enumerate(required):
        for other in (*required[:index], *_taken(engine)):
            if ours.overlaps(other):
                port = max(ours.first, other.first)
                return f"Port {port} is {other.what} ({other.where}) and {ours.what} ({ours.where})"
    return None


def _vllm(tier: Tier, engine: Engine) -> Iterator[Ports]:
    spec, what = tier.settings, "NIXL's side channel"
    count = engine.number("--data-parallel-size")
    own = engine.env.get(SIDE_PORT, "")
    if SIDE_PORT not in engine.env:
        # A pod with its own address declares its container ports itself.
        name = "" if SIDE_HOST in engine.env or facts.own_connectors(engine) else _SIDE
        yield Ports(spec.side_channel_port, count, what, f"{facts.SPEC}.sideChannelPort", name)
    elif own and own.isdecimal() and len(own) <= 5:
        yield Ports(int(own), count, what, SIDE_PORT)
    if spec.telemetry is not None:
        where = f"{facts.SPEC}.telemetry.port"
        yield Ports(spec.telemetry.port, 1, "NIXL's telemetry", where, _METRICS)


def _sglang(tier: Tier, engine: Engine) -> Iterator[Ports]:
    if engine.phase != PREFILL:
        return
    own, what = engine.flag(BOOTSTRAP) or "", "SGLang's bootstrap server"
    if not engine.has(BOOTSTRAP):
        where = f"{facts.SPEC}.bootstrapPort"
        yield Ports(tier.settings.bootstrap_port, 1, what, where, _BOOTSTRAP)
    elif own.isdecimal() and len(own) <= 5:
        yield Ports(int(own), 1, what, BOOTSTRAP)


_NIXL_PORTS = {VLLM: _vllm, SGLANG: _sglang}


def ucx(tier: Tier, engine: Engine) -> Ports | None:
    """Return the ports from which UCX chooses: the pod's own, or the tier's.

    None where UCX is not used, or the pod's own range is unknown.
    """
    spec = tier.settings
    if spec.backend != "UCX":
        return None
    if UCX_RANGE not in engine.env:
        return Ports(spec.ports.first, spec.ports.count, "UCX's", f"{facts.SPEC}.ports")
    first, _, last = (engine.env[UCX_RANGE] or "").partition("-")
    if not all(port.isdecimal() and len(port) <= 5 for port in (first, last)):
        return None
    return Ports(int(first), max(0, int(last) - int(first) + 1), "UCX's", UCX_RANGE)


def _ucx(tier: Tier, engine: Engine) -> Iterator[Ports]:
    ports = ucx(tier, engine)
    if ports is not None:
        yield ports


def _taken(engine: Engine) -> Iterator[Ports]:
    for flag, default in _ENGINES[engine.name].items():
        value = engine.flag(flag) or ("" if engine.has(flag) else str(default))
        if value.isdecimal() and len(value) <= 5 and int(value):
            yield Ports(int(value), 1, "the engine's", flag)
    published = events.port(engine)
    if published:
        yield Ports(published, ranks.replicas(engine), "the engine's events", FLAG)

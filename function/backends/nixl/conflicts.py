"""Conflicts of an engine pod with a NIXL tier: the cases of facts.yaml."""

from pathlib import Path

from function.api.engines import SGLANG, VLLM
from function.backends.nixl import facts, ports
from function.backends.nixl.facts import Tier
from function.contract.conflicts import Conflicts, expandable_segments
from function.contract.engine import Engine
from function.engines import ranks
from function.workloads.model import PREFILL

# Addresses that no other pod can reach; the engine binds it and sends it to the other one.
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_UNREACHABLE = ("0.0.0.0", "::", *_LOOPBACK)
_HOSTS = {VLLM: ports.SIDE_HOST, SGLANG: ports.SGLANG_HOST}
_SLEEP = "--enable-sleep-mode"


def _is_neither(_: Tier, engine: Engine) -> str | None:
    return None if engine.phase in facts.ROLES else engine.phase


def _unreachable_host(_: Tier, engine: Engine) -> str | None:
    name = _HOSTS[engine.name]
    host = engine.env.get(name)
    return f"{name} is {host}" if host in _UNREACHABLE else None


def _bootstrap_on_loopback(_: Tier, engine: Engine) -> str | None:
    if engine.phase != PREFILL:
        return None
    if not engine.has("--host"):
        return f"--host is not set, which is {_LOOPBACK[0]}"
    host = engine.flag("--host")
    return f"--host {host}" if host in _LOOPBACK else None


def _too_few_ports(tier: Tier, engine: Engine) -> str | None:
    available = ports.ucx(tier, engine)
    own = available is not None and available.where == ports.UCX_RANGE
    least = facts.listeners(engine) if own else facts.needed_range(engine)
    if available is None or available.count >= least:
        return None
    where = f"{available.where} has" if own else f"{available.where}.count is"
    return f"{ranks.workers(engine)} ranks need {least} ports, but {where} {available.count}"


def _sleeps(tier: Tier, engine: Engine) -> str | None:
    sleepless = tier.settings.backend != "UCX" or "sleep mode" not in engine.features
    return _SLEEP if sleepless and engine.has(_SLEEP) else None


def _is_no_prefill(_: Tier, engine: Engine) -> str | None:
    return None if engine.phase == PREFILL else ""


CONFLICTS = Conflicts(
    Path(__file__).with_name("facts.yaml"),
    _bootstrap_on_loopback,
    _is_neither,
    _is_no_prefill,
    _sleeps,
    _too_few_ports,
    _unreachable_host,
    expandable_segments,
    ports.find_collision,
)

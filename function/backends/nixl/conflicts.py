"""Conflicts of an engine pod with a NIXL tier: one row each."""

from collections.abc import Callable

from function.api.engines import SGLANG, VLLM
from function.api.nixl import NIXLSpec
from function.backends import conflict_texts
from function.backends.nixl import facts, ports
from function.backends.nixl.facts import Tier
from function.contract import conflicts
from function.contract.conflicts import Row
from function.contract.engine import Engine
from function.engines import ranks
from function.reasons import Reason
from function.workloads.model import PREFILL

_Holds = Callable[[Tier, Engine], str | None]

# Addresses that no other pod can reach; the engine binds it and sends it to the other one.
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_UNREACHABLE = ("0.0.0.0", "::", *_LOOPBACK)
_HOSTS = {VLLM: ports.SIDE_HOST, SGLANG: ports.SGLANG_HOST}
_SLEEP, _CONTEXT = "--enable-sleep-mode", "--prefill-context-parallel-size"


def _lacks(feature: str, needs: Callable[[NIXLSpec], bool]) -> _Holds:
    """Return a predicate for the version of an engine without a needed feature."""

    def holds(tier: Tier, engine: Engine) -> str | None:
        if not needs(tier.settings) or feature in engine.features:
            return None
        return engine.version or "of an unknown version"

    return holds


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


def _reads_in_parallel(_: Tier, engine: Engine) -> str | None:
    value = engine.flag(_CONTEXT)
    if value in (None, "1") or engine.phase == PREFILL:
        return None
    return f"{_CONTEXT} {value}"


ROWS: tuple[Row[NIXLSpec], ...] = (
    Row(
        Reason.OUT_OF_SCOPE,
        "An SGLang engine that is neither prefill nor decode transfers no blocks. Set "
        "--disaggregation-mode to prefill or decode, or remove the tier annotation.",
        _is_neither,
        SGLANG,
    ),
    Row(
        Reason.VERSION_MISMATCH,
        "spec.nixl.transfer Push needs vLLM 0.24 or newer; this engine is {found}. Use a newer "
        "vLLM, set the annotation modelplane.ai/kv-offload-engine-version, or use a tier with "
        "Pull.",
        _lacks("NixlPushConnector", lambda spec: spec.transfer == "Push"),
        VLLM,
    ),
    Row(
        Reason.VERSION_MISMATCH,
        "spec.nixl.leaseSeconds needs vLLM 0.22 or newer; this engine is {found}. Use a newer "
        "vLLM, set the annotation modelplane.ai/kv-offload-engine-version, or remove the field.",
        _lacks("kv_lease_duration", lambda spec: spec.lease_seconds is not None),
        VLLM,
    ),
    Row(
        Reason.VERSION_MISMATCH,
        "spec.nixl.telemetry needs vLLM 0.32 or newer; this engine is {found}. Use a newer vLLM, "
        "set the annotation modelplane.ai/kv-offload-engine-version, or remove the field.",
        _lacks("telemetry", lambda spec: spec.telemetry is not None),
        VLLM,
    ),
    Row(
        Reason.VERSION_MISMATCH,
        "spec.nixl.backend LIBFABRIC needs SGLang 0.5.9 or newer; this engine is {found}. Use a "
        "newer SGLang, set the annotation modelplane.ai/kv-offload-engine-version, or use a tier "
        "with UCX.",
        _lacks("backend", lambda spec: spec.backend != "UCX"),
        SGLANG,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found}: the engine sends this address to the other one, which cannot reach it. Remove "
        "it to use the pod's IP, or take it from status.podIP.",
        _unreachable_host,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found}: SGLang's bootstrap server listens there too, where no decode engine can reach "
        "it. Use --host 0.0.0.0.",
        _bootstrap_on_loopback,
        SGLANG,
    ),
    Row(
        Reason.POD_CONFLICT,
        "{found}. Change one of them.",
        ports.find_collision,
    ),
    Row(
        Reason.ENGINE_UNSUPPORTED,
        "{found}: UCX would wait for a free port for ever, without a message. Raise it.",
        _too_few_ports,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found} frees memory that NIXL has registered: only vLLM 0.33 or newer with UCX handles "
        "that. Remove the flag.",
        _sleeps,
        VLLM,
    ),
    Row(
        Reason.ENGINE_UNSUPPORTED,
        "{found}: with NIXL vLLM allows it for prefill engines only. Remove it from decode "
        "engines.",
        _reads_in_parallel,
        VLLM,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        conflict_texts.EXPANDABLE_SEGMENTS,
        conflicts.expandable_segments,
        VLLM,
    ),
)

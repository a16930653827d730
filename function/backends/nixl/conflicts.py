"""What in an engine pod cannot go with a NIXL tier: one row for each thing, read in order."""

from collections.abc import Callable

from function.api.engines import SGLANG, VLLM
from function.api.nixl import NIXLSpec
from function.backends.nixl import facts, ports
from function.backends.nixl.facts import Tier
from function.contract import conflicts
from function.contract.conflicts import Row
from function.contract.engine import Engine
from function.engines import ranks
from function.reasons import Reason
from function.workloads.model import PREFILL

_Holds = Callable[[Tier, Engine], str | None]

# Addresses that no other pod reaches: it is bound *and* given to the other half.
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_NOWHERE = ("0.0.0.0", "::", *_LOOPBACK)
_HOSTS = {VLLM: ports.SIDE_HOST, SGLANG: ports.SGLANG_HOST}
_SLEEP, _CONTEXT = "--enable-sleep-mode", "--prefill-context-parallel-size"


def check(tier: Tier, engine: Engine) -> None:
    """Raise Refused with every row that holds."""
    conflicts.check(ROWS, tier, engine)


def _lacks(feature: str, asked: Callable[[NIXLSpec], bool]) -> _Holds:
    """The tier asks for what the engine's version has not got: the version."""

    def holds(tier: Tier, engine: Engine) -> str | None:
        if not asked(tier.settings) or feature in engine.features:
            return None
        return engine.version or "of a version that nobody declares"

    return holds


def _is_neither(_: Tier, engine: Engine) -> str | None:
    return None if engine.phase in facts.ROLES else engine.phase


def _nowhere(_: Tier, engine: Engine) -> str | None:
    name = _HOSTS[engine.name]
    host = engine.env.get(name)
    return f"{name} is {host}" if host in _NOWHERE else None


def _hidden(_: Tier, engine: Engine) -> str | None:
    if engine.phase != PREFILL:
        return None
    if not engine.has("--host"):
        return f"--host is not set, which is {_LOOPBACK[0]}"
    host = engine.flag("--host")
    return f"--host {host}" if host in _LOOPBACK else None


def _too_few(tier: Tier, engine: Engine) -> str | None:
    found = ports.ucx(tier, engine)
    own = found is not None and found.where == ports.UCX_RANGE
    least = facts.listeners(engine) if own else facts.roomy(engine)
    if found is None or found.count >= least:
        return None
    where = f"{found.where} has" if own else f"{found.where}.count is"
    return f"{ranks.workers(engine)} ranks need {least} ports, and {where} {found.count}"


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
        "an SGLang engine that is neither prefill nor decode has nobody to hand blocks to. Give it "
        "--disaggregation-mode prefill or decode, or take the request off it.",
        _is_neither,
        SGLANG,
    ),
    Row(
        Reason.VERSION_MISMATCH,
        "spec.nixl.transfer Push needs vLLM 0.24 or newer, this engine is {found}. Use a newer "
        "vLLM, declare its version by the annotation modelplane.ai/kv-offload-engine-version, or "
        "use a tier with Pull.",
        _lacks("NixlPushConnector", lambda spec: spec.transfer == "Push"),
        VLLM,
    ),
    Row(
        Reason.VERSION_MISMATCH,
        "spec.nixl.leaseSeconds needs vLLM 0.22 or newer, this engine is {found}. Use a newer "
        "vLLM, declare its version by the annotation modelplane.ai/kv-offload-engine-version, or "
        "leave the field out.",
        _lacks("kv_lease_duration", lambda spec: spec.lease_seconds is not None),
        VLLM,
    ),
    Row(
        Reason.VERSION_MISMATCH,
        "spec.nixl.telemetry needs vLLM 0.32 or newer, whose NIXL has one exporter for all ranks, "
        "and this engine is {found}. Use a newer vLLM, declare its version by the annotation "
        "modelplane.ai/kv-offload-engine-version, or leave the field out.",
        _lacks("telemetry", lambda spec: spec.telemetry is not None),
        VLLM,
    ),
    Row(
        Reason.VERSION_MISMATCH,
        "spec.nixl.backend LIBFABRIC needs SGLang 0.5.9 or newer, this engine is {found}. Use a "
        "newer SGLang, declare its version by the annotation "
        "modelplane.ai/kv-offload-engine-version, or use a tier with UCX.",
        _lacks("backend", lambda spec: spec.backend != "UCX"),
        SGLANG,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found}: it is also the address that the other half is told, and no other pod reaches it. "
        "Remove it (the pod's IP is then used), or take it from status.podIP.",
        _nowhere,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found}: SGLang's bootstrap server listens there too, and no decode engine reaches it. "
        "Use --host 0.0.0.0.",
        _hidden,
        SGLANG,
    ),
    Row(
        Reason.POD_CONFLICT,
        "{found}. Give one of them another.",
        ports.collision,
    ),
    Row(
        Reason.ENGINE_UNSUPPORTED,
        "{found}: UCX would wait for a free one for ever, without a message. Raise it.",
        _too_few,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found} gives back memory that NIXL has registered: vLLM knows to undo that from 0.33 on, "
        "with UCX alone. Remove the flag.",
        _sleeps,
        VLLM,
    ),
    Row(
        Reason.ENGINE_UNSUPPORTED,
        "{found}: vLLM starts with it and NIXL at prefill engines only. Remove it from engines "
        "that decode.",
        _reads_in_parallel,
        VLLM,
    ),
    Row(
        Reason.CONNECTOR_CONFLICT,
        "{found} has expandable_segments:True: vLLM does not start with it and a connector. "
        "Remove it.",
        conflicts.expandable_segments,
        VLLM,
    ),
)

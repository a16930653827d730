"""What a vLLM engine call must end up with for an Injection, or why it cannot."""

from collections.abc import Mapping
from typing import Any

from function.command.model import EngineCall
from function.contract.engine import Engine
from function.contract.injection import Injection
from function.engines import config_file
from function.engines import plan as plans
from function.engines.plan import FlagPlan, Set
from function.engines.scan import Scan, opposite
from function.engines.vllm import read as vllm_read
from function.engines.vllm.config import CONFIG
from function.engines.vllm.flags import TABLE
from function.engines.vllm.merge import merge, without_hma
from function.problems import Refused
from function.reasons import Reason

_HYBRID_ON = "--no-disable-hybrid-kv-cache-manager"


def plan(call: EngineCall, engine: Engine, injection: Injection) -> FlagPlan:
    """Return the flags to set.

    Raise Refused: ConnectorConflict, ArgsNotPatchable, CredentialInArgv.
    """
    ours = _ours(injection)
    if not ours:
        return FlagPlan(call)
    plans.no_credentials(injection.connector or {}, vllm_read.KV_TRANSFER)
    config_file.check(CONFIG, call)
    scanned = vllm_read.read(call)
    touchy = {*ours, *vllm_read.KV_OFFLOADING}
    plans.legible(scanned, TABLE, {*touchy, config_file.FLAG})
    notes = list(plans.guard(call, scanned, touchy, engine))
    _no_offloading_flags(scanned)
    sets: list[Set] = []
    if injection.connector is not None:
        user = vllm_read.setting(scanned, vllm_read.KV_TRANSFER, call.words)
        merged = merge(user.value, injection.connector, injection.connector_options)
        notes += merged.notes
        _hybrid(scanned, merged.config)
        if merged.config != user.value:
            if user.uses and not any(use.words for use in user.uses):
                notes.append(
                    "the kv-transfer-config of the --config file is in the args now, with the "
                    "tier's; there it wins"
                )
            sets.append(Set(vllm_read.KV_TRANSFER, vllm_read.dumps(merged.config), user.uses))
    if injection.kv_events is not None:
        events = vllm_read.setting(scanned, vllm_read.KV_EVENTS, call.words)
        if events.value is None:
            sets.append(Set(vllm_read.KV_EVENTS, vllm_read.dumps(injection.kv_events), events.uses))
        elif events.value != injection.kv_events:
            notes.append(
                f"{vllm_read.KV_EVENTS} stays as the user wrote it; the tier asks "
                f"{vllm_read.dumps(injection.kv_events)}"
            )
    sets += plans.flag_sets(injection.flags, scanned)
    if vllm_read.ignored_config(call):
        notes.append("vLLM ignores --config=FILE; only the two words --config FILE are read")
    return FlagPlan(call, tuple(sets), tuple(notes))


def _ours(injection: Injection) -> tuple[str, ...]:
    names = list(injection.flags)
    if injection.connector is not None:
        names.append(vllm_read.KV_TRANSFER)
    if injection.kv_events is not None:
        names.append(vllm_read.KV_EVENTS)
    return tuple(names)


def _no_offloading_flags(scanned: Scan) -> None:
    use = scanned.last(*vllm_read.KV_OFFLOADING)
    if use is not None:
        raise Refused(
            Reason.CONNECTOR_CONFLICT,
            f"{use.name} makes vLLM silently overwrite the connector of any "
            f"{vllm_read.KV_TRANSFER}; remove {' and '.join(vllm_read.KV_OFFLOADING)}: the tier "
            "offloads",
        )


def _hybrid(scanned: Scan, config: Mapping[str, Any] | None) -> None:
    names = without_hma(dict(config or {}))
    last = scanned.last(_HYBRID_ON, opposite(_HYBRID_ON))
    if names and last and last.name == _HYBRID_ON:
        raise Refused(
            Reason.CONNECTOR_CONFLICT,
            f"--enable-hybrid-kv-cache-manager is set, and {names[0]} does not work with it; "
            "remove the flag, or use a tier whose connector supports it",
        )

"""Engine calls out of plain words, and what edits make of them."""

import json

from function.api.engines import SGLANG, VLLM
from function.command.model import Append, Delete, EngineCall, Replace, Word
from function.contract.engine import Engine
from function.contract.injection import Injection
from function.engines.plan import FlagPlan
from function.engines.registry import kind

KV = "--kv-transfer-config"
NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_producer"}
MOONCAKE = {"kv_connector": "MooncakeConnector", "kv_role": "kv_consumer"}
OFFLOAD = {
    "kv_connector": "OffloadingConnector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {"cpu_bytes_to_use": 1073741824},
}
LMCACHE = {
    "kv_connector": "LMCacheMPConnector",
    "kv_connector_module_path": "lmcache.integration.vllm.lmcache_mp_connector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {
        "lmcache.mp.host": "tcp://chat",
        "lmcache.mp.isolated_ipc": True,
        "lmcache.mp.port": 5555,
    },
}
STORE = {
    "kv_connector": "MooncakeStoreConnector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {"load_async": True},
}
RECOMPUTE = {"kv_load_failure_policy": "recompute"}
LMC = Injection("LMCache", connector=LMCACHE, connector_options=RECOMPUTE)


def js(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def word(text: object) -> Word:
    return text if isinstance(text, Word) else Word(str(text), str(text), str(text))


def expansion(text: str, prefix: str = "", many: bool = True) -> Word:
    return Word(None, text, prefix, many=many)


def vllm(*words: object, **more: object) -> EngineCall:
    more = {"positional_model": True, **more}
    return EngineCall(VLLM, "vllm serve", tuple(word(w) for w in words), **more)


def sglang(*words: object, **more: object) -> EngineCall:
    return EngineCall(
        SGLANG, "python3 -m sglang.launch_server", tuple(word(w) for w in words), **more
    )


def engine(name: str = VLLM, version: str = "0.33.0") -> Engine:
    return Engine(name, version)


def apply(call: EngineCall, edits: list) -> list[str | None]:
    """The call's words after `edits`; an expansion stands as its text."""
    words: list[str | None] = [w.text for w in call.words]
    for edit in edits:
        if isinstance(edit, Replace):
            words[edit.index] = edit.value
        elif isinstance(edit, Delete):
            words[edit.index] = None
    kept = [w for w in words if w is not None]
    at = kept.index("--") if "--" in kept else len(kept)
    return kept[:at] + [e.value for e in edits if isinstance(e, Append)] + kept[at:]


def planned(call: EngineCall, engine: Engine, injection: Injection) -> FlagPlan:
    return kind(engine.name).plan(call, engine, injection)

"""Prefill, decode or both, by an engine's own flags: what its author chose for it."""

import json
from collections.abc import Mapping
from typing import Any

from function.contract.engine import SGLANG, VLLM
from function.engines.vllm.connectors import CONNECTORS
from function.engines.vllm.merge import children
from function.engines.vllm.read import KV_TRANSFER

PREFILL, DECODE = "Prefill", "Decode"
_VLLM = {"kv_producer": PREFILL, "kv_consumer": DECODE}
_SGLANG = {"prefill": PREFILL, "decode": DECODE}

Flags = Mapping[str, str | None]


def phase(engine_name: str, flags: Flags) -> str:
    """Prefill or Decode where the flags say it; "" where they do not.

    `flags`: the effective ones (`function.engines.read`).
    """
    if engine_name == SGLANG:
        return _SGLANG.get(flags.get("--disaggregation-mode") or "", "")
    config = _transfer(engine_name, flags)
    roles = [config.get("kv_role"), *(child.get("kv_role") for child in _movers(config))]
    return next((_VLLM[role] for role in roles if role in _VLLM), "")


def hands_over(engine_name: str, flags: Flags) -> bool:
    """Whether a connector of the user's own moves blocks from prefill to decode (vLLM)."""
    return bool(transfers(engine_name, flags))


def transfers(engine_name: str, flags: Flags) -> list[dict[str, Any]]:
    """The user's own connectors that move blocks from prefill to decode (vLLM), as written."""
    return _movers(_transfer(engine_name, flags))


def _transfer(engine_name: str, flags: Flags) -> dict[str, Any]:
    text = flags.get(KV_TRANSFER) if engine_name == VLLM else None
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _movers(config: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        child
        for child in children(config)
        if (row := CONNECTORS.get(str(child.get("kv_connector")))) and row.kind == "transfer"
    ]

"""Prefill, decode or both, as vLLM's own connector configuration says."""

import json
from collections.abc import Mapping

from function.engines.vllm import connectors
from function.engines.vllm.merge import children
from function.engines.vllm.read import KV_TRANSFER
from function.kube.access import Json
from function.workloads.model import DECODE, PREFILL

_ROLES = {"kv_producer": PREFILL, "kv_consumer": DECODE}

Flags = Mapping[str, str | None]


def phase(flags: Flags) -> str:
    """Return Prefill or Decode where the effective flags say it; "" where they do not."""
    config = _transfer(flags)
    roles = [config.get("kv_role"), *(child.get("kv_role") for child in _movers(config))]
    return next((_ROLES[role] for role in roles if role in _ROLES), "")


def transfers(flags: Flags) -> list[Json]:
    """Return the user's own connectors that move blocks from prefill to decode, as written."""
    return _movers(_transfer(flags))


def own_connectors(flags: Flags) -> frozenset[str]:
    """Return the names of the user's own connectors."""
    return frozenset(str(child.get("kv_connector")) for child in children(_transfer(flags)))


def _transfer(flags: Flags) -> Json:
    try:
        found = json.loads(flags.get(KV_TRANSFER) or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _movers(config: Json) -> list[Json]:
    return [
        child
        for child in children(config)
        if (row := connectors.known().get(str(child.get("kv_connector"))))
        and row.kind == "transfer"
    ]

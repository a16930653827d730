"""Phases, port counts and connector names of NIXL."""

from function.api.engines import SGLANG, VLLM
from function.api.nixl import NIXLSpec
from function.contract.backend import Tier as AnyTier
from function.contract.engine import Engine
from function.engines import ranks
from function.engines.registry import kind
from function.workloads.model import DECODE, PREFILL

Tier = AnyTier[NIXLSpec]

SPEC = "spec.nixl"
ROLES = {PREFILL: "kv_producer", DECODE: "kv_consumer"}
BOTH = "kv_both"

# The gate's rows, and names of vLLM's connectors for one way to move blocks, ours first.
ROWS = {VLLM: "NixlConnector", SGLANG: "Disaggregation/nixl"}
NAMES = {"Pull": ("NixlConnector", "NixlPullConnector"), "Push": ("NixlPushConnector",)}

# Ports that each rank's agent takes at each interface: one, and one for each of its threads
# (counted with NIXL 1.5.1). A range that is nearly full hangs, so twice as many must be there.
_LISTENERS = {VLLM: 5, SGLANG: 9}
_SLACK = 2


def role(engine: Engine) -> str:
    """Return the phase's `kv_role`; both only where the phase is unknown."""
    return ROLES.get(engine.phase, BOTH)


def own_connectors(engine: Engine) -> frozenset[str]:
    """Return names of the pod's own connectors for prefill and decode."""
    transfers = kind(engine.name).transfers(engine.flags)
    return frozenset(str(child.get("kv_connector")) for child in transfers)


def connector(tier: Tier, engine: Engine) -> str:
    """Return `kv_connector`, by the pod's own name for it if there is one."""
    names = NAMES[tier.settings.transfer]
    own = own_connectors(engine)
    return next((name for name in names if name in own), names[0])


def listeners(engine: Engine) -> int:
    """Return how many of UCX's ports the ranks of a pod take."""
    return _LISTENERS[engine.name] * ranks.workers(engine)


def needed_range(engine: Engine) -> int:
    """Return how many ports the pod's range must have."""
    return listeners(engine) * _SLACK

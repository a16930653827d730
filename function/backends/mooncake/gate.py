"""Which engine versions Mooncake's connectors go with, and what they have there.

Read in the source distributions of every minor version of vLLM from 0.20.0 to 0.33.0 and in
SGLang's wheels from 0.5.5 to 0.5.23. "ran" says that the engine's own parser and checks took it in
that version, and that vLLM resolved the connector's class. No row was run on a GPU.
"""

from dataclasses import replace

from function.api.engines import SGLANG, VLLM
from function.backends import hierarchy_rows
from function.contract.gate import Caution, Row, since
from function.contract.versions import supported_range

# Every process begins its chains of block hashes alike; before, with random bytes of its own
# unless PYTHONHASHSEED is set.
SEEDED = "fixed-seed"
# A client may say whose blocks it writes.
TENANT = "tenant_id"

_REGISTRY = "vLLM's connector registry, 0.20.0 to 0.33.0"
_EXTRA = "the extra_config keys that the connector reads, 0.20.0 to 0.33.0"
_SEED = "init_none_hash in vllm/v1/core/kv_cache_utils.py, 0.20.0 to 0.33.0"
_TENANT = "SGLang's mooncake_store.py, 0.5.12 to 0.5.23"
_CHOICES = "SGLang's choices of --hicache-storage-backend, 0.5.5 to 0.5.23"

_STORE = (
    since("preferred_segment", "0.22", _EXTRA),
    since("standalone-store", "0.22", _EXTRA),
    since("load_async", "0.22", _EXTRA),
    since("cache_prefix", "0.24", _EXTRA),
    since(SEEDED, "0.29", _SEED),
    since("lookup_async", "0.24", _EXTRA),
    since("enable_lookup", "0.27", _EXTRA),
)

HOST_POOL = Caution(
    "before 0.5.15 SGLang stops at its start when the host pool is not larger than the GPU's KV "
    "pool: give spec.mooncake.engine.hostGiB more than that, or it is twice the GPU's for each "
    "rank, and the pod's memory must hold it",
    "<0.5.15",
    source=hierarchy_rows.POOL,
)

# As HiCache asks too, whose own spec says how large the host pool is.
UNSIZED: tuple[Row, ...] = (
    Row(
        "MooncakeStoreConnector",
        VLLM,
        ">=0.22,<0.28",
        "in the registry from 0.21, the standalone-store mode from 0.22",
        "mooncake-transfer-engine",
        ">=0.3.8,<0.4",
        _STORE,
    ),
    Row(
        "MooncakeStoreConnector",
        VLLM,
        ">=0.28,<0.34",
        f"{_REGISTRY}; ran: 0.33.0",
        "mooncake-transfer-engine",
        ">=0.3.12,<0.4",
        (
            *_STORE,
            since(TENANT, "0.28", _EXTRA),
            since("save_decode_cache", "0.29", _EXTRA),
            since("store_tp_size", "0.30", _EXTRA),
        ),
    ),
    Row(
        "MooncakeConnector",
        VLLM,
        supported_range(VLLM),
        f"{_REGISTRY}; ran: 0.33.0",
        "mooncake-transfer-engine",
        ">=0.3.8,<0.4",
    ),
    hierarchy_rows.row(
        "mooncake",
        supported_range(SGLANG),
        f"{_CHOICES}; ran: 0.5.23",
        since(hierarchy_rows.PIPELINE, "0.5.8", hierarchy_rows.KEYS),
        since(TENANT, "0.5.17", _TENANT),
        package=("mooncake-transfer-engine", ">=0.3.8,<0.4"),
    ),
)

ROWS: tuple[Row, ...] = tuple(
    replace(row, cautions=(*row.cautions, HOST_POOL)) if row.engine == SGLANG else row
    for row in UNSIZED
)

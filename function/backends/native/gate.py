"""Which vLLM versions have which of vLLM's own offloading connectors, and what they have there.

Read in the source distributions of every minor version from 0.20.0 to 0.33.0 (connector registry,
`extra_config` keys).
"""

from function.api.engines import VLLM
from function.contract.gate import Row, since
from function.contract.versions import supported_range

_REGISTRY = "vLLM's connector registry, 0.20.0 to 0.33.0"
_EXTRA = "the extra_config keys that the connector reads, 0.20.0 to 0.33.0"

ROWS: tuple[Row, ...] = (
    Row(
        "OffloadingConnector",
        VLLM,
        supported_range(VLLM),
        f"{_REGISTRY}; ran: 0.33.0",
        features=(
            since("cpu_bytes_to_use", "0.20", _EXTRA),
            since("eviction_policy", "0.20", _EXTRA),
            since("store_threshold", "0.20", _EXTRA),
            since("hybrid_memory_allocator", "0.21", "SupportsHMA of the connector's class"),
            since("offload_prompt_only", "0.23", _EXTRA),
            since("self_describing_kv_events", "0.24", _EXTRA),
            since("blocks_per_chunk", "0.26", _EXTRA),
        ),
    ),
    Row(
        "OffloadingConnector/TieringOffloadingSpec",
        VLLM,
        ">=0.23,<0.34",
        "tier types of TieringOffloadingSpec; 0.22 knows fs_python only; ran: 0.33.0",
        features=(
            since("fs", "0.23", "tier types of TieringOffloadingSpec"),
            since("obj", "0.26", "ObjStoreConfig: before, it wants keys in argv and has no region"),
            since("p2p", "0.27", "remote_kv_source of its manager; 0.25 knows no address by env"),
            since("kvcr", "0.30", "tier types of TieringOffloadingSpec"),
            since("offload_prompt_only", "0.23", _EXTRA),
            since("self_describing_kv_events", "0.24", _EXTRA),
            since("blocks_per_chunk", "0.26", _EXTRA),
            since("enable_kv_events", "0.26", _EXTRA),
            since("locality", "0.26", _EXTRA),
        ),
    ),
    Row(
        "SimpleCPUOffloadConnector",
        VLLM,
        supported_range(VLLM),
        f"{_REGISTRY}; ran: 0.33.0",
        features=(
            since("cpu_bytes_to_use", "0.20", _EXTRA),
            since("lazy_offload", "0.20", _EXTRA),
            since("kv_offload_backend", "0.28", _EXTRA),
        ),
    ),
)

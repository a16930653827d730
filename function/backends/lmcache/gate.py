"""Which engine versions LMCache's connectors go with, and what they have there.

Read in the source distributions of every minor version of vLLM from 0.20.0 to 0.33.0 (connector
registry, `extra_config` keys, requirements), in SGLang's wheels from 0.5.15 to 0.5.23 and in those
of lmcache 0.5.4 to 0.5.6. "ran" says that the engine's own parser and checks took it in that
version, and that vLLM resolved the connector's class. No row was run on a GPU.
"""

from function.api.engines import SGLANG, VLLM
from function.contract.gate import Caution, Feature, Row, since
from function.contract.versions import supported_range

_ABI = (
    "LMCache 0.5.6 is built for torch 2.13.0 and this engine pins {torch}: LMCache's native "
    "operations do not load, and it stays on slow ones without saying so; use an image that "
    "brings a build of LMCache for its own torch"
)
_TORCH_VLLM = (
    Caution(_ABI.format(torch="torch 2.11.0"), "<0.27", "==0.5.6", source="vLLM's requirements"),
    Caution(_ABI.format(torch="torch 2.14.0"), ">=0.33", "==0.5.6", source="vLLM's requirements"),
)
OTHER_WORDS = Caution(
    "on a CPU, SGLang 0.5.23 said other words with blocks that it found, and nobody here has "
    "run it on a GPU: compare its answers with those of an engine without the tier before you "
    "rely on it (docs/lmcache.md)",
    source="ran: make serve-test on 2026-11-22",
)
_TORCH_SGLANG = (
    Caution(
        _ABI.format(torch="torch 2.11.0"), "<0.5.18", "==0.5.6", source="SGLang's requirements"
    ),
    Caution(
        _ABI.format(torch="torch 2.14.1"), ">=0.5.22", "==0.5.6", source="SGLang's requirements"
    ),
)

ROWS: tuple[Row, ...] = (
    Row(
        "LMCacheMPConnector",
        VLLM,
        supported_range(VLLM),
        "all imports of lmcache 0.5.6's connector exist in vLLM 0.20.0 to 0.33.0; ran: 0.33.0",
        "lmcache",
        ">=0.5.4,<0.6",
        (
            since("kv_connector_module_path", "0.20", "KVConnectorFactory, 0.20.0 to 0.33.0"),
            Feature("isolated_ipc", "", ">=0.5.5", "the wheels of lmcache 0.5.4, 0.5.5, 0.5.6"),
            since("hybrid_memory_allocator", "0.21", "SupportsHMA of vLLM's MultiConnector"),
        ),
        _TORCH_VLLM,
    ),
    Row(
        "LMCacheConnectorV1",
        VLLM,
        supported_range(VLLM),
        "all imports of lmcache 0.5.6's connector exist in vLLM 0.20.0 to 0.33.0; ran: 0.33.0",
        "lmcache",
        ">=0.4.4,<0.6",
        cautions=(
            *_TORCH_VLLM,
            Caution(
                "LMCache in the engine's process is deprecated upstream", source="LMCache#4025"
            ),
        ),
    ),
    Row(
        "LMCacheMPConnector",
        SGLANG,
        ">=0.5.15,<0.5.21",
        "SGLang's LMCRadixCache: MP is the mode, and it stops without --lmcache-config-file",
        "lmcache",
        ">=0.5.4,<0.6",
        (Feature("lmcache_config_file", source="SGLang's server arguments"),),
        (OTHER_WORDS, *_TORCH_SGLANG),
    ),
    Row(
        "LMCacheMPConnector",
        SGLANG,
        ">=0.5.21,<0.5.24",
        "SGLang imports lmcache's unified MP connector; it exists in lmcache 0.5.6; ran: 0.5.23",
        "lmcache",
        ">=0.5.6,<0.6",
        (
            Feature("lmcache_config_file", source="SGLang's server arguments"),
            since(
                "lmcache_env",
                "0.5.21",
                "lmcache's unified connector: its configuration may come from env",
            ),
        ),
        (OTHER_WORDS, *_TORCH_SGLANG),
    ),
)

"""Which models LMCache's connectors serve. What no row names works, as far as anybody knows.

Read: LMCache 0.5.6's recipes, `mem_cache/registry.py` of SGLang 0.5.13 to 0.5.23, and the issues
that are named. No row was run on a GPU.
"""

from function.api.engines import SGLANG, VLLM
from function.contract.models.families import HYBRID, POOLING, SLIDING, SPARSE
from function.contract.models.sentences import HMA, NO_WORD, UNTRIED, more_memory, no_prefix
from function.contract.models.support import FamilyRow, Support

_MP, _V1 = "LMCacheMPConnector", "LMCacheConnectorV1"
_HYBRID = frozenset((HYBRID,))
_SLIDING = frozenset((SLIDING,))
_SPARSE = frozenset((SPARSE,))
_SGLANG_REGISTRY = "mem_cache/registry.py of SGLang 0.5.13 to 0.5.23"

MODELS: tuple[FamilyRow, ...] = (
    *no_prefix(_MP, VLLM),
    *no_prefix(_V1, VLLM),
    *no_prefix(_MP, SGLANG),
    FamilyRow(
        _MP, VLLM, _HYBRID, Support.REFUSED,
        "LMCache 4247, 4984 (open); LMCache 0.5.6's docs/source/mp/hybrid_models.rst",
        "LMCache's agent returns wrong state for shared prefixes of such models, and the engine "
        "answers nonsense without an error (LMCache 4247, open). Use a tier of another backend, or "
        "none",
    ),
    FamilyRow(
        _MP, VLLM, _SPARSE, Support.CAUTION,
        "LMCache 0.5.6's recipes (GLM-5.1 to 5.3, DeepSeek-V4, MiniMax-M3)",
        "LMCache validates a few such models one by one; compare answers with and without the tier",
    ),
    FamilyRow(_MP, VLLM, frozenset((POOLING,)), Support.CAUTION, NO_WORD, UNTRIED),
    FamilyRow(
        _V1, VLLM, _HYBRID, Support.REFUSED,
        "LMCache 3106 and vllm 42911: no SupportsHMA in any version",
        "LMCache inside the engine turns vLLM's hybrid memory allocator off, and the engine fails "
        "at start. Use a tier of another backend, or none",
    ),
    FamilyRow(
        _V1, VLLM, _SPARSE, Support.REFUSED,
        "LMCache 3106: one shape per object; vllm 41830: DeepSeek-V4 does not fit",
        "LMCache inside the engine stores KV of one shape only. Use spec.lmcache.mode NodeServer",
    ),
    FamilyRow(
        _V1, VLLM, _SLIDING, Support.CAUTION, HMA,
        more_memory("use spec.lmcache.mode NodeServer"),
    ),
    *(
        FamilyRow(
            _MP, SGLANG, family, Support.REFUSED, _SGLANG_REGISTRY,
            "SGLang before 0.5.21 takes --enable-lmcache and uses its own cache for such models, "
            "or moves the attention's part alone; use SGLang 0.5.21 or newer, or another backend",
            "<0.5.21",
        )
        for family in (_HYBRID, _SLIDING)
    ),
    *(
        FamilyRow(
            _MP, SGLANG, family, Support.CAUTION,
            "LMCache 0.5.6's recipes: on SGLang not validated", UNTRIED, ">=0.5.21",
        )
        for family in (_HYBRID, _SLIDING, _SPARSE)
    ),
)  # fmt: skip

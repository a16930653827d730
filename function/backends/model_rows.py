"""Which models each connector serves. What no row names works, as far as anybody knows.

Rows for connectors of backends to come stand here too, so that the table is one. What was read: the
classes of vLLM 0.20.0 to 0.33.0 that declare SupportsHMA, `mem_cache/registry.py` of SGLang 0.5.12
to 0.5.23, LMCache 0.5.6's recipes, vLLM 0.33.0's nixl_connector_compatibility.md, and the issues
that are named. No row was run on a GPU.
"""

from function.contract.engine import SGLANG, VLLM
from function.contract.models.families import (
    ENCODER,
    HYBRID,
    MULTIMODAL,
    PIPELINE,
    POOLING,
    SLIDING,
    SPARSE,
    SPECULATIVE,
)
from function.contract.models.support import FamilyRow, Support

_HYBRID = frozenset((HYBRID,))
_SLIDING = frozenset((SLIDING,))
_SPARSE = frozenset((SPARSE,))
_POOLING = frozenset((POOLING,))
_SPEC = frozenset((SPECULATIVE,))

_HMA = "vLLM's SupportsHMA of the connector's class; vllm 41830, PR 41847"
_NO_HMA = (
    "with this connector vLLM {versions} turns its hybrid memory allocator off, and the engine "
    "fails at start; use vLLM {since} or newer"
)
_MORE_MEMORY = (
    "with this connector vLLM turns its hybrid memory allocator off, and every layer takes the "
    "memory of full attention: it may not fit; {way_out}"
)
_UNTRIED = "nobody upstream says that it was tried: compare answers with and without the tier"
_SGLANG_REGISTRY = "mem_cache/registry.py of SGLang 0.5.13 to 0.5.23"

_CONNECTORS = (
    ("LMCacheMPConnector", VLLM),
    ("LMCacheConnectorV1", VLLM),
    ("MooncakeStoreConnector", VLLM),
    ("OffloadingConnector", VLLM),
    ("OffloadingConnector/TieringOffloadingSpec", VLLM),
    ("NixlConnector", VLLM),
    ("LMCacheMPConnector", SGLANG),
    ("HiCache", SGLANG),
)

MODEL_ROWS: tuple[FamilyRow, ...] = (
    *(
        FamilyRow(
            connector, engine, frozenset((ENCODER,)), Support.REFUSED,
            "vLLM's scheduler stops for encoder-decoder models with a KV connector; an encoder's "
            "states hang on the whole input",
            "it has an encoder, whose states hang on the whole input and not on a prefix: there is "
            "nothing that a tier could keep. Remove the request for a tier",
        )
        for connector, engine in _CONNECTORS
    ),
    *(
        FamilyRow(
            connector, engine, frozenset((PIPELINE,)), Support.REFUSED,
            "SGLang's multimodal_gen and vLLM-Omni: stages with a configuration of their own",
            "a pipeline of stages has no KV cache that the engine's flags speak of, and its own "
            "parser stops at them. Remove the request for a tier",
        )
        for connector, engine in _CONNECTORS
    ),
    FamilyRow(
        "LMCacheMPConnector", VLLM, _HYBRID, Support.REFUSED,
        "LMCache 4247, 4984 (open); LMCache 0.5.6's docs/source/mp/hybrid_models.rst",
        "LMCache's agent returns wrong state for shared prefixes of such models, and the engine "
        "answers nonsense without an error (LMCache 4247, open). Use a tier of another backend, or "
        "none",
    ),
    FamilyRow(
        "LMCacheMPConnector", VLLM, _SPARSE, Support.CAUTION,
        "LMCache 0.5.6's recipes (GLM-5.1 to 5.3, DeepSeek-V4, MiniMax-M3)",
        "LMCache validates a few such models one by one; compare answers with and without the tier",
    ),
    FamilyRow(
        "LMCacheMPConnector", VLLM, _POOLING, Support.CAUTION, "no statement upstream", _UNTRIED
    ),
    FamilyRow(
        "LMCacheConnectorV1", VLLM, _HYBRID, Support.REFUSED,
        "LMCache 3106 and vllm 42911: no SupportsHMA in any version",
        "LMCache inside the engine turns vLLM's hybrid memory allocator off, and the engine fails "
        "at start. Use a tier of another backend, or none",
    ),
    FamilyRow(
        "LMCacheConnectorV1", VLLM, _SPARSE, Support.REFUSED,
        "LMCache 3106: one shape per object; vllm 41830: DeepSeek-V4 does not fit",
        "LMCache inside the engine stores KV of one shape only. Use spec.lmcache.mode NodeServer",
    ),
    FamilyRow(
        "LMCacheConnectorV1", VLLM, _SLIDING, Support.CAUTION, _HMA,
        _MORE_MEMORY.format(way_out="use spec.lmcache.mode NodeServer"),
    ),
    FamilyRow(
        "MooncakeStoreConnector", VLLM, _HYBRID, Support.REFUSED, _HMA,
        _NO_HMA.format(versions="0.21", since="0.28"), "<0.22",
    ),
    FamilyRow(
        "MooncakeStoreConnector", VLLM, _HYBRID, Support.REFUSED,
        "vllm 49360 (open): Mooncake 0.3.11.post1, vLLM 0.23; those images hold 0.3.10.post2",
        "the engine hangs after minutes with the Mooncake of vLLM's images up to 0.27 (vllm "
        "49360); use vLLM 0.28 or newer", ">=0.22,<0.28",
    ),
    FamilyRow(
        "MooncakeStoreConnector", VLLM, _HYBRID, Support.CAUTION, "vllm 56972 (open), 49360 (open)",
        "the state of generated tokens is not stored, so a continued chat hits up to its prompt "
        "(vllm 56972); a hang was seen with older versions (vllm 49360)", ">=0.28",
    ),
    FamilyRow(
        "MooncakeStoreConnector", VLLM, _SLIDING, Support.CAUTION, _HMA,
        _MORE_MEMORY.format(way_out="use vLLM 0.22 or newer"), "<0.22",
    ),
    FamilyRow(
        "MooncakeStoreConnector", VLLM, _SPARSE, Support.CAUTION, "no statement upstream", _UNTRIED
    ),
    FamilyRow(
        "MooncakeStoreConnector", VLLM, _POOLING, Support.CAUTION, "no statement upstream",
        _UNTRIED,
    ),
    *(
        FamilyRow(
            connector, VLLM, _HYBRID, Support.REFUSED, _HMA,
            _NO_HMA.format(versions="0.20", since="0.21"), "<0.21",
        )
        for connector in ("OffloadingConnector", "OffloadingConnector/TieringOffloadingSpec")
    ),
    FamilyRow(
        "OffloadingConnector", VLLM, _SLIDING, Support.CAUTION, _HMA,
        _MORE_MEMORY.format(way_out="use vLLM 0.21 or newer"), "<0.21",
    ),
    FamilyRow(
        "NixlConnector", VLLM, _HYBRID | _SPEC, Support.CAUTION,
        "vLLM 0.33.0's nixl_connector_compatibility.md: not validated", _UNTRIED,
    ),
    FamilyRow(
        "NixlConnector", VLLM, frozenset((MULTIMODAL,)), Support.CAUTION,
        "vLLM 0.33.0's nixl_connector_compatibility.md: not validated", _UNTRIED,
    ),
    *(
        FamilyRow(
            "LMCacheMPConnector", SGLANG, family, Support.REFUSED, _SGLANG_REGISTRY,
            "SGLang before 0.5.21 takes --enable-lmcache and uses its own cache for such models, "
            "or moves the attention's part alone; use SGLang 0.5.21 or newer, or another backend",
            "<0.5.21",
        )
        for family in (_HYBRID, _SLIDING)
    ),
    *(
        FamilyRow(
            "LMCacheMPConnector", SGLANG, family, Support.CAUTION,
            "LMCache 0.5.6's recipes: on SGLang not validated", _UNTRIED, ">=0.5.21",
        )
        for family in (_HYBRID, _SLIDING, _SPARSE)
    ),
    FamilyRow(
        "HiCache", SGLANG, _SLIDING, Support.REFUSED,
        "SGLang 23659: HiRadixCache only supports MHA, MLA and NSA models; " + _SGLANG_REGISTRY,
        "SGLang before 0.5.13 does not start with a hierarchical cache for such models; use a "
        "newer one", "<0.5.13",
    ),
    FamilyRow(
        "HiCache", SGLANG, _HYBRID, Support.REFUSED,
        "SGLang PR 19663 (March 2026) brings it; 0.5.9's HiRadixCache refuses such models",
        "SGLang before 0.5.10 does not start with a hierarchical cache for such models; use a "
        "newer one", "<0.5.10",
    ),
)  # fmt: skip

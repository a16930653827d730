"""Which models Mooncake's connectors serve. What no row names works, as far as anybody knows.

Read: the classes of vLLM 0.20.0 to 0.33.0 that declare SupportsHMA, and the issues that are named.
No row was run on a GPU. On SGLang Mooncake lies below the engine's own hierarchy.
"""

from function.api.engines import VLLM
from function.backends import hierarchy_rows
from function.contract.models.families import HYBRID, POOLING, SLIDING, SPARSE
from function.contract.models.sentences import (
    HMA,
    NO_WORD,
    UNTRIED,
    fails_at_start,
    more_memory,
    no_prefix,
)
from function.contract.models.support import FamilyRow, Support

_STORE = "MooncakeStoreConnector"
_HYBRID = frozenset((HYBRID,))

MODELS: tuple[FamilyRow, ...] = (
    *no_prefix(_STORE, VLLM),
    FamilyRow(
        _STORE, VLLM, _HYBRID, Support.REFUSED, HMA, fails_at_start("0.21", "0.28"), "<0.22"
    ),
    FamilyRow(
        _STORE, VLLM, _HYBRID, Support.REFUSED,
        "vllm 49360 (open): Mooncake 0.3.11.post1, vLLM 0.23; those images hold 0.3.10.post2",
        "the engine hangs after minutes with the Mooncake of vLLM's images up to 0.27 (vllm "
        "49360); use vLLM 0.28 or newer", ">=0.22,<0.28",
    ),
    FamilyRow(
        _STORE, VLLM, _HYBRID, Support.CAUTION, "vllm 56972 (open), 49360 (open)",
        "the state of generated tokens is not stored, so a continued chat hits up to its prompt "
        "(vllm 56972); a hang was seen with older versions (vllm 49360)", ">=0.28",
    ),
    FamilyRow(
        _STORE, VLLM, frozenset((SLIDING,)), Support.CAUTION, HMA,
        more_memory("use vLLM 0.22 or newer"), "<0.22",
    ),
    FamilyRow(_STORE, VLLM, frozenset((SPARSE,)), Support.CAUTION, NO_WORD, UNTRIED),
    FamilyRow(_STORE, VLLM, frozenset((POOLING,)), Support.CAUTION, NO_WORD, UNTRIED),
    *hierarchy_rows.MODELS,
)  # fmt: skip

"""Which models are handed over by NIXL. What no row names works, as far as anybody knows.

Read: vLLM 0.33.0's nixl_connector_compatibility.md.
"""

from function.api.engines import VLLM
from function.backends.nixl.facts import ROWS
from function.contract.models.families import HYBRID, MULTIMODAL, SPECULATIVE
from function.contract.models.sentences import UNTRIED, no_prefix
from function.contract.models.support import FamilyRow, Support

_PAGE = "vLLM 0.33.0's nixl_connector_compatibility.md: not validated"

MODELS: tuple[FamilyRow, ...] = (
    *(row for engine, connector in ROWS.items() for row in no_prefix(connector, engine)),
    FamilyRow(ROWS[VLLM], VLLM, frozenset((HYBRID, SPECULATIVE)), Support.CAUTION, _PAGE, UNTRIED),
    FamilyRow(ROWS[VLLM], VLLM, frozenset((MULTIMODAL,)), Support.CAUTION, _PAGE, UNTRIED),
)

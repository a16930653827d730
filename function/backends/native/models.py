"""Which models vLLM's own offloading serves. What no row names works, as far as anybody knows.

Read: the classes of vLLM 0.20.0 to 0.33.0 that declare SupportsHMA. No row was run on a GPU.
"""

from function.api.engines import VLLM
from function.backends.native.facts import CONNECTOR, SIMPLE
from function.contract.models.families import HYBRID, SLIDING
from function.contract.models.sentences import HMA, fails_at_start, more_memory, no_prefix
from function.contract.models.support import FamilyRow, Support

MODELS: tuple[FamilyRow, ...] = tuple(
    row
    for connector in (CONNECTOR, SIMPLE)
    for row in (
        *no_prefix(connector, VLLM),
        FamilyRow(
            connector, VLLM, frozenset((HYBRID,)), Support.REFUSED, HMA,
            fails_at_start("0.20", "0.21"), "<0.21",
        ),
        FamilyRow(
            connector, VLLM, frozenset((SLIDING,)), Support.CAUTION, HMA,
            more_memory("use vLLM 0.21 or newer"), "<0.21",
        ),
    )
)  # fmt: skip

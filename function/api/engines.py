"""The engines that a consumer can name: one line each.

`function.engines.registry` finds an engine's folder by its name in lower case.
"""

from typing import TYPE_CHECKING, Literal

VLLM = "vLLM"
SGLANG = "SGLang"

ENGINES = (
    VLLM,
    SGLANG,
)

if TYPE_CHECKING:
    EngineName = str
else:
    EngineName = Literal[ENGINES]

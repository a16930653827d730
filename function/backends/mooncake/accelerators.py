"""Which accelerators Mooncake's connectors serve. What no row names is out of scope.

Read: Mooncake's wheels on PyPI, and what vLLM's images of 0.33.0 hold.
"""

from function.api.engines import VLLM
from function.backends import hierarchy_rows
from function.contract.accelerators.kinds import CPU, CUDA, ROCM
from function.contract.accelerators.serving import AcceleratorRow, Served

_STORE = "MooncakeStoreConnector"

ACCELERATORS: tuple[AcceleratorRow, ...] = (
    AcceleratorRow(_STORE, VLLM, CUDA, Served.YES, "vLLM's release images hold Mooncake"),
    AcceleratorRow(
        _STORE, VLLM, ROCM, Served.UNPROVEN,
        "vllm 51193 and PR 52650: vLLM's ROCm images hold no Mooncake",
        "vLLM's ROCm images hold no Mooncake: use an image that does.",
    ),
    AcceleratorRow(
        _STORE, VLLM, CPU, Served.YES,
        "mooncake-transfer-engine-non-cuda on PyPI; vLLM's CPU engine ran with it by us",
    ),
    *hierarchy_rows.ACCELERATORS,
)  # fmt: skip

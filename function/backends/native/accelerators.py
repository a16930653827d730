"""Which accelerators vLLM's own offloading serves. What no row names is out of scope."""

from function.api.engines import VLLM
from function.backends.native.facts import CONNECTOR, SIMPLE
from function.contract.accelerators.kinds import CUDA, ROCM, XPU
from function.contract.accelerators.serving import AcceleratorRow, Served

_SOURCE = "vLLM 0.33.0's docs/features/kv_offloading_usage.md: CUDA, ROCm and XPU only"

ACCELERATORS: tuple[AcceleratorRow, ...] = (
    *(
        AcceleratorRow(CONNECTOR, VLLM, accelerator, Served.YES, _SOURCE)
        for accelerator in (CUDA, ROCM, XPU)
    ),
    AcceleratorRow(
        SIMPLE, VLLM, CUDA, Served.YES, "vLLM 0.33.0's simple_kv_offload/cuda_mem_ops.py"
    ),
)

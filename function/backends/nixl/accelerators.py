"""On which accelerators engines hand over by NIXL. What no row names is out of scope.

Read: vLLM 0.33.0's Dockerfiles, SGLang 0.5.23's server arguments.
"""

from function.api.engines import SGLANG, VLLM
from function.backends.nixl.facts import ROWS
from function.contract.accelerators.kinds import CPU, CUDA, MIG, ROCM, XPU
from function.contract.accelerators.serving import AcceleratorRow, Served

ACCELERATORS: tuple[AcceleratorRow, ...] = (
    *(
        AcceleratorRow(
            ROWS[VLLM], VLLM, name, Served.YES,
            f"vLLM 0.33.0's docker/Dockerfile{suffix} installs NIXL",
        )
        for name, suffix in ((CUDA, ""), (ROCM, ".rocm"), (XPU, ".xpu"))
    ),
    *(
        AcceleratorRow(
            ROWS[engine], engine, CUDA, Served.UNPROVEN,
            "NVIDIA's MIG User Guide: no CUDA IPC across GPU instances, GPUDirect RDMA from them",
            "CUDA IPC does not reach from one GPU instance into another: blocks go by RDMA, or by "
            "TCP through host memory, and NIXL was seen to fail there at its start; test it before "
            "you rely on it.", sharing=MIG,
        )
        for engine in (VLLM, SGLANG)
    ),
    AcceleratorRow(ROWS[VLLM], VLLM, CPU, Served.YES, "ran: prefill and decode, UCX loopback"),
    AcceleratorRow(ROWS[SGLANG], SGLANG, CUDA, Served.YES, "SGLang 0.5.23's server arguments"),
    AcceleratorRow(
        ROWS[SGLANG], SGLANG, ROCM, Served.UNPROVEN, "no statement upstream",
        "nobody upstream says that SGLang hands over by NIXL there; test it before you rely on it.",
    ),
)  # fmt: skip

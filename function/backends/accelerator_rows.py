"""Which accelerators each connector serves. What no row names is out of scope.

Read: LMCache 0.5.6's docs (installation, operator, mp/configuration), vLLM 0.33.0's
kv_offloading_usage.md and Dockerfiles, Mooncake's wheels on PyPI, SGLang 0.5.23. None was run on a
device by us.
"""

from function.contract.accelerators.kinds import CPU, CUDA, MIG, MPS, ROCM, TIME_SLICING, VGPU, XPU
from function.contract.accelerators.serving import AcceleratorRow, Served
from function.contract.engine import SGLANG, VLLM

_ISOLATED = "LMCache 0.5.6's docs/source/mp/operator.rst: the isolated-IPC backends are NVIDIA's"
_AMD_OPERATOR = (
    "LMCache 0.5.6's docs/source/mp/operator.rst: gpuVendor amd needs hostIPC and a privileged "
    "agent; HIP IPC is unverified without them"
)
_XPU_WHEEL = "LMCache 0.5.6's installation page: a wheel for XPU, no word on its agent there"
_IPC_SHARED = (
    "CUDA IPC between two containers on a part of a GPU was proven by nobody: expect that the "
    "agent cannot register the engine, and test it before you rely on it"
)
_NO_WORD = "no statement upstream"
_NATIVE = "vLLM 0.33.0's docs/features/kv_offloading_usage.md: CUDA, ROCm and XPU only"
_MOONCAKE_CPU = "mooncake-transfer-engine-non-cuda on PyPI; vLLM's CPU engine ran with it by us"

_LMCACHE_MP = tuple(
    row
    for engine in (VLLM, SGLANG)
    for row in (
        AcceleratorRow(
            "LMCacheMPConnector", engine, CUDA, Served.YES, "LMCache 0.5.6's installation page"
        ),
        *(
            AcceleratorRow(
                "LMCacheMPConnector", engine, CUDA, Served.UNPROVEN, _NO_WORD, _IPC_SHARED,
                sharing=sharing,
            )
            for sharing in (MIG, TIME_SLICING, MPS, VGPU)
        ),
        AcceleratorRow(
            "LMCacheMPConnector", engine, ROCM, Served.NO, _ISOLATED,
            "LMCache has isolated IPC for NVIDIA alone. Use a tier with spec.lmcache.mode "
            "InProcess, or one of another backend.", "Isolated",
        ),
        AcceleratorRow(
            "LMCacheMPConnector", engine, ROCM, Served.NO, _AMD_OPERATOR,
            "LMCache's agent needs a privileged container and the host's IPC namespace there, "
            "which the agents of this tier do not have. Use spec.lmcache.mode InProcess, or a tier "
            "of another backend.", "SharedMemory",
        ),
        AcceleratorRow(
            "LMCacheMPConnector", engine, XPU, Served.NO, _XPU_WHEEL,
            "LMCache's agent is not known to work there. Use a tier of another backend.",
        ),
    )
)  # fmt: skip

ACCELERATOR_ROWS: tuple[AcceleratorRow, ...] = (
    *_LMCACHE_MP,
    AcceleratorRow(
        "LMCacheConnectorV1", VLLM, CUDA, Served.YES, "LMCache 0.5.6's installation page"
    ),
    AcceleratorRow(
        "LMCacheConnectorV1", VLLM, ROCM, Served.UNPROVEN,
        "LMCache 0.5.6's installation page: a wheel ABI-matched to vllm/vllm-openai-rocm, which "
        "does not hold it",
        "LMCache has a build for ROCm that vLLM's images do not hold: use an image that does.",
    ),
    AcceleratorRow(
        "LMCacheConnectorV1", VLLM, XPU, Served.UNPROVEN,
        "LMCache 0.5.6's docker_deployment.rst: validated with intel/vllm:0.17.0-xpu",
        "LMCache has a build for XPU that vLLM's images do not hold: use an image that does.",
    ),
    AcceleratorRow(
        "LMCacheConnectorV1", VLLM, CPU, Served.NO,
        "ran: no supported CPU connector, lookups stall for seconds",
        "LMCache inside the engine has no connector for a CPU.",
    ),
    AcceleratorRow(
        "MooncakeStoreConnector", VLLM, CUDA, Served.YES, "vLLM's release images hold Mooncake"
    ),
    AcceleratorRow(
        "MooncakeStoreConnector", VLLM, ROCM, Served.UNPROVEN,
        "vllm 51193 and PR 52650: vLLM's ROCm images hold no Mooncake",
        "vLLM's ROCm images hold no Mooncake: use an image that does.",
    ),
    AcceleratorRow("MooncakeStoreConnector", VLLM, CPU, Served.YES, _MOONCAKE_CPU),
    *(
        AcceleratorRow("OffloadingConnector", VLLM, accelerator, Served.YES, _NATIVE)
        for accelerator in (CUDA, ROCM, XPU)
    ),
    *(
        AcceleratorRow("OffloadingConnector/TieringOffloadingSpec", VLLM, name, Served.YES, _NATIVE)
        for name in (CUDA, ROCM, XPU)
    ),
    *(
        AcceleratorRow(
            "NixlConnector", VLLM, name, Served.YES,
            f"vLLM 0.33.0's docker/Dockerfile{suffix} installs NIXL",
        )
        for name, suffix in ((CUDA, ""), (ROCM, ".rocm"), (XPU, ".xpu"))
    ),
    AcceleratorRow("NixlConnector", VLLM, CPU, Served.YES, "ran: prefill and decode, UCX loopback"),
    *(
        AcceleratorRow(connector, SGLANG, CUDA, Served.YES, "SGLang 0.5.23's server arguments")
        for connector in (
            "Disaggregation/nixl",
            "HiCache",
            "HiCache/file",
            "HiCache/mooncake",
            "HiCache/nixl",
        )
    ),
    AcceleratorRow(
        "Disaggregation/nixl", SGLANG, ROCM, Served.UNPROVEN, "no statement upstream",
        "nobody upstream says that SGLang hands over by NIXL there; test it before you rely on it.",
    ),
    *(
        AcceleratorRow(
            connector, SGLANG, ROCM, Served.UNPROVEN, "no statement upstream",
            "SGLang's hierarchical cache was made for CUDA; test it before you rely on it.",
        )
        for connector in ("HiCache", "HiCache/file", "HiCache/mooncake")
    ),
    AcceleratorRow("HiCache/file", SGLANG, CPU, Served.YES, "ran: a second process hits"),
)  # fmt: skip

"""Which accelerators LMCache's connectors serve. What no row names is out of scope.

Read: LMCache 0.5.6's docs (installation, operator, mp/configuration). None was run on a device by
us, but for the CPU.
"""

from function.api.engines import SGLANG, VLLM
from function.contract.accelerators.kinds import (
    CPU,
    CUDA,
    MIG,
    MPS,
    ROCM,
    SLICED_OR_MPS,
    TIME_SLICING,
    VGPU,
    XPU,
)
from function.contract.accelerators.serving import AcceleratorRow, Served

_MP, _V1 = "LMCacheMPConnector", "LMCacheConnectorV1"
_INSTALLATION = "LMCache 0.5.6's installation page"
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
_MIG_GUIDE = (
    "NVIDIA's MIG User Guide, application considerations: CUDA IPC across GPU instances is not "
    "supported"
)
_NO_IPC = (
    "CUDA IPC does not reach from one GPU instance into another, so no agent can map this engine's "
    "memory, and the engine would stop at its start. Use a tier with spec.lmcache.mode InProcess, "
    "or one of backend Native or Mooncake."
)
_MPS_DAEMON = (
    "NVIDIA's device plugin, cmd/mps-control-daemon: it sets the GPU to exclusive-process mode"
)
_NO_CLIENT = (
    "MPS has the GPU to itself there, and the agent, which is no client of it, gets no context. "
    "Use a tier with spec.lmcache.mode InProcess, or one of backend Native or Mooncake."
)


def _agent(engine: str) -> tuple[AcceleratorRow, ...]:
    """Rows of the agent on the node, which maps the engine's GPU memory."""
    return (
        AcceleratorRow(_MP, engine, CUDA, Served.YES, _INSTALLATION),
        *(
            AcceleratorRow(
                _MP, engine, CUDA, Served.UNPROVEN, "no statement upstream", _IPC_SHARED,
                sharing=sharing,
            )
            for sharing in (TIME_SLICING, SLICED_OR_MPS, VGPU)
        ),
        AcceleratorRow(_MP, engine, CUDA, Served.NO, _MIG_GUIDE, _NO_IPC, sharing=MIG),
        AcceleratorRow(_MP, engine, CUDA, Served.NO, _MPS_DAEMON, _NO_CLIENT, sharing=MPS),
        AcceleratorRow(
            _MP, engine, ROCM, Served.NO, _ISOLATED,
            "LMCache has isolated IPC for NVIDIA alone. Use a tier with spec.lmcache.mode "
            "InProcess, or one of another backend.", "Isolated",
        ),
        AcceleratorRow(
            _MP, engine, ROCM, Served.NO, _AMD_OPERATOR,
            "LMCache's agent needs a privileged container and the host's IPC namespace there, "
            "which the agents of this tier do not have. Use spec.lmcache.mode InProcess, or a tier "
            "of another backend.", "SharedMemory",
        ),
        AcceleratorRow(
            _MP, engine, XPU, Served.NO, _XPU_WHEEL,
            "LMCache's agent is not known to work there. Use a tier of another backend.",
        ),
    )  # fmt: skip


ACCELERATORS: tuple[AcceleratorRow, ...] = (
    *_agent(VLLM),
    *_agent(SGLANG),
    AcceleratorRow(_V1, VLLM, CUDA, Served.YES, _INSTALLATION),
    AcceleratorRow(
        _V1, VLLM, ROCM, Served.UNPROVEN,
        "LMCache 0.5.6's installation page: a wheel ABI-matched to vllm/vllm-openai-rocm, which "
        "does not hold it",
        "LMCache has a build for ROCm that vLLM's images do not hold: use an image that does.",
    ),
    AcceleratorRow(
        _V1, VLLM, XPU, Served.UNPROVEN,
        "LMCache 0.5.6's docker_deployment.rst: validated with intel/vllm:0.17.0-xpu",
        "LMCache has a build for XPU that vLLM's images do not hold: use an image that does.",
    ),
    AcceleratorRow(
        _V1, VLLM, CPU, Served.NO,
        "ran: no supported CPU connector, lookups stall for seconds",
        "LMCache inside the engine has no connector for a CPU.",
    ),
)  # fmt: skip

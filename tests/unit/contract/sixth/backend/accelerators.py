"""Which accelerators it serves. What no row names is out of scope."""

from function.api.engines import VLLM
from function.backends.sixth.gate import ROW
from function.contract.accelerators.kinds import CUDA
from function.contract.accelerators.serving import AcceleratorRow, Served

ACCELERATORS: tuple[AcceleratorRow, ...] = (
    AcceleratorRow(ROW, VLLM, CUDA, Served.YES, "a source, in words"),
)

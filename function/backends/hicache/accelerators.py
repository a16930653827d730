"""Which accelerators SGLang's hierarchy serves. What no row names is out of scope."""

from function.backends import hierarchy_rows
from function.contract.accelerators.kinds import CPU
from function.contract.accelerators.serving import AcceleratorRow, Served
from function.contract.engine import SGLANG

ACCELERATORS: tuple[AcceleratorRow, ...] = (
    *hierarchy_rows.ACCELERATORS,
    AcceleratorRow("HiCache/file", SGLANG, CPU, Served.YES, "ran: a second process hits"),
)

"""Which accelerators SGLang's hierarchy serves. What no row names is out of scope."""

from function.backends import hierarchy_rows
from function.contract.accelerators.serving import AcceleratorRow

ACCELERATORS: tuple[AcceleratorRow, ...] = hierarchy_rows.ACCELERATORS

"""Which vLLM versions have its connector. It borrows one, as a variant of its own."""

from function.api.engines import VLLM
from function.contract.gate import Row
from function.contract.recorded import Allowance
from function.contract.versions import supported_range

CONNECTOR = "SimpleCPUOffloadConnector"
ROW = f"{CONNECTOR}/sixth"
ALLOWS = Allowance(connectors=frozenset({CONNECTOR}))
ROWS: tuple[Row, ...] = (Row(ROW, VLLM, supported_range(VLLM), "vLLM's connector registry"),)

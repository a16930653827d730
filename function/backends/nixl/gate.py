"""Which versions of the engines hand over by NIXL, and what they have there.

Read in vLLM's source distributions of every minor version from 0.20.0 to 0.33.0, and in SGLang's
wheels from 0.5.5 to 0.5.23.
"""

from function.api.engines import SGLANG, VLLM
from function.contract.gate import Caution, Row, since
from function.contract.versions import supported_range

_REGISTRY = "vLLM's connector registry, 0.20.0 to 0.33.0"
_EXTRA = "the extra_config keys that the connector reads, 0.20.0 to 0.33.0"
_NIXL = "the requirement of nixl in vLLM's requirements/kv_connectors.txt"
_PINS = (
    ("0.20", "0.7.1 to 0.10.1", ">=0.20,<0.21"),
    ("0.21 to 0.23", "1.1.0 or newer", ">=0.21,<0.24"),
    ("0.24", "1.2.0", ">=0.24,<0.25"),
    ("0.25", "1.3.0", ">=0.25,<0.26"),
    ("0.26 and 0.27", "1.3.1", ">=0.26,<0.28"),
    ("0.28 and 0.29", "1.3.2", ">=0.28,<0.30"),
    ("0.30 and 0.31", "1.4.1", ">=0.30,<0.32"),
    ("0.32 and 0.33", "1.5.0 or newer", ">=0.32,<0.34"),
)
_NIXL_CAUTIONS = tuple(
    Caution(f"the engine's image must have nixl {nixl} (vLLM {versions})", spec, source=_NIXL)
    for versions, nixl, spec in _PINS
)

ROWS: tuple[Row, ...] = (
    Row(
        "NixlConnector",
        VLLM,
        supported_range(VLLM),
        f"{_REGISTRY}; ran: 0.33.0",
        features=(
            since("kv_lease_duration", "0.22", _EXTRA),
            since("NixlPullConnector", "0.24", _REGISTRY),
            since("NixlPushConnector", "0.24", _REGISTRY),
            since("telemetry", "0.32", "NIXL 1.5.1's exporter prometheus_mp; ran: 1.5.1"),
            since("sleep mode", "0.33", "supports_sleep_mode of NixlPullConnector, 0.33.0"),
        ),
        cautions=_NIXL_CAUTIONS,
    ),
    Row(
        "Disaggregation/nixl",
        SGLANG,
        supported_range(SGLANG),
        "SGLang's choices of --disaggregation-transfer-backend, 0.5.5 to 0.5.23",
        features=(
            since("backend", "0.5.9", "SGLANG_DISAGGREGATION_NIXL_BACKEND in disaggregation/nixl"),
        ),
    ),
)

"""Which SGLang versions have HiCache, and which storage backends of it.

Read in SGLang's wheels from 0.5.15 to 0.5.23.
"""

from function.contract.engine import SGLANG
from function.contract.gate import Row, since
from function.contract.versions import SUPPORTED

_CHOICES = "SGLang's choices of --hicache-storage-backend, 0.5.15 to 0.5.23"

ROWS: tuple[Row, ...] = (
    Row(
        "HiCache",
        SGLANG,
        SUPPORTED[SGLANG],
        "SGLang's server arguments, 0.5.15 to 0.5.23; ran: 0.5.23",
        features=(
            since("--hicache-host-memory-mode", "0.5.19", "SGLang's server arguments"),
            since("--hicache-host-memory-fraction", "0.5.21", "SGLang's server arguments"),
            since("--enable-hicache", "0.5.23", "SGLang's server arguments"),
        ),
    ),
    Row("HiCache/file", SGLANG, SUPPORTED[SGLANG], f"{_CHOICES}; ran: 0.5.23"),
    Row("HiCache/nixl", SGLANG, SUPPORTED[SGLANG], f"{_CHOICES}; ran: 0.5.23"),
    Row("HiCache/hf3fs", SGLANG, SUPPORTED[SGLANG], _CHOICES),
    Row("HiCache/aibrix", SGLANG, SUPPORTED[SGLANG], _CHOICES),
    Row("HiCache/dynamic", SGLANG, SUPPORTED[SGLANG], _CHOICES),
    Row("HiCache/eic", SGLANG, SUPPORTED[SGLANG], _CHOICES),
    Row("HiCache/simm", SGLANG, SUPPORTED[SGLANG], _CHOICES),
    Row("HiCache/mori", SGLANG, SUPPORTED[SGLANG], _CHOICES),
    Row("HiCache/shm", SGLANG, ">=0.5.17,<0.5.24", _CHOICES),
    Row("HiCache/seaweedfs", SGLANG, ">=0.5.22,<0.5.24", _CHOICES),
)

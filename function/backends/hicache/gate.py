"""Which SGLang versions have HiCache, which storage backends of it, and what they have there.

Read in SGLang's wheels from 0.5.5 to 0.5.23: choices and defaults of the flags, the keys that each
storage backend reads, the names under which it keeps a page. "ran" says that the engine's own
parser and checks took it in that version. No row was run on a GPU.
"""

from collections.abc import Iterable
from dataclasses import replace

from function.api.engines import SGLANG
from function.backends.hierarchy_rows import ARGUMENTS, KEYS, PIPELINE, POOL, row
from function.contract.gate import Caution, Row, since
from function.contract.versions import supported_range

_CHOICES = "SGLang's choices of --hicache-storage-backend, 0.5.5 to 0.5.23"

# Of tiers that say how large the host pool is.
POOL_SIZE = Caution(
    "before 0.5.15 SGLang stops at its start when the host pool is not larger than the GPU's KV "
    "pool: give spec.hicache.host more than that",
    "<0.5.15",
    source=POOL,
)


def sized(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows as they hold where the tier says how large the host pool is."""
    return tuple(replace(row, cautions=(*row.cautions, POOL_SIZE)) for row in rows)


_ROWS = (
    row("", supported_range(SGLANG), f"{ARGUMENTS}; ran: 0.5.23", since(PIPELINE, "0.5.8", KEYS)),
    row(
        "file",
        ">=0.5.14,<0.5.24",
        f"{_CHOICES}; before 0.5.14 nothing bounds it; ran: 0.5.23",
        since(PIPELINE, "0.5.10", KEYS),
        since("max_size", "0.5.14", "the extra_config keys that HiCacheFile reads"),
    ),
    row(
        "nixl",
        ">=0.5.9,<0.5.24",
        f"{_CHOICES}; before 0.5.9 it reads no configuration; ran: 0.5.23",
        since("use_direct_io", "0.5.13", "the extra_config keys that HiCacheNixl reads"),
        since("l3_cleaner_enabled", "0.5.15", "the extra_config keys that HiCacheNixl reads"),
    ),
    row("hf3fs", supported_range(SGLANG), _CHOICES),
    row("aibrix", supported_range(SGLANG), _CHOICES),
    row("dynamic", supported_range(SGLANG), _CHOICES),
    row("eic", supported_range(SGLANG), _CHOICES),
    row("simm", ">=0.5.11,<0.5.24", _CHOICES),
    row("mori", ">=0.5.15,<0.5.24", _CHOICES),
    row("shm", ">=0.5.17,<0.5.24", _CHOICES),
    row("npu_memcache", ">=0.5.20,<0.5.24", _CHOICES),
    row("tensorcast", ">=0.5.21,<0.5.24", _CHOICES),
    row("seaweedfs", ">=0.5.22,<0.5.24", _CHOICES),
)

ROWS: tuple[Row, ...] = sized(_ROWS)

"""Which SGLang versions have HiCache, which storage backends of it, and what they have there.

Read in SGLang's wheels from 0.5.5 to 0.5.23: choices and defaults of the flags, the keys that each
storage backend reads, the names under which it keeps a page. "ran" says that the engine's own
parser and checks took it in that version. No row was run on a GPU.
"""

from collections.abc import Iterable
from dataclasses import replace

from function.contract.engine import SGLANG
from function.contract.gate import Caution, Feature, Row, since
from function.contract.versions import SUPPORTED

BUFFER_ONLY = "--hicache-host-memory-mode"
SMALL_POOL = "host pool below the GPU's"
FA3 = "--decode-attention-backend fa3"
DECODE_OFFLOAD = "--disaggregation-decode-enable-offload-kvcache"
DECODE_RADIX = "--disaggregation-decode-enable-radix-cache"
PIPELINE = "pipeline parallelism"

_CHOICES = "SGLang's choices of --hicache-storage-backend, 0.5.5 to 0.5.23"
_ARGUMENTS = "SGLang's server arguments, 0.5.5 to 0.5.23"
_POOL = "memory_pool_host.py and pool_host/base.py, 0.5.5 to 0.5.23"
_KEYS = "the names of its pages, 0.5.5 to 0.5.23"

# What SGLang's own part has, whichever the storage.
FEATURES: tuple[Feature, ...] = (
    since(DECODE_OFFLOAD, "0.5.10", "decode_kvcache_offload_manager.py; before, it takes the JSON "
          "of a storage's configuration for an object"),
    since(DECODE_RADIX, "0.5.11", _ARGUMENTS),
    since(FA3, "0.5.14", "_handle_hicache; before, fa3 gives way to direct io without a word"),
    since(SMALL_POOL, "0.5.15", f"{_POOL}; before, it stops"),
    since(BUFFER_ONLY, "0.5.19", _ARGUMENTS),
    since("--hicache-host-memory-fraction", "0.5.21", _ARGUMENTS),
    since("--enable-hicache", "0.5.23", _ARGUMENTS),
)  # fmt: skip

# Of tiers that say how large the host pool is.
POOL_SIZE = Caution(
    "before 0.5.15 SGLang stops at its start when the host pool is not larger than the GPU's KV "
    "pool: give spec.hicache.host more than that",
    "<0.5.15",
    source=_POOL,
)


def row(
    storage: str,
    versions: str,
    source: str,
    *features: Feature,
    package: tuple[str, str] = ("", ""),
    cautions: tuple[Caution, ...] = (),
) -> Row:
    """The row of a storage backend, `HiCache/STORAGE`; `HiCache` for none."""
    name = f"HiCache/{storage}" if storage else "HiCache"
    return Row(name, SGLANG, versions, source, *package, (*FEATURES, *features), cautions)


def sized(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows as they hold where the tier says how large the host pool is."""
    return tuple(replace(row, cautions=(*row.cautions, POOL_SIZE)) for row in rows)


_ROWS = (
    row("", SUPPORTED[SGLANG], f"{_ARGUMENTS}; ran: 0.5.23", since(PIPELINE, "0.5.8", _KEYS)),
    row(
        "file",
        ">=0.5.14,<0.5.24",
        f"{_CHOICES}; before 0.5.14 nothing bounds it; ran: 0.5.23",
        since(PIPELINE, "0.5.10", _KEYS),
        since("max_size", "0.5.14", "the extra_config keys that HiCacheFile reads"),
    ),
    row(
        "nixl",
        ">=0.5.9,<0.5.24",
        f"{_CHOICES}; before 0.5.9 it reads no configuration; ran: 0.5.23",
        since("use_direct_io", "0.5.13", "the extra_config keys that HiCacheNixl reads"),
        since("l3_cleaner_enabled", "0.5.15", "the extra_config keys that HiCacheNixl reads"),
    ),
    row("hf3fs", SUPPORTED[SGLANG], _CHOICES),
    row("aibrix", SUPPORTED[SGLANG], _CHOICES),
    row("dynamic", SUPPORTED[SGLANG], _CHOICES),
    row("eic", SUPPORTED[SGLANG], _CHOICES),
    row("simm", ">=0.5.11,<0.5.24", _CHOICES),
    row("mori", ">=0.5.15,<0.5.24", _CHOICES),
    row("shm", ">=0.5.17,<0.5.24", _CHOICES),
    row("npu_memcache", ">=0.5.20,<0.5.24", _CHOICES),
    row("tensorcast", ">=0.5.21,<0.5.24", _CHOICES),
    row("seaweedfs", ">=0.5.22,<0.5.24", _CHOICES),
)

ROWS: tuple[Row, ...] = sized(_ROWS)

"""What SGLang's own part of its hierarchy has and serves, whatever the storage below it.

Mooncake's rows stand on it too; the sources are those of `function.backends.hicache.gate`.
"""

from function.api.engines import SGLANG
from function.contract.accelerators.kinds import CPU, CUDA, ROCM
from function.contract.accelerators.serving import AcceleratorRow, Served
from function.contract.gate import Caution, Feature, Row, since
from function.contract.models.families import HYBRID, SLIDING
from function.contract.models.sentences import no_prefix
from function.contract.models.support import FamilyRow, Support

BUFFER_ONLY = "--hicache-host-memory-mode"
SMALL_POOL = "host pool below the GPU's"
FA3 = "--decode-attention-backend fa3"
DECODE_OFFLOAD = "--disaggregation-decode-enable-offload-kvcache"
DECODE_RADIX = "--disaggregation-decode-enable-radix-cache"
PIPELINE = "pipeline parallelism"

ARGUMENTS = "SGLang's server arguments, 0.5.5 to 0.5.23"
POOL = "memory_pool_host.py and pool_host/base.py, 0.5.5 to 0.5.23"
KEYS = "the names of its pages, 0.5.5 to 0.5.23"

FEATURES: tuple[Feature, ...] = (
    since(DECODE_OFFLOAD, "0.5.10", "decode_kvcache_offload_manager.py; before, it takes the JSON "
          "of a storage's configuration for an object"),
    since(DECODE_RADIX, "0.5.11", ARGUMENTS),
    since(FA3, "0.5.14", "_handle_hicache; before, fa3 gives way to direct io without a word"),
    since(SMALL_POOL, "0.5.15", f"{POOL}; before, it stops"),
    since(BUFFER_ONLY, "0.5.19", ARGUMENTS),
    since("--hicache-host-memory-fraction", "0.5.21", ARGUMENTS),
    since("--enable-hicache", "0.5.23", ARGUMENTS),
)  # fmt: skip


# Read: `mem_cache/registry.py` of 0.5.12 to 0.5.23. They hold with every storage.
MODELS: tuple[FamilyRow, ...] = (
    *no_prefix("HiCache", SGLANG),
    FamilyRow(
        "HiCache", SGLANG, frozenset((SLIDING,)), Support.REFUSED,
        "SGLang 23659: HiRadixCache only supports MHA, MLA and NSA models; mem_cache/registry.py "
        "of SGLang 0.5.13 to 0.5.23",
        "SGLang before 0.5.13 does not start with a hierarchical cache for such models; use a "
        "newer one", "<0.5.13",
    ),
    FamilyRow(
        "HiCache", SGLANG, frozenset((HYBRID,)), Support.REFUSED,
        "SGLang PR 19663 (March 2026) brings it; 0.5.9's HiRadixCache refuses such models",
        "SGLang before 0.5.10 does not start with a hierarchical cache for such models; use a "
        "newer one", "<0.5.10",
    ),
)  # fmt: skip


ACCELERATORS: tuple[AcceleratorRow, ...] = (
    AcceleratorRow("HiCache", SGLANG, CUDA, Served.YES, "SGLang 0.5.23's server arguments"),
    AcceleratorRow(
        "HiCache", SGLANG, ROCM, Served.UNPROVEN, "no statement upstream",
        "SGLang's hierarchical cache was made for CUDA; test it before you rely on it.",
    ),
    AcceleratorRow(
        "HiCache", SGLANG, CPU, Served.NO,
        "pool_host/common.py and mha.py of SGLang 0.5.23; ran: the engine stops at its start",
        "SGLang has no host pool there: it registers that memory with CUDA, and its copies to it "
        "are those of a GPU, so the engine would stop at its start.",
    ),
)  # fmt: skip


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

"""Which connector goes with which engine version: one table, fail-closed.

What no row covers is refused. docs/versions.md is generated from it. The rows for vLLM were read
in the source distributions of every minor version from 0.20.0 to 0.33.0 (connector registry,
`extra_config` keys, requirements), those for SGLang in the wheels from 0.5.15 to 0.5.23, LMCache's
in the wheels 0.5.4 to 0.5.6. "ran" says that the engine's own parser and checks took it in that
version, and that vLLM resolved the connector's class. No row was run on a GPU.
"""

from dataclasses import dataclass

from function.contract.engine import SGLANG, VLLM

# The versions behind "every supported version".
KNOWN: dict[str, tuple[str, ...]] = {
    VLLM: tuple(f"0.{minor}.0" for minor in range(20, 34)),
    SGLANG: tuple(f"0.5.{patch}" for patch in range(15, 24)),
}


@dataclass(frozen=True)
class Feature:
    """Something of a connector that not every version has, e.g. a key of its configuration.

    `engine`, `backend`: PEP 440 specifiers, "" for any.
    """

    name: str
    engine: str = ""
    backend: str = ""
    source: str = ""


@dataclass(frozen=True)
class Caution:
    """What works, but not as well as its reader would think. Specifiers as in Feature.

    `cuda`: the CUDA major of the engine's build (from `+cu129` or the image's tag), 0 for any.
    `repository`: how the image's repository must end, "" for any. `refuse`: it does not work at
    all.
    """

    message: str
    engine: str = ""
    backend: str = ""
    cuda: int = 0
    repository: str = ""
    refuse: bool = False
    source: str = ""


@dataclass(frozen=True)
class Row:
    """`connector` on `engine`, from its `versions` on, with `package`'s `package_versions`.

    `connector` is the value of `kv_connector`; for a variant `Connector/variant`, and for SGLang
    `HiCache`, `HiCache/STORAGE` and `LMCacheMPConnector`. `package`: what the tier itself runs.
    """

    connector: str
    engine: str
    versions: str
    source: str
    package: str = ""
    package_versions: str = ""
    features: tuple[Feature, ...] = ()
    cautions: tuple[Caution, ...] = ()


_VLLM = ">=0.20,<0.34"
_REGISTRY = "vLLM's connector registry, 0.20.0 to 0.33.0"
_EXTRA = "the extra_config keys that the connector reads, 0.20.0 to 0.33.0"
_SGLANG = ">=0.5.15,<0.5.24"
_CHOICES = "SGLang's choices of --hicache-storage-backend, 0.5.15 to 0.5.23"

_ABI = (
    "LMCache 0.5.6 is built for torch 2.13.0 and this engine pins {torch}: LMCache's native "
    "operations do not load, and it stays on slow ones without saying so; use an image that "
    "brings a build of LMCache for its own torch"
)
_TORCH_VLLM = (
    Caution(_ABI.format(torch="torch 2.11.0"), "<0.27", "==0.5.6", source="vLLM's requirements"),
    Caution(_ABI.format(torch="torch 2.14.0"), ">=0.33", "==0.5.6", source="vLLM's requirements"),
)
_TORCH_SGLANG = (
    Caution(
        _ABI.format(torch="torch 2.11.0"), "<0.5.18", "==0.5.6", source="SGLang's requirements"
    ),
    Caution(
        _ABI.format(torch="torch 2.14.1"), ">=0.5.22", "==0.5.6", source="SGLang's requirements"
    ),
)
_NIXL = "the requirement of nixl in vLLM's requirements/kv_connectors.txt"
_NIXL_PINS = (
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
    for versions, nixl, spec in _NIXL_PINS
)
_STORE_LINE = Caution(
    "the engine's mooncake-transfer-engine must be of the store's own line (0.3.12 and 0.3.13 "
    "shake hands, then every write fails)",
    source="ran: 0.3.12 against 0.3.13",
)


def _since(name: str, version: str, source: str = _EXTRA) -> Feature:
    return Feature(name, f">={version}", source=source)


TABLE: tuple[Row, ...] = (
    Row(
        "LMCacheMPConnector",
        VLLM,
        _VLLM,
        "all imports of lmcache 0.5.6's connector exist in vLLM 0.20.0 to 0.33.0; ran: 0.33.0",
        "lmcache",
        ">=0.5.4,<0.6",
        (
            _since("kv_connector_module_path", "0.20", "KVConnectorFactory, 0.20.0 to 0.33.0"),
            Feature("isolated_ipc", "", ">=0.5.5", "the wheels of lmcache 0.5.4, 0.5.5, 0.5.6"),
            _since("hybrid_memory_allocator", "0.21", "SupportsHMA of vLLM's MultiConnector"),
        ),
        (
            *_TORCH_VLLM,
            Caution(
                "vLLM's own CUDA 12 builds bring lmcache 0.4.4, which has no isolated IPC and does "
                "not go with a server of 0.5; use an image with lmcache 0.5.5 or newer",
                ">=0.31",
                cuda=12,
                repository="vllm/vllm-openai",
                refuse=True,
                source="vLLM's requirements for CUDA 12",
            ),
        ),
    ),
    Row(
        "LMCacheConnectorV1",
        VLLM,
        _VLLM,
        "all imports of lmcache 0.5.6's connector exist in vLLM 0.20.0 to 0.33.0; ran: 0.33.0",
        "lmcache",
        ">=0.5.4,<0.6",
        cautions=(
            *_TORCH_VLLM,
            Caution(
                "LMCache in the engine's process is deprecated upstream", source="LMCache#4025"
            ),
        ),
    ),
    Row(
        "OffloadingConnector",
        VLLM,
        _VLLM,
        f"{_REGISTRY}; ran: 0.33.0",
        features=(
            _since("cpu_bytes_to_use", "0.20"),
            _since("eviction_policy", "0.20"),
            _since("store_threshold", "0.20"),
            _since("hybrid_memory_allocator", "0.21", "SupportsHMA of the connector's class"),
            _since("offload_prompt_only", "0.23"),
            _since("self_describing_kv_events", "0.24"),
            _since("blocks_per_chunk", "0.26"),
        ),
    ),
    Row(
        "OffloadingConnector/TieringOffloadingSpec",
        VLLM,
        ">=0.23,<0.34",
        "tier types of TieringOffloadingSpec; 0.22 knows fs_python only; ran: 0.33.0",
        features=(
            _since("fs", "0.23", "tier types of TieringOffloadingSpec"),
            _since("obj", "0.23", "tier types of TieringOffloadingSpec"),
            _since("p2p", "0.25", "tier types of TieringOffloadingSpec"),
            _since("kvcr", "0.30", "tier types of TieringOffloadingSpec"),
            _since("offload_prompt_only", "0.23"),
            _since("self_describing_kv_events", "0.24"),
            _since("blocks_per_chunk", "0.26"),
            _since("enable_kv_events", "0.26"),
            _since("locality", "0.26"),
        ),
    ),
    Row(
        "SimpleCPUOffloadConnector",
        VLLM,
        _VLLM,
        f"{_REGISTRY}; ran: 0.33.0",
        features=(
            _since("cpu_bytes_to_use", "0.20"),
            _since("lazy_offload", "0.20"),
            _since("kv_offload_backend", "0.28"),
        ),
    ),
    Row(
        "MooncakeStoreConnector",
        VLLM,
        ">=0.22,<0.28",
        "in the registry from 0.21, the standalone-store mode from 0.22",
        "mooncake-transfer-engine",
        ">=0.3.8,<0.4",
        (
            _since("preferred_segment", "0.22"),
            _since("standalone-store", "0.22"),
            _since("load_async", "0.22"),
            _since("cache_prefix", "0.24"),
            _since("lookup_async", "0.24"),
            _since("enable_lookup", "0.27"),
        ),
        (_STORE_LINE,),
    ),
    Row(
        "MooncakeStoreConnector",
        VLLM,
        ">=0.28,<0.34",
        f"{_REGISTRY}; ran: 0.33.0",
        "mooncake-transfer-engine",
        ">=0.3.12,<0.4",
        (
            _since("preferred_segment", "0.22"),
            _since("standalone-store", "0.22"),
            _since("load_async", "0.22"),
            _since("cache_prefix", "0.24"),
            _since("lookup_async", "0.24"),
            _since("enable_lookup", "0.27"),
            _since("tenant_id", "0.28"),
            _since("save_decode_cache", "0.29"),
            _since("store_tp_size", "0.30"),
        ),
        (_STORE_LINE,),
    ),
    Row(
        "NixlConnector",
        VLLM,
        _VLLM,
        f"{_REGISTRY}; ran: 0.33.0",
        features=(
            _since("kv_lease_duration", "0.22"),
            _since("NixlPullConnector", "0.24", _REGISTRY),
            _since("NixlPushConnector", "0.24", _REGISTRY),
        ),
        cautions=_NIXL_CAUTIONS,
    ),
    Row(
        "MooncakeConnector",
        VLLM,
        _VLLM,
        f"{_REGISTRY}; ran: 0.33.0",
        "mooncake-transfer-engine",
        ">=0.3.8,<0.4",
    ),
    Row(
        "LMCacheMPConnector",
        SGLANG,
        ">=0.5.15,<0.5.21",
        "SGLang's LMCRadixCache: MP is the mode, and it stops without --lmcache-config-file",
        "lmcache",
        ">=0.5.4,<0.6",
        (Feature("lmcache_config_file", source="SGLang's server arguments"),),
        _TORCH_SGLANG,
    ),
    Row(
        "LMCacheMPConnector",
        SGLANG,
        ">=0.5.21,<0.5.24",
        "SGLang imports lmcache's unified MP connector; it exists in lmcache 0.5.6; ran: 0.5.23",
        "lmcache",
        ">=0.5.6,<0.6",
        (
            Feature("lmcache_config_file", source="SGLang's server arguments"),
            _since(
                "lmcache_env",
                "0.5.21",
                "lmcache's unified connector: its configuration may come from env",
            ),
        ),
        _TORCH_SGLANG,
    ),
    Row(
        "HiCache",
        SGLANG,
        _SGLANG,
        "SGLang's server arguments, 0.5.15 to 0.5.23; ran: 0.5.23",
        features=(
            _since("--hicache-host-memory-mode", "0.5.19", "SGLang's server arguments"),
            _since("--hicache-host-memory-fraction", "0.5.21", "SGLang's server arguments"),
            _since("--enable-hicache", "0.5.23", "SGLang's server arguments"),
        ),
    ),
    Row("HiCache/file", SGLANG, _SGLANG, f"{_CHOICES}; ran: 0.5.23"),
    Row(
        "HiCache/mooncake",
        SGLANG,
        _SGLANG,
        f"{_CHOICES}; ran: 0.5.23",
        "mooncake-transfer-engine",
        ">=0.3.8,<0.4",
        cautions=(_STORE_LINE,),
    ),
    Row("HiCache/nixl", SGLANG, _SGLANG, f"{_CHOICES}; ran: 0.5.23"),
    Row("HiCache/hf3fs", SGLANG, _SGLANG, _CHOICES),
    Row("HiCache/aibrix", SGLANG, _SGLANG, _CHOICES),
    Row("HiCache/dynamic", SGLANG, _SGLANG, _CHOICES),
    Row("HiCache/eic", SGLANG, _SGLANG, _CHOICES),
    Row("HiCache/simm", SGLANG, _SGLANG, _CHOICES),
    Row("HiCache/mori", SGLANG, _SGLANG, _CHOICES),
    Row("HiCache/shm", SGLANG, ">=0.5.17,<0.5.24", _CHOICES),
    Row("HiCache/seaweedfs", SGLANG, ">=0.5.22,<0.5.24", _CHOICES),
)

"""The KV connectors of vLLM, and which of them stand side by side: one table, fail-closed.

The page docs/connectors.md is generated from it. Sources: reference of vLLM 0.33.0 (its connector
registry and classes) and lmcache 0.5.6.
"""

from dataclasses import dataclass

MULTI = "MultiConnector"


@dataclass(frozen=True)
class Connector:
    """One `kv_connector`.

    `kind`: "transfer" (prefill to decode), "cache" (offload), "multi", or "closed" (not known to
    work beside another connector). `family`: only one connector of a family fits into an engine,
    and `why` says why. `hma`: supports the hybrid memory allocator; one child that does not turns
    it off for the engine. `modules`: prefixes of a
    `kv_connector_module_path` that is still this connector, beside what tiers bring
    (`names.MODULES`). `hosts`: the keys under `kv_connector_extra_config` whose bare host means
    `tcp://`.
    """

    name: str
    kind: str
    family: str
    hma: bool = True
    why: str = ""
    modules: tuple[str, ...] = ("vllm.",)
    hosts: tuple[str, ...] = ()


_LMCACHE_MODULES = ("vllm.", "lmcache.")
_LMCACHE = "one engine process holds one LMCache client"
_HOST = "both keep blocks in the pod's host memory"
_NIXL = "one engine process has one NIXL side channel"
_STORE = "one engine process has one Mooncake Store client, configured by MOONCAKE_CONFIG_PATH"
ONE_WAY = "an engine hands its blocks over one way"
_UNKNOWN = "it is not known to work beside another connector"

_TABLE = (
    Connector("NixlConnector", "transfer", "NIXL", why=_NIXL),
    Connector("NixlPullConnector", "transfer", "NIXL", why=_NIXL),
    Connector("NixlPushConnector", "transfer", "NIXL", why=_NIXL),
    Connector("MooncakeConnector", "transfer", "Mooncake transfer", why=_UNKNOWN),
    Connector("OffloadingConnector", "cache", "host memory", why=_HOST),
    Connector("SimpleCPUOffloadConnector", "cache", "host memory", why=_HOST),
    Connector(
        "LMCacheMPConnector",
        "cache",
        "LMCache",
        why=_LMCACHE,
        modules=_LMCACHE_MODULES,
        hosts=("lmcache.mp.host",),
    ),
    Connector("LMCacheConnectorV1", "cache", "LMCache", False, _LMCACHE, modules=_LMCACHE_MODULES),
    Connector(
        "LMCacheConnectorV1Dynamic", "cache", "LMCache", False, _LMCACHE, modules=_LMCACHE_MODULES
    ),
    Connector("MooncakeStoreConnector", "cache", "Mooncake Store", why=_STORE),
    Connector(MULTI, "multi", MULTI),
    Connector("FlexKVConnectorV1", "closed", "FlexKV", False, _UNKNOWN),
    Connector("HF3FSKVConnector", "closed", "HF3FS", False, _UNKNOWN),
    Connector("MoRIIOConnector", "closed", "MoRIIO", why=_UNKNOWN),
    Connector("HiSparseConnector", "closed", "HiSparse", why=_UNKNOWN),
    Connector("DecodeBenchConnector", "closed", "benchmark", why=_UNKNOWN),
    Connector("ExampleConnector", "closed", "example", why=_UNKNOWN),
    Connector("ExampleHiddenStatesConnector", "closed", "example", why=_UNKNOWN),
    Connector("P2pNcclConnector", "closed", "gone", why="vLLM dropped it in 0.24"),
    Connector("SharedStorageConnector", "closed", "gone", why="vLLM dropped it before 0.20"),
)


def apart(one: Connector, other: Connector) -> str:
    """Why two connectors do not fit into one engine; "" where they do."""
    if one.family == other.family:
        return other.why
    return ONE_WAY if one.kind == other.kind == "transfer" else ""


CONNECTORS: dict[str, Connector] = {c.name: c for c in _TABLE}

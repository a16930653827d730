"""Tiers and engines for the tests of the Native backend."""

import functools
from typing import Any

from function.api.engines import VLLM
from function.contract.backend import Tier
from function.contract.engine import Engine
from tests.unit.backends import tiers

read = functools.partial(tiers.read, "Native")
tier = functools.partial(tiers.tier, "Native")
IDENTITY = "0123456789ab"
FEATURES = frozenset(
    {
        "blocks_per_chunk",
        "eviction_policy",
        "fs",
        "kv_cache_layout",
        "kv_offload_backend",
        "obj",
        "p2p",
    }
)
FILES: dict[str, Any] = {
    "name": "files",
    "type": "FileSystem",
    "fileSystem": {"sizeGiB": 100, "claim": {"name": "kv"}},
}
PEERS: dict[str, Any] = {"name": "peers", "type": "Peers", "peers": {}}
BUCKET: dict[str, Any] = {
    "name": "archive",
    "type": "Bucket",
    "bucket": {"bucket": "kv", "endpoint": "https://s3.example.org", "region": "eu"},
}


def native(*secondary: dict[str, Any], spec: dict[str, Any] | None = None, **settings: Any) -> Tier:
    """A tier of 8 GiB a pod: levels, fields of spec.native, and `spec` for the rest."""
    own = {"cpu": {"sizeGiB": 8}, "secondary": list(secondary)} | settings
    return tier({"native": own, **(spec or {})})


def vllm(**facts: Any) -> Engine:
    """A vLLM engine with a known identity, in namespace default."""
    known: dict[str, Any] = {
        "version": "0.33.0",
        "identity": IDENTITY,
        "features": FEATURES,
        "namespace": "default",
    }
    return Engine(VLLM, **(known | facts))

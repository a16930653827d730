"""What an engine pod gets, written out."""

import json
import re
from typing import Any

import pytest
import yaml

from function.api.engines import SGLANG, VLLM
from function.backends.lmcache import BACKEND, modules
from function.contract.backend import Tier
from function.contract.engine import Engine
from function.contract.injection import Injection
from tests.unit.backends.lmcache import server, tier

REDIS = {"name": "r", "type": "Redis", "redis": {"host": "r"}}
WIRED = {"modelplane.ai/kv-offload": "chat-3f9ab"}
UNTRACKED = {"name": "LMCACHE_TRACK_USAGE", "value": "false"}
HASH_SEED = {"name": "PYTHONHASHSEED", "value": "0"}
IDENTITY = "0123456789ab"
MODULE = modules.module("mp_connector")
INSIDE_MODULE = modules.module("v1_connector")
# What goes with a module of ours: the file, and where Python finds it.
DELIVERED = {
    "files_path": "/etc/kv-offload/lmcache",
    "search_paths": {"PYTHONPATH": "/etc/kv-offload/lmcache"},
}
# SGLang's cache of ours, by name, and the plugin that knows it.
OUR_CACHE = {"--enable-lmcache": None, "--radix-cache-backend": "kv-offload-lmcache"}
_CACHE = modules.module("sglang_cache")
PLUGIN = _CACHE.files | {
    f"{_CACHE.name}.dist-info/METADATA": (
        f"Metadata-Version: 2.1\nName: {_CACHE.name}\nVersion: 1\n"
    ),
    f"{_CACHE.name}.dist-info/entry_points.txt": (
        f"[sglang.srt.plugins]\nkv-offload-lmcache = {_CACHE.name}:register\n"
    ),
}
# The file's name carries the digest of its text; where the text is compared, the digest is cut out.
CONFIG = {"name": "LMCACHE_CONFIG_FILE", "value": "/etc/kv-offload/lmcache/lmcache.yaml"}
_DIGEST = re.compile(r"lmcache-[0-9a-f]{8}\.yaml")


def _plain(value: Any) -> Any:
    return json.loads(_DIGEST.sub("lmcache.yaml", json.dumps(value)))


def _connector(**extra: Any) -> dict[str, Any]:
    return {
        "kv_connector": "LMCacheMPConnector",
        "kv_connector_module_path": MODULE.name,
        "kv_role": "kv_both",
        "kv_connector_extra_config": {
            "kv_offload.identity": IDENTITY,
            "lmcache.mp.host": "tcp://chat-3f9ab.kv-offload-system.svc",
            "lmcache.mp.port": 5555,
            "lmcache.mp.mq_timeout": 300,
            "lmcache.mp.heartbeat_interval": 2,
            "lmcache.mp.hash_algorithm": "blake3",
        }
        | {f"lmcache.mp.{key}": value for key, value in extra.items()},
    }


def _inside(*, generated: bool = False, **settings: Any) -> Tier:
    inside = {"mode": "InProcess", "generated": generated, "inProcess": settings}
    return tier({"lmcache": inside})


def _vllm(**facts: Any) -> Engine:
    return Engine(VLLM, "0.33.0", **({"identity": IDENTITY} | facts))


NODE_SERVER: tuple[tuple[str, Tier, Engine, dict[str, Any]], ...] = (
    (
        "isolated",
        server(spec={"nodes": {"selector": {"pool": "h200"}}}),
        _vllm(),
        {
            "backend": "LMCache",
            "connector": _connector(isolated_ipc=True),
            "connector_options": {"kv_load_failure_policy": "recompute"},
            "files": MODULE.files,
            **DELIVERED,
            "env_if_absent": [UNTRACKED],
            "labels": WIRED,
            "node_selector": {"pool": "h200"},
            "shm": {"bytes": 0, "host": False},
        },
    ),
    (
        "shared memory, a lower level",
        server(REDIS, ipc="SharedMemory"),
        _vllm(),
        {
            "backend": "LMCache",
            "connector": _connector(eager_prefetch=True),
            "connector_options": {"kv_load_failure_policy": "recompute"},
            "files": MODULE.files,
            **DELIVERED,
            "env_if_absent": [UNTRACKED],
            "labels": WIRED,
            "shm": {"bytes": 0, "host": True},
        },
    ),
    (
        "a longer start, no eager look-up, generated tokens",
        server(
            REDIS, prefetch={"eager": False}, l1={"sizeGiB": 400, "hugepages": True}, generated=True
        ),
        _vllm(),
        {
            "backend": "LMCache",
            "connector": _connector(mq_timeout=860, isolated_ipc=True, save_decode_cache=True),
            "connector_options": {"kv_load_failure_policy": "recompute"},
            "files": MODULE.files,
            **DELIVERED,
            "env_if_absent": [UNTRACKED],
            "labels": WIRED,
            "shm": {"bytes": 0, "host": False},
        },
    ),
    (
        "SGLang",
        server(ipc="SharedMemory"),
        Engine(SGLANG, "0.5.23", identity=IDENTITY, features=frozenset({"lmcache_env"})),
        {
            "backend": "LMCache",
            "flags": OUR_CACHE,
            "files": PLUGIN,
            **DELIVERED,
            "env": [
                {"name": "KV_OFFLOAD_IDENTITY", "value": IDENTITY},
                {"name": "LMCACHE_MP_HOST", "value": "tcp://chat-3f9ab.kv-offload-system.svc"},
                {"name": "LMCACHE_MP_PORT", "value": "5555"},
                {"name": "LMCACHE_EXTRA_CONFIG", "value": '{"lmcache.mp.mq_timeout": 300}'},
            ],
            "env_if_absent": [UNTRACKED],
            "labels": WIRED,
            "shm": {"bytes": 0, "host": True},
        },
    ),
)

SGLANG_FILE = """\
mp_host: chat-3f9ab.kv-offload-system.svc
mp_port: 5555
extra_config:
  lmcache.mp.mq_timeout: 300
"""
NODE_SERVER += (
    (
        "SGLang before it read the environment",
        server(ipc="SharedMemory"),
        Engine(SGLANG, "0.5.20.post1", identity=IDENTITY),
        {
            "backend": "LMCache",
            "flags": OUR_CACHE | {"--lmcache-config-file": "/etc/kv-offload/lmcache/lmcache.yaml"},
            "files": PLUGIN | {"lmcache.yaml": SGLANG_FILE},
            **DELIVERED,
            "env": [{"name": "KV_OFFLOAD_IDENTITY", "value": IDENTITY}],
            "env_if_absent": [UNTRACKED],
            "labels": WIRED,
            "shm": {"bytes": 0, "host": True},
        },
    ),
)


@pytest.mark.parametrize(
    ("of", "engine", "wanted"), [r[1:] for r in NODE_SERVER], ids=[r[0] for r in NODE_SERVER]
)
def test_node_server_injection(of: Tier, engine: Engine, wanted: dict[str, Any]) -> None:
    assert _plain(BACKEND.inject(of, engine).to_json()) == wanted
    assert Injection.from_json(wanted).to_json() == wanted


INSIDE: dict[str, Any] = {
    "backend": "LMCache",
    "connector": {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"},
    "connector_options": {"kv_load_failure_policy": "recompute"},
    "env": [CONFIG],
    "env_if_absent": [HASH_SEED, UNTRACKED],
    "ray_env": ["PYTHONHASHSEED"],
    "files_path": "/etc/kv-offload/lmcache",
    "labels": WIRED,
    "memory_bytes": 5 * 2**30,
}
# What the engine resolved is in the key alone, and over Redis the identity too.
BY_KEY: dict[str, Any] = INSIDE | {
    "connector": {
        "kv_connector": "LMCacheConnectorV1",
        "kv_connector_module_path": INSIDE_MODULE.name,
        "kv_connector_extra_config": {"kv_offload.identity": IDENTITY},
        "kv_role": "kv_both",
    },
    "search_paths": {"PYTHONPATH": "/etc/kv-offload/lmcache"},
}
LOCAL: dict[str, Any] = {
    "chunk_size": 256,
    "local_cpu": True,
    "max_local_cpu_size": 5.0,
    "cache_policy": "LRU",
    "save_decode_cache": False,
    "pre_caching_hash_algorithm": "builtin",
}

# (name, tier, engine, the injection without its file, the file)
IN_PROCESS: tuple[tuple[str, Tier, Engine, dict[str, Any], dict[str, Any]], ...] = (
    ("memory", _inside(), _vllm(), INSIDE, LOCAL),
    (
        "a gang of two pods with 8 GPUs each, and a disk",
        _inside(memoryGiB=10, localDisk={"sizeGiB": 100}, cachePolicy="LFU", generated=True),
        _vllm(pods=2, flags={"--tensor-parallel-size": "8", "--pipeline-parallel-size": "2"}),
        INSIDE
        | {
            "memory_bytes": 80 * 2**30,
            "storage_bytes": 800 * 2**30,
            "volumes": [{"name": "kv-offload-disk", "emptyDir": {"sizeLimit": "800Gi"}}],
            "mounts": [{"name": "kv-offload-disk", "mountPath": "/var/cache/kv-offload"}],
        },
        LOCAL
        | {
            "max_local_cpu_size": 10.0,
            "cache_policy": "LFU",
            "save_decode_cache": True,
            "local_disk": "file:///var/cache/kv-offload/",
            "max_local_disk_size": 100.0,
        },
    ),
    (
        "Redis, compressed",
        _inside(remote={"type": "Redis", "redis": {"host": "r"}, "serde": "cachegen"}),
        _vllm(),
        BY_KEY,
        LOCAL | {"remote_url": "redis://r:6379", "remote_serde": "cachegen"},
    ),
    (
        "Redis with a password",
        _inside(
            remote={
                "type": "Redis",
                "redis": {"host": "r", "port": 1, "authSecret": {"name": "s", "key": "k"}},
            }
        ),
        _vllm(),
        BY_KEY
        | {
            "env": [
                CONFIG,
                {
                    "name": "LMCACHE_RESP_PASSWORD",
                    "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}},
                },
            ]
        },
        LOCAL | {"remote_url": "resp://r:1", "remote_serde": "naive"},
    ),
    (
        "a shared file system, a directory for each identity",
        _inside(remote={"type": "SharedFileSystem", "sharedFileSystem": {"claimName": "kv"}}),
        _vllm(identity="0123456789ab"),
        BY_KEY
        | {
            "volumes": [
                {"name": "kv-offload-shared", "persistentVolumeClaim": {"claimName": "kv"}}
            ],
            "mounts": [{"name": "kv-offload-shared", "mountPath": "/mnt/kv-offload"}],
        },
        LOCAL
        | {
            "remote_url": "fs://localhost:0/mnt/kv-offload/chat-3f9ab/0123456789ab",
            "remote_serde": "naive",
        },
    ),
)


@pytest.mark.parametrize(
    ("of", "engine", "wanted", "file"), [r[1:] for r in IN_PROCESS], ids=[r[0] for r in IN_PROCESS]
)
def test_in_process_injection(of: Tier, engine: Engine, wanted: dict[str, Any], file: Any) -> None:
    got = _plain(BACKEND.inject(of, engine).to_json())
    files = got.pop("files")
    assert got == wanted
    programs = {name: files.pop(name) for name in list(files) if name.endswith(".py")}
    assert programs == (INSIDE_MODULE.files if "search_paths" in wanted else {})
    assert {name: yaml.safe_load(text) for name, text in files.items()} == {"lmcache.yaml": file}

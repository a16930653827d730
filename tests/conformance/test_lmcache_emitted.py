"""Engines and agents of the examples, read by the engines' and LMCache's own code."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from function.backends.lmcache import modules
from tests.conformance import consumers
from tests.conformance.manifests import ROOT, Manifest, one, render
from tests.conformance.pod import expand
from tests.unit.backends.lmcache import agents_pod

EXAMPLES = ROOT / "example" / "lmcache"
EVERY_LEVEL = ROOT / "tests/render/cases/tier/lmcache/every-level/xr.yaml"
VLLM = {"image": "vllm/vllm-openai:v0.33.0", "args": ["Qwen/Qwen3-8B"]}
# The newest line that LMCache inside the engine serves.
VLLM_INSIDE = VLLM | {"image": "vllm/vllm-openai:v0.25.1"}
NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
WITH_NIXL = VLLM | {"args": [*VLLM["args"], "--kv-transfer-config", json.dumps(NIXL)]}
SGLANG = {
    "image": "lmcache/sglang:v0.5.6",
    "command": ["sglang", "serve", "--model-path", "Qwen/Qwen3-8B"],
}
V1 = "vllm.distributed.kv_transfer.kv_connector.v1"
MP = modules.module(modules.MP_CONNECTOR).name
INSIDE = modules.module(modules.V1_CONNECTOR).name
SERVERS = ("smallest", "tier", "managed-redis", "shared-memory")


def wired(example: str, container: Manifest, folder: Path) -> tuple[Manifest, Manifest]:
    """(container of the wired engine, ConfigMap data) of a consumer of that example's tier."""
    template = {"spec": {"containers": [{"name": "engine", **container}]}}
    manifests = consumers.wired(EXAMPLES / f"{example}.yaml", template, folder)
    maps = [m["data"] for m in manifests if m["kind"] == "ConfigMap"]
    return consumers.engine(manifests), maps[0] if maps else {}


def variables(container: Manifest) -> dict[str, str]:
    return {v["name"]: v["value"] for v in container["env"] if "value" in v}


def words(container: Manifest) -> list[str]:
    """Command and arguments as the kubelet passes them on."""
    given = [*container.get("command", ()), *container.get("args", ())]
    return [expand(word, variables(container)) for word in given]


def asked(vllm, container: Manifest, files: Manifest, folder: Path) -> dict[str, Any]:
    """What vLLM makes of a container; its mounted files lie in `folder` instead."""
    for name, text in files.items():
        (folder / name).write_text(text)
    env = variables(container)
    if "PYTHONPATH" in env:
        assert env["PYTHONPATH"] in [mount["mountPath"] for mount in container["volumeMounts"]]
        env["PYTHONPATH"] = str(folder)
    parsed = vllm.parse(["vllm", "serve", *words(container)], env)
    assert parsed.ok, parsed.error
    config = parsed.result["kv_transfer_config"]
    # vLLM's default where a connector of the user's own hands blocks over.
    policy = "fail" if config["kv_connector"] == "MultiConnector" else "recompute"
    assert (config["kv_role"], config["kv_load_failure_policy"]) == ("kv_both", policy)
    found = [(c["name"], c["module"]) for c in parsed.result["connectors"]]
    return {"config": config, "classes": found, "hma": parsed.result["hma"]}


# example, what its connector is told beside the address
EXTRA = {
    "smallest": {"isolated_ipc": True},
    "tier": {"isolated_ipc": True, "eager_prefetch": True},
    "managed-redis": {"isolated_ipc": True, "eager_prefetch": True},
    "shared-memory": {},
}


@pytest.mark.parametrize("example", SERVERS)
def test_vllm_loads_our_connector_around_lmcaches(vllm, tmp_path, example):
    container, files = wired(example, VLLM, tmp_path)
    said = asked(vllm, container, files, tmp_path)
    assert said["classes"] == [("LMCacheMPConnector", MP)]
    assert said["hma"], "as LMCache's own supports the hybrid allocator"
    extra = dict(said["config"]["kv_connector_extra_config"])
    assert len(extra.pop(modules.IDENTITY)) == 12
    assert extra.pop("lmcache.mp.host").startswith("tcp://")
    assert extra == {
        "lmcache.mp.port": 5555,
        "lmcache.mp.mq_timeout": 300,
        "lmcache.mp.heartbeat_interval": 2,
        "lmcache.mp.hash_algorithm": "blake3",
    } | {f"lmcache.mp.{key}": value for key, value in EXTRA[example].items()}


def test_vllm_loads_the_users_connector_first(vllm, tmp_path):
    container, files = wired("smallest", WITH_NIXL, tmp_path)
    said = asked(vllm, container, files, tmp_path)
    assert said["classes"] == [
        ("MultiConnector", f"{V1}.multi_connector"),
        ("NixlPullConnector", f"{V1}.nixl.connector"),
        ("LMCacheMPConnector", MP),
    ]
    first, second = said["config"]["kv_connector_extra_config"]["connectors"]
    assert first == NIXL
    assert second["kv_connector_extra_config"]["lmcache.mp.isolated_ipc"] is True


def test_vllm_loads_the_in_process_connector(vllm, lmcache, tmp_path):
    container, files = wired("in-process", VLLM_INSIDE, tmp_path)
    assert asked(vllm, container, files, tmp_path)["classes"] == [("LMCacheConnectorV1", INSIDE)]
    env = variables(container)
    assert env["PYTHONHASHSEED"] == "0"
    folder, _, file = env["LMCACHE_CONFIG_FILE"].rpartition("/")
    assert folder in [mount["mountPath"] for mount in container["volumeMounts"]]

    assert set(files) == {file, f"{INSIDE}.py"}
    given = yaml.safe_load(files[file])
    parsed = lmcache.inprocess(files[file])
    assert parsed.ok and not parsed.warnings, parsed.log
    config = parsed.result["config"]
    assert {key: config[key] for key in given} == given
    assert (config["max_local_cpu_size"], config["remote_serde"]) == (20.0, "cachegen")
    assert config["remote_url"] == "redis://redis.databases.svc:6379"


def test_sglang_accepts_the_emitted_configuration(sglang, tmp_path):
    container, _ = wired("shared-memory", SGLANG, tmp_path)
    env = variables(container)
    parsed = sglang.parse(words(container), env)
    assert parsed.ok, parsed.error
    assert parsed.result["resolved"]["enable_lmcache"] is True
    assert parsed.result["resolved"]["radix_cache_backend"] == modules.SGLANG_NAME
    assert env["LMCACHE_MP_HOST"].startswith("tcp://")
    assert env["LMCACHE_MP_PORT"] == "5555"
    assert json.loads(env["LMCACHE_EXTRA_CONFIG"]) == {"lmcache.mp.mq_timeout": 300}


# example: GiB of memory, isolated, what tells the levels below apart
DISK = {"base_path": "/var/lib/kv-offload/nvme/kv-chat-7617354f73", "max_capacity_gb": 2000}
AGENTS = {
    "smallest": (100, True, []),
    "tier": (200, True, [DISK, {"host": "redis.kv-offload-system.svc", "port": 6379}]),
    "managed-redis": (100, True, [{"port": 6379}]),
    "shared-memory": (100, False, []),
}
# Said on any machine without a GPU.
NO_GPU = "LazyMemoryAllocator requires memory pinning"


@pytest.mark.parametrize("example", SERVERS)
def test_the_server_reads_its_arguments(lmcache, example):
    size, isolated, levels = AGENTS[example]
    manifests = render(EXAMPLES / f"{example}.yaml", EXAMPLES / "required")
    agent = one(manifests, "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
    env = variables(agent) | {"POD_IP": "10.0.0.9", "NODE_NAME": "node-a"}
    argv = [expand(word, env) for word in agent["args"]]
    parsed = lmcache.server(["lmcache", "server", *argv])
    assert parsed.ok, parsed.error
    assert [line for line in parsed.warnings if NO_GPU not in line] == []
    result = parsed.result
    assert result["http_config"] == {"http_host": "10.0.0.9", "http_port": 8080}
    assert result["mp_config"]["isolated_ipc"] is isolated
    assert result["mp_config"]["chunk_size"] == 256
    storage = result["storage_manager_config"]
    assert storage["l1_manager_config"]["memory_config"]["size_in_bytes"] == size << 30
    adapters = storage["l2_adapter_config"]["adapters"]
    assert len(adapters) == len(levels)
    for adapter, expected in zip(adapters, levels, strict=True):
        assert {key: adapter[key] for key in expected} == expected


# Of each level in its order: what it is told by, and what its blocks go through.
EVERY = [
    ({"max_capacity_gb": 2000, "use_odirect": True}, "aesgcm"),
    ({"max_capacity_gb": 100, "use_odirect": False}, None),
    ({"backend": "GDS_MT"}, None),
    ({"max_capacity_gb": 10000, "shared": True}, "fp8"),
    ({"host": "redis.example", "port": 6380, "shared": True}, None),
    ({"cluster_mode": True, "tls_enable": True, "shared": True}, None),
    ({"s3_endpoint": "kv.s3.eu-central-1.amazonaws.com", "disable_tls": False}, None),
    ({"backend": "HF3FS"}, None),
]


def test_the_server_reads_every_type_of_level(lmcache):
    """Those too that nothing here can run: GDS, 3FS, FP8. `Raw` is the user's own."""
    spec = yaml.safe_load(EVERY_LEVEL.read_text())["spec"]
    levels = [level for level in spec["lmcache"]["l2"] if level["type"] != "Raw"]
    threefs = {"plugin": "HF3FS", "sizeGiB": 100, "hostPath": {"path": "/mnt/3fs"}}
    spec["lmcache"]["l2"] = [*levels, {"name": "threefs", "type": "NIXL", "nixl": threefs}]
    agent = agents_pod(spec)["containers"][0]
    env = variables(agent) | {"POD_IP": "10.0.0.9", "NODE_NAME": "node-a"}
    parsed = lmcache.server(["lmcache", "server", *(expand(word, env) for word in agent["args"])])
    assert parsed.ok, parsed.error
    adapters = parsed.result["storage_manager_config"]["l2_adapter_config"]["adapters"]
    assert len(adapters) == len(EVERY)
    for adapter, (expected, serde) in zip(adapters, EVERY, strict=True):
        assert {key: adapter[key] for key in expected} == expected  # type: ignore[attr-defined]
        assert (adapter["serde_config"] or {}).get("type") == serde

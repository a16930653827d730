"""The LMCache checker says what LMCache says about server arguments and the in-process file."""

import json

import pytest

SERVER = ["lmcache", "server", "--l1-size-gb", "2", "--eviction-policy", "LRU"]
DISK = {
    "type": "fs_native",
    "base_path": "/kv",
    "max_capacity_gb": 10,
    "eviction": {"eviction_policy": "LRU", "trigger_watermark": 0.8, "eviction_ratio": 0.2},
}


def test_server_accepts_its_arguments(lmcache):
    argv = [*SERVER, "--max-gpu-workers", "8", "--isolated-ipc", "--http-host", "0.0.0.0"]
    parsed = lmcache.server([*argv, "--l2-adapter", json.dumps(DISK)])
    assert parsed.ok, parsed.error
    result = parsed.result
    assert result["mp_config"]["max_gpu_workers"] == 8
    assert result["mp_config"]["isolated_ipc"] is True
    assert result["http_config"] == {"http_host": "0.0.0.0", "http_port": 8080}
    storage = result["storage_manager_config"]
    assert storage["l1_manager_config"]["memory_config"]["size_in_bytes"] == 2 << 30
    (adapter,) = storage["l2_adapter_config"]["adapters"]
    assert (adapter["base_path"], adapter["max_capacity_gb"]) == ("/kv", 10)


REFUSED = {
    "unknown flag": ([*SERVER, "--nonsense"], 2),
    "no eviction policy": (["lmcache", "server", "--l1-size-gb", "2"], 1),
    "L2 JSON": ([*SERVER, "--l2-adapter", "{"], 1),
    "L2 field missing": ([*SERVER, "--l2-adapter", '{"type":"fs"}'], 1),
    "L2 type": ([*SERVER, "--l2-adapter", '{"type":"nonsense"}'], 1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_server_refuses_invalid_arguments(lmcache, name):
    argv, code = REFUSED[name]
    parsed = lmcache.server(argv)
    assert not parsed.ok
    assert parsed.exit_code == code, parsed.log


def test_inprocess_file_is_accepted(lmcache):
    parsed = lmcache.inprocess("chunk_size: 128\nmax_local_cpu_size: 20\nlocal_disk: file:///kv/\n")
    config = parsed.result["config"]
    assert (config["chunk_size"], config["max_local_cpu_size"]) == (128, 20.0)
    assert config["local_disk"] == "/kv/"


def test_inprocess_env_beats_the_file(lmcache):
    parsed = lmcache.inprocess("chunk_size: 128\n", {"LMCACHE_CHUNK_SIZE": "512"})
    assert parsed.result["config"]["chunk_size"] == 512


def test_inprocess_unknown_key_only_warns(lmcache):
    parsed = lmcache.inprocess("nonsense: 1\n")
    assert parsed.ok
    assert any("nonsense" in line for line in parsed.warnings)

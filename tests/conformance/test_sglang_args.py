"""The SGLang checker agrees with SGLang: the facts that wiring relies on, one row each."""

import pytest

HICACHE = ["--enable-hierarchical-cache"]
STORAGE = [*HICACHE, "--page-size", "64", "--hicache-storage-backend"]
DECODE = ["--disaggregation-mode", "decode"]
OFFLOAD = [*DECODE, "--disaggregation-decode-enable-offload-kvcache"]
BUFFER = [*STORAGE, "file", "--hicache-host-memory-mode", "buffer_only"]

# argv after `sglang serve model`, resolved fields
ACCEPTED = {
    "page size is 1 unless said": ([], {"page_size": 1, "enable_hierarchical_cache": False}),
    "page size said": (["--page-size", "64"], {"page_size": 64}),
    "hicache": (
        [*HICACHE, "--hicache-size", "40"],
        {"enable_hierarchical_cache": True, "hicache_size": 40},
    ),
    "page_first and direct": (
        [*HICACHE, "--hicache-mem-layout", "page_first", "--hicache-io-backend", "direct"],
        {"hicache_mem_layout": "page_first_direct", "hicache_io_backend": "direct"},
    ),
    "page_first_direct and kernel": (
        [*HICACHE, "--hicache-mem-layout", "page_first_direct", "--hicache-io-backend", "kernel"],
        {"hicache_mem_layout": "page_first_direct", "hicache_io_backend": "direct"},
    ),
    "layer_first and mooncake": (
        [*STORAGE, "mooncake", "--hicache-mem-layout", "layer_first"],
        {"hicache_mem_layout": "page_first", "hicache_storage_backend": "mooncake"},
    ),
    "lmcache": (["--enable-lmcache"], {"enable_lmcache": True}),
    "a size turns the automatic one off": (
        [*HICACHE, "--hicache-size", "40"],
        {"hicache_size": 40, "hicache_host_memory_fraction": None},
    ),
    "a ratio turns the automatic size off": (
        [*HICACHE, "--hicache-ratio", "1.5"],
        {"hicache_ratio": 1.5, "hicache_host_memory_fraction": None},
    ),
    "else most of the memory": (HICACHE, {"hicache_host_memory_fraction": 0.8}),
    "page_first_direct and direct": (
        [*HICACHE, "--hicache-mem-layout", "page_first_direct", "--hicache-io-backend", "direct"],
        {"hicache_mem_layout": "page_first_direct", "hicache_io_backend": "direct"},
    ),
    "page_first_direct and unified memory": (
        [*HICACHE, "--hicache-mem-layout", "page_first_direct", "--enable-unified-memory"],
        {"hicache_mem_layout": "page_first", "hicache_io_backend": "kernel"},
    ),
    "no host level and write_back": (
        [*BUFFER, "--hicache-write-policy", "write_back"],
        {"hicache_write_policy": "write_through", "hicache_host_memory_mode": "buffer_only"},
    ),
    "decode that offloads": (
        [*OFFLOAD, "--hicache-storage-backend", "file", "--page-size", "64"],
        {"enable_hierarchical_cache": False, "disable_radix_cache": True},
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(sglang, name):
    argv, expected = ACCEPTED[name]
    parsed = sglang.parse(["sglang", "serve", "model", *argv])
    assert parsed.ok, parsed.error
    assert {key: parsed.result["resolved"][key] for key in expected} == expected  # type: ignore[attr-defined]
    assert parsed.result["given"]["model_path"] == "model"


# argv after `python3 -m sglang.launch_server`, exit code, what the error or the log says
REFUSED = {
    "unknown flag": (["--nonsense"], 2, "unrecognized arguments: --nonsense"),
    "unknown backend": ([*STORAGE, "nonsense"], 2, "invalid choice"),
    "radix cache off": ([*HICACHE, "--disable-radix-cache"], 1, "mutually exclusive"),
    "lmcache beside hicache": ([*HICACHE, "--enable-lmcache"], 1, "lmcache"),
    "decode without radix": ([*HICACHE, "--disaggregation-mode", "decode"], 1, "radix"),
    "external linker": (
        [*HICACHE, "--enable-unified-cache-external-linker"],
        1,
        "mutually exclusive",
    ),
    "no host level and no storage": (
        [*HICACHE, "--hicache-host-memory-mode", "buffer_only"],
        1,
        "requires a storage backend",
    ),
    "no host level on decode": (
        [*BUFFER, *DECODE, "--disaggregation-decode-enable-radix-cache"],
        1,
        "not supported on decode",
    ),
    "no host level and DCP": ([*BUFFER, "--dcp-size=2", "--tp-size=2"], 1, "does not support"),
    "prefill_complete": (
        [
            *(*STORAGE, "file", "--disaggregation-mode", "prefill"),
            *("--disaggregation-decode-allocation-policy", "prefill_complete"),
        ],
        1,
        "does not yet support",
    ),
    "two host pools on decode": (
        [
            *(*OFFLOAD, "--hicache-storage-backend", "file"),
            *("--disaggregation-decode-retraction-backup", "host_pool"),
        ],
        1,
        "mutually exclusive",
    ),
    "pages and n-grams": (
        [*HICACHE, "--page-size", "64", "--speculative-algorithm", "NGRAM"],
        1,
        "flashinfer",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(sglang, name):
    argv, code, words = REFUSED[name]
    command = ["python3", "-m", "sglang.launch_server", "--model-path", "model"]
    parsed = sglang.parse([*command, *argv])
    assert not parsed.ok
    assert parsed.exit_code == code
    assert words.lower() in (parsed.error + parsed.log).lower()

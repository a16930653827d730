"""The SGLang checker says what SGLang says: the facts that wiring relies on, one row each."""

import pytest

HICACHE = ["--enable-hierarchical-cache"]
STORAGE = [*HICACHE, "--page-size", "64", "--hicache-storage-backend"]

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
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(sglang, name):
    argv, expected = ACCEPTED[name]
    parsed = sglang.parse(["sglang", "serve", "model", *argv])
    assert parsed.ok, parsed.error
    assert {key: parsed.result["resolved"][key] for key in expected} == expected
    assert parsed.result["given"]["model_path"] == "model"


# argv after `python3 -m sglang.launch_server`, exit code, what the error or the log says
REFUSED = {
    "unknown flag": (["--nonsense"], 2, "unrecognized arguments: --nonsense"),
    "unknown backend": ([*STORAGE, "nonsense"], 2, "invalid choice"),
    "radix cache off": ([*HICACHE, "--disable-radix-cache"], 1, "mutually exclusive"),
    "lmcache beside hicache": ([*HICACHE, "--enable-lmcache"], 1, "lmcache"),
    "decode without radix": ([*HICACHE, "--disaggregation-mode", "decode"], 1, "radix"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(sglang, name):
    argv, code, words = REFUSED[name]
    command = ["python3", "-m", "sglang.launch_server", "--model-path", "model"]
    parsed = sglang.parse([*command, *argv])
    assert not parsed.ok
    assert parsed.exit_code == code
    assert words.lower() in (parsed.error + parsed.log).lower()

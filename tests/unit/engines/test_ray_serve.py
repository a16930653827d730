"""Ray Serve's LLMConfigs: read as flags, wired as keyword arguments."""

from typing import Any

import pytest

from function.contract.injection import Injection
from function.engines import ray_serve
from function.engines.registry import kind
from function.problems import Refused

OURS = {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}
TIER = Injection(connector=OURS, connector_options={"kv_load_failure_policy": "recompute"})
NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_producer"}


def config(**kwargs: Any) -> dict[str, Any]:
    return {
        "model_loading_config": {"model_id": "qwen", "model_source": "Qwen/Qwen3-32B"},
        "engine_kwargs": kwargs,
    }


def test_keyword_arguments_are_read_as_flags() -> None:
    entry = config(tensor_parallel_size=8, enable_lora=True, enforce_eager=False, dtype=None)
    (call,) = ray_serve.program(entry).calls
    read = kind("vLLM").read(call)
    assert read == {
        "--model": "Qwen/Qwen3-32B",
        "--tensor-parallel-size": "8",
        "--enable-lora": None,
    }


CASES = {
    "none": ({}, {**OURS, "kv_load_failure_policy": "recompute"}),
    "a connector of the user's": (
        {"kv_transfer_config": NIXL},
        {
            "kv_connector": "MultiConnector",
            "kv_role": "kv_producer",
            "kv_load_failure_policy": "recompute",
            "kv_connector_extra_config": {"connectors": [NIXL, OURS]},
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_connector_is_merged(name: str) -> None:
    kwargs, want = CASES[name]
    entry = config(max_model_len=4096, **kwargs)
    wired = ray_serve.apply(entry, TIER)
    assert wired == config(max_model_len=4096, kv_transfer_config=want)
    assert ray_serve.apply(wired, TIER) == wired
    assert entry == config(max_model_len=4096, **kwargs), "the input is not changed"


REFUSED = {
    "a size that replaces connectors": (config(kv_offloading_size=10), TIER),
    "another value": (config(page_size=32), Injection(flags={"--page-size": "64"})),
}


@pytest.mark.parametrize("name", REFUSED)
def test_arguments_of_the_author_are_not_overwritten(name: str) -> None:
    entry, injection = REFUSED[name]
    with pytest.raises(Refused) as refused:
        ray_serve.apply(entry, injection)
    assert refused.value.reason == "ConnectorConflict"

"""The vLLM checker agrees with vLLM: the facts that wiring relies on, one row each."""

import json

import pytest

MP = {
    "kv_connector": "LMCacheMPConnector",
    "kv_connector_module_path": "lmcache.integration.vllm.lmcache_mp_connector",
    "kv_role": "kv_both",
    "kv_load_failure_policy": "recompute",
    "kv_connector_extra_config": {"lmcache.mp.host": "tcp://node", "lmcache.mp.port": 5555},
}
OFFLOAD = {
    "kv_connector": "OffloadingConnector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {"cpu_bytes_to_use": 1 << 30},
}
NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_producer"}


def multi(*children: dict) -> dict:
    return {
        "kv_connector": "MultiConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"connectors": list(children)},
    }


def flag(config: dict) -> list[str]:
    return ["--kv-transfer-config", json.dumps(config)]


# argv after `vllm serve model`, the effective connector, the classes it resolves to
ACCEPTED = {
    "nothing": ([], None, []),
    "lmcache": (flag(MP), "LMCacheMPConnector", ["lmcache.integration.vllm.lmcache_mp_connector"]),
    "equals sign": (
        [f"--kv-transfer-config={json.dumps(OFFLOAD)}"],
        "OffloadingConnector",
        ["vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector"],
    ),
    "underscores": (["--kv_transfer_config", json.dumps(OFFLOAD)], "OffloadingConnector", None),
    "abbreviated": (["--kv-transfer-conf", json.dumps(OFFLOAD)], "OffloadingConnector", None),
    "the last of two wins": (flag(OFFLOAD) + flag(MP), "LMCacheMPConnector", None),
    "dotted drops the JSON": (
        [
            *flag(MP),
            "--kv-transfer-config.kv_connector=OffloadingConnector",
            "--kv-transfer-config.kv_role=kv_both",
        ],
        "OffloadingConnector",
        None,
    ),
    "empty means none": (["--kv-transfer-config", ""], None, []),
    "kv-offloading-size overwrites": (
        [*flag(NIXL), "--kv-offloading-size", "4"],
        "OffloadingConnector",
        None,
    ),
    "multi": (
        flag(multi(NIXL, OFFLOAD)),
        "MultiConnector",
        [
            "vllm.distributed.kv_transfer.kv_connector.v1.multi_connector",
            "vllm.distributed.kv_transfer.kv_connector.v1.nixl.connector",
            "vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector",
        ],
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(vllm, name):
    argv, connector, modules = ACCEPTED[name]
    parsed = vllm.parse(["vllm", "serve", "model", *argv])
    assert parsed.ok, parsed.error
    config = parsed.result["kv_transfer_config"]
    assert (config and config["kv_connector"]) == connector
    if modules is not None:
        assert [found["module"] for found in parsed.result["connectors"]] == modules
    assert parsed.result["engine_args"]["model"] == "model"


EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}

# argv after `vllm serve model`, env, exit code, what the error or the log says
REFUSED = {
    "unknown flag": (["--nonsense"], {}, 2, "unrecognized arguments: --nonsense"),
    "unknown field": (flag(OFFLOAD | {"kv_rank": 0}), {}, 2, "kv_rank"),
    "no role": (flag({"kv_connector": "NixlConnector"}), {}, 2, "kv_role"),
    "unknown connector": (
        flag(NIXL | {"kv_connector": "X"}),
        {},
        1,
        "Unsupported connector type: X",
    ),
    "python quotes": (["--kv-transfer-config", str(OFFLOAD)], {}, 2, "kv-transfer-config"),
    "null": (["--kv-transfer-config", "null"], {}, 2, "kv-transfer-config"),
    "engine_id in a child": (flag(multi(NIXL | {"engine_id": "a"})), {}, 1, "engine_id"),
    "kv-offloading-size over a module path": (
        [*flag(MP), "--kv-offloading-size", "4"],
        {},
        1,
        "Class OffloadingConnector not found in",
    ),
    "expandable segments": (flag(MP), EXPANDABLE, 1, "expandable_segments"),
    "service link": ([], {"VLLM_PORT": "tcp://10.0.0.1:80"}, 1, "VLLM_PORT"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(vllm, name):
    argv, env, code, words = REFUSED[name]
    parsed = vllm.parse(["vllm", "serve", "model", *argv], env)
    assert not parsed.ok
    assert parsed.exit_code == code
    assert words in parsed.error + parsed.log


def test_module_entrypoint(vllm):
    """The module form takes --model; a positional model is ignored there."""
    command = ["python3", "-m", "vllm.entrypoints.openai.api_server"]
    parsed = vllm.parse([*command, "--model=named", *flag(OFFLOAD)])
    assert parsed.result["engine_args"]["model"] == "named"
    assert parsed.result["kv_transfer_config"]["kv_connector"] == "OffloadingConnector"


def test_config_file(vllm, tmp_path):
    """The command line beats --config FILE."""
    file = tmp_path / "vllm.yaml"
    file.write_text("max-num-seqs: 7\nblock-size: 32\n")
    argv = ["vllm", "serve", "model", "--config", str(file), "--max-num-seqs", "9"]
    engine = vllm.parse(argv).result["engine_args"]
    assert (engine["max_num_seqs"], engine["block_size"]) == (9, 32)


REGISTERED = [
    "LMCacheConnectorV1",
    "LMCacheMPConnector",
    "MooncakeConnector",
    "MooncakeStoreConnector",
    "NixlConnector",
    "OffloadingConnector",
    "SimpleCPUOffloadConnector",
]


@pytest.mark.parametrize("connector", REGISTERED)
def test_connector_resolves(vllm, connector):
    config = {"kv_connector": connector, "kv_role": "kv_both"}
    parsed = vllm.parse(["vllm", "serve", "model", *flag(config)])
    assert parsed.ok, parsed.error
    assert parsed.result["hma"] == (connector != "LMCacheConnectorV1")

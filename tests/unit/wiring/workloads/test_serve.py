"""Ray Serve LLM's arguments as a command line, and back."""

import pytest

from function.problems import Refused
from function.wiring.command.model import Append, Delete, Replace
from function.wiring.workloads import serve

ENTRY = {
    "model_loading_config": {"model_id": "m", "model_source": "org/m"},
    "engine_kwargs": {
        "tensor_parallel_size": 2,
        "gpu_memory_utilization": 0.9,
        "enable_prefix_caching": True,
        "enforce_eager": False,
        "kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"},
        "tool_parser": "x",
        "seed": None,
    },
}
WORDS = [
    "org/m",
    "--tensor-parallel-size=2",
    "--gpu-memory-utilization=0.9",
    "--enable-prefix-caching",
    "--no-enforce-eager",
    '--kv-transfer-config={"kv_connector":"NixlConnector","kv_role":"kv_both"}',
    "--tool-parser=x",
    "--seed=None",
]


def test_read():
    program = serve.read(ENTRY)
    (call,) = program.calls
    assert (call.engine, call.positional_model) == ("vLLM", True)
    assert [w.value for w in call.words] == WORDS


EDITS = {
    "none": ((), {}),
    "a new flag in two words": (
        (Append("--kv-events-config"), Append('{"publisher":"zmq"}')),
        {"kv_events_config": {"publisher": "zmq"}},
    ),
    "a number and a switch": (
        (Append("--block-size=64"), Append("--enable-x")),
        {"block_size": 64, "enable_x": True},
    ),
    "a connector is replaced in place": (
        (Replace(5, '--kv-transfer-config={"kv_connector":"MultiConnector"}'),),
        {"kv_transfer_config": {"kv_connector": "MultiConnector"}},
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_rewrite(name):
    edits, changed = EDITS[name]
    wanted = {"engine_kwargs": {**ENTRY["engine_kwargs"], **changed}} if changed else {}
    got = serve.read(ENTRY).rewrite({0: edits})
    assert got == wanted
    if got:
        assert list(got["engine_kwargs"]) == list(wanted["engine_kwargs"])


def test_delete():
    got = serve.read(ENTRY).rewrite({0: [Delete(1)]})
    assert "tensor_parallel_size" not in got["engine_kwargs"]
    assert len(got["engine_kwargs"]) == len(ENTRY["engine_kwargs"]) - 1


@pytest.mark.parametrize(
    "entry", [{"engine_kwargs": []}, {"llm_engine": "TensorRT"}], ids=["rubbish", "another engine"]
)
def test_problems(entry):
    program = serve.read(entry)
    assert program.problem
    assert not program.calls


def test_an_entry_without_arguments_gets_them():
    assert serve.read({}).rewrite({0: [Append("--a=1")]}) == {"engine_kwargs": {"a": 1}}


def test_models_in_a_bucket():
    entry = {"model_loading_config": {"model_source": {"bucket_uri": "s3://b/m"}}}
    assert serve.read(entry).calls[0].words[0].value == "s3://b/m"


def test_a_workers_env_that_says_otherwise():
    entry = {"runtime_env": {"env_vars": {"A": "1", "B": "2"}}}
    serve.check_env(entry, [{"name": "A", "value": "1"}, {"name": "C", "value": "3"}])
    with pytest.raises(Refused) as refused:
        serve.check_env(entry, [{"name": "B", "value": "3"}])
    assert (refused.value.reason, refused.value.path) == ("PodConflict", "runtime_env.env_vars.B")

"""Plain argv: what starts an engine, with which words, and where edits go."""

import pytest

from function.command import Append, Delete, ImageCall, Replace, read, rewrite
from function.problems import Refused

VLLM_IMAGE = ImageCall("vLLM", ("vllm", "serve"))
SGLANG_IMAGE = ImageCall("", ("/opt/nvidia/nvidia_entrypoint.sh",))

# (container, image call, engine, entrypoint, words)
CALLS = [
    ({"args": ["m", "--port", "1"]}, VLLM_IMAGE, "vLLM", "image", ["m", "--port", "1"]),
    (
        {"args": ["--model", "m"]},
        ImageCall("vLLM", ("python3", "-m", "vllm.entrypoints.openai.api_server")),
        "vLLM",
        "image",
        ["--model", "m"],
    ),
    (
        {"args": ["python3", "-m", "sglang.launch_server", "--tp", "2"]},
        SGLANG_IMAGE,
        "SGLang",
        "python3 -m sglang.launch_server",
        ["--tp", "2"],
    ),
    ({"args": ["m"]}, ImageCall("vLLM", ("/start.sh",)), "vLLM", "image", ["m"]),
    ({"command": ["vllm", "serve"], "args": ["m"]}, None, "vLLM", "vllm serve", ["m"]),
    ({"command": ["vllm", "serve", "m"]}, VLLM_IMAGE, "vLLM", "vllm serve", ["m"]),
    (
        {"command": ["/opt/venv/bin/vllm"], "args": ["serve", "m"]},
        None,
        "vLLM",
        "vllm serve",
        ["m"],
    ),
    ({"command": ["vllm-rs", "serve", "m"]}, None, "vLLM", "vllm-rs serve", ["m"]),
    (
        {"command": ["sglang", "serve", "--model-path", "m"]},
        None,
        "SGLang",
        "sglang serve",
        ["--model-path", "m"],
    ),
    (
        {
            "command": ["/usr/bin/python3.12", "-u", "-X", "dev", "-m", "sglang.launch_server"],
            "args": ["--model-path", "m"],
        },
        None,
        "SGLang",
        "python3 -m sglang.launch_server",
        ["--model-path", "m"],
    ),
    (
        {"command": ["python3", "-um", "vllm.entrypoints.openai.api_server", "--model", "m"]},
        None,
        "vLLM",
        "python3 -m vllm.entrypoints.openai.api_server",
        ["--model", "m"],
    ),
    (
        {"command": ["python", "-mvllm.entrypoints.cli.main", "serve", "m"]},
        None,
        "vLLM",
        "vllm serve",
        ["m"],
    ),
    (
        {"command": ["python3", "/usr/local/bin/vllm", "serve", "m"]},
        None,
        "vLLM",
        "vllm serve",
        ["m"],
    ),
]
RUNNERS = [
    "numactl --cpunodebind=0 --membind 0",
    "numactl -N 0 -m0 --",
    "env",
    "env -u HTTP_PROXY A=1 B=x=y",
    "/usr/bin/env -i -- A=1",
    "tini --",
    "/sbin/tini -s -g -p SIGTERM --",
    "dumb-init -r 15:2 --",
    "gosu 1000:1000",
    "su-exec nobody",
    "nsys profile -o /tmp/x -t cuda,nvtx --trace-fork-before-exec=true",
    "timeout -k 5 1h",
    "timeout --signal=INT 60",
    "uv run",
    "uv --quiet run --no-sync -p 3.12 --with lmcache==0.5.6 --",
    "nice",
    "nice -n 5",
    "nice -5",
    "ionice -c2 -n 0",
    "stdbuf -oL -e0",
    "catchsegv",
    "taskset -c 0-31",
    "chrt -r 10",
    "conda run -n serving --no-capture-output",
    "ray symmetric-run --address 10.0.0.1:6379 --min-nodes 2 --num-gpus 8 --",
    "opentelemetry-instrument --service_name x",
    "tini -- numactl -N 1 env A=1 nice -n 1",
    "setpriv --reuid 1000 --clear-groups",
    "strace -ff -o /tmp/t",
    "nohup",
    "exec",
]


def values(call):
    return [word.value for word in call.words]


@pytest.mark.parametrize(("container", "image", "engine", "entrypoint", "words"), CALLS)
def test_an_engine_is_read_and_appended_to(container, image, engine, entrypoint, words):
    program = read(container, image)
    (call,) = program.calls
    assert (call.engine, call.entrypoint, values(call)) == (engine, entrypoint, words)
    assert (program.problem, program.inert, program.other_stack, call.closed) == ("", False, "", "")
    result = rewrite(program, {0: [Append("--a"), Append('{"b": "$(C)"}')]})
    key = "args" if container.get("args") else "command"
    assert result == {key: [*container[key], "--a", '{"b": "$$(C)"}']}
    again = read({**container, **result}, image)
    assert values(again.calls[0]) == [*words, "--a", '{"b": "$(C)"}']
    assert rewrite(program, {}) == {}
    assert rewrite(program, {0: []}) == {}


@pytest.mark.parametrize("prefix", RUNNERS)
def test_a_runner_is_looked_through(prefix):
    program = read({"command": [*prefix.split(), "vllm", "serve", "m", "--x"]})
    assert [(call.entrypoint, values(call)) for call in program.calls] == [
        ("vllm serve", ["m", "--x"])
    ], program
    assert program.calls[0].closed == ""


def test_words_are_replaced_and_deleted_where_they_stand():
    container = {"command": ["vllm", "serve", "m"], "args": ["--a", "1", "--b", "--", "rest"]}
    edits = {0: [Replace(2, "2"), Delete(3), Append("--c")]}
    assert rewrite(read(container), edits) == {"args": ["--a", "2", "--c", "--", "rest"]}
    assert rewrite(read(container), {0: [Replace(0, "n")]}) == {"command": ["vllm", "serve", "n"]}


def test_kubernetes_variables():
    container = {
        "command": ["vllm", "serve"],
        "args": ["$(MODEL)", "--host=$(IP)", "$$(MODEL)", "$(NONE)", "$(SVC_SERVICE_PORT)"],
        "env": [
            {"name": "ORG", "value": "qwen"},
            {"name": "MODEL", "value": "$(ORG)/m"},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
    }
    call = read(container).calls[0]
    assert values(call) == ["qwen/m", None, "$(MODEL)", "$(NONE)", None]
    assert [word.prefix for word in call.words[:2]] == ["qwen/m", "--host="]
    assert call.words[0].origin == "$(MODEL)"
    result = rewrite(read(container), {0: [Append("kv@$(IP)", expand=True)]})
    assert result["args"][-1] == "kv@$(IP)"
    assert read({**container, **result}).calls[0].words[-1].prefix == "kv@"


FOREIGN = [
    (["tritonserver", "--model-repository=/m"], "NVIDIA Triton"),
    (["text-generation-launcher", "--model-id", "m"], "Text Generation Inference"),
    (["python3", "-m", "dynamo.vllm", "--model", "m"], "NVIDIA Dynamo"),
    (["/opt/nim/start_server.sh"], "NVIDIA NIM"),
    (["/app/llama-server", "-m", "x.gguf", "-c", "4096"], "llama.cpp"),
    (["tini", "--", "trtllm-serve", "m"], "TensorRT-LLM"),
]


@pytest.mark.parametrize(("command", "label"), FOREIGN)
def test_engines_of_others_are_marked(command, label):
    program = read({"command": command})
    assert (program.other_stack, program.calls, program.problem) == (label, (), "")


@pytest.mark.parametrize(
    "command",
    [
        ["ray", "start", "--block", "--address=$(LEADER):6379"],
        ["sleep", "infinity"],
        ["vllm", "bench", "serve"],
        ["vllm"],
        ["python3", "-m", "sglang_router.launch_router"],
        ["bash", "/vllm-workspace/examples/multi-node-serving.sh", "worker"],
    ],
)
def test_no_engine_is_started(command):
    program = read({"command": command})
    assert (program.inert, program.calls, program.problem, program.other_stack) == (
        True,
        (),
        "",
        "",
    )


@pytest.mark.parametrize(
    ("container", "named"),
    [
        ({"args": ["m"]}, "what the image's entrypoint starts is not known"),
        ({"command": ["/run.sh"]}, "/run.sh"),
        ({"command": ["bash", "/run.sh"]}, "/run.sh"),
        ({"command": ["bash"]}, "input"),
        ({"command": ["python3", "serve.py"]}, "serve.py"),
        ({"command": ["python3", "-c", "import vllm"]}, "-c"),
        ({"command": ["numactl", "--new-option", "vllm", "serve"]}, "--new-option"),
        ({"command": ["uv", "tool", "run", "thing"]}, "tool"),
        ({"command": ["$(PROGRAM)"], "envFrom": [{}]}, "$(PROGRAM)"),
        ({"command": "vllm serve m"}, "list of strings"),
        ({"command": ["vllm", 1]}, "list of strings"),
        ({"command": ["vllm\0"]}, "NUL"),
    ],
)
def test_unreadable_command_names_what_hides_it(container, named):
    program = read(container)
    if not program.calls:
        assert named in program.problem
    else:
        assert named in program.calls[0].closed
    assert not program.inert
    assert program.other_stack == ""


def test_a_wrapper_of_unknown_content_shows_its_engine_but_is_closed():
    program = read({"command": ["/entrypoint.sh", "vllm", "serve", "m"]})
    (call,) = program.calls
    assert (call.engine, values(call)) == ("vLLM", ["m"])
    with pytest.raises(Refused) as refusal:
        rewrite(program, {0: [Append("--x"), Append("{}")]})
    assert refusal.value.reason == "ArgsNotPatchable"
    assert "/entrypoint.sh" in refusal.value.message
    assert "$KV_OFFLOAD_ARGS" in refusal.value.message
    assert "--x" in refusal.value.message


@pytest.mark.parametrize("word", ["$KV_OFFLOAD_ARGS", "${KV_OFFLOAD_ARGS}", "$(KV_OFFLOAD_ARGS)"])
@pytest.mark.parametrize("key", ["command", "args"])
def test_what_opts_in_is_a_plain_word_without_a_shell(key, word):
    """The engine would get it as it stands, and stop."""
    words = {"command": ["vllm", "serve", "m", word], "args": ["m", word]}[key]
    program = read({key: words}, VLLM_IMAGE)
    (call,) = program.calls
    assert not call.opted_in
    assert call.closed.startswith(f"{word} stays as it is here, where no shell expands it")


def test_a_variable_of_that_name_that_kubernetes_expands_is_read():
    env = [{"name": "KV_OFFLOAD_ARGS", "value": "--seed=1"}]
    program = read({"args": ["m", "$(KV_OFFLOAD_ARGS)"], "env": env}, VLLM_IMAGE)
    assert values(program.calls[0]) == ["m", "--seed=1"]
    assert not program.calls[0].closed


def test_neither_command_nor_args_is_closed():
    program = read({}, VLLM_IMAGE)
    assert program.calls[0].engine == "vLLM"
    with pytest.raises(Refused):
        rewrite(program, {0: [Append("--x")]})

"""Programs by name: the engines, serving engines of others, and what surely starts no engine.

Facts: vLLM 0.33 and SGLang 0.5.23 start as `vllm serve`, `vllm-rs serve`, `sglang serve` or as a
Python module (reference: their entry points); `-m` modules of the old spelling still run.
"""

from dataclasses import dataclass

from function.api.engines import SGLANG, VLLM


@dataclass(frozen=True)
class Start:
    """One way to start an engine. `positional_model`: the first argument may be the model."""

    engine: str
    entrypoint: str
    positional_model: bool = False


# (program, subcommand)
COMMANDS: dict[tuple[str, str], Start] = {
    ("vllm", "serve"): Start(VLLM, "vllm serve", True),
    ("vllm-rs", "serve"): Start(VLLM, "vllm-rs serve", True),
    ("sglang", "serve"): Start(SGLANG, "sglang serve", True),
}
MODULES: dict[str, Start] = {
    name: Start(engine, f"python3 -m {name}")
    for engine, name in (
        (VLLM, "vllm.entrypoints.openai.api_server"),
        (VLLM, "vllm.entrypoints.api_server"),
        (SGLANG, "sglang.launch_server"),
    )
}
# Modules that are a command line of their own: `python3 -m vllm.entrypoints.cli.main serve`.
MODULE_COMMANDS = {"vllm.entrypoints.cli.main": "vllm", "vllm": "vllm", "sglang.cli.main": "sglang"}

# Serving engines and frameworks that manage their own KV cache: recognised, left alone.
FOREIGN: dict[str, str] = {
    "tritonserver": "NVIDIA Triton",
    "trtllm-serve": "TensorRT-LLM",
    "trtllm-llmapi-launch": "TensorRT-LLM",
    "text-generation-launcher": "Text Generation Inference",
    "text-generation-server": "Text Generation Inference",
    "text-generation-router": "Text Generation Inference",
    "text-embeddings-router": "Text Embeddings Inference",
    "llama-server": "llama.cpp",
    "llama-cli": "llama.cpp",
    "ollama": "Ollama",
    "lmdeploy": "LMDeploy",
    "mlc_llm": "MLC LLM",
    "dynamo": "NVIDIA Dynamo",
    "dynamo-run": "NVIDIA Dynamo",
    "nim_llm": "NVIDIA NIM",
}
# NIM's own scripts have plain names: their folder tells.
FOREIGN_FOLDERS: dict[str, str] = {"/opt/nim/": "NVIDIA NIM"}
FOREIGN_MODULES: dict[str, str] = {
    "dynamo": "NVIDIA Dynamo",
    "tensorrt_llm": "TensorRT-LLM",
    "tritonserver": "NVIDIA Triton",
    "vllm_nvext": "NVIDIA NIM",
    "nim_llm": "NVIDIA NIM",
    "nimlib": "NVIDIA NIM",
    "lmdeploy": "LMDeploy",
    "mlc_llm": "MLC LLM",
    "llama_cpp": "llama.cpp",
}

# Of those that LMCache has a plug for: why they are not wired all the same (docs/lmcache.md).
OTHER_STACK_REASONS: dict[str, str] = {
    "NVIDIA Dynamo": "its vLLM workers take vLLM's connector flags, but its router, events and "
    "hand-over are set beside them, and nobody here has run one with a tier",
    "TensorRT-LLM": "LMCache's plug for it shares GPU memory by plain CUDA IPC, which needs the "
    "host's /dev/shm and no isolation, and keys blocks by no identity",
}

SHELLS = frozenset({"bash", "sh", "dash", "ash"})

# Programs that start no engine, whatever their words; shell builtins among them.
_INERT = """
 : [ [[ alias apk apt apt-get basename bg break cat cd chmod chown continue cp curl cut date
 declare df dig dirname disown du echo exit export false fg free getent getopts git grep head
 hash help hf hostname huggingface-cli id ip jobs jq kill ldconfig let ln local ls lscpu lspci
 mapfile mkdir mknod modprobe mount mv nc nproc nslookup numfmt nvidia-smi pgrep pip pip3 pkill
 popd printenv printf ps pushd pwd read readarray readlink readonly realpath return rm rmdir
 sed seq set sha256sum shift shopt sleep sort ss stat sync sysctl tail tar tee test times touch tr
 true trap tty type typeset ulimit umask umount unalias uname uniq unset unzip wait wc wget which
 whoami yes ibv_devinfo ibstat rdma ray ray_init etcd redis-server redis-cli nginx envoy
 mooncake_master lmcache lmcache_server sglang_router sglang-router vllm-router
 multi-node-serving.sh"""
_INERT_MODULES = """pip ensurepip venv http.server json.tool compileall site
 sglang_router.launch_router sglang.launch_router sglang.check_env
 sglang.bench_serving sglang.bench_one_batch vllm.collect_env lmcache.v1.multiprocess.server
 lmcache.v1.multiprocess.http_server lmcache.v1.server mooncake.mooncake_store_service
 mooncake.http_metadata_server"""
INERT = frozenset(_INERT.split())
INERT_MODULES = frozenset(_INERT_MODULES.split())
# Variables that an operator sets to a command line that starts no engine: KubeRay's own
# `ray start ...`, for a script that takes the container's command over.
IDLE_VARIABLES = frozenset({"KUBERAY_GEN_RAY_START_CMD"})
# sglang_router.launch_server starts engines itself, from the router's flags.
HIDES_ENGINE = frozenset({"sglang_router.launch_server"})


def other_stack(program: str) -> str:
    """The label of a serving engine of others that `program` (a path or a name) starts, or ""."""
    for folder, label in FOREIGN_FOLDERS.items():
        if program.startswith(folder):
            return label
    return FOREIGN.get(program.rsplit("/", 1)[-1], "")

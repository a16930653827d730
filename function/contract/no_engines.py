"""Programs and images that are visibly no vLLM and no SGLang server.

Whoever starts one of these is never advised to declare an engine, and an engine declared on it is
refused. For every label one row: the last path elements of its images, its programs (with a
subcommand where the program alone may be an engine), its Python modules (with those below them).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from function.contract.image_reference import ImageReference


@dataclass(frozen=True)
class NoEngine:
    """`label`: with its article, to stand in "starts {label}". `programs`: "name" or "name sub"."""

    label: str
    source: str
    images: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


NO_ENGINES: tuple[NoEngine, ...] = (
    NoEngine(
        "llama.cpp",
        "ggml-org/llama.cpp's docker and tools",
        ("llama.cpp", "llama-cpp-python", "llama-server", "llama-box"),
        ("llama-server", "llama-cli", "llama-box"),
        ("llama_cpp",),
    ),
    NoEngine("Ollama", "ollama/ollama", ("ollama/ollama", "ollama"), ("ollama",)),
    NoEngine(
        "an endpoint picker",
        "Gateway API Inference Extension's and llm-d-router's images",
        ("epp", "llm-d-inference-scheduler", "llm-d-router-endpoint-picker"),
        ("epp",),
    ),
    NoEngine(
        "llm-d's routing sidecar",
        "llm-d's docs/api-reference/artifacts.md",
        ("llm-d-routing-sidecar", "llm-d-router-disagg-sidecar"),
        ("pd-sidecar",),
    ),
    NoEngine(
        "SGLang's router",
        "sgl-project/sglang's sgl-model-gateway",
        ("sgl-model-gateway", "sgl-router", "sglang-router", "smg"),
        ("sglang-router", "smg", "sgl-model-gateway"),
        ("sglang_router.launch_router", "sglang.launch_router"),
    ),
    NoEngine(
        "vLLM's router",
        "vllm-project/router and production-stack",
        ("vllm-router", "lmstack-router"),
        ("vllm-router",),
        ("vllm_router",),
    ),
    NoEngine(
        "AIBrix' gateway",
        "vllm-project/aibrix' images",
        ("gateway-plugins", "aibrix/runtime", "aibrix/controller-manager", "metadata-service"),
        ("aibrix_runtime",),
    ),
    NoEngine(
        "LiteLLM", "BerriAI/litellm's images", ("litellm", "litellm-database"), ("litellm",),
        ("litellm",),
    ),
    NoEngine("Open WebUI", "open-webui's images", ("open-webui",), ("open-webui",)),
    NoEngine(
        "a benchmark client",
        "the tools' own entry points",
        ("genai-perf", "aiperf", "guidellm", "inference-perf", "llm-d-benchmark", "lm-eval",
         "fmperf", "llmperf"),
        ("vllm bench", "genai-perf", "aiperf", "guidellm", "inference-perf", "lm-eval", "lm_eval",
         "evalscope", "locust", "k6"),
        ("sglang.bench_serving", "sglang.bench_one_batch_server", "lm_eval", "guidellm",
         "genai_perf", "aiperf", "inference_perf", "vllm.benchmarks"),
    ),
    NoEngine(
        "a command of vLLM's that serves nothing",
        "vLLM 0.33.0's entrypoints/cli",
        programs=("vllm chat", "vllm complete", "vllm collect-env", "vllm download-kernels"),
        modules=("vllm.collect_env",),
    ),
    NoEngine(
        "a command of SGLang's that serves nothing",
        "SGLang 0.5.23's modules",
        programs=("sglang version",),
        modules=("sglang.check_env", "sglang.compile_deep_gemm"),
    ),
    NoEngine(
        "llm-d's inference simulator",
        "llm-d/llm-d-inference-sim: it speaks vLLM's API and has no KV cache",
        ("llm-d-inference-sim",),
        ("llm-d-inference-sim",),
    ),
    NoEngine(
        "a KV cache's own server",
        "LMCache 0.5.6 and Mooncake 0.3.13",
        ("lmcache/standalone", "kvcacheai/mooncake", "mooncake-master-store"),
        ("lmcache", "lmcache_server", "mooncake_master", "mooncake_client"),
        ("lmcache.v1", "mooncake"),
    ),
)  # fmt: skip

_PYTHON = ("python", "pypy")


def of_image(image: str) -> NoEngine | None:
    """The row of an image, by the end of its path."""
    reference = ImageReference.parse(image)
    for row in NO_ENGINES:
        if any(reference.ends_with(name) for name in row.images):
            return row
    return None


def of_argv(argv: Sequence[str]) -> NoEngine | None:
    """The row of a plain command line: `vllm bench serve`, `python3 -m lm_eval --tasks x`.

    Runners in front of the program (`tini --`, `env A=b`) are the reader's of commands to take off.
    """
    if not argv:
        return None
    program = argv[0].rpartition("/")[2]
    if program.startswith(_PYTHON):
        return _of_module(argv)
    subcommand = next((word for word in argv[1:] if not word.startswith("-")), "")
    for row in NO_ENGINES:
        if program in row.programs or f"{program} {subcommand}" in row.programs:
            return row
    return None


def _of_module(argv: Sequence[str]) -> NoEngine | None:
    for i, word in enumerate(argv[1:], 1):
        if word == "-m" and i + 1 < len(argv):
            module = argv[i + 1]
            for row in NO_ENGINES:
                if any(f"{module}.".startswith(f"{name}.") for name in row.modules):
                    return row
            return None
        if not word.startswith("-"):
            return None  # a script: what it starts is not visible
    return None

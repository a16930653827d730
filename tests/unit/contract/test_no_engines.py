"""Commands and images that are known to be no engine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function.contract.no_engines import NO_ENGINES, of_argv, of_image
from function.contract.stock_images import contents
from function.contract.stock_images.repositories import REPOSITORIES

ARGV = [
    ("llama-server -m /m.gguf", "llama.cpp"),
    ("/usr/local/bin/llama-server", "llama.cpp"),
    ("python3 -m llama_cpp.server --model x", "llama.cpp"),
    ("ollama serve", "Ollama"),
    ("vllm bench serve --model x", "a benchmark client"),
    ("vllm serve Qwen/Qwen3-8B", None),
    ("vllm", None),
    ("vllm chat --url http://x", "a command of vLLM's that serves nothing"),
    ("python3 -m sglang.bench_serving --backend sglang", "a benchmark client"),
    ("python3 -m sglang.launch_server --model-path x", None),
    ("sglang serve --model-path x", None),
    ("python3 -m sglang_router.launch_router --worker-urls x", "SGLang's router"),
    ("python3 -m sglang_router.launch_server", None),
    ("sglang-router --policy cache_aware", "SGLang's router"),
    ("vllm-router --port 8000", "vLLM's router"),
    ("python3 -m vllm_router.app", "vLLM's router"),
    ("/app/epp --pool-name x", "an endpoint picker"),
    ("lm_eval --model local-completions", "a benchmark client"),
    ("genai-perf profile", "a benchmark client"),
    ("guidellm benchmark --target x", "a benchmark client"),
    ("litellm --config /c.yaml", "LiteLLM"),
    ("/app/llm-d-inference-sim --model x", "llm-d's inference simulator"),
    ("lmcache server --l1-size-gb 4", "a KV cache's own server"),
    ("python3 -m mooncake.mooncake_store_service", "a KV cache's own server"),
    ("python3 serve.py", None),
    ("python3 serve.py -m lm_eval", None),
    ("python3 -u -m lm_eval", "a benchmark client"),
    ("python3 -m", None),
    ("python3 -m vllm.entrypoints.openai.api_server", None),
    ("bash -c vllm", None),
    ("", None),
]


@pytest.mark.parametrize(("argv", "label"), ARGV)
def test_commands_known_to_be_no_engine(argv, label):
    row = of_argv(argv.split())
    assert (row.label if row else None) == label


@pytest.mark.parametrize(
    ("image", "label"),
    [
        ("ghcr.io/ggml-org/llama.cpp:server-cuda", "llama.cpp"),
        ("registry.k8s.io/gateway-api-inference-extension/epp:v1.5.0", "an endpoint picker"),
        ("ghcr.io/llm-d/llm-d-inference-scheduler:v0.6.0", "an endpoint picker"),
        ("ghcr.io/llm-d/llm-d-router-endpoint-picker:v0.10.0", "an endpoint picker"),
        ("ghcr.io/llm-d/llm-d-routing-sidecar:v0.5.0", "llm-d's routing sidecar"),
        ("ghcr.io/llm-d/llm-d-inference-sim:v0.10.2", "llm-d's inference simulator"),
        ("lmcache/lmstack-router:latest", "vLLM's router"),
        ("lmsysorg/sgl-model-gateway:v0.3.2", "SGLang's router"),
        ("reg/sgl-router:e2e", "SGLang's router"),
        ("ghcr.io/berriai/litellm:main-stable", "LiteLLM"),
        ("ghcr.io/open-webui/open-webui:main", "Open WebUI"),
        ("mirror.corp:5000/lmcache/standalone:v0.5.6", "a KV cache's own server"),
        ("vllm/vllm-openai:v0.33.0", None),
        ("lmsysorg/sglang:v0.5.23", None),
        ("corp/standalone:1", None),
        ("python:3.12", None),
        ("", None),
    ],
)
def test_images_known_to_be_no_engine(image, label):
    row = of_image(image)
    assert (row.label if row else None) == label


def test_rows_are_complete():
    assert len({row.label for row in NO_ENGINES}) == len(NO_ENGINES)
    for row in NO_ENGINES:
        assert row.label and row.source and (row.images or row.programs or row.modules)
        assert all(len(program.split()) in (1, 2) for program in row.programs)


def test_tables_of_engines_and_other_images_are_disjoint():
    for repository in REPOSITORIES:
        assert of_image(f"r.io/{repository.path}:v1.2.3") is None
    for row in NO_ENGINES:
        assert all(contents(f"r.io/{image}:v1.2.3") is None for image in row.images)


@given(st.lists(st.sampled_from(["vllm", "serve", "bench", "-m", "python3", "-", "", "lm_eval"])))
def test_engine_server_is_never_classified_as_no_engine(words):
    assert of_argv(["vllm", "serve", *words]) is None
    assert of_argv(["python3", "-m", "sglang.launch_server", *words]) is None
    of_argv(words)

"""The repositories of public engine images: what they start, on which accelerator, and how their
tags are read. Keyed by the end of the path: mirrors and pull-through caches keep it."""

from dataclasses import dataclass

from function.api.engines import SGLANG, VLLM
from function.contract.image_reference import ImageReference

SERVE = ("vllm", "serve")

# How a tag tells the engine's version: it is it (`v0.33.0`, `0.17.0-xpu`), it holds it somewhere
# (`rocm6.2_..._vllm_0.6.4`), a release of the image's own stands for it, or it says nothing.
VERSION = "version"
INSIDE = "inside"
RELEASE = "release"
NOTHING = "nothing"


@dataclass(frozen=True)
class Repository:
    """`entrypoint`: its ENTRYPOINT; () runs the container's arguments as a command line."""

    path: str
    engine: str
    source: str
    entrypoint: tuple[str, ...] = ()
    tags: str = NOTHING
    accelerator: str = ""


_VLLM_DOCKER = "ENTRYPOINT of vLLM's docker/Dockerfile*, 0.18.0 to 0.33.0"
_SGLANG_DOCKER = "SGLang's docker/Dockerfile has no ENTRYPOINT of its own"
_LLMD = "llm-d's docs/api-reference/artifacts.md and guides: the command is in the manifest"

REPOSITORIES: tuple[Repository, ...] = (
    # vLLM's own
    Repository("vllm-openai", VLLM, _VLLM_DOCKER, SERVE, VERSION, "cuda"),
    Repository("vllm-openai-rocm", VLLM, _VLLM_DOCKER, SERVE, VERSION, "rocm"),
    Repository("vllm-openai-xpu", VLLM, _VLLM_DOCKER, SERVE, VERSION, "xpu"),
    Repository("vllm-openai-cpu", VLLM, _VLLM_DOCKER, SERVE, VERSION, "cpu"),
    Repository("vllm-cpu-release-repo", VLLM, _VLLM_DOCKER, SERVE, VERSION, "cpu"),
    Repository("vllm-arm64-cpu-release-repo", VLLM, _VLLM_DOCKER, SERVE, VERSION, "cpu"),
    Repository("vllm/vllm-tpu", VLLM, "docs.vllm.ai, TPU installation", (), VERSION, "tpu"),
    Repository("vllm-dev", VLLM, "AMD's development builds", (), INSIDE),
    # SGLang's own
    Repository("sglang", SGLANG, _SGLANG_DOCKER, (), VERSION, "cuda"),
    Repository("sgl-dev", SGLANG, "SGLang's development builds", (), INSIDE),
    # LMCache's: the tag is LMCache's version
    Repository(
        "lmcache/vllm-openai", VLLM, "ENTRYPOINT of LMCache 0.5.6's docker/Dockerfile",
        ("/opt/venv/bin/vllm", "serve"), RELEASE, "cuda",
    ),
    Repository(
        "lmcache/sglang", SGLANG, "LMCache 0.5.6's docker/Dockerfile.sglang", (), RELEASE, "cuda"
    ),
    # llm-d's: the tag is llm-d's release
    Repository("llm-d/llm-d", VLLM, "llm-d's image up to v0.3", (), RELEASE, "cuda"),
    Repository("llm-d/llm-d-dev", VLLM, "llm-d's image up to v0.3", (), RELEASE, "cuda"),
    Repository("llm-d/llm-d-cuda", VLLM, _LLMD, (), RELEASE, "cuda"),
    Repository("llm-d/llm-d-aws", VLLM, _LLMD, (), RELEASE, "cuda"),
    Repository("llm-d/llm-d-gke", VLLM, _LLMD, (), RELEASE, "cuda"),
    Repository("llm-d/llm-d-rocm", VLLM, _LLMD, (), RELEASE, "rocm"),
    Repository("llm-d/llm-d-xpu", VLLM, _LLMD, (), RELEASE, "xpu"),
    Repository("llm-d/llm-d-hpu", VLLM, _LLMD, (), RELEASE, "hpu"),
    Repository("llm-d/llm-d-cpu", VLLM, _LLMD, (), RELEASE, "cpu"),
    Repository("llm-d/llm-d-xpu-sglang", SGLANG, _LLMD, (), RELEASE, "xpu"),
    # Ray's: the tag is Ray's release; Ray starts the engine, so there is no entrypoint to patch
    Repository("rayproject/ray-llm", VLLM, "ray-project/ray's docker/ray-llm", (), RELEASE, "cuda"),
    # vendors
    Repository("nvidia/vllm", VLLM, "NVIDIA's vLLM release notes", (), RELEASE, "cuda"),
    Repository("nvidia/sglang", SGLANG, "NVIDIA's SGLang release notes", (), NOTHING, "cuda"),
    Repository("rocm/vllm", VLLM, "AMD's tags name the engine's version", (), INSIDE, "rocm"),
    Repository("intel/vllm", VLLM, "LMCache's docs run intel/vllm:0.17.0-xpu with a command",
               (), VERSION, "xpu"),
    Repository("ascend/vllm-ascend", VLLM, "vllm-ascend's tags are vLLM's versions",
               (), VERSION, "npu"),
    Repository("rhaiis/vllm-cuda-rhel9", VLLM, "Red Hat's docs run it with vLLM's arguments alone",
               ("python3", "-m", "vllm.entrypoints.openai.api_server"), RELEASE, "cuda"),
    Repository("rhaiis/vllm-rocm-rhel9", VLLM, "Red Hat's docs run it with vLLM's arguments alone",
               ("python3", "-m", "vllm.entrypoints.openai.api_server"), RELEASE, "rocm"),
    Repository("aibrix/vllm-openai", VLLM, "AIBrix' builds of vllm-openai with its own KV cache",
               SERVE, VERSION, "cuda"),
)  # fmt: skip

_BY_PATH = {row.path: row for row in REPOSITORIES}


def find(reference: ImageReference) -> Repository | None:
    """The row of an image: by its last two path elements, else by its last."""
    elements = reference.path.split("/")
    return _BY_PATH.get("/".join(elements[-2:])) or _BY_PATH.get(elements[-1])

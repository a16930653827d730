"""The pods as their authors wrote them, before any tier: engines for a machine without a GPU.

Like most real ones: weights on a claim mounted at /mnt/models, so every model has one string; a
claim for caches; probes. What a CPU asks for (kernels, sizes, no compilation) is in the author's
own args and env. Nothing here knows of tiers.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

Manifest = dict[str, Any]

MODEL_PATH = "/mnt/models"
SERVED = "tiny"  # the name that clients ask for
CACHE = "/var/cache/engine"
SHIMS = "/mnt/shims"  # see shims/sglang
PORT = 8000
START = 600  # seconds that an engine may take to start; imports alone are half a minute


@dataclass(frozen=True)
class Pod:
    """`claim`: the volume with the weights. `args`, `env`: what the author added to the usual, the
    latter as (name, value). `claims`: further mounts, (path, claim). `role`: prefill or decode, by
    the label that llm-d's picker reads.
    """

    claim: str = "llama"
    model: str = MODEL_PATH
    dtype: str = "bfloat16"
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    claims: tuple[tuple[str, str], ...] = ()
    role: str = ""


USUAL = Pod()


NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_buffer_device": "cpu"}
# An engine of an author who hands blocks from prefill to decode: NIXL by TCP.
HANDING_OVER = Pod(
    args=("--kv-transfer-config", json.dumps(NIXL)),
    env=(("VLLM_NIXL_SIDE_CHANNEL_HOST", "$(VLLM_HOST_IP)"), ("UCX_TLS", "tcp")),
)


def vllm(pod: Pod) -> Manifest:
    """A pod template that starts vLLM 0.33.0 as its image's documentation says."""
    env = {
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "TORCH_COMPILE_DISABLE": "1",
    }
    return _vllm(pod, (), env)


HELD = {"lmcache": "0.5.4", "mooncake": "0.3.12.post1"}


def vllm_of_an_older_image(pod: Pod) -> Manifest:
    """The same in an image of somebody's own with older packages, as its author declares."""
    template = vllm(pod)
    template["spec"]["containers"][0]["image"] = "registry.example.org/ml/vllm:7"
    packages = HELD | {"torch": "2.13.0", "cuda": "13.0", "python": "3.12"}
    said = {
        "engine": "vLLM",
        "engine-version": "0.33.0",
        "packages": ",".join(f"{name}={version}" for name, version in packages.items()),
    }
    annotations = {f"modelplane.ai/kv-offload-{key}": value for key, value in said.items()}
    template.setdefault("metadata", {})["annotations"] = annotations
    return template


def vllm_on_gpu(pod: Pod) -> Manifest:
    """The same on a GPU, with what a kit holds of vLLM (gpu_kit.py): no FlashAttention."""
    env = {"VLLM_USE_V2_MODEL_RUNNER": "0", "VLLM_USE_FLASHINFER_SAMPLER": "0"}
    words = ("--attention-backend", "TRITON_ATTN", "--gpu-memory-utilization", "0.1")
    return _vllm(pod, words, env)


def _vllm(pod: Pod, more: tuple[str, ...], device: Mapping[str, str]) -> Manifest:
    words = [
        *(pod.model, "--served-model-name", SERVED, "--dtype", pod.dtype),
        *("--max-model-len", "8192", "--max-num-seqs", "8", "--block-size", "64"),
        *("--enforce-eager", "--enable-prompt-tokens-details", "--port", str(PORT)),
        *("--num-gpu-blocks-override", "512"),  # 32 MiB, 32,768 tokens
        *more,
        *pod.args,
    ]
    env = {
        **device,
        "XDG_CACHE_HOME": CACHE,
        "HF_HUB_OFFLINE": "1",
        "VLLM_SERVER_DEV_MODE": "1",  # for /reset_prefix_cache
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
    }
    host = {"name": "VLLM_HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    return _template(pod, "vllm/vllm-openai:v0.33.0", ["vllm", "serve"], words, env, [host])


def sglang(pod: Pod) -> Manifest:
    """A pod template that starts SGLang 0.5.23, on a CPU with what is in `shims`.

    By SGLANG_USE_CPU_ENGINE and not by `--device cpu`: an engine that says so in its arguments gets
    no tier, because without the shims SGLang's hierarchy stops there.
    """
    words = [
        *("--model-path", pod.model, "--served-model-name", SERVED, "--dtype", pod.dtype),
        *("--attention-backend", "torch_native", "--disable-cuda-graph"),
        *("--disable-overlap-schedule", "--mem-fraction-static", "0.1", "--skip-server-warmup"),
        *("--max-total-tokens", "32768", "--context-length", "8192", "--page-size", "64"),
        *("--enable-metrics", "--enable-cache-report", "--port", str(PORT), "--host", "0.0.0.0"),
        "--sleep-on-idle",  # a scheduler without requests takes a whole core otherwise
        *pod.args,
    ]
    env = {"SGLANG_USE_CPU_ENGINE": "1", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    env |= {"XDG_CACHE_HOME": CACHE, "PYTHONPATH": SHIMS}
    # Pods here have no way out, by which SGLang learns its address where nobody says it. To halves
    # of a pair the tier says it.
    host = {"name": "SGLANG_HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    fields = [] if pod.role else [host]
    pod = replace(pod, claims=((SHIMS, "shims"), *pod.claims))
    command = ["python3", "-m", "sglang.launch_server"]
    return _template(pod, "lmsysorg/sglang:v0.5.23", command, words, env, fields)


def _template(
    pod: Pod,
    image: str,
    command: list[str],
    words: list[str],
    env: Mapping[str, str],
    fields: list[Manifest],
) -> Manifest:
    mounted = {MODEL_PATH: pod.claim, CACHE: "engine-cache", **dict(pod.claims)}
    probe = {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 1}
    container = {
        "name": "engine",
        "image": image,
        "command": command,
        "args": words,
        "env": [*fields, *({"name": n, "value": v} for n, v in {**env, **dict(pod.env)}.items())],
        "ports": [{"name": "http", "containerPort": PORT}],
        "startupProbe": {**probe, "failureThreshold": START},
        "readinessProbe": {**probe, "timeoutSeconds": 5},
        "volumeMounts": [{"name": claim, "mountPath": path} for path, claim in mounted.items()],
    }
    volumes = [
        {"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in mounted.values()
    ]
    metadata = {"labels": {"llm-d.ai/role": pod.role}} if pod.role else {}
    return {"metadata": metadata, "spec": {"containers": [container], "volumes": volumes}}

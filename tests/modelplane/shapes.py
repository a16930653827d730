"""Deployments of ours: shapes that none of Modelplane's examples has. {name: ModelDeployment}."""

from collections.abc import Mapping
from typing import Any

Document = dict[str, Any]

_GPU = {
    "name": "gpu",
    "count": 1,
    "selectors": [
        {"cel": 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("20Gi")) >= 0'}
    ],
}
VLLM = "vllm/vllm-openai:v0.33.0"
SGLANG = "lmsysorg/sglang:v0.5.23"
_REBUILT = "registry.corp/vllm/vllm-openai:v0.23.0-mooncake0.3.13"
_PYTHON = ("python3", "-m")
_SCRIPT = "pip install -q extra && exec vllm serve Qwen/Qwen3-8B"
_OPTED_IN = 'eval "$(cat /start)"; exec vllm serve Qwen/Qwen3-8B $KV_OFFLOAD_ARGS'
_NIXL = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'


def _container(image: str, words: list[str], command: list[str] | None = None) -> Document:
    return {"name": "engine", "image": image, "args": words} | (
        {"command": command} if command else {}
    )


def _member(container: Document, role: str = "Standalone", nodes: int = 0) -> Document:
    member: Document = {
        "role": role,
        "nodeSelector": {"devices": [_GPU]},
        "template": {"spec": {"containers": [container]}},
    }
    return member | ({"worker": {"nodes": nodes}} if nodes else {})


def _engine(*members: Document, name: str = "main", phase: str = "") -> Document:
    return {"name": name, "members": list(members)} | ({"phase": phase} if phase else {})


def _deployment(name: str, *engines: Document, **spec: Any) -> Document:
    return {
        "apiVersion": "modelplane.ai/v1alpha1",
        "kind": "ModelDeployment",
        "metadata": {"name": name, "namespace": "ml-team"},
        "spec": {"replicas": 1, "template": {"spec": {"engines": list(engines), **spec}}},
    }


def _single(name: str, *container: Any) -> Document:
    return _deployment(name, _engine(_member(_container(*container))))


def _pair(name: str) -> Document:
    words = ["--model=Qwen/Qwen3-8B", f"--kv-transfer-config={_NIXL}"]
    engines = (
        _engine(_member(_container(VLLM, words)), name=phase.lower(), phase=phase)
        for phase in ("Prefill", "Decode")
    )
    return _deployment(name, *engines, serving={"mode": "PrefillDecode"})


def _gang(name: str) -> Document:
    leader = _container(VLLM, ["--model=Qwen/Qwen3-8B", "--pipeline-parallel-size=2"])
    worker = _container(VLLM, ["--model=Qwen/Qwen3-8B", "--pipeline-parallel-size=2", "--headless"])
    return _deployment(name, _engine(_member(leader, "Leader"), _member(worker, "Worker", 1)))


def _sleeping_worker(name: str) -> Document:
    leader = _container(VLLM, ["--model=Qwen/Qwen3-8B", "--pipeline-parallel-size=2"])
    worker = _container(VLLM, ["sleep infinity"], ["sh", "-c"])
    return _deployment(name, _engine(_member(leader, "Leader"), _member(worker, "Worker", 1)))


_ALL = (
    _single("plain", VLLM, ["--model=Qwen/Qwen3-8B"]),
    _single("own-offload", VLLM, ["--model=Qwen/Qwen3-8B", "--kv-offloading-size=20"]),
    _single("old", "vllm/vllm-openai:v0.24.0", ["--model=Qwen/Qwen3-8B"]),
    _single("old-with-new-mooncake", _REBUILT, ["Qwen/Qwen3-8B"], ["vllm", "serve"]),
    _single("sglang", SGLANG, ["--model-path=Qwen/Qwen3-8B"], [*_PYTHON, "sglang.launch_server"]),
    _single("sglang-without-command", SGLANG, ["--model-path=Qwen/Qwen3-8B"]),
    _single("script", VLLM, [_SCRIPT], ["sh", "-c"]),
    _single("opted-in", VLLM, [_OPTED_IN], ["sh", "-c"]),
    _single("unknown", "registry.corp/serve:1", ["--model=Qwen/Qwen3-8B"]),
    _pair("pair"),
    _gang("gang"),
    _sleeping_worker("gang-of-a-sleeping-worker"),
)
SHAPES: Mapping[str, Document] = {f"ours/{one['metadata']['name']}": one for one in _ALL}

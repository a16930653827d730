"""The kit for a machine with a GPU (gpu_kit.py) has what engines and agents import there. The
sources of the engines' environment are read; nothing of this needs a GPU."""

from tests.conformance.envs import environment
from tests.serve.gpu_kit import MACHINE, distributions
from tests.serve.imports import Walk

_CONNECTORS = "vllm.distributed.kv_transfer.kv_connector.v1"
ROOTS = (
    "vllm.entrypoints.cli.main",
    "vllm.entrypoints.cli.serve",
    "vllm.v1.engine.core",
    "vllm.v1.worker.gpu_worker",
    "vllm.v1.attention.backends.triton_attn",
    "vllm.model_executor.models.llama",
    "vllm.v1.kv_offload.cpu.gpu_worker",
    f"{_CONNECTORS}.multi_connector",
    f"{_CONNECTORS}.nixl.worker",
    f"{_CONNECTORS}.offloading.worker",
    f"{_CONNECTORS}.simple_cpu_offload_connector",
    f"{_CONNECTORS}.mooncake.store.worker",
    "lmcache.cli.main",
    "lmcache.integration.vllm.lmcache_mp_connector",
    "lmcache.v1.multiprocess.http_server",
    "lmcache.v1.platform.devices.cuda.cache_context",
    "lmcache.v1.platform.devices.cuda.ipc_wrapper",
    "mooncake.store",
    "mooncake.cli",
    "nixl",
)
# Their functions run when an engine registers, stores or loads.
DEEP = (
    "lmcache.integration.vllm.lmcache_mp_connector",
    "lmcache.integration.vllm.vllm_multi_process_adapter",
    "lmcache.v1.multiprocess.modules",
    "lmcache.v1.multiprocess.transfer_context",
    "lmcache.v1.platform",
    "mooncake",
    "nixl",
    f"{_CONNECTORS}.mooncake.store",
    f"{_CONNECTORS}.nixl",
    f"{_CONNECTORS}.offloading",
    "vllm.v1.kv_offload",
)
# Module -> why no engine of this suite comes there.
ELSEWHERE = {
    "deep_ep": "experts over several GPUs",
    "modelscope": "models of that hub",
    "mori": "experts over several GPUs of AMD",
    "torchao": "a quantised model",
    "vllm_xpu_kernels": "Intel's GPUs",
}
# Module -> its distribution, of those that no environment here has.
CUDA = {"cuda": "cuda-bindings", "cupy": "cupy-cuda13x"}


def test_kit_holds_every_import_of_the_cuda_path() -> None:
    (packages,) = environment("vllm").path.glob("lib/python*/site-packages")
    walk = Walk(packages, DEEP)
    walk.run(ROOTS)
    needed = {name: by for name, by in walk.missing.items() if name not in {*MACHINE, *ELSEWHERE}}
    assert {name: CUDA.get(name) in distributions() for name in needed} == dict.fromkeys(CUDA, True)

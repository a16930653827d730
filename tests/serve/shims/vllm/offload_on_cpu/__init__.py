"""Lets vLLM 0.33.0's OffloadingConnector, and its simple one, run on vLLM's CPU platform; vLLM
loads it as its plugin.

What a CPU lacks, and nothing else: the copy between KV pages and the host region is memmove, which
is over when it returns, so streams and events are none; and the guards that ask for a GPU are
answered. Scheduler, managers, the region in /dev/shm, levels, files, metrics and events are vLLM's.
Where this vLLM is not the one it was written for, it says so and the engine does not start.
"""

import contextlib
import ctypes
import inspect
import textwrap
import time

GUARD = "assert gpu_tensor.is_cuda or gpu_tensor.is_xpu"


class _Overlay:
    """An object with some of its attributes replaced."""

    def __init__(self, real, **own):
        self._real = real
        self.__dict__.update(own)

    def __getattr__(self, name):
        return getattr(self._real, name)


class _Event:
    """Over as soon as it is recorded."""

    def __init__(self, enable_timing=False):
        self.at = 0.0

    def record(self, stream=None):
        self.at = time.perf_counter()

    def query(self):
        return True

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return (end.at - self.at) * 1e3


class _Stream:
    cuda_stream = 0

    def __init__(self, priority=0):
        pass

    @staticmethod
    def priority_range():
        return 0, 0

    def wait_stream(self, other):
        pass

    def wait_event(self, event):
        pass


def _copy(source, target, sizes, **_):
    for start, to, size in zip(source.tolist(), target.tolist(), sizes.tolist(), strict=True):
        ctypes.memmove(to, start, size)


def _copy_batch(targets, sources, sizes, count, *_):
    """cuMemcpyBatchAsync's arguments: addresses of `count` numbers each."""
    numbers = ctypes.c_uint64 * count
    columns = (numbers.from_address(at) for at in (targets, sources, sizes))
    for to, start, size in zip(*columns, strict=True):
        ctypes.memmove(to, start, size)
    return 0


def _without_guard(module, handler):
    """The constructor of vLLM's handler, less the one line that asks for a GPU's tensor."""
    source = textwrap.dedent(inspect.getsource(handler.__init__))
    assert source.count(GUARD) == 1, f"this vLLM has no `{GUARD}`: the shim does not fit it"
    scope = {}
    exec(source.replace(GUARD, "pass"), module.__dict__, scope)
    return scope["__init__"]


def register():
    from vllm.platforms import current_platform
    from vllm.v1.kv_offload.cpu import gpu_worker, spec
    from vllm.v1.simple_kv_offload import copy_backend, cuda_mem_ops, worker

    if not current_platform.is_cpu() or isinstance(spec.current_platform, _Overlay):
        return
    assert hasattr(gpu_worker, "_select_swap_blocks_fn"), "the shim does not fit this vLLM"
    handler = gpu_worker.SingleDirectionOffloadingHandler
    handler.__init__ = _without_guard(gpu_worker, handler)
    gpu_worker._select_swap_blocks_fn = lambda *_, **__: _copy
    gpu_worker.torch = _Overlay(gpu_worker.torch, Event=_Event)
    gpu_worker.current_platform = _Overlay(
        current_platform,
        Stream=_Stream,
        current_stream=_Stream,
        stream=lambda _: contextlib.nullcontext(),
    )
    spec.current_platform = _Overlay(
        current_platform, is_cuda_alike=lambda: True, is_rocm=lambda: False
    )
    assert cuda_mem_ops._batch_memcpy is None, "the shim does not fit this vLLM"
    cuda_mem_ops._batch_memcpy = (_copy_batch, 1)
    cuda = _Overlay(worker.torch.cuda, Stream=_Stream, current_stream=_Stream)
    worker.torch = copy_backend.torch = _Overlay(worker.torch, Event=_Event, cuda=cuda)
    copy_backend.current_platform = _Overlay(current_platform, set_device=lambda _: None)
